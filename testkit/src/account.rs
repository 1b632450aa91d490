//! Runs `ctl` as an operator does, and the merchant account that it creates.

use std::{path::Path, process::Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{io::AsyncWriteExt, process::Command};

use crate::process::Environment;

/// The id and the keys of an account, as printed once by `ctl accounts create`.
#[derive(Clone, Debug, Deserialize)]
pub struct Account {
    /// `acct_…`
    pub id: String,
    /// Authenticates the merchant's server.
    pub secret_key: String,
    /// Identifies the secret key without revealing it.
    pub secret_key_id: String,
    /// Safe to use in a browser.
    pub publishable_key: String,
    /// Signs requests; only live accounts have one.
    pub signing_secret: Option<String>,
}

/// A user of the portal, as printed by `ctl users create`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PortalUser {
    /// To sign in with.
    pub email: String,
    /// Printed only once.
    pub password: String,
}

/// Creates a user of the portal with this role for the merchant of an account.
pub(crate) async fn portal_user(
    program: &Path,
    environment: &Environment,
    account: &str,
    email: &str,
    role: &str,
) -> Result<PortalUser> {
    let merchant = merchant_of(program, environment, account).await?;
    let arguments = ["users", "create", "--merchant", &merchant, "--email", email, "--role", role];
    let created = run_ctl(program, environment, &arguments).await?;
    serde_json::from_value(created).context("ctl did not print a user")
}

/// The merchant of an account.
pub(crate) async fn merchant_of(program: &Path, environment: &Environment, account: &str) -> Result<String> {
    let listed = run_ctl(program, environment, &["accounts", "list"]).await?;
    let rows = listed["accounts"].as_array().context("ctl did not print accounts")?;
    let row = rows.iter().find(|row| row["id"] == account).with_context(|| format!("there is no {account}"))?;
    Ok(row["merchant"].as_str().context("ctl did not print the merchant")?.to_owned())
}

/// The result of running `ctl`.
#[derive(Clone, Debug)]
pub struct CommandOutput {
    /// The exit code.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl CommandOutput {
    /// Standard output as JSON; null if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_default()
    }
}

/// Runs `ctl` and returns its output whether it succeeds or fails.
pub(crate) async fn ctl_output(program: &Path, environment: &Environment, arguments: &[&str]) -> Result<CommandOutput> {
    let mut command = Command::new(program);
    command.args(arguments).envs(environment).stdin(Stdio::null());
    let output = command.output().await.with_context(|| format!("cannot start {}", program.display()))?;
    Ok(CommandOutput {
        code: output.status.code().context("ctl was killed")?,
        stdout: String::from_utf8(output.stdout).context("the output of ctl is not UTF-8")?,
        stderr: String::from_utf8(output.stderr).context("the error output of ctl is not UTF-8")?,
    })
}

/// As [`ctl_output`], but standard output is a pipe whose reading end is already closed.
pub(crate) async fn ctl_with_closed_stdout(
    program: &Path,
    environment: &Environment,
    arguments: &[&str],
) -> Result<CommandOutput> {
    let (reader, writer) = std::io::pipe().context("cannot create a pipe")?;
    drop(reader);
    let mut command = Command::new(program);
    command.args(arguments).envs(environment).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
    let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    let output = child.wait_with_output().await.context("cannot wait for ctl")?;
    Ok(CommandOutput {
        code: output.status.code().context("ctl was killed")?,
        stdout: String::new(),
        stderr: String::from_utf8(output.stderr).context("the error output of ctl is not UTF-8")?,
    })
}

/// Runs `ctl` with `--json` and returns the object it prints.
pub(crate) async fn run_ctl(program: &Path, environment: &Environment, arguments: &[&str]) -> Result<Value> {
    let stdout = run(program, environment, &[arguments, &["--json"]].concat()).await?;
    serde_json::from_slice(&stdout).with_context(|| format!("ctl {} did not print JSON", arguments.join(" ")))
}

/// As [`run_ctl`], with `input` on standard input.
pub(crate) async fn run_ctl_with(
    program: &Path,
    environment: &Environment,
    arguments: &[&str],
    input: &str,
) -> Result<Value> {
    let stdout = run_with(program, environment, &[arguments, &["--json"]].concat(), input).await?;
    serde_json::from_slice(&stdout).with_context(|| format!("ctl {} did not print JSON", arguments.join(" ")))
}

/// Runs one of our programs and returns its standard output. A non-zero exit code is an error.
pub(crate) async fn run(program: &Path, environment: &Environment, arguments: &[&str]) -> Result<Vec<u8>> {
    run_with(program, environment, arguments, "").await
}

async fn run_with(program: &Path, environment: &Environment, arguments: &[&str], input: &str) -> Result<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(arguments).envs(environment);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let command_line = format!("{} {}", program.display(), arguments.join(" "));
    let mut child = command.spawn().with_context(|| format!("cannot start {command_line}"))?;
    // A program that exits without reading its input breaks the pipe; its exit code and message matter more than that.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = child.wait_with_output().await.with_context(|| format!("cannot wait for {command_line}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command_line} failed ({}): {}", output.status, stderr.trim());
    Ok(output.stdout)
}
