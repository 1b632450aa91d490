//! Work that is not pushed: Redis rejects writes, is down, or is unreachable for the scheduler only.

use anyhow::Result;
use serde_json::json;
use testkit::{Cluster, ProcessKind};

use super::own_cluster;
use crate::support::{Merchant, Receiver, Reply, concurrently, created, eventually, id, metric};

async fn wait_for_redis_metric(cluster: &Cluster, kind: ProcessKind, up: f64) -> Result<()> {
    let matches = async || Ok((metric(cluster, kind, "redis_up").await? == up).then_some(()));
    eventually(&format!("redis_up to be {up}"), matches).await
}

/// The number of an account's operations that match an SQL condition.
async fn operations(merchant: &Merchant, condition: &str) -> Result<i64> {
    let query = format!("SELECT count(*) FROM operations WHERE account_id = $1 AND {condition}");
    let query = sqlx::AssertSqlSafe(query);
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

/// Makes rows of an account due since an interval ago.
async fn make_due_since(merchant: &Merchant, table: &str, column: &str, since: &str) -> Result<()> {
    let update = format!(
        "UPDATE {table} SET {column} = now() - $2::text::interval WHERE account_id = $1 AND {column} IS NOT NULL"
    );
    let update = sqlx::query(sqlx::AssertSqlSafe(update)).bind(merchant.books.account).bind(since);
    assert!(update.execute(&merchant.books.db).await?.rows_affected() > 0, "no row is waiting");
    Ok(())
}

#[tokio::test]
async fn payments_succeed_while_redis_rejects_writes() -> Result<()> {
    let cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    for (break_redis, repair_redis) in [
        // As after a failover: a replica of a server that does not exist.
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("ACL SETUSER default -xadd", "ACL SETUSER default +xadd"),
    ] {
        cluster.redis.run_command(break_redis).await?;
        let paid = merchant.pay(100).await?;
        assert_eq!(created(&paid)["status"], "pending_settlement", "{break_redis}");
        for kind in [ProcessKind::Worker, ProcessKind::Scheduler] {
            wait_for_redis_metric(&cluster, kind, 0.0).await?;
        }
        cluster.redis.run_command(repair_redis).await?;
        for kind in [ProcessKind::Worker, ProcessKind::Scheduler] {
            wait_for_redis_metric(&cluster, kind, 1.0).await?;
        }
        let fetched = async || metric(&cluster, ProcessKind::Worker, "queue_fetched_total{queue=\"money\"}").await;
        let before = fetched().await?;
        assert_eq!(created(&merchant.pay(100).await?)["status"], "pending_settlement", "{repair_redis}");
        eventually("an id from Redis", async || Ok((fetched().await? > before).then_some(()))).await?;
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn work_is_polled_when_the_scheduler_has_no_redis() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).start().await?;
    let valid_url = cluster.redis.url();
    cluster.set_env("REDIS_URL", &format!("redis://:wrong@127.0.0.1:{}/", cluster.redis.port()));
    cluster.add(ProcessKind::Scheduler).await?;
    cluster.set_env("REDIS_URL", &valid_url);
    let merchant = Merchant::new(&cluster).await?;
    wait_for_redis_metric(&cluster, ProcessKind::Scheduler, 0.0).await?;

    // A push is lost, and the scheduler cannot sweep.
    cluster.worker(0).kill9()?;
    cluster.redis.run_command("ACL SETUSER default -xadd").await?;
    let lost = async {
        let not_pushed =
            async || Ok((metric(&cluster, ProcessKind::Api, "queue_posts_failed_total").await? >= 1.0).then_some(()));
        eventually("a push to fail", not_pushed).await?;
        cluster.redis.run_command("ACL SETUSER default +xadd").await?;
        cluster.worker(0).restart().await?;
        make_due_since(&merchant, "operations", "next_push_at", "31 seconds").await
    };
    let (response, ()) = tokio::try_join!(merchant.pay(100), lost)?;
    assert_eq!(merchant.wait_until_finished(&id(created(&response))?).await?["status"], "pending_settlement");

    // The next attempt of a webhook is due as well.
    let receiver = Receiver::start(|request| Reply::status(if request.nth == 0 { 500 } else { 200 })).await?;
    created(&merchant.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/in")})).await?);
    merchant.customer().await?;
    receiver.wait_for_requests("/in", 1).await?;
    let recorded = async || {
        let query = "SELECT now() FROM webhook_pending WHERE account_id = $1 AND attempt = 2 AND lease_until IS NULL";
        Ok(sqlx::query(query).bind(merchant.books.account).fetch_optional(&merchant.books.db).await?.map(drop))
    };
    eventually("the first attempt's record", recorded).await?;
    make_due_since(&merchant, "webhook_pending", "due_at", "31 seconds").await?;
    receiver.wait_for_requests("/in", 2).await?;

    assert_eq!(metric(&cluster, ProcessKind::Worker, "redis_up").await?, 1.0);
    assert!(!cluster.worker(0).log().contains("Redis is unavailable"), "the worker must not lose Redis");
    merchant.books.audit().await
}

/// Waits until an operation is due, and asserts that the scheduler, which cannot push it, leaves it due: a deferred one
/// would be invisible to workers.
async fn stays_due(cluster: &Cluster, merchant: &Merchant) -> Result<()> {
    let due = async || Ok((operations(merchant, "next_push_at <= clock_timestamp()").await? > 0).then_some(()));
    eventually("an operation that is due", due).await?;
    let ticks = "scheduler_ticks_total{tick=\"operations\",outcome=\"ok\"}";
    let before = metric(cluster, ProcessKind::Scheduler, ticks).await?;
    eventually("three sweeps", async || {
        Ok((metric(cluster, ProcessKind::Scheduler, ticks).await? >= before + 3.0).then_some(()))
    })
    .await?;
    assert_eq!(operations(merchant, "pushes > 0").await?, 0);
    Ok(())
}

#[tokio::test]
async fn without_redis_a_hanging_provider_delays_no_other_account() -> Result<()> {
    const HANGING: [&str; 2] = ["--latency-ms", "9000"];
    let mut cluster = Cluster::builder().api(1).scheduler(1).start().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let [payments, collections, quick] =
        [Merchant::new(&cluster).await?, Merchant::new(&cluster).await?, Merchant::new(&cluster).await?];
    payments.mock(&cluster, &HANGING).await?;
    collections.mock(&cluster, &HANGING).await?;
    created(&quick.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/in")})).await?);
    cluster.redis.kill9()?;
    let pay_quickly = async {
        eventually("all operations", async || {
            let written = (payments.books.operations().await?, collections.books.operations().await?);
            Ok((written == (3, 40)).then_some(()))
        })
        .await?;
        stays_due(&cluster, &payments).await?;
        let update = "UPDATE operations SET background = true WHERE account_id = $1";
        sqlx::query(update).bind(collections.books.account).execute(&collections.books.db).await?;
        cluster.add(ProcessKind::Worker).await?;
        // All payments, and as many collections as a worker runs concurrently.
        let all_sent = async || {
            let sent = (payments.books.in_flight().await?, collections.books.in_flight().await?);
            Ok((sent == (3, 32)).then_some(()))
        };
        eventually("all requests to be in flight", all_sent).await?;
        let paying = quick.pay(100);
        let due = async {
            let written = async || Ok((quick.books.operations().await? == 1).then_some(()));
            eventually("the operation", written).await?;
            make_due_since(&quick, "operations", "next_push_at", "1 second").await
        };
        let (paid, ()) = tokio::try_join!(paying, due)?;
        assert_eq!(created(&paid)["status"], "pending_settlement");
        // The database shows what happened before what, however long this test takes to look.
        let at_end = |condition: &str| {
            let end = "(SELECT max(finished_at) FROM operations WHERE account_id = '{}')";
            condition.replace("$end", &end.replace("{}", &quick.books.account.to_string()))
        };
        let ended = at_end("finished_at < $end");
        assert_eq!(operations(&payments, &ended).await?, 0, "they hung until the quick payment had ended");
        let sent = at_end("first_sent_at < $end");
        assert_eq!(operations(&collections, &sent).await?, 32, "the rest is left to other workers");
        quick.customer().await?;
        receiver.wait_for_requests("/in", 2).await.map(drop)
    };
    tokio::try_join!(concurrently(3, |_| payments.pay(100)), concurrently(40, |_| collections.pay(100)), pay_quickly)?;
    for merchant in [&payments, &collections] {
        eventually("all payments to finish", async || Ok((merchant.books.unfinished().await? == 0).then_some(())))
            .await?;
        merchant.books.audit().await?;
    }
    quick.books.audit().await
}

#[tokio::test]
async fn without_redis_a_stopping_worker_finishes_what_it_claimed() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).env("WORKER_PAYMENT_CONCURRENCY", "2").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.mock(&cluster, &["--latency-ms", "9000"]).await?;
    cluster.redis.kill9()?;
    let stopping = async {
        let sent = async || Ok((merchant.books.in_flight().await? == 2).then_some(()));
        eventually("all operations", async || Ok((merchant.books.operations().await? == 6).then_some(()))).await?;
        eventually("as many requests as the worker's concurrency", sent).await?;
        assert_eq!(cluster.worker(0).terminate().await?.code(), Some(0), "the worker must exit with 0");
        assert_eq!(operations(&merchant, "finished_at IS NOT NULL").await?, 2, "claimed operations are finished");
        assert_eq!(operations(&merchant, "pushes > 0").await?, 2, "no further operation is claimed");
        merchant.mock(&cluster, &[]).await?;
        cluster.add(ProcessKind::Worker).await.map(drop)
    };
    tokio::try_join!(concurrently(6, |_| merchant.pay(100)), stopping)?;
    eventually("all payments to finish", async || Ok((merchant.books.unfinished().await? == 0).then_some(()))).await?;
    merchant.books.audit().await
}
