//! Runs every pair of commands that lock several rows, on the same rows, while schedulers and workers run.

use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;
use serde_json::json;
use sqlx::{Connection, PgConnection, PgPool, postgres::PgPoolOptions};
use testkit::{Cluster, Response};
use tokio::time::{sleep, timeout};

use super::fixtures::{Fixtures, Templates};
use crate::support::{Merchant, api_id, concurrently, eventually, id};

/// Rounds of pairs that both lock many invoices of one customer; other pairs run once.
const ROUNDS: usize = 3;
/// Merchants that run their share of the pairs in parallel.
const LANES: usize = 3;

/// A command that locks more than one row, or makes a background process do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    DefaultCard,
    SaveCard,
    UpdateCustomer,
    DefaultAddress,
    CancelSubscriptions,
    BillSubscriptions,
    IssueInvoices,
    ScheduleInvoices,
    CancelSchedules,
    VoidInvoices,
    PayInvoices,
    CollectInvoices,
    DeclineInvoices,
    RunRecurring,
    ChangeRecurring,
    CancelLinks,
    PayLinks,
    ExpireLinks,
    ChangePayments,
    RefundPayments,
    InquirePayments,
    ChangeEndpoints,
    AdvanceClock,
}

const COMMANDS: [Command; 23] = {
    use Command::*;
    [
        DefaultCard,
        SaveCard,
        UpdateCustomer,
        DefaultAddress,
        CancelSubscriptions,
        BillSubscriptions,
        IssueInvoices,
        ScheduleInvoices,
        CancelSchedules,
        VoidInvoices,
        PayInvoices,
        CollectInvoices,
        DeclineInvoices,
        RunRecurring,
        ChangeRecurring,
        CancelLinks,
        PayLinks,
        ExpireLinks,
        ChangePayments,
        RefundPayments,
        InquirePayments,
        ChangeEndpoints,
        AdvanceClock,
    ]
};

impl Command {
    fn locks_many_invoices(self) -> bool {
        use Command::*;
        [DefaultCard, CancelSubscriptions, CancelSchedules, VoidInvoices, PayInvoices, CollectInvoices, DeclineInvoices]
            .contains(&self)
    }

    async fn run(self, fixtures: &Fixtures<'_>, round: usize) -> Result<Vec<Response>> {
        let api = &fixtures.merchant.api;
        let all = async |prefix: &str, ids: &[uuid::Uuid], path: &str, action: &str| {
            concurrently(ids.len(), async |i| {
                fixtures.ask(&format!("/v1/{path}/{}/{action}", api_id(prefix, ids[i]))).await
            })
            .await
        };
        // Both commands of a pair share some of the waiting invoices, and may take them in opposite order.
        let some = |from: usize, count: usize| {
            let mut some: Vec<_> = fixtures.waiting.iter().skip(from).step_by(4).take(count).copied().collect();
            if round % 2 == 1 {
                some.reverse();
            }
            some
        };
        let due = "next_attempt_at = CASE WHEN status = 'scheduled' THEN now() END";
        match self {
            Self::DefaultCard => {
                let mut responses = Vec::new();
                for _ in 0..4 {
                    let card =
                        |i: usize| format!("/v1/payment_methods/{}/default", api_id("pm_", fixtures.cards[i % 2]));
                    responses.extend(concurrently(2, async |i| fixtures.ask(&card(i)).await).await?);
                    // The invoices wait for another card again.
                    fixtures.write("invoices", &fixtures.waiting, "next_attempt_at = NULL").await?;
                }
                Ok(responses)
            }
            Self::SaveCard => {
                let body = json!({"customerId": api_id("cus_", fixtures.customer), "paymentToken": "tok_ok"});
                concurrently(2, async |_| api.post("/v1/payment_methods", body.clone()).await).await
            }
            Self::UpdateCustomer => {
                let path = format!("/v1/customers/{}", api_id("cus_", fixtures.customer));
                concurrently(3, async |i| api.post(&path, json!({"name": format!("Ada {round} {i}")})).await).await
            }
            Self::DefaultAddress => {
                concurrently(4, async |i| {
                    let path = format!("/v1/addresses/{}/default", api_id("adr_", fixtures.addresses[i % 2]));
                    let role = if i < 2 { "billing" } else { "shipping" };
                    api.post(&path, json!({"type": role})).await
                })
                .await
            }
            Self::CancelSubscriptions => all("sub_", &fixtures.subscriptions, "subscriptions", "cancel").await,
            Self::BillSubscriptions => {
                let yesterday = "next_billing_date = CASE WHEN status <> 'cancelled' THEN current_date - 1 END,
                                 next_billing_at = CASE WHEN status <> 'cancelled' THEN now() - interval '1 day' END";
                fixtures.write("subscriptions", &fixtures.subscriptions, yesterday).await?;
                scheduler_tick().await
            }
            Self::IssueInvoices => all("inv_", &fixtures.drafts, "invoices", "issue").await,
            Self::ScheduleInvoices => {
                concurrently(fixtures.open.len(), async |i| {
                    let path = format!("/v1/invoices/{}/schedule", api_id("inv_", fixtures.open[i]));
                    api.post(&path, json!({"collectAt": "2020-01-01T00:00:00Z"})).await
                })
                .await
            }
            Self::CancelSchedules => all("inv_", &some(0, 8), "invoices", "cancel_schedule").await,
            Self::VoidInvoices => all("inv_", &some(1, 8), "invoices", "void").await,
            Self::PayInvoices => {
                // The box has no effect for an invoice without a subscription.
                let invoices: Vec<_> = fixtures.subscribed.iter().step_by(13).take(4).copied().collect();
                let cards = ["tok_ok&renewals=1", "tok_lost", "tok_partial&renewals=1", "tok_ok"];
                concurrently(4, async |i| fixtures.pay("invoices", "i", invoices[i], cards[i]).await).await
            }
            Self::CollectInvoices => {
                fixtures.write("invoices", &some(3, 8), due).await?;
                Ok(vec![fixtures.ask("/v1/invoices/scheduler/run").await?])
            }
            Self::DeclineInvoices => {
                let lost = format!("default_payment_method_id = '{}'", fixtures.cards[1]);
                fixtures.write("customers", &[fixtures.customer], &lost).await?;
                fixtures.write("invoices", &some(0, 8), due).await?;
                Ok(vec![fixtures.ask("/v1/invoices/scheduler/run").await?])
            }
            Self::RunRecurring => {
                let today = "anchor = current_date - 3, start_date = current_date - 3,
                             next_date = CASE WHEN status = 'active' THEN current_date END,
                             next_run_at = CASE WHEN status = 'active' THEN now() END";
                fixtures.write("recurring_invoices", &fixtures.recurring, today).await?;
                scheduler_tick().await
            }
            Self::ChangeRecurring => {
                let mut responses = all("rinv_", &fixtures.recurring, "recurring_invoices", "pause").await?;
                responses.extend(all("rinv_", &fixtures.recurring, "recurring_invoices", "resume").await?);
                for id in &fixtures.recurring {
                    let path = format!("/v1/recurring_invoices/{}", api_id("rinv_", *id));
                    responses.push(api.post(&path, json!({"cadence": {"unit": "weekly", "interval": 1}})).await?);
                }
                responses.extend(all("rinv_", &fixtures.recurring[..1], "recurring_invoices", "cancel").await?);
                Ok(responses)
            }
            Self::CancelLinks => all("plink_", &fixtures.links[..4], "payment_links", "cancel").await,
            Self::PayLinks => {
                concurrently(3, async |i| fixtures.pay("payment_links", "l", fixtures.links[i + 2], "tok_ok").await)
                    .await
            }
            Self::ExpireLinks => {
                let over = "created_at = now() - interval '1 hour', expires_at = now() - interval '1 second',
                            expiry_due_at = CASE WHEN expiry_due_at IS NOT NULL THEN now() - interval '1 second' END";
                fixtures.write("payment_links", &fixtures.links, over).await?;
                scheduler_tick().await
            }
            Self::ChangePayments => {
                let (held, unwanted) = tokio::try_join!(fixtures.merchant.hold(900), fixtures.merchant.hold(900))?;
                let (one, other) =
                    tokio::try_join!(fixtures.merchant.capture(&held, None), fixtures.merchant.void(&unwanted))?;
                Ok(vec![one, other])
            }
            Self::RefundPayments => {
                let sold = fixtures.merchant.charge(900).await?;
                concurrently(3, async |_| fixtures.merchant.refund(&sold, Some(300)).await).await
            }
            Self::InquirePayments => {
                let asked = "WITH held AS MATERIALIZED (
                                 SELECT id FROM payments WHERE account_id = $1 AND inquiry_at IS NOT NULL
                                 ORDER BY id FOR NO KEY UPDATE)
                             UPDATE payments p SET inquiry_at = now() FROM held WHERE p.id = held.id";
                sqlx::query(asked).bind(fixtures.merchant.books.account).execute(fixtures.db).await?;
                scheduler_tick().await
            }
            Self::ChangeEndpoints => {
                let made = api.post("/v1/webhook_endpoints", json!({"url": "http://127.0.0.1:9/"})).await?;
                let Ok(endpoint) = id(&made.body) else { return Ok(vec![made]) };
                let path = format!("/v1/webhook_endpoints/{endpoint}");
                sleep(Duration::from_millis(40)).await;
                let rotated = fixtures.ask(&format!("{path}/rotate_secret")).await?;
                let changed = api.post(&path, json!({"status": "enabled"})).await?;
                Ok(vec![made, rotated, changed, api.delete(&path).await?])
            }
            Self::AdvanceClock => {
                let to = fixtures.merchant.later(&fixtures.merchant.now().await?, "1 minute").await?;
                Ok(vec![fixtures.merchant.request_advance(&to).await?])
            }
        }
    }
}

/// Waits about as long as a scheduler takes to find what is due.
async fn scheduler_tick() -> Result<Vec<Response>> {
    sleep(Duration::from_millis(200)).await;
    Ok(vec![])
}

/// Runs both commands concurrently, from round 2 on with one slightly delayed. Returns the 5xx responses.
async fn run_pair(fixtures: &Fixtures<'_>, one: Command, other: Command, round: usize) -> Result<Vec<String>> {
    let delayed = async |first: bool, command: Command| {
        if first == round.is_multiple_of(2) {
            sleep(Duration::from_millis(4 * (round as u64 / 2))).await;
        }
        command.run(fixtures, round).await
    };
    let (first, second) = tokio::try_join!(delayed(true, one), delayed(false, other))?;
    let failed = first.iter().chain(&second).filter(|response| response.status >= 500);
    Ok(failed.map(|response| format!("{one:?} with {other:?}: {}", String::from_utf8_lossy(&response.bytes))).collect())
}

/// Runs the pairs for a new merchant. Returns the 5xx responses.
async fn lane(cluster: &Cluster, db: &PgPool, pairs: Vec<(Command, Command)>) -> Result<Vec<String>> {
    let merchant = Merchant::new(cluster).await?;
    // Two endpoints receive every event; ChangeEndpoints creates and deletes a third.
    for _ in 0..2 {
        merchant.api.post("/v1/webhook_endpoints", json!({"url": "http://127.0.0.1:9/"})).await?;
    }
    let templates = Templates::of(&merchant).await?;
    let mut failures = Vec::new();
    for (one, other) in &pairs {
        let rounds = if one.locks_many_invoices() && other.locks_many_invoices() { ROUNDS } else { 1 };
        for round in 0..rounds {
            let fixtures = Fixtures::make(cluster, &merchant, db, &templates).await?;
            failures.extend(run_pair(&fixtures, *one, *other, round).await?);
        }
    }
    Ok(failures)
}

/// Deadlocks counted by Postgres. A backend may report its statistics only when it ends, so all backends are terminated
/// first.
async fn deadlocks(cluster: &Cluster) -> Result<i64> {
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    let others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
                  AND backend_type = 'client backend'";
    let ended: Vec<i32> =
        sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT pid {others}"))).fetch_all(&mut db).await?;
    sqlx::query("SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) pid").bind(&ended).execute(&mut db).await?;
    eventually("the end of all connections", async || {
        let mut db = PgConnection::connect(cluster.database_url()).await?;
        let left = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1)";
        let left: i64 = sqlx::query_scalar(left).bind(&ended).fetch_one(&mut db).await?;
        Ok((left == 0).then_some(()))
    })
    .await?;
    let counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    Ok(sqlx::query_scalar(counted).fetch_one(&mut db).await?)
}

#[tokio::test]
#[ignore = "runs every pair of 23 commands"]
async fn concurrent_commands_do_not_deadlock() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(2).scheduler(3).env("DATABASE_POOL", "16").start().await?;
    let db = PgPoolOptions::new().max_connections(8).connect(cluster.database_url()).await?;
    let pairs: Vec<_> = (0..COMMANDS.len())
        .flat_map(|one| (one..COMMANDS.len()).map(move |other| (COMMANDS[one], COMMANDS[other])))
        .collect();
    // An advancing clock orders the work of its account, so its pairs have their own merchant.
    let (with_clock, without): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(one, other)| [*one, *other].contains(&Command::AdvanceClock));
    let mut lanes = vec![with_clock];
    for lane in 0..LANES {
        lanes.push(without.iter().skip(lane).step_by(LANES).copied().collect());
    }
    let failures = try_join_all(lanes.into_iter().map(|pairs| lane(&cluster, &db, pairs))).await?.concat();
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(deadlocks(&cluster).await?, 0, "deadlocks, by pg_stat_database");
    Ok(())
}

/// Runs two commands on the same invoices. A row that this holds stops them when they have locked other rows; then they
/// continue together.
async fn collide(fixtures: &Fixtures<'_>, round: usize) -> Result<()> {
    let held = fixtures.waiting[fixtures.waiting.len() / 2];
    let mut holder = fixtures.db.begin().await?;
    sqlx::query("SELECT FROM invoices WHERE id = $1 FOR UPDATE").bind(held).execute(&mut *holder).await?;
    let release = async {
        let waiting = "SELECT count(*) > 1 FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        // The commands may also wait for each other, or not reach the row. Then chance decides.
        let both_wait = eventually("two commands that wait", async || {
            Ok(sqlx::query_scalar::<_, bool>(waiting).fetch_one(fixtures.db).await?.then_some(()))
        });
        let _ = timeout(Duration::from_secs(2), both_wait).await;
        Ok(holder.rollback().await?)
    };
    let commands = run_pair(fixtures, Command::DefaultCard, Command::CancelSubscriptions, round % 6);
    tokio::try_join!(commands, release).map(drop)
}

/// Attempts to provoke a deadlock.
const ATTEMPTS: usize = 100;

/// Proves that the previous test can fail: without the lock order, Postgres counts deadlocks. Aborted transactions are
/// retried, so most requests still succeed, but not one that is aborted again and again.
#[tokio::test]
#[ignore = "is about a test that is ignored"]
async fn without_the_lock_order_commands_deadlock() -> Result<()> {
    let cluster = Cluster::builder()
        .api(2)
        .worker(1)
        .env("DISABLED_RULES", "lock_order")
        .env("DATABASE_POOL", "16")
        .start()
        .await?;
    let db = PgPoolOptions::new().max_connections(8).connect(cluster.database_url()).await?;
    let merchant = Merchant::new(&cluster).await?;
    let templates = Templates::of(&merchant).await?;
    for round in 0..ATTEMPTS {
        let fixtures = Fixtures::make(&cluster, &merchant, &db, &templates).await?;
        collide(&fixtures, round).await?;
        let counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        if sqlx::query_scalar::<_, i64>(counted).fetch_one(&db).await? > 0 {
            break;
        }
    }
    assert!(deadlocks(&cluster).await? > 0, "no deadlock in {ATTEMPTS} attempts without the lock order");
    Ok(())
}
