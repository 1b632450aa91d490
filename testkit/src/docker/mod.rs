//! A Docker daemon that runs compose.yaml in namespaces, with its own socket and data. No registry is used: the images are
//! made of Debian's packages under the names in compose.yaml and the Dockerfile, and ours as [`Image`] says. Everything is in
//! `.dev/containers`.

mod namespaces;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use serde_json::Value;

pub use self::namespaces::{inside, started_inside, unsupported};
use crate::{Account, tools};

/// What our image is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// The Dockerfile's last stage with the programs that this machine has built.
    Built,
    /// The whole Dockerfile, with the compiler of this machine. This takes minutes.
    Sources,
}

const BASE: &str = "base.tar";
const COMPILER: &str = "compiler.tar";
/// Name, Debian release and packages of a file system that is made once: the root of the daemon, the programs of the
/// other services, the base of our image, which has no package lists because its build has no network, and what a
/// compiler needs.
const FILE_SYSTEMS: [(&str, &str, &str); 4] = [
    ("daemon", "trixie", "docker.io,docker-cli,docker-buildx,docker-compose,iptables"),
    ("servers.tar", "trixie", "postgresql-17,redis-server,prometheus,haproxy"),
    (BASE, "bookworm", "tzdata,fonts-noto-core,fonts-droid-fallback,fonts-nanum"),
    (COMPILER, "bookworm", "gcc,libc6-dev"),
];
/// What Debian's slim images, of which one is the base of ours, leave out.
const SLIM: [&str; 6] = [
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/info/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/lintian/*",
];
/// The most bytes of our image, as in the release workflow.
const MAX_IMAGE: u64 = 200_000_000;
/// The services whose images are made of `servers.tar`. Grafana is not in Debian.
const SERVERS: [&str; 4] = ["postgres", "redis", "prometheus", "balancer"];
/// $1: the root, $2: the folder of this run. The daemon needs a root of its own, because runc calls pivot_root.
const MOUNTS: &str = "set -e; ip link set lo up; mount --bind $1 $1; cd $1; mkdir -p project old var/lib/docker
                      mount -t proc proc proc; mount --rbind /sys sys; mount --rbind /dev dev; mount -t tmpfs run run
                      mount -t tmpfs tmp tmp; mkdir -p $2/data; mount --bind $2/data var/lib/docker
                      mount --bind $2/project project";
const DAEMON: &str = "cd $1 && pivot_root . old && umount --lazy old && \
                      exec dockerd --storage-driver overlay2 --cgroup-parent $2";

/// The daemon, which ends when this is dropped, and its project `unified-payments`.
pub struct Docker {
    root: PathBuf,
    daemon: Child,
}

/// Runs a command and returns its stdout.
///
/// # Errors
/// When it fails, with its stderr.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed ({}): {}", output.status, stderr.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn folder() -> PathBuf {
    tools::project_root().join(".dev/containers")
}

/// Makes the file systems that do not exist, and downloads the crates for a build from sources.
fn download(image: Image) -> Result<()> {
    fs::create_dir_all(folder())?;
    // Two runs must not make the same one.
    let lock = fs::File::create(folder().join("lock"))?;
    lock.lock()?;
    for (name, release, packages) in FILE_SYSTEMS {
        if name == COMPILER && image == Image::Built {
            continue;
        }
        let options = if name == BASE { &SLIM[..] } else { &[] };
        let recipe = [&[packages][..], options].concat().join(" ");
        let (made, new) = (folder().join(name), folder().join(format!("new-{name}")));
        let made_of = folder().join(format!("{name}.packages"));
        if fs::read_to_string(&made_of).is_ok_and(|made_of| made_of == recipe) {
            continue;
        }
        run(Command::new("rm").args(["-rf", "--one-file-system"]).args([&made, &new]))?;
        let mut make = Command::new("mmdebstrap");
        make.args(["--variant=minbase", "--customize-hook=rm -f $1/etc/apt/sources.list"]).args(options);
        run(make.arg(format!("--include={packages}")).arg(release).arg(&new).arg("http://deb.debian.org/debian"))?;
        fs::rename(&new, &made)?;
        fs::write(made_of, recipe)?;
    }
    if image == Image::Sources {
        let vendor = ["vendor", "--locked", "--quiet"];
        run(Command::new("cargo").args(vendor).arg(folder().join("crates")).current_dir(tools::project_root()))?;
    }
    Ok(())
}

/// Removes what a run has left, when its namespaces have ended.
fn remove(folder: &Path) -> Result<()> {
    run(Command::new("rm").args(["-rf", "--one-file-system"]).arg(folder))?;
    // Groups of other programs may end meanwhile, which is no error.
    let groups = ["-ignore_readdir_race", "-depth", "-type", "d", "-path", &format!("*/{}*", group(folder)?)];
    run(Command::new("find").arg("/sys/fs/cgroup").args(groups).args(["-exec", "rmdir", "{}", ";"])).map(drop)
}

/// The control group of a run's containers.
fn group(folder: &Path) -> Result<String> {
    Ok(format!("payments-{}", folder.file_name().context("a name")?.to_string_lossy()))
}

impl Docker {
    /// Starts the daemon and makes the images.
    fn start(run_folder: &Path, image: Image) -> Result<Self> {
        let root = folder().join("daemon");
        run(Command::new("bash").args(["-c", MOUNTS, "mounts"]).args([&root, run_folder]))?;
        let log = fs::File::create(run_folder.join("dockerd.log"))?;
        let mut daemon = Command::new("unshare");
        daemon.args(["--mount", "bash", "-c", DAEMON, "daemon"]).arg(&root).arg(group(run_folder)?);
        let daemon = daemon.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let docker = Self { root, daemon };
        let deadline = Instant::now() + Duration::from_secs(60);
        while let Err(error) = docker.docker(&["version"]) {
            let log = fs::read_to_string(run_folder.join("dockerd.log"))?;
            ensure!(Instant::now() < deadline, "the daemon does not respond: {error:#}\n{log}");
            sleep(Duration::from_millis(100));
        }
        docker.make_images(run_folder, image)?;
        Ok(docker)
    }

    fn make_images(&self, run_folder: &Path, image: Image) -> Result<()> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/docker/images");
        let images = run_folder.join("project/images");
        run(Command::new("cp").arg("-R").arg(source).arg(&images))?;
        let dockerfile = fs::read_to_string(run_folder.join("project/Dockerfile"))?;
        let base = dockerfile.lines().filter_map(|line| line.strip_prefix("FROM ")).next_back().context("FROM")?;
        let compiler = (image == Image::Sources).then_some((COMPILER, "compiler"));
        for (file, name) in [("servers.tar", "servers"), (BASE, base)].into_iter().chain(compiler) {
            let input = fs::File::open(folder().join(file))?;
            run(self.command(&["docker", "import", "-", name]).stdin(input))?;
        }
        let config: Value = serde_json::from_str(&self.compose(&["config", "--format", "json"])?)?;
        for service in SERVERS {
            let name =
                config["services"][service]["image"].as_str().with_context(|| format!("{service} has no image"))?;
            self.docker(&["build", "--target", service, "--tag", name, "/project/images"])?;
        }
        let name = config["services"]["api"]["image"].as_str().context("the api has no image")?;
        match image {
            Image::Built => {
                let build = ["build", "--tag", name, "--build-context", "build=/project/built"];
                self.docker(&[&build[..], &["--file", "/project/Dockerfile", "/project/images"]].concat()).map(drop)
            }
            Image::Sources => self.build_from_sources(&dockerfile, name),
        }
    }

    /// Builds our image as `docker compose up --build` does, but without network, and checks its size.
    fn build_from_sources(&self, dockerfile: &str, name: &str) -> Result<()> {
        let mut stages = dockerfile.lines().filter_map(|line| line.strip_prefix("FROM ")?.strip_suffix(" AS build"));
        let compiler = stages.next().context("the Dockerfile has no stage build")?;
        let build = ["build", "--tag", compiler, "--file", "/project/images/compiler.Dockerfile"];
        let contexts = ["--build-context", "toolchain=/project/toolchain", "--build-context", "crates=/project/crates"];
        self.docker(&[&build[..], &contexts, &["/project/images"]].concat())?;
        println!("building the image from sources");
        self.docker(&["build", "--tag", name, "/project/source"])?;
        let start = ["run", "--rm", "--network", "none", "--user", "0", name];
        let printed =
            self.docker(&[&start[..], &["du", "--summarize", "--one-file-system", "--bytes", "/"]].concat())?;
        let bytes: u64 = printed.split_whitespace().next().context("du printed nothing")?.parse()?;
        println!("the image has {bytes} bytes");
        ensure!(bytes <= MAX_IMAGE, "the image has {bytes} bytes, more than {MAX_IMAGE}");
        Ok(())
    }

    /// A program in the root of the daemon, in the project's folder.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.arg(&self.root).args(["env", "--chdir=/project"]).args(words);
        command
    }

    /// Runs `docker`.
    ///
    /// # Errors
    /// When it fails.
    pub fn docker(&self, words: &[&str]) -> Result<String> {
        run(&mut self.command(&[&["docker"], words].concat()))
    }

    /// Runs `docker compose`.
    ///
    /// # Errors
    /// When it fails.
    pub fn compose(&self, words: &[&str]) -> Result<String> {
        self.docker(&[&["compose", "--ansi", "never", "--progress", "quiet"], words].concat())
    }

    /// Starts services, or more containers of them (`--scale`), and waits until all are healthy.
    ///
    /// # Errors
    /// When one is not, with the last lines that each has logged.
    pub fn up(&self, words: &[&str]) -> Result<()> {
        let up = ["up", "--detach", "--wait", "--no-build", "--no-recreate", "--quiet-pull"];
        let logs = || self.compose(&["logs", "--no-color", "--tail", "20"]).unwrap_or_default();
        self.compose(&[&up[..], words].concat()).map(drop).with_context(logs)
    }

    /// A file of the project's folder.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn project_file(&self, path: &str) -> Result<String> {
        Ok(fs::read_to_string(self.root.join("project").join(path))?)
    }

    /// The ids of the running containers of a service.
    ///
    /// # Errors
    /// When Compose fails.
    pub fn containers(&self, service: &str) -> Result<Vec<String>> {
        Ok(self.compose(&["ps", "--quiet", service])?.split_whitespace().map(str::to_owned).collect())
    }

    /// A fact about a container, such as `{{.State.Pid}}`.
    ///
    /// # Errors
    /// When there is no such container or fact.
    pub fn inspect(&self, container: &str, format: &str) -> Result<String> {
        Ok(self.docker(&["inspect", "--format", format, container])?.trim().to_owned())
    }

    /// Kills the first process of a container, as `kill -9` does. After `docker kill` it would not be started again.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&self, container: &str) -> Result<()> {
        let pid = self.inspect(container, "{{.State.Pid}}")?.parse::<i32>()?;
        ensure!(pid > 0, "container {container} does not run");
        signal::kill(Pid::from_raw(pid), Signal::SIGKILL).with_context(|| format!("cannot kill container {container}"))
    }

    /// What `ctl` prints.
    ///
    /// # Errors
    /// When it fails.
    pub fn ctl(&self, words: &[&str]) -> Result<Value> {
        let printed = self.compose(&[&["run", "--rm", "-T", "ctl"][..], words, &["--json"]].concat())?;
        Ok(serde_json::from_str(&printed)?)
    }

    /// Creates an account as docs/deploying.md shows, but practically without limits.
    ///
    /// # Errors
    /// When `ctl` fails.
    pub fn account(&self, provider: &str) -> Result<Account> {
        let create = ["accounts", "create", "--name", "Shop", "--mode", "test", "--provider", provider];
        let options = ["--rate-limit", "1000000", "--burst", "1000000", "--as", "operator"];
        serde_json::from_value(self.ctl(&[&create[..], &options].concat())?).context("ctl did not print an account")
    }

    /// Creates an account that settles at a new account `shop` of the card gateway, with these options for `gateway
    /// account create`, whose output is returned too.
    ///
    /// # Errors
    /// When `ctl` or the gateway's command line fails.
    pub fn account_at_gateway(&self, options: &[&str]) -> Result<(Account, Value)> {
        let create =
            ["exec", "-T", "gateway", "gateway", "account", "create", "--username", "shop", "--as", "operator"];
        let keys = self.compose(&[&create[..], options].concat())?;
        let account = self.account("card_gateway")?;
        let connect =
            ["docker", "compose", "run", "--rm", "-T", "ctl", "accounts", "connect", &account.id, "--as", "operator"];
        let mut connect = self.command(&connect).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        connect.stdin.take().context("stdin")?.write_all(keys.as_bytes())?;
        ensure!(connect.wait()?.success(), "ctl accounts connect failed");
        Ok((account, serde_json::from_str(&keys)?))
    }

    /// What Redis replies to an operator.
    ///
    /// # Errors
    /// When it does not reply.
    pub fn redis(&self, words: &[&str]) -> Result<String> {
        let auth = format!("REDISCLI_AUTH={}", self.project_file("secrets/redis_password")?.trim());
        let cli = ["exec", "-T", "-e", &auth, "redis", "redis-cli", "--tls", "--cacert", "/run/secrets/authority"];
        self.compose(&[&cli[..], words].concat())
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}
