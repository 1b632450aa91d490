//! Runs the published integration examples from copies in the target folder, with the public libraries they require.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::process::Command;

/// Runs pip from the wheel that comes with Python: to install it first takes longer than to install the libraries.
const PIP: &str = r#"
import ensurepip, pathlib, runpy, sys, sysconfig
folders = [pathlib.Path(ensurepip.__file__).parent / "_bundled", sysconfig.get_config_var("WHEEL_PKG_DIR")]
wheels = [wheel for folder in folders if folder for wheel in pathlib.Path(folder).glob("pip-*.whl")]
sys.path.insert(0, str(wheels[0]))
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"#;

/// A program of an example, with its libraries installed.
#[derive(Debug)]
pub struct Example {
    folder: PathBuf,
    program: PathBuf,
    file: &'static str,
}

impl Example {
    /// `examples/<name>/<file>` in Python, with the libraries of its `requirements.txt`; `None` if this machine has no
    /// Python.
    ///
    /// # Errors
    /// When the libraries cannot be installed.
    pub async fn in_python(name: &str, file: &'static str) -> Result<Option<Self>> {
        if !has_python().await {
            return skipped(name, file, "python3 with venv");
        }
        let folder = folder(name, "python", &[file, "requirements.txt"])?;
        let python = install_in_python(&folder).await?.join("python");
        Ok(Some(Self { program: python, folder, file }))
    }

    /// `examples/<name>/<file>` in Node, with the libraries of its `package.json`; `None` if this machine has no Node.
    ///
    /// # Errors
    /// When the libraries cannot be installed.
    pub async fn in_node(name: &str, file: &'static str) -> Result<Option<Self>> {
        if !succeeds("node", &["--version"]).await || !succeeds("npm", &["--version"]).await {
            return skipped(name, file, "node and npm");
        }
        let folder = folder(name, "node", &[file, "package.json"])?;
        let npm = command("npm", &["install", "--no-audit", "--no-fund", "--prefix", "."], &folder);
        install(&folder, "package.json", vec![npm]).await?;
        Ok(Some(Self { program: "node".into(), folder, file }))
    }

    /// The folder of the copy, which also holds the libraries: `venv` or `node_modules`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The command that runs it.
    #[must_use]
    pub fn command(&self) -> Command {
        command(&self.program, &[self.file], &self.folder)
    }
}

/// A file of a public npm package, installed in the target folder; `None` if this machine has no npm. npm refuses a package
/// with another hash than `integrity`.
///
/// # Errors
/// When it cannot be installed.
pub async fn package_file(package: &str, version: &str, integrity: &str, file: &str) -> Result<Option<PathBuf>> {
    if !succeeds("npm", &["--version"]).await {
        writeln!(std::io::stderr(), "SKIPPED: {package} was not used, because this machine has no npm")?;
        return Ok(None);
    }
    let folder = target()?.join("packages").join(package);
    fs::create_dir_all(&folder)?;
    let (wanted, place) = (json!({package: version}), format!("node_modules/{package}"));
    let resolved = format!("https://registry.npmjs.org/{package}/-/{package}-{version}.tgz");
    let locked = json!({"version": version, "resolved": resolved, "integrity": integrity});
    let packages = json!({"": {"dependencies": wanted}, place: locked});
    let lock = json!({"lockfileVersion": 3, "requires": true, "packages": packages});
    for (name, content) in
        [("package.json", json!({"private": true, "dependencies": wanted})), ("package-lock.json", lock)]
    {
        let (file, content) = (folder.join(name), content.to_string());
        // Another process may read it.
        if fs::read_to_string(&file).ok().as_deref() != Some(content.as_str()) {
            fs::write(file, content)?;
        }
    }
    let npm = command("npm", &["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", "."], &folder);
    install(&folder, "package-lock.json", vec![npm]).await?;
    Ok(Some(folder.join("node_modules").join(package).join(file)))
}

/// A program of a public Python package, installed in the target folder; `None` if this machine has no Python.
///
/// # Errors
/// When it cannot be installed.
pub async fn python_program(package: &str, version: &str, program: &str) -> Result<Option<PathBuf>> {
    if !has_python().await {
        writeln!(std::io::stderr(), "SKIPPED: {package} was not used, because this machine has no python3 with venv")?;
        return Ok(None);
    }
    let folder = target()?.join("packages").join(package);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("requirements.txt"), format!("{package}=={version}\n"))?;
    Ok(Some(install_in_python(&folder).await?.join(program)))
}

/// Runs a command and returns its output.
///
/// # Errors
/// When it fails, with its output.
pub async fn run(mut command: Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().await.with_context(|| format!("{command:?}"))?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    ensure!(output.status.success(), "{command:?} failed: {text}");
    Ok(text)
}

/// Copies these files of an example into the target folder. The libraries installed there are reused by the next run.
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
    Ok(test.ancestors().nth(3).context("the test binary is not in target/<profile>/deps")?.to_path_buf())
}

/// Whether the program is installed and this invocation succeeds.
async fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().await.is_ok_and(|status| status.success())
}

async fn has_python() -> bool {
    succeeds("python3", &["-c", "import ensurepip, venv"]).await
}

/// Installs what `requirements.txt` of this folder lists, and returns the folder of its programs.
async fn install_in_python(folder: &Path) -> Result<PathBuf> {
    let programs = folder.join("venv/bin");
    let options = ["--quiet", "--disable-pip-version-check", "--no-compile", "-r", "requirements.txt"];
    let commands = vec![
        command("python3", &["-m", "venv", "--clear", "--without-pip", "venv"], folder),
        command(programs.join("python"), &[&["-c", PIP, "install"][..], &options].concat(), folder),
    ];
    install(folder, "requirements.txt", commands).await?;
    Ok(programs)
}

/// Bypasses the output capture of the test harness: a skipped test must not look like a passed one.
fn skipped(name: &str, file: &str, missing: &str) -> Result<Option<Example>> {
    writeln!(std::io::stderr(), "SKIPPED: examples/{name}/{file} was not run, because this machine has no {missing}")?;
    Ok(None)
}

/// Installs the libraries unless the ones listed in this file are already installed. Tests of several processes use the
/// same folder, so one installs at a time.
async fn install(folder: &Path, manifest: &str, commands: Vec<Command>) -> Result<()> {
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    let (required, stamp) = (fs::read(folder.join(manifest))?, folder.join("installed"));
    if fs::read(&stamp).is_ok_and(|installed| installed == required) {
        return Ok(());
    }
    for command in commands {
        run(command).await.context("installing libraries needs access to their registry")?;
    }
    Ok(fs::write(stamp, required)?)
}

fn command(program: impl AsRef<OsStr>, arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).kill_on_drop(true);
    command
}
