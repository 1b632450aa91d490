//! One container: the program of a service in its own namespaces.

use std::{
    fs::{self, File},
    io::Write,
    net::Ipv4Addr,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    image::Image,
    limits,
    network::{GATEWAY, Network, publish},
    project::{Project, Service},
    shell::{ip, quoted, run},
};

const SCRIPT: &str = include_str!("container.sh");
const NAMESPACES: [&str; 5] = ["--net", "--mount", "--pid", "--ipc", "--uts"];
/// The default capabilities of a container.
const CAPABILITIES: &str = "-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,\
                            +net_bind_service,+sys_chroot,+kill,+audit_write";
/// The default soft and hard limit of open files.
const OPEN_FILES: (u64, u64) = (1_024, 524_288);
const POLL: Duration = Duration::from_millis(20);
/// Log lines shown in an error.
const LOG_LINES: usize = 40;

/// The state that all containers share.
#[derive(Debug)]
pub(crate) struct Host {
    /// The folder with compose.yaml.
    pub(crate) project_folder: PathBuf,
    /// The folder for roots, volumes and logs.
    pub(crate) state_folder: PathBuf,
    pub(crate) project: Project,
    pub(crate) network: Network,
    /// Prefix of the names of the control groups.
    pub(crate) group_prefix: String,
}

#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) service: Service,
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    /// The published ports of 127.0.0.1.
    pub(crate) ports: Vec<u16>,
    child: Child,
    /// The first process of the container, as numbered outside it.
    pid: u32,
    /// The words before each command: they enter the root with the environment, user and capabilities.
    enter: Vec<String>,
    stop_signal: &'static str,
    stop_requested: bool,
    log: PathBuf,
}

impl Container {
    /// Starts a container. `arguments` replace the service's command; their output is captured instead of logged.
    pub(crate) fn start(
        host: &Host,
        image: &Image,
        service: &Service,
        number: usize,
        arguments: Option<&[&str]>,
    ) -> Result<Self> {
        let name = format!("{}-{number}", service.name);
        let folder = host.state_folder.join(&name);
        fs::create_dir_all(&folder)?;
        let root = folder.join("root").display().to_string();
        let (address, link) = host.network.add_link()?;
        let enter = enter(&root, image, service, &name)?;
        let entrypoint = service.entrypoint.as_ref().unwrap_or(&image.entrypoint);
        let is_captured = arguments.is_some();
        let arguments =
            arguments.map_or_else(|| service.command.clone(), |words| words.iter().map(|&word| word.into()).collect());
        let command = [entrypoint.as_slice(), &arguments].concat();
        let (script, settings) = (host.state_folder.join("container.sh"), folder.join("settings.sh"));
        fs::write(&script, SCRIPT)?;
        let (soft, hard) = service.files.map_or(OPEN_FILES, |files| (files, files));
        let (soft, hard) = (limits::open_files(soft)?, limits::open_files(hard)?);
        let flag = |is: bool| i32::from(is).to_string();
        let mut text = String::new();
        for (variable, value) in [
            ("root", root.clone()),
            ("image", image.root.display().to_string()),
            ("link", link.clone()),
            ("address", address.to_string()),
            ("gateway", GATEWAY.to_string()),
            ("host", name.clone()),
            ("init", flag(service.init)),
            ("read_only", flag(service.read_only)),
            ("shm", service.shm.to_string()),
            ("files", soft.to_string()),
            ("hard_files", hard.to_string()),
        ] {
            text += &format!("{variable}={}\n", quoted(&value));
        }
        let list = |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        text += &format!("enter=({})\ncommand=({})\n", list(&enter), list(&command));
        fs::write(&settings, text + &mounts(host, image, service)?)?;

        let log = folder.join("log");
        let output = File::create(&log)?;
        let mut unshare = Command::new("unshare");
        unshare.args(NAMESPACES).args(["--fork", "--kill-child", "bash"]).arg(&script).arg(&settings);
        unshare.stdin(Stdio::piped()).stderr(output.try_clone()?);
        unshare.stdout(if is_captured { Stdio::piped() } else { output.into() });
        let mut child = unshare.spawn().context("unshare")?;
        let pid = first_child(&mut child)
            .with_context(|| format!("{name}: {}", fs::read_to_string(&log).unwrap_or_default()))?;
        limits::set(&format!("{}-{name}", host.group_prefix), pid, service)?;
        ip(&format!("link set {link} netns {pid}"))?;
        host.network.add_name(&service.name, address);
        let ports = if is_captured { &[] } else { service.ports.as_slice() };
        let ports = ports.iter().map(|port| publish(port, address)).collect::<Result<_>>()?;
        child.stdin.as_mut().context("no stdin")?.write_all(b"go\n")?;
        if !is_captured {
            child.stdin = None;
        }
        let (service, stop_signal) = (service.clone(), image.stop_signal);
        Ok(Self { service, name, address, ports, child, pid, enter, stop_signal, stop_requested: false, log })
    }

    /// The exit status, if the container has exited.
    pub(crate) fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Writes `input` to stdin and returns stdout once the container has exited with 0.
    pub(crate) fn finish(mut self, input: &str) -> Result<String> {
        if let Some(mut stdin) = self.child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let (name, log) = (self.name.clone(), self.log.clone());
        let output = self.child.wait_with_output()?;
        ensure!(output.status.success(), "{name} exited with {}: {}", output.status, fs::read_to_string(log)?);
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A command inside the container, with its user, environment and capabilities.
    pub(crate) fn exec_command(&self, words: &[impl AsRef<str>]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("--target").arg(self.pid.to_string()).args(NAMESPACES).arg("--").args(&self.enter);
        command.args(words.iter().map(AsRef::as_ref)).stdin(Stdio::null());
        command
    }

    /// Runs the healthcheck; the inner error is its output. A container without a healthcheck is healthy.
    pub(crate) fn health(&mut self) -> Result<Result<(), String>> {
        if let Some(status) = self.exit_status()? {
            bail!("{} exited with {status}\n{}", self.name, self.log());
        }
        let Some(health) = self.service.health.clone() else { return Ok(Ok(())) };
        // A file instead of a pipe, which a process left by the healthcheck could keep open.
        let output_path = self.log.with_extension("health");
        let output = File::create(&output_path)?;
        let mut check = self.exec_command(&health.test).stdout(output.try_clone()?).stderr(output).spawn()?;
        let deadline = Instant::now() + health.timeout;
        while check.try_wait()?.is_none() {
            if Instant::now() > deadline {
                // It may have exited since.
                if let Ok(pid) = first_child(&mut check) {
                    let _ = run(Command::new("kill").args(["-s", "KILL", &pid.to_string()]));
                }
                break;
            }
            sleep(POLL);
        }
        let status = check.wait()?;
        Ok(if status.success() { Ok(()) } else { Err(format!("{status}: {}", fs::read_to_string(output_path)?)) })
    }

    /// Sends the stop signal, on the first call only.
    pub(crate) fn request_stop(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.stop_requested, true) {
            return Ok(());
        }
        run(Command::new("kill").args(["-s", self.stop_signal, &self.pid.to_string()])).map(drop)
    }

    /// Waits for the exit until the grace period ends, then kills the container and returns an error.
    pub(crate) fn await_exit(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + self.service.grace;
        while Instant::now() < deadline {
            if let Some(status) = self.exit_status()? {
                return Ok(status);
            }
            sleep(POLL);
        }
        self.child.kill()?;
        bail!("{} did not stop within {:?}\n{}", self.name, self.service.grace, self.log())
    }

    /// The processes of the service, as numbered outside the container; without the engine's init process.
    pub(crate) fn processes(&self) -> Result<Vec<u32>> {
        let space = fs::read_link(format!("/proc/{}/ns/pid", self.pid))?;
        let numbers =
            fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let inside = |pid: &u32| fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|own| own == space);
        Ok(numbers.filter(inside).filter(|pid| !self.service.init || *pid != self.pid).collect())
    }

    /// The writable mounts of the container.
    pub(crate) fn writable(&self) -> Result<Vec<String>> {
        let pid = self.processes()?.into_iter().next().context("no process")?;
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo"))?;
        let writable = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(4);
            let (path, options) = (fields.next()?, fields.next()?);
            options.split(',').any(|option| option == "rw").then(|| path.to_owned())
        });
        Ok(writable.collect())
    }

    /// The last lines of the log.
    pub(crate) fn log(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

/// The process that `unshare` has forked.
fn first_child(unshare: &mut Child) -> Result<u32> {
    let list = format!("/proc/{0}/task/{0}/children", unshare.id());
    loop {
        if let Some(status) = unshare.try_wait()? {
            bail!("unshare exited with {status}");
        }
        if let Some(pid) = fs::read_to_string(&list)?.split_whitespace().next() {
            return Ok(pid.parse()?);
        }
        sleep(POLL);
    }
}

/// The words before every command in the container: they set the root, a clean environment, the user and capabilities.
fn enter(root: &str, image: &Image, service: &Service, name: &str) -> Result<Vec<String>> {
    let user = service.user.as_ref().or(image.user.as_ref()).map_or("0:0", String::as_str);
    let (user, group) = user.split_once(':').context("user:group")?;
    let mut words = ["chroot", root, "/usr/bin/env", "-i"].map(str::to_owned).to_vec();
    words.push(format!("--chdir={}", image.workdir));
    words.push(format!("HOSTNAME={name}"));
    words.extend(image.environment.iter().map(|(name, value)| format!("{name}={value}")));
    words.extend(service.environment.iter().map(|(name, value)| format!("{name}={value}")));
    let bounding_set = if service.no_capabilities { "-all" } else { CAPABILITIES };
    words.extend(["/usr/bin/setpriv", "--reuid", user, "--regid", group, "--clear-groups"].map(str::to_owned));
    words.extend(["--inh-caps", "-all", "--bounding-set", bounding_set].map(str::to_owned));
    words.extend(service.no_new_privileges.then(|| "--no-new-privs".to_owned()));
    words.push("--".to_owned());
    Ok(words)
}

/// The function `mounts` of the shell settings, which calls the functions of container.sh.
fn mounts(host: &Host, image: &Image, service: &Service) -> Result<String> {
    let mut text = "mounts() {\n  :\n".to_owned();
    let mut push = |words: &[&str]| {
        let words = words.iter().map(|word| quoted(word)).collect::<Vec<_>>();
        text += &format!("  {}\n", words.join(" "));
    };
    for (path, owner, mode) in &image.folders {
        push(&["folder", path, &format!("{owner}:{owner}"), mode]);
    }
    if let Some(tools) = &image.tools {
        let tools = tools.display().to_string();
        push(&["bind", &tools, &tools, "ro"]);
    }
    for volume in &service.volumes {
        let mut parts = volume.split(':');
        let (source, target) = (parts.next().unwrap_or_default(), parts.next().context("source:target")?);
        let source = if source.starts_with('.') {
            host.project_folder.join(source)
        } else {
            named_volume(host, image, source, target)?
        };
        ensure!(source.is_dir(), "{} does not exist", source.display());
        push(&["bind", &source.display().to_string(), target, if parts.next() == Some("ro") { "ro" } else { "rw" }]);
    }
    for secret in &service.secrets {
        let file = host.project.secrets.get(secret).with_context(|| format!("there is no secret {secret}"))?;
        let file = host.project_folder.join(file);
        ensure!(file.is_file(), "{} does not exist", file.display());
        push(&["bind", &file.display().to_string(), &format!("/run/secrets/{secret}"), "ro"]);
    }
    for tmpfs in &service.tmpfs {
        let (path, options) = tmpfs.split_once(':').unwrap_or((tmpfs, ""));
        push(&["tmpfs", path, options]);
    }
    Ok(text + "}\n")
}

/// The folder of a named volume. A new one gets the owner and mode of the folder in the image.
fn named_volume(host: &Host, image: &Image, name: &str, target: &str) -> Result<PathBuf> {
    let folder = host.state_folder.join("volumes").join(name);
    if !folder.exists() {
        fs::create_dir_all(&folder)?;
        let (_, owner, mode) = image.folders.iter().find(|(path, ..)| *path == target).unwrap_or(&("", 0, "0755"));
        run(Command::new("chown").arg(format!("{owner}:{owner}")).arg(&folder))?;
        run(Command::new("chmod").arg(mode).arg(&folder))?;
    }
    Ok(folder)
}
