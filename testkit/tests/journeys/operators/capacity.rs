//! Database size, the busiest accounts, and revoking all keys of an account.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Client, Cluster, ProcessKind};

use super::ctl_error;
use crate::support::{Merchant, eventually, merchant, metric, ok, refused};

/// Inserts `count` events of an account, created `ago`.
async fn insert_events(merchant: &Merchant, count: i32, ago: &str) -> Result<()> {
    let events = sqlx::query(
        "INSERT INTO events (id, account_id, type, payload, created_at)
         SELECT new_ulid(at), $1, 'customer.created', repeat('x', 1000), at
         FROM (SELECT clock_timestamp() - $3::interval AS at FROM generate_series(1, $2)) e",
    );
    events.bind(merchant.books.account).bind(count).bind(ago).execute(&merchant.books.db).await?;
    Ok(())
}

#[tokio::test]
async fn database_and_table_sizes_are_exported() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    insert_events(&merchant, 3_000, "1 minute").await?;
    let query = "SELECT pg_database_size(current_database()), sum(pg_total_relation_size(inhrelid))::bigint
                 FROM pg_inherits WHERE inhparent = 'events'::regclass";
    let (database, events): (i64, i64) = sqlx::query_as(query).fetch_one(&merchant.books.db).await?;
    assert!(events > 3_000_000, "{events}");
    cluster.add(ProcessKind::Scheduler).await?;
    let gauge = async |name: &str| {
        eventually(name, async || Ok(metric(&cluster, ProcessKind::Scheduler, name).await.ok())).await
    };
    assert!(gauge("database_bytes").await? >= database as f64);
    let events_gauge = gauge("database_table_bytes{table=\"events\"}").await?;
    assert!(
        events_gauge >= events as f64 && events_gauge < database as f64,
        "all monthly partitions together: {events_gauge}"
    );
    assert!(gauge("database_table_bytes{table=\"mock.transactions\"}").await? > 0.0);
    let metrics = Client::new(&cluster.metrics_url(ProcessKind::Scheduler, 0))?.get("/metrics").await?;
    let metrics = String::from_utf8(metrics.bytes)?;
    let tables: Vec<_> = metrics.lines().filter(|line| line.starts_with("database_table_bytes")).collect();
    assert!((20..=100).contains(&tables.len()), "{tables:?}");
    assert!(tables.iter().all(|line| !line.contains("events_") && !line.contains("pg_")), "{tables:?}");
    Ok(())
}

#[tokio::test]
async fn the_busiest_accounts_are_listed() -> Result<()> {
    let cluster = Cluster::builder().api(1).start().await?;
    let (busy, idle, former) =
        (Merchant::new(&cluster).await?, Merchant::new(&cluster).await?, Merchant::new(&cluster).await?);
    for _ in 0..5 {
        busy.customer().await?;
    }
    idle.customer().await?;
    insert_events(&former, 50, "2 hours").await?;
    let busiest = async |arguments: &[&str]| -> Result<Value> {
        cluster.ctl(&[&["accounts", "busiest"], arguments].concat()).await
    };
    let counts = |output: &Value| -> Vec<(String, i64)> {
        let rows = output["accounts"].as_array().expect("a list").iter();
        rows.map(|row| (row["id"].as_str().unwrap_or_default().to_owned(), row["events"].as_i64().unwrap_or(-1)))
            .collect()
    };
    let expected = |merchant: &Merchant, events: i64| (merchant.account.id.clone(), events);

    let output = busiest(&[]).await?;
    assert_eq!(counts(&output), [expected(&busy, 5), expected(&idle, 1)], "only the last hour");
    assert_eq!((&output["events"], &output["more"]), (&json!(6), &json!(false)));
    assert_eq!((&output["accounts"][0]["mode"], output["accounts"][0]["name"].is_string()), (&json!("test"), true));
    assert_eq!(
        counts(&busiest(&["--last", "1d"]).await?),
        [expected(&former, 50), expected(&busy, 5), expected(&idle, 1)]
    );
    let limited = busiest(&["--last", "1d", "--limit", "1"]).await?;
    assert_eq!(
        (counts(&limited), &limited["events"]),
        (vec![expected(&former, 50)], &json!(56)),
        "the total includes all accounts"
    );
    ctl_error(&cluster, &["accounts", "busiest", "--last", "yesterday"]).await?;

    // An account without events whose test clock is advancing.
    let advancing = "INSERT INTO test_clocks (account_id, frozen_at, target, next_push_at, lease_until)
                     VALUES ($1, now(), now() + interval '1 year', now() + interval '1 hour', now() + interval '1 hour')";
    sqlx::query(advancing).bind(former.books.account).execute(&former.books.db).await?;
    let output = busiest(&[]).await?;
    assert_eq!(counts(&output), [expected(&busy, 5), expected(&idle, 1), expected(&former, -1)]);
    let last = &output["accounts"][2];
    assert!(last["clock_at"].as_str() < last["clock_target"].as_str(), "{last}");
    Ok(())
}

#[tokio::test]
async fn all_keys_of_an_account_can_be_revoked_together() -> Result<()> {
    let (cluster, merchant) = (crate::support::cluster().await?, merchant().await?);
    let account = merchant.account.id.as_str();
    let other = Merchant::new(cluster).await?;
    let second = cluster.ctl(&["keys", "create", "--account", account, "--kind", "secret"]).await?;
    let second = Client::new(merchant.api.base())?.bearer(second["key"].as_str().context("a key")?)?;
    let all = ["--as", "ada", "keys", "revoke", "--account", account];
    let revoked = cluster.ctl(&all).await?;
    assert_eq!(
        revoked["revoked"].as_array().map(Vec::len),
        Some(3),
        "two secret keys and a publishable key: {revoked}"
    );
    for api in [&merchant.api, &second] {
        refused(&api.get("/v1/payments").await?, 401, "authentication_failed");
    }
    let listed = cluster.ctl(&["keys", "list", "--account", account]).await?;
    assert!(listed["keys"].as_array().context("a list")?.iter().all(|key| key["revoked_at"].is_string()), "{listed}");
    let records = cluster.ctl(&["audit", "list", "--account", account]).await?;
    assert_eq!(records["audit"][0]["action"], "keys.revoke");
    assert_eq!(records["audit"][0]["detail"]["keys"], revoked["revoked"]);
    ok(&other.api.get("/v1/payments").await?);

    assert_eq!(cluster.ctl(&all).await?["revoked"], json!([]), "no keys are left");
    ctl_error(cluster, &["keys", "revoke", "--account", "acct_00000000000000000000000000"]).await?;
    ctl_error(cluster, &["keys", "revoke"]).await?;
    ctl_error(cluster, &["keys", "revoke", &merchant.account.secret_key_id, "--account", account]).await?;
    let new_key = cluster.ctl(&["keys", "create", "--account", account, "--kind", "secret"]).await?;
    ok(&Client::new(merchant.api.base())?
        .bearer(new_key["key"].as_str().context("a key")?)?
        .get("/v1/payments")
        .await?);
    Ok(())
}
