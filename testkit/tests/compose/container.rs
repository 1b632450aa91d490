//! One container: a service's program in namespaces of its own.

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
/// What a container may do unless it drops it.
const CAPABILITIES: &str = "-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,\
                            +net_bind_service,+sys_chroot,+kill,+audit_write";
/// Files of a process: at first, and at most.
const FILES: (u64, u64) = (1_024, 524_288);
const POLL: Duration = Duration::from_millis(20);
const LINES: usize = 40;

/// What there is for all containers.
#[derive(Debug)]
pub(crate) struct World {
    /// The folder with compose.yaml.
    pub(crate) folder: PathBuf,
    /// Where roots, volumes and logs are.
    pub(crate) place: PathBuf,
    pub(crate) project: Project,
    pub(crate) network: Network,
    /// How the names of its control groups begin.
    pub(crate) group: String,
}

#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) service: Service,
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    /// Ports of 127.0.0.1 that lead into it.
    pub(crate) ports: Vec<u16>,
    child: Child,
    /// The first process inside, as it is called outside.
    pid: u32,
    /// Enters its root with its environment and rights.
    enter: Vec<String>,
    stop_signal: &'static str,
    is_told: bool,
    log: PathBuf,
}

impl Container {
    /// Starts it, with other arguments instead of the service's command, if there are some, and perhaps with its output to read.
    pub(crate) fn start(
        world: &World,
        image: &Image,
        service: &Service,
        place: usize,
        other: Option<&[&str]>,
    ) -> Result<Self> {
        let name = format!("{}-{place}", service.name);
        let folder = world.place.join(&name);
        fs::create_dir_all(&folder)?;
        let root = folder.join("root").display().to_string();
        let (address, link) = world.network.next()?;
        let enter = enter(&root, image, service, &name)?;
        let entrypoint = service.entrypoint.as_ref().unwrap_or(&image.entrypoint);
        let arguments =
            other.map_or_else(|| service.command.clone(), |other| other.iter().map(|&word| word.into()).collect());
        let command = [entrypoint.as_slice(), &arguments].concat();
        let (script, said) = (world.place.join("container.sh"), folder.join("said.sh"));
        fs::write(&script, SCRIPT)?;
        let (files, most) = service.files.map_or(FILES, |files| (files, files));
        let (files, most) = (limits::files(files)?, limits::files(most)?);
        let number = |is: bool| i32::from(is).to_string();
        let mut text = String::new();
        for (variable, value) in [
            ("root", root.clone()),
            ("image", image.root.display().to_string()),
            ("link", link.clone()),
            ("address", address.to_string()),
            ("gateway", GATEWAY.to_string()),
            ("host", name.clone()),
            ("init", number(service.init)),
            ("read_only", number(service.read_only)),
            ("shm", service.shm.to_string()),
            ("files", files.to_string()),
            ("hard_files", most.to_string()),
        ] {
            text += &format!("{variable}={}\n", quoted(&value));
        }
        let list = |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        text += &format!("as=({})\ncommand=({})\n", list(&enter), list(&command));
        fs::write(&said, text + &mounts(world, image, service)?)?;

        let log = folder.join("log");
        let output = File::create(&log)?;
        let mut unshare = Command::new("unshare");
        unshare.args(NAMESPACES).args(["--fork", "--kill-child", "bash"]).arg(&script).arg(&said);
        unshare.stdin(Stdio::piped()).stderr(output.try_clone()?);
        unshare.stdout(if other.is_some() { Stdio::piped() } else { output.into() });
        let mut child = unshare.spawn().context("unshare")?;
        let pid = first_child(&mut child)
            .with_context(|| format!("{name}: {}", fs::read_to_string(&log).unwrap_or_default()))?;
        limits::set(&format!("{}-{name}", world.group), pid, service)?;
        ip(&format!("link set {link} netns {pid}"))?;
        world.network.name(&service.name, address);
        let ports = if other.is_some() { &[] } else { service.ports.as_slice() };
        let ports = ports.iter().map(|port| publish(port, address)).collect::<Result<_>>()?;
        child.stdin.as_mut().context("its input")?.write_all(b"go\n")?;
        if other.is_none() {
            child.stdin = None;
        }
        let (service, stop_signal) = (service.clone(), image.stop_signal);
        Ok(Self { service, name, address, ports, child, pid, enter, stop_signal, is_told: false, log })
    }

    /// The exit status, once it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Writes this to its standard input and gives back what it prints, if it ends well.
    pub(crate) fn talk(mut self, input: &str) -> Result<String> {
        if let Some(mut stdin) = self.child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let (name, log) = (self.name.clone(), self.log.clone());
        let output = self.child.wait_with_output()?;
        ensure!(output.status.success(), "{name} ended ({}): {}", output.status, fs::read_to_string(log)?);
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A command inside, as the user of the container and with its environment and rights.
    pub(crate) fn inside(&self, words: &[impl AsRef<str>]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("--target").arg(self.pid.to_string()).args(NAMESPACES).arg("--").args(&self.enter);
        command.args(words.iter().map(AsRef::as_ref)).stdin(Stdio::null());
        command
    }

    /// What its healthcheck says, and its complaint if it is not well. A container without one is well.
    pub(crate) fn health(&mut self) -> Result<Result<(), String>> {
        if let Some(status) = self.ended()? {
            bail!("{} ended ({status})\n{}", self.name, self.log());
        }
        let Some(health) = self.service.health.clone() else { return Ok(Ok(())) };
        // A file, for what a healthcheck leaves behind may hold a pipe open.
        let said = self.log.with_extension("health");
        let output = File::create(&said)?;
        let mut check = self.inside(&health.test).stdout(output.try_clone()?).stderr(output).spawn()?;
        let deadline = Instant::now() + health.timeout;
        while check.try_wait()?.is_none() {
            if Instant::now() > deadline {
                // It may end just now.
                if let Ok(inside) = first_child(&mut check) {
                    let _ = run(Command::new("kill").args(["-s", "KILL", &inside.to_string()]));
                }
                break;
            }
            sleep(POLL);
        }
        let status = check.wait()?;
        Ok(if status.success() { Ok(()) } else { Err(format!("{status}: {}", fs::read_to_string(said)?)) })
    }

    /// Tells it to stop, as the engine does, once.
    pub(crate) fn tell_to_stop(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_told, true) {
            return Ok(());
        }
        run(Command::new("kill").args(["-s", self.stop_signal, &self.pid.to_string()])).map(drop)
    }

    /// Waits for its end for as long as it is given; then it is killed, which is an error.
    pub(crate) fn ending(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + self.service.grace;
        while Instant::now() < deadline {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            sleep(POLL);
        }
        self.child.kill()?;
        bail!("{} did not stop within {:?}\n{}", self.name, self.service.grace, self.log())
    }

    /// The processes of the service, as they are called outside; the engine's own first process is none of it.
    pub(crate) fn processes(&self) -> Result<Vec<u32>> {
        let space = fs::read_link(format!("/proc/{}/ns/pid", self.pid))?;
        let numbers =
            fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let inside = |pid: &u32| fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|own| own == space);
        Ok(numbers.filter(inside).filter(|pid| !self.service.init || *pid != self.pid).collect())
    }

    /// The mounts inside that may be written to.
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

    /// The last lines of what it wrote.
    pub(crate) fn log(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

/// The number of the process that `unshare` has forked.
fn first_child(unshare: &mut Child) -> Result<u32> {
    let list = format!("/proc/{0}/task/{0}/children", unshare.id());
    loop {
        if let Some(status) = unshare.try_wait()? {
            bail!("unshare ended ({status})");
        }
        if let Some(pid) = fs::read_to_string(&list)?.split_whitespace().next() {
            return Ok(pid.parse()?);
        }
        sleep(POLL);
    }
}

/// The words that begin every command inside: the root, the environment and nothing else of ours, the user and the rights.
fn enter(root: &str, image: &Image, service: &Service, name: &str) -> Result<Vec<String>> {
    let user = service.user.as_ref().or(image.user.as_ref()).map_or("0:0", String::as_str);
    let (user, group) = user.split_once(':').context("user:group")?;
    let mut words = ["chroot", root, "/usr/bin/env", "-i"].map(str::to_owned).to_vec();
    words.push(format!("--chdir={}", image.workdir));
    words.push(format!("HOSTNAME={name}"));
    words.extend(image.environment.iter().map(|(name, value)| format!("{name}={value}")));
    words.extend(service.environment.iter().map(|(name, value)| format!("{name}={value}")));
    let drop = if service.no_capabilities { "-all" } else { CAPABILITIES };
    words.extend(["/usr/bin/setpriv", "--reuid", user, "--regid", group, "--clear-groups"].map(str::to_owned));
    words.extend(["--inh-caps", "-all", "--bounding-set", drop].map(str::to_owned));
    words.extend(service.no_new_privileges.then(|| "--no-new-privs".to_owned()));
    words.push("--".to_owned());
    Ok(words)
}

/// What is mounted, in the words of the script.
fn mounts(world: &World, image: &Image, service: &Service) -> Result<String> {
    let mut text = "mounts() {\n  :\n".to_owned();
    let mut say = |words: &[&str]| {
        let words = words.iter().map(|word| quoted(word)).collect::<Vec<_>>();
        text += &format!("  {}\n", words.join(" "));
    };
    for (path, owner, mode) in &image.folders {
        say(&["folder", path, &format!("{owner}:{owner}"), mode]);
    }
    if let Some(tools) = &image.tools {
        let tools = tools.display().to_string();
        say(&["bind", &tools, &tools, "ro"]);
    }
    for volume in &service.volumes {
        let mut parts = volume.split(':');
        let (from, to) = (parts.next().unwrap_or_default(), parts.next().context("from:to")?);
        let from = if from.starts_with('.') { world.folder.join(from) } else { named(world, image, from, to)? };
        ensure!(from.is_dir(), "{} is not there", from.display());
        say(&["bind", &from.display().to_string(), to, if parts.next() == Some("ro") { "ro" } else { "rw" }]);
    }
    for secret in &service.secrets {
        let file = world.project.secrets.get(secret).with_context(|| format!("there is no secret {secret}"))?;
        let file = world.folder.join(file);
        ensure!(file.is_file(), "{} is not there", file.display());
        say(&["bind", &file.display().to_string(), &format!("/run/secrets/{secret}"), "ro"]);
    }
    for tmpfs in &service.tmpfs {
        let (path, options) = tmpfs.split_once(':').unwrap_or((tmpfs, ""));
        say(&["tmpfs", path, options]);
    }
    Ok(text + "}\n")
}

/// The folder of a named volume. A new one takes its owner and mode from what the image has there.
fn named(world: &World, image: &Image, name: &str, to: &str) -> Result<PathBuf> {
    let folder = world.place.join("volumes").join(name);
    if !folder.exists() {
        fs::create_dir_all(&folder)?;
        let (_, owner, mode) = image.folders.iter().find(|(path, ..)| *path == to).unwrap_or(&("", 0, "0755"));
        run(Command::new("chown").arg(format!("{owner}:{owner}")).arg(&folder))?;
        run(Command::new("chmod").arg(mode).arg(&folder))?;
    }
    Ok(folder)
}
