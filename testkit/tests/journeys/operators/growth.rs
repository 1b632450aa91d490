//! The database grows: how large it is, whose the work is, and how all of an account's keys end at once.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Client, Cluster, Kind};

use super::refused;
use crate::faults::own_cluster;
use crate::support::{Merchant, eventually, figure, merchant, ok, refused as refusal};

/// So many events of an account, so long ago.
async fn happened(merchant: &Merchant, count: i32, ago: &str) -> Result<()> {
    let events = sqlx::query(
        "INSERT INTO events (id, account_id, type, payload, created_at)
         SELECT new_ulid(at), $1, 'customer.created', repeat('x', 1000), at
         FROM (SELECT clock_timestamp() - $3::interval AS at FROM generate_series(1, $2)) e",
    );
    events.bind(merchant.books.account).bind(count).bind(ago).execute(&merchant.books.db).await?;
    Ok(())
}

#[tokio::test]
async fn the_size_of_the_database_and_of_its_tables_is_told() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    happened(&merchant, 3_000, "1 minute").await?;
    let query = "SELECT pg_database_size(current_database()), sum(pg_total_relation_size(inhrelid))::bigint
                 FROM pg_inherits WHERE inhparent = 'events'::regclass";
    let (database, events): (i64, i64) = sqlx::query_as(query).fetch_one(&merchant.books.db).await?;
    assert!(events > 3_000_000, "{events}");
    cluster.add(Kind::Scheduler).await?;
    let shown =
        async |name: &str| eventually(name, async || Ok(figure(&cluster, Kind::Scheduler, name).await.ok())).await;
    assert!(shown("database_bytes").await? >= database as f64);
    let of_events = shown("database_table_bytes{table=\"events\"}").await?;
    assert!(of_events >= events as f64 && of_events < database as f64, "all months together: {of_events}");
    assert!(shown("database_table_bytes{table=\"mock.transactions\"}").await? > 0.0);
    let metrics = Client::new(&cluster.metrics_url(Kind::Scheduler, 0))?.get("/metrics").await?;
    let metrics = String::from_utf8(metrics.bytes)?;
    let tables: Vec<_> = metrics.lines().filter(|line| line.starts_with("database_table_bytes")).collect();
    assert!((20..=100).contains(&tables.len()), "{tables:?}");
    assert!(tables.iter().all(|line| !line.contains("events_") && !line.contains("pg_")), "{tables:?}");
    Ok(())
}

#[tokio::test]
async fn the_busiest_account_is_told() -> Result<()> {
    let cluster = own_cluster().await?;
    let (busy, idle, former) =
        (Merchant::new(&cluster).await?, Merchant::new(&cluster).await?, Merchant::new(&cluster).await?);
    for _ in 0..5 {
        busy.customer().await?;
    }
    idle.customer().await?;
    happened(&former, 50, "2 hours").await?;
    let busiest = async |arguments: &[&str]| -> Result<Value> {
        cluster.ctl(&[&["accounts", "busiest"], arguments].concat()).await
    };
    let counted = |told: &Value| -> Vec<(String, i64)> {
        let rows = told["accounts"].as_array().expect("a list").iter();
        rows.map(|row| (row["id"].as_str().unwrap_or_default().to_owned(), row["events"].as_i64().unwrap_or(-1)))
            .collect()
    };
    let of = |merchant: &Merchant, events: i64| (merchant.account.id.clone(), events);

    let told = busiest(&[]).await?;
    assert_eq!(counted(&told), [of(&busy, 5), of(&idle, 1)], "of the last hour alone");
    assert_eq!((&told["events"], &told["more"]), (&json!(6), &json!(false)));
    assert_eq!((&told["accounts"][0]["mode"], told["accounts"][0]["name"].is_string()), (&json!("test"), true));
    assert_eq!(counted(&busiest(&["--last", "1d"]).await?), [of(&former, 50), of(&busy, 5), of(&idle, 1)]);
    let one = busiest(&["--last", "1d", "--limit", "1"]).await?;
    assert_eq!((counted(&one), &one["events"]), (vec![of(&former, 50)], &json!(56)), "the sum is that of all");
    refused(&cluster, &["accounts", "busiest", "--last", "yesterday"]).await?;

    // Who makes nothing that is told, and whose clock is on its way.
    let advancing = "INSERT INTO test_clocks (account_id, frozen_at, target, next_push_at, lease_until)
                     VALUES ($1, now(), now() + interval '1 year', now() + interval '1 hour', now() + interval '1 hour')";
    sqlx::query(advancing).bind(former.books.account).execute(&former.books.db).await?;
    let told = busiest(&[]).await?;
    assert_eq!(counted(&told), [of(&busy, 5), of(&idle, 1), of(&former, -1)]);
    let last = &told["accounts"][2];
    assert!(last["clock_at"].as_str() < last["clock_target"].as_str(), "{last}");
    Ok(())
}

#[tokio::test]
async fn all_keys_of_an_account_are_revoked_at_once() -> Result<()> {
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
        "two secret ones and a publishable one: {revoked}"
    );
    for api in [&merchant.api, &second] {
        refusal(&api.get("/v1/payments").await?, 401, "authentication_failed");
    }
    let listed = cluster.ctl(&["keys", "list", "--account", account]).await?;
    assert!(listed["keys"].as_array().context("a list")?.iter().all(|key| key["revoked_at"].is_string()), "{listed}");
    let records = cluster.ctl(&["audit", "list", "--account", account]).await?;
    assert_eq!(records["audit"][0]["action"], "keys.revoke");
    assert_eq!(records["audit"][0]["detail"]["keys"], revoked["revoked"]);
    ok(&other.api.get("/v1/payments").await?);

    assert_eq!(cluster.ctl(&all).await?["revoked"], json!([]), "there are none left");
    refused(cluster, &["keys", "revoke", "--account", "acct_00000000000000000000000000"]).await?;
    refused(cluster, &["keys", "revoke"]).await?;
    refused(cluster, &["keys", "revoke", &merchant.account.secret_key_id, "--account", account]).await?;
    let again = cluster.ctl(&["keys", "create", "--account", account, "--kind", "secret"]).await?;
    ok(&Client::new(merchant.api.base())?.bearer(again["key"].as_str().context("a key")?)?.get("/v1/payments").await?);
    Ok(())
}
