//! One of our processes: `api`, `portal`, `worker`, `scheduler` or `gateway`, started from the real binary.

use std::{
    collections::BTreeMap,
    env,
    fs::OpenOptions,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tokio::time::{self, Instant};

use crate::{
    child::{Child, Signal},
    client::Client,
    polling::pause,
};

const READY_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const TAIL_LINES: usize = 60;

/// The environment of a process, which is its only configuration.
pub(crate) type Environment = BTreeMap<String, String>;

/// The operator's name for the audit log. A container has no `USER`.
pub(crate) fn operator() -> String {
    std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// One of the binaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProcessKind {
    /// Serves merchants and cardholders.
    Api,
    /// Calls providers and merchants' endpoints.
    Worker,
    /// Hands out due work.
    Scheduler,
    /// The card gateway, a separate product.
    Gateway,
    /// Serves the merchants' people.
    Portal,
}

impl ProcessKind {
    /// The name of the binary.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
            Self::Scheduler => "scheduler",
            Self::Gateway => "gateway",
            Self::Portal => "portal",
        }
    }
}

/// A child process, killed when dropped and when the process that started it dies.
#[derive(Debug)]
pub struct Process {
    kind: ProcessKind,
    index: usize,
    program: PathBuf,
    environment: Environment,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts it without waiting. `environment` holds `METRICS_BIND`, and `API_BIND`, `PORTAL_BIND` or `GATEWAY_BIND`
    /// for processes that serve requests.
    pub(crate) fn spawn(
        programs: &Programs,
        kind: ProcessKind,
        index: usize,
        environment: Environment,
        log: PathBuf,
    ) -> Result<Self> {
        let program = programs.path(kind.name())?;
        let child = launch(&program, &environment, &log)?;
        Ok(Self { kind, index, program, environment, log, child })
    }

    /// Which binary it runs.
    #[must_use]
    pub fn kind(&self) -> ProcessKind {
        self.kind
    }

    /// Its number among the processes of its kind, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its kind and index, such as `worker-1`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-{}", self.kind.name(), self.index)
    }

    /// The process id of the current or last run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Sets an environment variable, effective from the next start. An empty value unsets it.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    /// The exit status if it has exited.
    ///
    /// # Errors
    /// When the status cannot be read.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        self.child.exit_status()
    }

    /// Kills it as `kill -9` does, and waits until it has exited.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn kill9(&mut self) -> Result<()> {
        self.child.kill_with(Signal::SIGKILL).map(drop)
    }

    /// Asks it to shut down gracefully (SIGTERM) and waits up to 60 seconds, then kills it. The status tells which of
    /// the two ended it.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        self.child.stop(Signal::SIGTERM, STOP_TIMEOUT).await
    }

    /// The first half of [`Process::terminate`], to shut down several processes in parallel.
    pub(crate) fn request_shutdown(&mut self) -> Result<()> {
        self.child.signal_and_resume(Signal::SIGTERM)
    }

    /// The second half of [`Process::terminate`].
    pub(crate) async fn wait_for_shutdown(&mut self) -> Result<ExitStatus> {
        self.child.wait_or_kill(STOP_TIMEOUT).await
    }

    /// Stops it (SIGSTOP): its leases expire without the process noticing.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn pause(&mut self) -> Result<()> {
        self.child.pause()
    }

    /// Resumes it after [`Process::pause`].
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn resume(&mut self) -> Result<()> {
        self.child.signal(Signal::SIGCONT)
    }

    /// Kills it if it runs, starts it again with the same environment and ports, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready within a minute.
    pub async fn restart(&mut self) -> Result<()> {
        self.relaunch()?;
        self.wait_until_ready().await
    }

    /// As [`Process::restart`], without waiting.
    pub(crate) fn relaunch(&mut self) -> Result<()> {
        self.kill9()?;
        self.child = launch(&self.program, &self.environment, &self.log)?;
        Ok(())
    }

    /// Runs the program of this release from its next start on.
    ///
    /// # Errors
    /// When the release has no such program.
    pub(crate) fn set_release(&mut self, programs: &Programs) -> Result<()> {
        self.program = programs.path(self.kind.name())?;
        Ok(())
    }

    /// Waits until `/readyz` returns 200.
    ///
    /// # Errors
    /// When the process exits first or a minute passes; the error includes the last lines of its log.
    pub async fn wait_until_ready(&mut self) -> Result<()> {
        let client = Client::new(&self.metrics_url())?;
        let began = Instant::now();
        let polling = async {
            loop {
                if let Some(status) = self.child.exit_status()? {
                    bail!("it exited ({status})");
                }
                if client.get("/readyz").await.is_ok_and(|response| response.status == 200) {
                    return Ok(());
                }
                pause(began).await;
            }
        };
        let result = time::timeout(READY_TIMEOUT, polling).await;
        let result = result.unwrap_or_else(|_| bail!("{}/readyz did not return 200", self.metrics_url()));
        result.with_context(|| format!("{} is not ready\n{}", self.kind.name(), self.log_tail()))
    }

    /// `http://…` of the merchants' listener. Only an api has one.
    #[must_use]
    pub fn api_url(&self) -> String {
        self.url("API_BIND")
    }

    /// `http://…` of the gateway's listener. Only a gateway has one.
    #[must_use]
    pub fn gateway_url(&self) -> String {
        self.url("GATEWAY_BIND")
    }

    /// `http://localhost:…` of the portal's listener. Only a portal has one.
    #[must_use]
    pub fn portal_url(&self) -> String {
        named_url(self.environment.get("PORTAL_BIND").map_or("127.0.0.1:0", String::as_str))
    }

    /// `http://…` of the internal listener with `/metrics`, `/healthz` and `/readyz`.
    #[must_use]
    pub fn metrics_url(&self) -> String {
        self.url("METRICS_BIND")
    }

    /// Everything it has logged since the cluster started, across restarts.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The file that [`Process::log`] reads.
    #[must_use]
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// The last lines of the log under a heading.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default();
        format!("--- end of {} ---\n{}\n", self.log.display(), tail.join("\n"))
    }

    fn url(&self, variable: &str) -> String {
        format!("http://{}", self.environment.get(variable).map_or("127.0.0.1:0", String::as_str))
    }
}

/// The URL of a listener at this address of loopback by the name of its host, which browsers require of passkeys.
pub(crate) fn named_url(bind: &str) -> String {
    format!("http://{}", bind.replace("127.0.0.1", "localhost"))
}

fn launch(program: &Path, environment: &Environment, log: &Path) -> Result<Child> {
    let output = OpenOptions::new().create(true).append(true).open(log);
    let output = output.with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(program);
    command.envs(environment).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    Child::spawn(&mut command, Signal::SIGKILL)
}

/// The programs of one release, in one folder.
#[derive(Clone, Debug)]
pub(crate) struct Programs(PathBuf);

impl Programs {
    /// The programs built with this one: in the same folder, or one folder up from a test binary.
    pub(crate) fn own() -> Result<Self> {
        profile_folder().map(Self)
    }

    /// The programs of another release.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    pub(crate) fn path(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        if !path.is_file() {
            bail!("{} is missing; run cargo build --workspace --bins", path.display());
        }
        Ok(path)
    }
}

/// The program `name` that was built with this one.
pub(crate) fn binary(name: &str) -> Result<PathBuf> {
    Programs::own()?.path(name)
}

/// The folder of everything that is built, such as `target`.
pub(crate) fn target_folder() -> Result<PathBuf> {
    Ok(profile_folder()?.parent().context("the profile folder has no parent")?.to_path_buf())
}

/// The profile's target folder, such as `target/debug`.
pub(crate) fn profile_folder() -> Result<PathBuf> {
    let program = env::current_exe().context("cannot find the path of this program")?;
    let folder = program.parent().context("this program's path has no parent folder")?;
    let folder = if folder.ends_with("deps") { folder.parent().context("deps has no parent folder")? } else { folder };
    Ok(folder.to_path_buf())
}
