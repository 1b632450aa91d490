//! A sandbox that runs during a test, as it would for a user.

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

/// Long enough for a slow machine to start everything.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The sandbox program running in its own folder. Dropping it ends it with everything it has started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    root: TempDir,
}

impl Running {
    /// Starts it with private servers and waits until it has written its description.
    ///
    /// # Errors
    /// When it exits or does not become ready.
    pub fn start() -> Result<Self> {
        Self::start_in(TempDir::new()?, &[])
    }

    /// Starts it with these environment variables.
    ///
    /// # Errors
    /// As [`Running::start`].
    pub fn start_with(environment: &[(&str, &str)]) -> Result<Self> {
        Self::start_in(TempDir::new()?, environment)
    }

    /// Stops it as Ctrl-C does and starts it again in the same folder.
    ///
    /// # Errors
    /// When it does not stop cleanly or does not become ready.
    pub async fn restart(self) -> Result<Self> {
        let root = self.shut_down().await?;
        // Wait for the description of the new start.
        fs::remove_file(root.path().join(".dev/sandbox.json"))?;
        Self::start_in(root, &[])
    }

    fn start_in(root: TempDir, environment: &[(&str, &str)]) -> Result<Self> {
        let mut command = program(root.path())?;
        command.envs(environment.iter().copied());
        command.arg("run").env_remove("DATABASE_URL").env_remove("REDIS_URL").stdout(Stdio::null());
        let mut running = Self { child: Child::spawn(&mut command, Signal::SIGKILL)?, root };
        let began = Instant::now();
        while running.description().is_err() {
            ensure!(running.child.exit_status()?.is_none(), "the sandbox has exited");
            ensure!(began.elapsed() < START_TIMEOUT, "the sandbox is not ready");
            thread::sleep(POLL_INTERVAL);
        }
        Ok(running)
    }

    /// The folder that contains `.dev`.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The content of its `sandbox.json`.
    ///
    /// # Errors
    /// When the file does not exist yet.
    pub fn description(&self) -> Result<Value> {
        Ok(serde_json::from_str(&fs::read_to_string(self.root().join(".dev/sandbox.json"))?)?)
    }

    /// Runs an operator tool against it and returns the JSON it prints.
    ///
    /// # Errors
    /// When the tool fails, with its error output.
    pub fn run_tool(&self, arguments: &[&str]) -> Result<Value> {
        let output = program(self.root())?.args(arguments).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).context("the output is not JSON")
    }

    /// Stops it as Ctrl-C does.
    ///
    /// # Errors
    /// When it does not stop cleanly.
    pub async fn stop(self) -> Result<()> {
        self.shut_down().await.map(drop)
    }

    async fn shut_down(mut self) -> Result<TempDir> {
        let status = self.child.stop(Signal::SIGTERM, STOP_TIMEOUT).await?;
        ensure!(status.success(), "the sandbox did not stop cleanly: {status}");
        Ok(self.root)
    }
}

/// A command that runs the sandbox program in this folder.
///
/// # Errors
/// When it has not been built.
pub fn program(root: &Path) -> Result<Command> {
    let mut command = Command::new(binary("sandbox")?);
    command.env("UNIFIED_PAYMENTS_ROOT", root);
    Ok(command)
}
