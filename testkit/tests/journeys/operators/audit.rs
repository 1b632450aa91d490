//! The audit log records each change of an operator, is append-only, and contains no secret.

use anyhow::Result;
use serde_json::{Value, json};

use super::{ctl_error, text, webhook_receiver};
use crate::support::{cluster, merchant};

async fn records(arguments: &[&str]) -> Result<Vec<Value>> {
    let listed = cluster().await?.ctl(&[&["audit", "list"], arguments].concat()).await?;
    Ok(listed["audit"].as_array().expect("a list").clone())
}

#[tokio::test]
async fn every_change_is_recorded_with_its_actor() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let account = merchant.account.id.as_str();
    let (_receiver, endpoint) = webhook_receiver(&merchant).await?;
    let by = |name: &'static str| ["--as", name];
    let key =
        cluster.ctl(&[&by("ada")[..], &["keys", "create", "--account", account, "--kind", "secret"]].concat()).await?;
    let key_id = text(&key, "id");
    cluster.ctl(&[&by("bob")[..], &["keys", "revoke", &key_id]].concat()).await?;
    cluster.ctl(&["accounts", "set", account, "--name", "Renamed", "--partial-refund", "off"]).await?;
    let rotated = cluster.ctl(&["webhooks", "rotate-secret", &endpoint]).await?;
    merchant.mock(cluster, &["--latency-ms", "1", "--class", "B"]).await?;

    let records = records(&["--account", account]).await?;
    let actions: Vec<_> = records.iter().rev().map(|record| text(record, "action")).collect();
    let expected =
        ["accounts.create", "keys.create", "keys.revoke", "accounts.set", "webhooks.rotate_secret", "mock.set"];
    assert_eq!(actions, expected);
    let newest_last: Vec<_> = records.iter().rev().collect();
    assert_eq!((&newest_last[1]["actor"], &newest_last[1]["object"]), (&"ada".into(), &json!(key_id)));
    assert_eq!(newest_last[2]["actor"], "bob");
    assert!(text(newest_last[3], "actor").contains('@'), "user and machine by default: {}", newest_last[3]);
    assert_eq!(newest_last[3]["detail"], json!({"name": "Renamed", "partial_refund": false}));
    assert_eq!(newest_last[4]["object"], json!(endpoint));
    assert_eq!(newest_last[5]["detail"]["class"], "B");
    assert!(newest_last.iter().all(|record| record["account"] == json!(account)));

    let log = json!(records).to_string();
    let secrets = [
        merchant.account.secret_key.as_str(),
        &merchant.account.publishable_key,
        key["key"].as_str().expect("a key"),
        rotated["secret"].as_str().expect("a secret"),
    ];
    for secret in secrets {
        assert!(!log.contains(secret), "a secret is in the audit log");
    }
    Ok(())
}

#[tokio::test]
async fn changes_require_an_actor_and_reads_do_not() -> Result<()> {
    let (cluster, nobody) = (cluster().await?, [("USER", ""), ("SUDO_USER", "")]);
    let create = ["accounts", "create", "--name", "Shop", "--mode", "test", "--provider", "mock"];
    let output = cluster.ctl_output_with(&nobody, &create).await?;
    assert!(output.code != 0 && output.stderr.contains("--as"), "{output:?}");
    let create = [&["--as", "ada"][..], &create, &["--json"]].concat();
    let created = cluster.ctl_output_with(&nobody, &create).await?.json();
    let list = ["audit", "list", "--json", "--account", created["id"].as_str().expect("an account")];
    let records = cluster.ctl_output_with(&nobody, &list).await?.json();
    let actors: Vec<_> = records["audit"].as_array().expect("a list").iter().map(|record| &record["actor"]).collect();
    assert_eq!(actors, ["ada"], "reads are not recorded and need no actor");
    Ok(())
}

#[tokio::test]
async fn rejected_commands_are_not_recorded() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let account = merchant.account.id.as_str();
    ctl_error(cluster, &["keys", "revoke", "key_00000000000000000000000000"]).await?;
    ctl_error(cluster, &["accounts", "set", account, "--timezone", "Nowhere/Here"]).await?;
    ctl_error(cluster, &["--as", "", "accounts", "set", account, "--name", "Nobody"]).await?;
    ctl_error(cluster, &["--as", "two\nlines", "accounts", "set", account, "--name", "Nobody"]).await?;
    assert_eq!(records(&["--account", account]).await?.len(), 1, "only the creation");
    Ok(())
}

#[tokio::test]
async fn the_audit_log_is_append_only() -> Result<()> {
    let merchant = merchant().await?;
    let db = &merchant.books.db;
    for statement in [
        "UPDATE audit_log SET actor = 'nobody'",
        "UPDATE audit_log SET actor = 'nobody' WHERE false",
        "DELETE FROM audit_log",
        "TRUNCATE audit_log",
        "INSERT INTO audit_log (id, actor, action) SELECT id, 'nobody', 'x' FROM audit_log
         ON CONFLICT (id) DO UPDATE SET actor = 'nobody'",
    ] {
        let error = sqlx::query(statement).execute(db).await.expect_err(statement);
        assert!(error.to_string().contains("only added to"), "{statement}: {error}");
    }
    let at = records(&["--account", &merchant.account.id]).await?[0]["at"].clone();
    let since = at.as_str().expect("a timestamp");
    assert_eq!(records(&["--account", &merchant.account.id, "--since", since]).await?.len(), 1);
    assert_eq!(records(&["--account", &merchant.account.id, "--since", "2999-01-01T00:00:00Z"]).await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn exports_continue_after_the_last_record() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let older = "INSERT INTO audit_log (id, actor, action, account_id)
                 SELECT new_ulid(now() - interval '1 hour' + make_interval(secs => n)), 'ada', 'tried.' || n, $1
                 FROM generate_series(1, 3) AS n";
    sqlx::query(older).bind(merchant.books.account).execute(&merchant.books.db).await?;
    let after = async |id: &str| {
        let arguments = ["audit", "list", "--account", &merchant.account.id, "--limit", "2", "--after", id];
        let listed = cluster.ctl(&arguments).await?;
        let rows = listed["audit"].as_array().expect("a list").clone();
        anyhow::Ok((rows, listed["more"].clone()))
    };
    let actions = |rows: &[Value]| rows.iter().map(|row| text(row, "action")).collect::<Vec<_>>();
    let (first, more) = after("aud_00000000000000000000000000").await?;
    assert_eq!((actions(&first), more), (vec!["tried.1".to_owned(), "tried.2".to_owned()], json!(true)));
    // The account's creation is less than a minute old, and left to the next export.
    let (rest, more) = after(&text(&first[1], "id")).await?;
    assert_eq!((actions(&rest), more), (vec!["tried.3".to_owned()], json!(false)));
    let newest = cluster.ctl(&["audit", "list", "--account", &merchant.account.id, "--limit", "3"]).await?;
    assert_eq!(newest["more"], true, "{newest}");
    Ok(())
}
