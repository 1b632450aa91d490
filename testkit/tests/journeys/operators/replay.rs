//! Webhooks that are sent once more in batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use serde_json::json;

use super::{refused, text};
use crate::support::{Receiver, Reply, cluster, created, eventually, id, merchant};

const LONG_AGO: &str = "2020-01-01T00:00:00Z";

#[tokio::test]
async fn what_an_endpoint_missed_is_sent_once_more_and_once_alone() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let takes = Arc::new(AtomicBool::new(false));
    let receiver = Receiver::start({
        let takes = Arc::clone(&takes);
        move |_| if takes.load(Ordering::SeqCst) { Reply::ok() } else { Reply::status(500) }
    })
    .await?;
    let endpoint = merchant.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/hooks")})).await?;
    let endpoint = id(created(&endpoint))?;
    for amount in 1..=3 {
        created(&merchant.pay(amount).await?);
    }
    merchant.customer().await?;
    receiver.hears("/hooks", 4).await?;
    let replay = ["webhooks", "replay", "--endpoint", &endpoint, "--since", LONG_AGO];
    let failed = [&replay[..], &["--failed-only"]].concat();
    let still_tried = cluster.ctl(&failed).await?;
    assert_eq!(still_tried["events"], 0, "what is still being tried goes on by itself: {still_tried}");

    // Nobody tries them any more.
    let given_up = eventually("attempts that have been made", async || {
        let made = "SELECT count(*) FROM webhook_deliveries WHERE account_id = $1";
        let made: i64 = sqlx::query_scalar(made).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
        let none = "DELETE FROM webhook_pending WHERE account_id = $1 AND lease_until IS NULL";
        sqlx::query(none).bind(merchant.books.account).execute(&merchant.books.db).await?;
        let left = "SELECT count(*) FROM webhook_pending WHERE account_id = $1";
        let left: i64 = sqlx::query_scalar(left).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
        Ok((made >= 4 && left == 0).then_some(()))
    });
    given_up.await?;
    takes.store(true, Ordering::SeqCst);
    let before = receiver.count("/hooks");
    let counted = cluster.ctl(&[&failed[..], &["--dry-run"]].concat()).await?;
    assert_eq!((&counted["events"], &counted["replayed"]), (&4.into(), &0.into()), "{counted}");
    let payments = [&failed[..], &["--events", "payment.captured,payment.declined"]].concat();
    let done = cluster.ctl(&payments).await?;
    assert_eq!(done["replayed"], 3, "{done}");
    receiver.hears("/hooks", before + 3).await?;
    let taken =
        eventually(
            "the replays to be noted",
            async || Ok((cluster.ctl(&payments).await?["events"] == 0).then_some(())),
        );
    taken.await?;
    let rest = cluster.ctl(&failed).await?;
    assert_eq!(rest["replayed"], 1, "the customer's: {rest}");

    let all = cluster.ctl(&[&replay[..], &["--dry-run"]].concat()).await?;
    assert_eq!(all["events"], 4, "one for each event, whatever was sent since");
    let after = cluster.ctl(&[&replay[..], &["--dry-run", "--after", &text(&all, "first")]].concat()).await?;
    assert_eq!(after["events"], 3);
    let until = cluster.ctl(&[&replay[..], &["--dry-run", "--until", "2999-01-01T00:00:00Z"]].concat()).await?;
    assert_eq!(until["events"], 4);
    let none = cluster.ctl(&[&replay[..], &["--dry-run", "--until", LONG_AGO]].concat()).await?;
    assert_eq!(none["events"], 0);
    receiver.hears("/hooks", before + 4).await?;
    let events: std::collections::HashSet<_> =
        receiver.heard("/hooks")[before..].iter().map(|request| request.event()["id"].to_string()).collect();
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
        &["webhooks", "replay", "--endpoint", &endpoint, "--since", LONG_AGO, "--events", "payment.dreamt"],
    ] {
        refused(cluster, bad).await?;
    }
    Ok(())
}

/// More than one statement reads, most of them after the time that is asked for.
#[tokio::test]
async fn a_time_of_a_busy_endpoint_is_found_in_all_that_came_later() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let (_receiver, endpoint) = super::listening(&merchant).await?;
    let busy = "WITH happened AS (
                    INSERT INTO events (id, account_id, type, payload, created_at)
                    SELECT new_ulid(at), $1, 'customer.created', '{}', at
                    FROM (SELECT date_trunc('minute', now()) - interval '1 hour' + make_interval(secs => n * 0.1) AS at
                          FROM generate_series(0, 11999) AS n) AS times
                    RETURNING id, created_at)
                INSERT INTO webhook_deliveries (id, account_id, endpoint_id, event_id, attempt, status, failure, created_at)
                SELECT new_ulid(created_at), $1, $2, id, 1, 'failed', 'status', created_at FROM happened";
    let db = &merchant.books.db;
    sqlx::query(busy).bind(merchant.books.account).bind(crate::support::uuid(&endpoint)?).execute(db).await?;
    let minute = async |number: i32| {
        let at = "SELECT to_char((date_trunc('minute', min(created_at)) + make_interval(mins => $2)) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')
                  FROM webhook_deliveries WHERE account_id = $1";
        let at: String = sqlx::query_scalar(at).bind(merchant.books.account).bind(number).fetch_one(db).await?;
        anyhow::Ok(at)
    };
    let (since, until) = (minute(1).await?, minute(2).await?);
    let counted = async |more: &[&str]| {
        let replay = ["webhooks", "replay", "--endpoint", &endpoint, "--since", &since, "--dry-run"];
        anyhow::Ok(cluster.ctl(&[&replay[..], more].concat()).await?["events"].clone())
    };
    assert_eq!(counted(&[]).await?, 11_400);
    assert_eq!(counted(&["--until", &until]).await?, 600);
    assert_eq!(counted(&["--until", &until, "--failed-only"]).await?, 600);
    // One of them was taken when it was sent once more, long after that time.
    let taken = "INSERT INTO webhook_deliveries (id, account_id, endpoint_id, event_id, attempt, replay_of, status, created_at)
                 SELECT new_ulid(now()), account_id, endpoint_id, event_id, 1, id, 'succeeded', now() FROM webhook_deliveries
                 WHERE account_id = $1 AND id >= ulid_floor($2::timestamptz) ORDER BY account_id, id LIMIT 1";
    sqlx::query(taken).bind(merchant.books.account).bind(&since).execute(db).await?;
    assert_eq!(counted(&["--until", &until, "--failed-only"]).await?, 599);
    assert_eq!(counted(&["--until", &until]).await?, 600);
    Ok(())
}
