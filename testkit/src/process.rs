//! One process of ours: `api`, `worker`, `scheduler` or `gateway`, started from the real binary.

use std::{
    collections::BTreeMap,
    env,
    fs::OpenOptions,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tokio::time;

use crate::{
    child::{Child, Signal},
    client::Client,
};

const READY_PATIENCE: Duration = Duration::from_secs(60);
const STOP_PATIENCE: Duration = Duration::from_secs(60);
const TAIL_LINES: usize = 60;

/// The environment that a process is configured by; nothing else is.
pub(crate) type Environment = BTreeMap<String, String>;

/// Who operates, for the audit log: in a container nobody says.
pub(crate) fn operator() -> String {
    std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "somebody".to_owned())
}

/// Which of the binaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Answers merchants and cardholders.
    Api,
    /// Talks to providers and to merchants' endpoints.
    Worker,
    /// Hands out what is due.
    Scheduler,
    /// The card gateway, a product of its own.
    Gateway,
}

impl Kind {
    /// The name of its binary.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
            Self::Scheduler => "scheduler",
            Self::Gateway => "gateway",
        }
    }
}

/// A child process, killed when dropped and when the process that started it dies.
#[derive(Debug)]
pub struct Process {
    kind: Kind,
    place: usize,
    program: PathBuf,
    environment: Environment,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts it without waiting; `environment` holds `METRICS_BIND`, and `API_BIND` or `GATEWAY_BIND` for those that serve.
    pub(crate) fn spawn(
        programs: &Programs,
        kind: Kind,
        place: usize,
        environment: Environment,
        log: PathBuf,
    ) -> Result<Self> {
        let program = programs.path(kind.name())?;
        let child = launch(&program, &environment, &log)?;
        Ok(Self { kind, place, program, environment, log, child })
    }

    /// Which of the binaries it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Which of its kind it is, from 0.
    #[must_use]
    pub fn place(&self) -> usize {
        self.place
    }

    /// Its kind and place, such as `worker-1`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-{}", self.kind.name(), self.place)
    }

    /// The process id of the one that runs, or ran last.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// A variable of its environment, from its next start on; one that is empty is not set.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    /// The exit status if it has ended.
    ///
    /// # Errors
    /// When the system cannot say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.ended()
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn kill9(&mut self) -> Result<()> {
        self.child.end_with(Signal::SIGKILL).map(drop)
    }

    /// Asks it to finish what it has begun (SIGTERM) and waits, 30 seconds at most; then it is killed, which the status says.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        self.child.stop(Signal::SIGTERM, STOP_PATIENCE).await
    }

    /// The first half of [`Process::terminate`], for ending several side by side.
    pub(crate) fn ask_to_end(&mut self) -> Result<()> {
        self.child.ask(Signal::SIGTERM)
    }

    /// The second half of [`Process::terminate`].
    pub(crate) async fn ending(&mut self) -> Result<ExitStatus> {
        self.child.end_within(STOP_PATIENCE).await
    }

    /// Stops it in its tracks (SIGSTOP): its leases run out while it notices nothing.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn pause(&mut self) -> Result<()> {
        self.child.pause()
    }

    /// Lets it go on after [`Process::pause`].
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn resume(&mut self) -> Result<()> {
        self.child.signal(Signal::SIGCONT)
    }

    /// Kills it if it runs, starts it again with the same environment and ports, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not get ready within a minute.
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

    /// From its next start on it is the program of this release.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn take_release(&mut self, programs: &Programs) -> Result<()> {
        self.program = programs.path(self.kind.name())?;
        Ok(())
    }

    /// Waits until `/readyz` says yes.
    ///
    /// # Errors
    /// When the process ends first, or a minute passes; with the last lines of its log.
    pub async fn wait_until_ready(&mut self) -> Result<()> {
        let client = Client::new(&self.metrics_url())?;
        let waiting = async {
            loop {
                if let Some(status) = self.child.ended()? {
                    bail!("it ended ({status})");
                }
                if client.get("/readyz").await.is_ok_and(|answer| answer.status == 200) {
                    return Ok(());
                }
                time::sleep(Duration::from_millis(25)).await;
            }
        };
        let result = time::timeout(READY_PATIENCE, waiting).await;
        let result = result.unwrap_or_else(|_| bail!("no answer from {}/readyz", self.metrics_url()));
        result.with_context(|| format!("{} is not ready\n{}", self.kind.name(), self.log_tail()))
    }

    /// `http://…` of the merchants' listener; of no use for a process other than an api.
    #[must_use]
    pub fn api_url(&self) -> String {
        self.url("API_BIND")
    }

    /// `http://…` of the gateway's listener; of no use for another process.
    #[must_use]
    pub fn gateway_url(&self) -> String {
        self.url("GATEWAY_BIND")
    }

    /// `http://…` of the internal listener with `/metrics`, `/healthz` and `/readyz`.
    #[must_use]
    pub fn metrics_url(&self) -> String {
        self.url("METRICS_BIND")
    }

    /// Everything it has written since the cluster started, over all its restarts.
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

fn launch(program: &Path, environment: &Environment, log: &Path) -> Result<Child> {
    let output = OpenOptions::new().create(true).append(true).open(log);
    let output = output.with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(program);
    command.envs(environment).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    Child::spawn(&mut command, Signal::SIGKILL)
}

/// The programs of one release, which lie in one folder.
#[derive(Clone, Debug)]
pub(crate) struct Programs(PathBuf);

impl Programs {
    /// Those that were built with this program: beside it, or one folder up from a test's.
    pub(crate) fn own() -> Result<Self> {
        profile_folder().map(Self)
    }

    /// Those of another release.
    pub(crate) fn within(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// The program of this name.
    pub(crate) fn path(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        if !path.is_file() {
            bail!("{} is missing; build it with cargo build --workspace --bins", path.display());
        }
        Ok(path)
    }
}

/// The program `name` that was built with this one.
pub(crate) fn binary(name: &str) -> Result<PathBuf> {
    Programs::own()?.path(name)
}

/// `target/debug` or its like.
pub(crate) fn profile_folder() -> Result<PathBuf> {
    let program = env::current_exe().context("cannot tell where this program is")?;
    let folder = program.parent().context("a program in no folder")?;
    let folder = if folder.ends_with("deps") { folder.parent().context("deps in no folder")? } else { folder };
    Ok(folder.to_path_buf())
}
