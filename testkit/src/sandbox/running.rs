//! A sandbox that runs beside a test, as one runs beside a person.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    TempDir,
    child::{Child, Signal},
    process::binary,
};

/// As long as a slow machine may take to start everything.
const START_PATIENCE: Duration = Duration::from_secs(120);
const STOP_PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The sandbox program at work in a folder of its own. It ends, with all that it has started, when this value is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    root: TempDir,
}

impl Running {
    /// Starts it with private servers, and waits until it tells its addresses.
    ///
    /// # Errors
    /// When it ends or does not get ready.
    pub fn start() -> Result<Self> {
        Self::start_in(TempDir::new()?)
    }

    /// Ends it as Ctrl-C does, and starts it once more where it was.
    ///
    /// # Errors
    /// When it does not end well, or does not get ready.
    pub async fn restart(self) -> Result<Self> {
        let root = self.end().await?;
        // It tells of its next start, and not of this one.
        fs::remove_file(root.path().join(".dev/sandbox.json"))?;
        Self::start_in(root)
    }

    fn start_in(root: TempDir) -> Result<Self> {
        let mut command = program(root.path())?;
        command.arg("run").env_remove("DATABASE_URL").env_remove("REDIS_URL").stdout(Stdio::null());
        let mut running = Self { child: Child::spawn(&mut command, Signal::SIGKILL)?, root };
        let began = Instant::now();
        while running.description().is_err() {
            ensure!(running.child.ended()?.is_none(), "it has ended");
            ensure!(began.elapsed() < START_PATIENCE, "it does not get ready");
            thread::sleep(LOOK_EVERY);
        }
        Ok(running)
    }

    /// Where its `.dev` is.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// What stands in its `sandbox.json`.
    ///
    /// # Errors
    /// When it has written none.
    pub fn description(&self) -> Result<Value> {
        Ok(serde_json::from_str(&fs::read_to_string(self.root().join(".dev/sandbox.json"))?)?)
    }

    /// Runs an operator's tool against it, which prints JSON.
    ///
    /// # Errors
    /// When the tool fails; with what it complained about.
    pub fn operate(&self, arguments: &[&str]) -> Result<Value> {
        let output = program(self.root())?.args(arguments).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).context("no JSON")
    }

    /// Ends it as Ctrl-C does.
    ///
    /// # Errors
    /// When it does not end well.
    pub async fn stop(self) -> Result<()> {
        self.end().await.map(drop)
    }

    async fn end(mut self) -> Result<TempDir> {
        let status = self.child.stop(Signal::SIGTERM, STOP_PATIENCE).await?;
        ensure!(status.success(), "it did not stop well: {status}");
        Ok(self.root)
    }
}

/// The sandbox program, at work in this folder.
///
/// # Errors
/// When it has not been built.
pub fn program(root: &Path) -> Result<Command> {
    let mut command = Command::new(binary("sandbox")?);
    command.env("UNIFIED_PAYMENTS_ROOT", root);
    Ok(command)
}
