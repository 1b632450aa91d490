//! Batch replay of webhooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use serde_json::json;

use super::{ctl_error, text};
use crate::support::{Receiver, Reply, cluster, created, eventually, id, merchant};

const LONG_AGO: &str = "2020-01-01T00:00:00Z";

#[tokio::test]
async fn missed_events_are_replayed_exactly_once() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let accepting = Arc::new(AtomicBool::new(false));
    let receiver = Receiver::start({
        let accepting = Arc::clone(&accepting);
        move |_| if accepting.load(Ordering::SeqCst) { Reply::ok() } else { Reply::status(500) }
    })
    .await?;
    let endpoint = merchant.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/hooks")})).await?;
    let endpoint = id(created(&endpoint))?;
    for amount in 1..=3 {
        created(&merchant.pay(amount).await?);
    }
    merchant.customer().await?;
    receiver.wait_for_requests("/hooks", 4).await?;
    let replay = ["webhooks", "replay", "--endpoint", &endpoint, "--since", LONG_AGO];
    let failed = [&replay[..], &["--failed-only"]].concat();
    let pending = cluster.ctl(&failed).await?;
    assert_eq!(pending["events"], 0, "pending deliveries are not replayed: {pending}");

    // Give up the pending deliveries.
    let abandoned = eventually("attempts that have been made", async || {
        let attempts = "SELECT count(*) FROM webhook_deliveries WHERE account_id = $1";
        let attempts: i64 =
            sqlx::query_scalar(attempts).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
        let abandon = "DELETE FROM webhook_pending WHERE account_id = $1 AND lease_until IS NULL";
        sqlx::query(abandon).bind(merchant.books.account).execute(&merchant.books.db).await?;
        let left = "SELECT count(*) FROM webhook_pending WHERE account_id = $1";
        let left: i64 = sqlx::query_scalar(left).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
        Ok((attempts >= 4 && left == 0).then_some(()))
    });
    abandoned.await?;
    accepting.store(true, Ordering::SeqCst);
    let before = receiver.count("/hooks");
    let dry_run = cluster.ctl(&[&failed[..], &["--dry-run"]].concat()).await?;
    assert_eq!((&dry_run["events"], &dry_run["replayed"]), (&4.into(), &0.into()), "{dry_run}");
    let payments = [&failed[..], &["--events", "payment.captured,payment.declined"]].concat();
    let done = cluster.ctl(&payments).await?;
    assert_eq!(done["replayed"], 3, "{done}");
    receiver.wait_for_requests("/hooks", before + 3).await?;
    let recorded = eventually("the replays to be recorded", async || {
        Ok((cluster.ctl(&payments).await?["events"] == 0).then_some(()))
    });
    recorded.await?;
    let rest = cluster.ctl(&failed).await?;
    assert_eq!(rest["replayed"], 1, "the event of the customer: {rest}");

    let all = cluster.ctl(&[&replay[..], &["--dry-run"]].concat()).await?;
    assert_eq!(all["events"], 4, "each event counts once, however often it was sent");
    let after = cluster.ctl(&[&replay[..], &["--dry-run", "--after", &text(&all, "first")]].concat()).await?;
    assert_eq!(after["events"], 3);
    let until = cluster.ctl(&[&replay[..], &["--dry-run", "--until", "2999-01-01T00:00:00Z"]].concat()).await?;
    assert_eq!(until["events"], 4);
    let none = cluster.ctl(&[&replay[..], &["--dry-run", "--until", LONG_AGO]].concat()).await?;
    assert_eq!(none["events"], 0);
    receiver.wait_for_requests("/hooks", before + 4).await?;
    let events: std::collections::HashSet<_> =
        receiver.received("/hooks")[before..].iter().map(|request| request.event()["id"].to_string()).collect();
    assert_eq!(events.len(), 4, "each event once");

    let listed = cluster.ctl(&["audit", "list", "--account", &merchant.account.id]).await?;
    let records = listed["audit"].as_array().expect("a list");
    let counts: Vec<_> = records
        .iter()
        .filter(|row| row["action"] == "webhooks.replay")
        .map(|row| row["detail"]["deliveries"].clone())
        .collect();
    assert_eq!(counts, [json!(1), json!(3)]);
    for bad in [
        &["webhooks", "replay", "--endpoint", "we_00000000000000000000000000", "--since", LONG_AGO][..],
        &["webhooks", "replay", "--endpoint", &endpoint, "--since", "yesterday"],
        &["webhooks", "replay", "--endpoint", &endpoint, "--since", LONG_AGO, "--events", "payment.unknown"],
    ] {
        ctl_error(cluster, bad).await?;
    }
    Ok(())
}

/// More deliveries than one query reads, most of them after the requested period.
#[tokio::test]
async fn a_period_of_a_busy_endpoint_can_be_replayed() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let (_receiver, endpoint) = super::webhook_receiver(&merchant).await?;
    let deliveries = "WITH happened AS (
                    INSERT INTO events (id, account_id, type, payload, created_at)
                    SELECT new_ulid(at), $1, 'customer.created', '{}', at
                    FROM (SELECT date_trunc('minute', now()) - interval '1 hour' + make_interval(secs => n * 0.1) AS at
                          FROM generate_series(0, 11999) AS n) AS times
                    RETURNING id, created_at)
                INSERT INTO webhook_deliveries (id, account_id, endpoint_id, event_id, attempt, status, failure, created_at)
                SELECT new_ulid(created_at), $1, $2, id, 1, 'failed', 'status', created_at FROM happened";
    let db = &merchant.books.db;
    sqlx::query(deliveries).bind(merchant.books.account).bind(crate::support::uuid(&endpoint)?).execute(db).await?;
    let minute = async |number: i32| {
        let at = "SELECT to_char((date_trunc('minute', min(created_at)) + make_interval(mins => $2)) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')
                  FROM webhook_deliveries WHERE account_id = $1";
        let at: String = sqlx::query_scalar(at).bind(merchant.books.account).bind(number).fetch_one(db).await?;
        anyhow::Ok(at)
    };
    let (since, until) = (minute(1).await?, minute(2).await?);
    let count = async |options: &[&str]| {
        let replay = ["webhooks", "replay", "--endpoint", &endpoint, "--since", &since, "--dry-run"];
        anyhow::Ok(cluster.ctl(&[&replay[..], options].concat()).await?["events"].clone())
    };
    assert_eq!(count(&[]).await?, 11_400);
    assert_eq!(count(&["--until", &until]).await?, 600);
    assert_eq!(count(&["--until", &until, "--failed-only"]).await?, 600);
    // One event was delivered by a replay, long after the period.
    let replayed = "INSERT INTO webhook_deliveries (id, account_id, endpoint_id, event_id, attempt, replay_of, status, created_at)
                 SELECT new_ulid(now()), account_id, endpoint_id, event_id, 1, id, 'succeeded', now() FROM webhook_deliveries
                 WHERE account_id = $1 AND id >= ulid_floor($2::timestamptz) ORDER BY account_id, id LIMIT 1";
    sqlx::query(replayed).bind(merchant.books.account).bind(&since).execute(db).await?;
    assert_eq!(count(&["--until", &until, "--failed-only"]).await?, 599);
    assert_eq!(count(&["--until", &until]).await?, 600);
    Ok(())
}
