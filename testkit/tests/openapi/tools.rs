//! Third-party programs, installed once in a Python virtual environment under `target/`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use tokio::sync::Mutex;

/// The time limit of a program, for a slow machine.
const TIMEOUT: Duration = Duration::from_secs(900);
const REQUIREMENTS: &str = include_str!("requirements.txt");
const SEED: &str = "20261121";
/// Held during the installation, for which several tests may ask at once.
static INSTALLATION: Mutex<()> = Mutex::const_new(());
/// The check that hooks.py replaces with one for this API.
const REPLACED: &str = "positive_data_acceptance";

pub(crate) struct Tools {
    folder: PathBuf,
}

/// The path of a file of this test.
pub(crate) fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi").join(name)
}

/// Runs a program and shows its output only if it fails.
pub(crate) async fn run(command: &mut Command) -> Result<()> {
    let output = tokio::time::timeout(TIMEOUT, command.stdin(Stdio::null()).output()).await;
    let output = output.context("the program timed out")?.context("the program cannot be started")?;
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    ensure!(output.status.success(), "{}\n{printed}", output.status);
    Ok(())
}

impl Tools {
    /// Installs the programs unless they are installed. `None`, with a hint on stderr, if this machine cannot.
    pub(crate) async fn install_once() -> Result<Option<Self>> {
        let _alone = INSTALLATION.lock().await;
        let program = std::env::current_exe()?;
        let target = program.ancestors().nth(3).context("tests are in target/<profile>/deps")?;
        let folder = target.join("openapi-tools");
        let (tools, marker) = (Self { folder: folder.clone() }, folder.join("installed.txt"));
        if std::fs::read_to_string(&marker).is_ok_and(|installed| installed == REQUIREMENTS) {
            return Ok(Some(tools));
        }
        let probe = Command::new("python3").args(["-c", "import ensurepip, venv"]).stderr(Stdio::null()).status().await;
        if !probe.is_ok_and(|status| status.success()) {
            eprintln!(
                "SKIPPED: the API was not compared with its document, because this machine has no python3 with venv"
            );
            eprintln!("         (Debian: apt-get install python3 python3-venv; ./dev test does it as root)");
            return Ok(None);
        }
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder)).await.context("venv")?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
        run(tools.command("python").args(install).arg(path_of("requirements.txt"))).await.context("pip install")?;
        std::fs::write(marker, REQUIREMENTS)?;
        Ok(Some(tools))
    }

    /// A folder for the files of a run.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// One of the installed programs.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join("bin").join(name));
        command.kill_on_drop(true).current_dir(&self.folder);
        command
    }

    /// schemathesis with this document and all its checks.
    pub(crate) fn schemathesis(&self, document: &Path, url: &str, key: &str, more: &[&str]) -> Command {
        let mut command = self.command("schemathesis");
        command.arg("run").arg(document);
        command.env("SCHEMATHESIS_HOOKS", path_of("hooks.py"));
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
