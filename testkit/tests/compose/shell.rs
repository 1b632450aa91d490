//! Commands of the machine.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Runs a command to its end and gives back what it printed.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed ({}): {}", output.status, complaint.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The words of a command line, with spaces between them.
pub(crate) fn ip(line: &str) -> Result<()> {
    run(Command::new("ip").args(line.split(' '))).map(drop)
}

/// A word as bash reads it back.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
