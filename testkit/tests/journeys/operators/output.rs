//! The output of `ctl`: tables by default, no error when stdout is closed, and no characters that control a terminal.
//! Also that a command uses one connection.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use sqlx::{Connection as _, PgConnection};
use testkit::Cluster;

use crate::support::{cluster, merchant, uuid};

/// A connection costs Postgres more than most commands do.
#[tokio::test]
async fn a_command_uses_one_connection() -> Result<()> {
    let cluster = Cluster::builder().start().await?;
    let mut owner = PgConnection::connect(cluster.database_url()).await?;
    let limit = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT 1', current_database()); END $$";
    sqlx::query(limit).execute(&mut owner).await?;
    owner.close().await?;
    let account = cluster.account_with(&["--mode", "test", "--provider", "mock"]).await?.id;
    for command in [
        &["accounts", "set", &account, "--name", "Renamed"][..],
        &["mock", "set", &account, "--reject"],
        &["keys", "create", "--account", &account, "--kind", "secret"],
        &["audit", "list"],
        &["reencrypt"],
    ] {
        cluster.ctl(command).await?;
    }
    Ok(())
}

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

/// Merchants, customers and providers wrote much of what `ctl` prints.
#[tokio::test]
async fn no_text_controls_the_terminal() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let (payment, account) = (merchant.charge(100).await?, merchant.account.id.as_str());
    let hostile = "all is well\r\n\u{202e}\u{2066}\u{61c}\u{9b}2J\u{1b}[2J\u{7f}";
    for statement in [
        "UPDATE mock.transactions SET unique_reference = $1, reference = $1
         WHERE reference IN (SELECT reference FROM operations WHERE payment_id = $2)",
        "UPDATE accounts SET name = $1 WHERE id = (SELECT account_id FROM payments WHERE id = $2)",
    ] {
        let changed = sqlx::query(statement).bind(hostile).bind(uuid(&payment)?).execute(&merchant.books.db).await?;
        ensure!(changed.rows_affected() == 1, "{statement}");
    }
    let day: String = sqlx::query_scalar("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')")
        .fetch_one(&merchant.books.db)
        .await?;
    for (arguments, prints_it) in [
        (&["reconcile", "--account", account, "--day", &day][..], true),
        (&["accounts", "list"], true),
        (&["why", &payment], true),
        (&["doctor"], false),
        (&["gateway", "account", "set", "--username", hostile], true),
    ] {
        for json in [None, Some("--json")] {
            let output = cluster.ctl_output(&[arguments, json.as_slice()].concat()).await?;
            let printed = output.stdout + &output.stderr;
            ensure!(printed.contains("all is well") || !prints_it, "{arguments:?}: {printed}");
            let is_harmful = |c: char| c != '\n' && (c.is_control() || !c.is_ascii() && hostile.contains(c));
            ensure!(!printed.contains(is_harmful), "{arguments:?}: {printed:?}");
            ensure!(!printed.contains("\nall is") && !printed.contains("well\n"), "{arguments:?}: {printed:?}");
        }
    }
    Ok(())
}
