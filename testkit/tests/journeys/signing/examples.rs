//! The examples that merchants copy, with the public libraries they name, against a real api.

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::{customers, live};
use crate::support::cluster;

/// A folder of this example in the target folder, with copies of these files; its libraries stay there for the next run.
fn folder(name: &str, files: &[&str]) -> Result<PathBuf> {
    let test = env::current_exe()?;
    let target = test.ancestors().nth(3).context("a test lies in target/<profile>/deps")?;
    let (from, to) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/signing"), target.join("examples").join(name));
    fs::create_dir_all(&to)?;
    for file in files {
        fs::copy(from.join(file), to.join(file)).with_context(|| format!("examples/signing/{file}"))?;
    }
    Ok(to)
}

/// Whether the machine has a program that can do this.
async fn can(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().await.is_ok_and(|status| status.success())
}

/// Past the capture of the test harness: nobody may take it for a test that has passed.
fn skipped(what: &str, lacks: &str) -> Result<()> {
    writeln!(std::io::stderr(), "SKIPPED: {what} was not run, because this machine has no {lacks}")?;
    Ok(())
}

async fn run(mut command: Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().await.with_context(|| format!("{command:?}"))?;
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    ensure!(output.status.success(), "{command:?} failed: {said}");
    Ok(said)
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

fn command(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).kill_on_drop(true);
    command
}

/// Runs an example as a new live merchant, who has one customer more by it.
async fn makes_a_customer(mut example: Command) -> Result<()> {
    let merchant = live(cluster().await?).await?;
    let account = &merchant.account;
    example
        .env("API_URL", merchant.api.base())
        .env("SECRET_KEY", &account.secret_key)
        .env("KEY_ID", &account.secret_key_id)
        .env("SIGNING_SECRET", account.signing_secret.as_deref().context("a signing secret")?);
    let said = run(example).await?;
    assert!(said.contains("201") && said.contains("ada@example.com"), "{said}");
    assert_eq!(customers(&merchant).await?, 1);
    Ok(())
}

#[tokio::test]
async fn the_example_in_python_is_accepted() -> Result<()> {
    if !can("python3", &["-c", "import ensurepip, venv"]).await {
        return skipped("examples/signing/sign.py", "python3 with venv");
    }
    let folder = folder("python", &["sign.py", "requirements.txt"])?;
    let pip = folder.join("venv/bin/pip");
    let commands = vec![
        command("python3", &["-m", "venv", "--clear", "venv"], &folder),
        command(pip, &["install", "--quiet", "-r", "requirements.txt"], &folder),
    ];
    install(&folder, "requirements.txt", commands).await?;
    makes_a_customer(command(folder.join("venv/bin/python"), &["sign.py"], &folder)).await
}

#[tokio::test]
async fn the_example_in_node_is_accepted() -> Result<()> {
    if !can("node", &["--version"]).await || !can("npm", &["--version"]).await {
        return skipped("examples/signing/sign.mjs", "node and npm");
    }
    let folder = folder("node", &["sign.mjs", "package.json"])?;
    let npm = command("npm", &["install", "--no-audit", "--no-fund", "--prefix", "."], &folder);
    install(&folder, "package.json", vec![npm]).await?;
    makes_a_customer(command("node", &["sign.mjs"], &folder)).await
}
