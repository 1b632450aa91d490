//! The sandbox program, as far as it can be tried beside a running one.

use std::{fs, process::Command};

use anyhow::Result;
use testkit::TempDir;

fn sandbox(root: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandbox"));
    command.args(arguments).env("UNIFIED_PAYMENTS_ROOT", root.path());
    command
}

#[test]
fn a_command_gets_a_migrated_database_and_its_exit_code_comes_back() -> Result<()> {
    let root = TempDir::new()?;
    let seen = root.path().join("seen");
    let script = format!("printf %s \"$DATABASE_URL\" > '{}'; exit 7", seen.display());
    let status = sandbox(&root, &["database", "--", "sh", "-c", &script]).status()?;
    assert_eq!(status.code(), Some(7));
    assert!(fs::read_to_string(seen)?.starts_with("postgres://"));
    Ok(())
}

#[test]
fn without_a_running_sandbox_ctl_says_so_and_reset_succeeds() -> Result<()> {
    let root = TempDir::new()?;
    let refused = sandbox(&root, &["ctl", "accounts", "list"]).output()?;
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr)?.contains("does not run"));
    assert!(sandbox(&root, &["reset"]).status()?.success());
    Ok(())
}
