//! The examples that merchants copy: run from copies in the target folder, with the public libraries they name.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

/// A program of an example, with its libraries installed.
#[derive(Debug)]
pub struct Example {
    folder: PathBuf,
    program: PathBuf,
    file: &'static str,
}

impl Example {
    /// `examples/<name>/<file>` in Python, with what its `requirements.txt` names; none if this machine has no Python.
    ///
    /// # Errors
    /// When the libraries cannot be installed.
    pub async fn in_python(name: &str, file: &'static str) -> Result<Option<Self>> {
        if !can("python3", &["-c", "import ensurepip, venv"]).await {
            return skipped(name, file, "python3 with venv");
        }
        let folder = folder(name, "python", &[file, "requirements.txt"])?;
        let pip = folder.join("venv/bin/pip");
        let commands = vec![
            command("python3", &["-m", "venv", "--clear", "venv"], &folder),
            command(pip, &["install", "--quiet", "-r", "requirements.txt"], &folder),
        ];
        install(&folder, "requirements.txt", commands).await?;
        Ok(Some(Self { program: folder.join("venv/bin/python"), folder, file }))
    }

    /// `examples/<name>/<file>` in Node, with what its `package.json` names; none if this machine has no Node.
    ///
    /// # Errors
    /// When the libraries cannot be installed.
    pub async fn in_node(name: &str, file: &'static str) -> Result<Option<Self>> {
        if !can("node", &["--version"]).await || !can("npm", &["--version"]).await {
            return skipped(name, file, "node and npm");
        }
        let folder = folder(name, "node", &[file, "package.json"])?;
        let npm = command("npm", &["install", "--no-audit", "--no-fund", "--prefix", "."], &folder);
        install(&folder, "package.json", vec![npm]).await?;
        Ok(Some(Self { program: "node".into(), folder, file }))
    }

    /// Where its copy lies, beside the libraries: `venv` or `node_modules`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What runs it.
    #[must_use]
    pub fn command(&self) -> Command {
        command(&self.program, &[self.file], &self.folder)
    }
}

/// A file of a public package for Node, installed in the target folder for tests that need it; none if this machine has no npm.
///
/// # Errors
/// When it cannot be installed.
pub async fn file_of_package(package: &str, version: &str, file: &str) -> Result<Option<PathBuf>> {
    if !can("npm", &["--version"]).await {
        writeln!(std::io::stderr(), "SKIPPED: {package} was not used, because this machine has no npm")?;
        return Ok(None);
    }
    let folder = target()?.join("packages").join(package);
    fs::create_dir_all(&folder)?;
    fs::write(
        folder.join("package.json"),
        format!(r#"{{"private": true, "dependencies": {{"{package}": "{version}"}}}}"#),
    )?;
    let npm = command("npm", &["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", "."], &folder);
    install(&folder, "package.json", vec![npm]).await?;
    Ok(Some(folder.join("node_modules").join(package).join(file)))
}

/// Runs a command to its end and answers what it said.
///
/// # Errors
/// When it fails; with what it said.
pub async fn run(mut command: Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().await.with_context(|| format!("{command:?}"))?;
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    ensure!(output.status.success(), "{command:?} failed: {said}");
    Ok(said)
}

/// A folder of this example in the target folder, with copies of these files; its libraries stay there for the next run.
fn folder(name: &str, language: &str, files: &[&str]) -> Result<PathBuf> {
    let target = target()?;
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    let to = target.join("examples").join(name).join(language);
    fs::create_dir_all(&to)?;
    for file in files {
        fs::copy(from.join(file), to.join(file)).with_context(|| format!("examples/{name}/{file}"))?;
    }
    Ok(to)
}

fn target() -> Result<PathBuf> {
    let test = env::current_exe()?;
    Ok(test.ancestors().nth(3).context("a test lies in target/<profile>/deps")?.to_path_buf())
}

/// Whether the machine has a program that can do this.
async fn can(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().await.is_ok_and(|status| status.success())
}

/// Past the capture of the test harness: nobody may take it for a test that has passed.
fn skipped(name: &str, file: &str, lacks: &str) -> Result<Option<Example>> {
    writeln!(std::io::stderr(), "SKIPPED: examples/{name}/{file} was not run, because this machine has no {lacks}")?;
    Ok(None)
}

/// Installs the libraries unless those that this file names are installed.
async fn install(folder: &Path, named_in: &str, commands: Vec<Command>) -> Result<()> {
    let (wanted, stamp) = (fs::read(folder.join(named_in))?, folder.join("installed"));
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    for command in commands {
        run(command).await.context("the registry of the libraries is needed once")?;
    }
    Ok(fs::write(stamp, wanted)?)
}

fn command(program: impl AsRef<OsStr>, arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).kill_on_drop(true);
    command
}
