//! The output of `ctl`: tables by default, and no error when stdout is closed.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use crate::support::{cluster, merchant};

#[tokio::test]
async fn a_closed_stdout_is_not_an_error() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let payment = merchant.charge(100).await?;
    let account = merchant.account.id.as_str();
    for command in [
        &["accounts", "list"][..],
        &["keys", "list", "--json"],
        &["payments", "why", &payment],
        &["why", &payment],
        &["operations", "list"],
        &["audit", "list"],
        &["webhooks", "list"],
        &["differences", "list"],
        &["due", "billing"],
        &["accounts", "set", account, "--name", "Renamed"],
        &["gateway", "audit", "list"],
        &["--help"],
        &["help", "keys"],
    ] {
        let output = cluster.ctl_with_closed_stdout(command).await?;
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{}", command.join(" "));
    }
    let doctor = cluster.ctl_with_closed_stdout(&["doctor"]).await?;
    assert!(doctor.code <= 2 && !doctor.stderr.contains("panicked"), "{doctor:?}");
    let refused = cluster.ctl_with_closed_stdout(&["payments", "why", "pay_00000000000000000000000000"]).await?;
    assert_eq!(refused.code, 1, "a failure still exits with 1");
    Ok(())
}

#[tokio::test]
async fn lists_are_printed_as_tables() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let output = cluster.ctl_output(&["keys", "list", "--account", &merchant.account.id]).await?;
    let lines: Vec<_> = output.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "a header and two keys: {}", output.stdout);
    let column = lines[0].find("KIND").context("a column")?;
    let kind = |line: &&str| line[column..].split_whitespace().next().unwrap_or_default().to_owned();
    let kinds: BTreeSet<_> = lines[1..].iter().map(kind).collect();
    assert_eq!(kinds, BTreeSet::from(["publishable", "secret"].map(str::to_owned)), "{}", output.stdout);
    assert!(!output.stdout.contains(&merchant.account.secret_key), "no secret");
    Ok(())
}
