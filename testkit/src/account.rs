//! A merchant's account as the operator's tool makes it.

use std::{path::Path, process::Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use tokio::{io::AsyncWriteExt, process::Command};

use crate::process::Environment;

/// The identity and the keys of an account, as `ctl accounts create` prints them once.
#[derive(Clone, Debug, Deserialize)]
pub struct Account {
    /// `acct_…` or its like.
    pub id: String,
    /// Acts for the merchant's server.
    pub secret_key: String,
    /// Names the secret key without being it.
    pub secret_key_id: String,
    /// May be shown in a browser.
    pub publishable_key: String,
    /// Signs requests; live accounts have one.
    pub signing_secret: Option<String>,
}

/// How a run of `ctl` ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub printed: String,
    /// What it complained about.
    pub complaint: String,
}

impl Ended {
    /// What it printed with `--json`; null if that is no JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.printed).unwrap_or_default()
    }
}

/// Runs `ctl` to its end, whatever that is.
pub(crate) async fn ctl_to_its_end(program: &Path, environment: &Environment, arguments: &[&str]) -> Result<Ended> {
    let mut command = Command::new(program);
    command.args(arguments).envs(environment).stdin(Stdio::null());
    let output = command.output().await.with_context(|| format!("cannot start {}", program.display()))?;
    Ok(Ended {
        code: output.status.code().context("ctl was killed")?,
        printed: String::from_utf8(output.stdout).context("ctl prints text")?,
        complaint: String::from_utf8(output.stderr).context("ctl complains in text")?,
    })
}

/// Runs `ctl` to its end while nobody reads what it prints: the other end of the pipe is closed before it starts.
pub(crate) async fn ctl_unread(program: &Path, environment: &Environment, arguments: &[&str]) -> Result<Ended> {
    let (reader, writer) = std::io::pipe().context("no pipe")?;
    drop(reader);
    let mut command = Command::new(program);
    command.args(arguments).envs(environment).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
    let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    let output = child.wait_with_output().await.context("ctl was lost")?;
    Ok(Ended {
        code: output.status.code().context("ctl was killed")?,
        printed: String::new(),
        complaint: String::from_utf8(output.stderr).context("ctl complains in text")?,
    })
}

/// Runs `ctl` with `--json` and gives back the one object it prints.
pub(crate) async fn run_ctl(program: &Path, environment: &Environment, arguments: &[&str]) -> Result<Value> {
    let printed = run(program, environment, &[arguments, &["--json"]].concat()).await?;
    serde_json::from_slice(&printed).with_context(|| format!("ctl {} printed no JSON", arguments.join(" ")))
}

/// The same with something on its standard input.
pub(crate) async fn run_ctl_with(
    program: &Path,
    environment: &Environment,
    arguments: &[&str],
    input: &str,
) -> Result<Value> {
    let printed = run_with(program, environment, &[arguments, &["--json"]].concat(), input).await?;
    serde_json::from_slice(&printed).with_context(|| format!("ctl {} printed no JSON", arguments.join(" ")))
}

/// Runs a program of ours to its end and gives back what it prints.
pub(crate) async fn run(program: &Path, environment: &Environment, arguments: &[&str]) -> Result<Vec<u8>> {
    run_with(program, environment, arguments, "").await
}

async fn run_with(program: &Path, environment: &Environment, arguments: &[&str], input: &str) -> Result<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(arguments).envs(environment);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let shown = format!("{} {}", program.display(), arguments.join(" "));
    let mut child = command.spawn().with_context(|| format!("cannot start {shown}"))?;
    // Who does not read it has ended before it is written; what that one says of it counts.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = child.wait_with_output().await.with_context(|| format!("cannot wait for {shown}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{shown} failed ({}): {}", output.status, complaint.trim());
    Ok(output.stdout)
}
