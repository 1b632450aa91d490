//! Programs of others, in a virtual environment of Python under `target/`, installed once.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

/// How long a program may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(900);
const REQUIREMENTS: &str = include_str!("requirements.txt");
const SEED: &str = "20261121";
/// The checks that hooks.py has in the form of this API.
const REPLACED: &str = "positive_data_acceptance";

/// The environment.
pub(crate) struct Tools {
    folder: PathBuf,
}

/// A file of this test.
pub(crate) fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi").join(name)
}

/// Runs a program to its end, and shows what it said only if it failed.
pub(crate) async fn run(command: &mut Command) -> Result<()> {
    let output = tokio::time::timeout(PATIENCE, command.stdin(Stdio::null()).output()).await;
    let output = output.context("it does not end")?.context("it cannot be started")?;
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    ensure!(output.status.success(), "{}\n{said}", output.status);
    Ok(())
}

impl Tools {
    /// The environment, made now if there is none. `None`, with a word on how to mend it: this machine has no Python that
    /// can make one.
    pub(crate) async fn ready() -> Result<Option<Self>> {
        let program = std::env::current_exe()?;
        let target = program.ancestors().nth(3).context("a test lies in target/<profile>/deps")?;
        let folder = target.join("openapi-tools");
        let (tools, mark) = (Self { folder: folder.clone() }, folder.join("installed.txt"));
        if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == REQUIREMENTS) {
            return Ok(Some(tools));
        }
        let probe = Command::new("python3").args(["-c", "import ensurepip, venv"]).stderr(Stdio::null()).status().await;
        if !probe.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: the API is not compared with its document, for want of python3 with venv");
            eprintln!("         (Debian: apt-get install python3 python3-venv; ./dev test does it as root)");
            return Ok(None);
        }
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder)).await.context("venv")?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
        run(tools.command("python").args(install).arg(here("requirements.txt"))).await.context("pip install")?;
        std::fs::write(mark, REQUIREMENTS)?;
        Ok(Some(tools))
    }

    /// Where files of a run may lie.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// One of the installed programs.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join("bin").join(name));
        command.kill_on_drop(true).current_dir(&self.folder);
        command
    }

    /// schemathesis against this document, with every check it has.
    pub(crate) fn schemathesis(&self, document: &Path, url: &str, key: &str, more: &[&str]) -> Command {
        let mut command = self.command("schemathesis");
        command.arg("run").arg(document);
        command.env("SCHEMATHESIS_HOOKS", here("hooks.py"));
        command
            .args([
                "--url",
                url,
                "-H",
                key,
                "--checks",
                "all",
                "--exclude-checks",
                REPLACED,
                "--continue-on-failure",
                "--seed",
                SEED,
                "--no-color",
            ])
            .args(more);
        command
    }
}
