//! What `ctl` prints for people: tables, and nothing to a reader that has gone.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use crate::support::{cluster, merchant};

#[tokio::test]
async fn a_reader_that_has_gone_is_no_fault_of_any_command() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let payment = merchant.sold(100).await?;
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
        let ended = cluster.ctl_unread(command).await?;
        assert_eq!((ended.code, ended.complaint.as_str()), (0, ""), "{}", command.join(" "));
    }
    let doctor = cluster.ctl_unread(&["doctor"]).await?;
    assert!(doctor.code <= 2 && !doctor.complaint.contains("panicked"), "{doctor:?}");
    let refused = cluster.ctl_unread(&["payments", "why", "pay_00000000000000000000000000"]).await?;
    assert_eq!(refused.code, 1, "a failure stays one");
    Ok(())
}

#[tokio::test]
async fn a_list_is_a_table_for_people() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let shown = cluster.ctl_to_its_end(&["keys", "list", "--account", &merchant.account.id]).await?;
    let lines: Vec<_> = shown.printed.lines().collect();
    assert_eq!(lines.len(), 3, "a head and two keys: {}", shown.printed);
    let column = lines[0].find("KIND").context("a column")?;
    let kind = |line: &&str| line[column..].split_whitespace().next().unwrap_or_default().to_owned();
    let kinds: BTreeSet<_> = lines[1..].iter().map(kind).collect();
    assert_eq!(kinds, BTreeSet::from(["publishable", "secret"].map(str::to_owned)), "{}", shown.printed);
    assert!(!shown.printed.contains(&merchant.account.secret_key), "no secret");
    Ok(())
}
