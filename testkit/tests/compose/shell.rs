//! Running commands of the host.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Runs a command and returns its stdout; a failure carries its stderr.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed ({}): {}", output.status, stderr.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `ip` with the words of `line`.
pub(crate) fn ip(line: &str) -> Result<()> {
    run(Command::new("ip").args(line.split(' '))).map(drop)
}

/// A word quoted for bash.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
