//! Work that nobody hands out: Redis answers and takes nothing, or it is away, or the scheduler alone is cut off from it.

use anyhow::Result;
use serde_json::json;
use testkit::{Cluster, Kind};

use super::own_cluster;
use crate::support::{Merchant, Receiver, Reply, created, eventually, figure, id, together};

async fn sees_redis(cluster: &Cluster, kind: Kind, up: f64) -> Result<()> {
    let seen = async || Ok((figure(cluster, kind, "redis_up").await? == up).then_some(()));
    eventually(if up == 1.0 { "Redis to be seen" } else { "Redis to be missed" }, seen).await
}

/// Operations of an account of which this holds.
async fn operations(merchant: &Merchant, condition: &str) -> Result<i64> {
    let query = format!("SELECT count(*) FROM operations WHERE account_id = $1 AND {condition}");
    let query = sqlx::AssertSqlSafe(query);
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

/// What an account waits for has been due for so long.
async fn is_due_since(merchant: &Merchant, table: &str, column: &str, since: &str) -> Result<()> {
    let update = format!(
        "UPDATE {table} SET {column} = now() - $2::text::interval WHERE account_id = $1 AND {column} IS NOT NULL"
    );
    let update = sqlx::query(sqlx::AssertSqlSafe(update)).bind(merchant.books.account).bind(since);
    assert!(update.execute(&merchant.books.db).await?.rows_affected() > 0, "something waits");
    Ok(())
}

#[tokio::test]
async fn payments_are_made_while_redis_answers_and_takes_nothing() -> Result<()> {
    let cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    for (refuse, take) in [
        // As after a failover: it follows a server at which nobody is.
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("ACL SETUSER default -xadd", "ACL SETUSER default +xadd"),
    ] {
        cluster.redis.order(refuse).await?;
        let paid = merchant.pay(100).await?;
        assert_eq!(created(&paid)["status"], "pending_settlement", "{refuse}");
        for kind in [Kind::Worker, Kind::Scheduler] {
            sees_redis(&cluster, kind, 0.0).await?;
        }
        cluster.redis.order(take).await?;
        for kind in [Kind::Worker, Kind::Scheduler] {
            sees_redis(&cluster, kind, 1.0).await?;
        }
        let fetched = async || figure(&cluster, Kind::Worker, "queue_fetched_total{queue=\"money\"}").await;
        let before = fetched().await?;
        assert_eq!(created(&merchant.pay(100).await?)["status"], "pending_settlement", "{take}");
        eventually("an id from Redis", async || Ok((fetched().await? > before).then_some(()))).await?;
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn what_a_scheduler_without_redis_does_not_hand_out_is_taken() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).start().await?;
    let right = cluster.redis.url();
    cluster.set_env("REDIS_URL", &format!("redis://:wrong@127.0.0.1:{}/", cluster.redis.port()));
    cluster.add(Kind::Scheduler).await?;
    cluster.set_env("REDIS_URL", &right);
    let merchant = Merchant::new(&cluster).await?;
    sees_redis(&cluster, Kind::Scheduler, 0.0).await?;

    // A push is lost, and nobody sweeps.
    cluster.worker(0).kill9()?;
    cluster.redis.order("ACL SETUSER default -xadd").await?;
    let lost = async {
        let not_pushed =
            async || Ok((figure(&cluster, Kind::Api, "queue_posts_failed_total").await? >= 1.0).then_some(()));
        eventually("a push that fails", not_pushed).await?;
        cluster.redis.order("ACL SETUSER default +xadd").await?;
        cluster.worker(0).restart().await?;
        is_due_since(&merchant, "operations", "next_push_at", "31 seconds").await
    };
    let (answer, ()) = tokio::try_join!(merchant.pay(100), lost)?;
    assert_eq!(merchant.finished(&id(created(&answer))?).await?["status"], "pending_settlement");

    // And the next attempt of a webhook is due.
    let receiver = Receiver::start(|request| Reply::status(if request.nth == 0 { 500 } else { 200 })).await?;
    created(&merchant.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/in")})).await?);
    merchant.customer().await?;
    receiver.hears("/in", 1).await?;
    let recorded = async || {
        let query = "SELECT now() FROM webhook_pending WHERE account_id = $1 AND attempt = 2 AND lease_until IS NULL";
        Ok(sqlx::query(query).bind(merchant.books.account).fetch_optional(&merchant.books.db).await?.map(drop))
    };
    eventually("the first attempt's record", recorded).await?;
    is_due_since(&merchant, "webhook_pending", "due_at", "31 seconds").await?;
    receiver.hears("/in", 2).await?;

    assert_eq!(figure(&cluster, Kind::Worker, "redis_up").await?, 1.0);
    assert!(!cluster.worker(0).log().contains("Redis takes no ids"), "the worker had Redis all the time");
    merchant.books.audit().await
}

#[tokio::test]
async fn without_redis_a_provider_that_hangs_holds_up_nobody_else() -> Result<()> {
    const HANGING: [&str; 2] = ["--latency-ms", "9000"];
    let mut cluster = Cluster::builder().api(1).scheduler(1).start().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let [payments, collections, quick] =
        [Merchant::new(&cluster).await?, Merchant::new(&cluster).await?, Merchant::new(&cluster).await?];
    payments.mock(&cluster, &HANGING).await?;
    collections.mock(&cluster, &HANGING).await?;
    created(&quick.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/in")})).await?);
    cluster.redis.kill9()?;
    let quickly = async {
        eventually("all intents", async || {
            let begun = (payments.books.operations().await?, collections.books.operations().await?);
            Ok((begun == (3, 40)).then_some(()))
        })
        .await?;
        let update = "UPDATE operations SET background = true WHERE account_id = $1";
        sqlx::query(update).bind(collections.books.account).execute(&collections.books.db).await?;
        cluster.add(Kind::Worker).await?;
        // As many collections as a worker has places for, and all payments.
        let hang = async || {
            let sent = (payments.books.sent().await?, collections.books.sent().await?);
            Ok((sent == (3, 32)).then_some(()))
        };
        eventually("all to hang", hang).await?;
        let paying = quick.pay(100);
        let due = async {
            let begun = async || Ok((quick.books.operations().await? == 1).then_some(()));
            eventually("the intent", begun).await?;
            is_due_since(&quick, "operations", "next_push_at", "1 second").await
        };
        let (paid, ()) = tokio::try_join!(paying, due)?;
        assert_eq!(created(&paid)["status"], "pending_settlement");
        quick.customer().await?;
        receiver.hears("/in", 2).await?;
        assert_eq!(payments.books.sent().await?, 3, "they hang still");
        assert_eq!(operations(&collections, "pushes > 0").await?, 32, "the others are left to other workers");
        Ok(())
    };
    tokio::try_join!(together(3, |_| payments.pay(100)), together(40, |_| collections.pay(100)), quickly)?;
    for merchant in [&payments, &collections] {
        eventually("an end", async || Ok((merchant.books.unfinished().await? == 0).then_some(()))).await?;
        merchant.books.audit().await?;
    }
    quick.books.audit().await
}

#[tokio::test]
async fn without_redis_a_worker_takes_what_it_can_begin_and_finishes_it_before_its_end() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).env("WORKER_MONEY_CONCURRENCY", "2").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.mock(&cluster, &["--latency-ms", "6000"]).await?;
    cluster.redis.kill9()?;
    let stopping = async {
        let sent = async || Ok((merchant.books.sent().await? == 2).then_some(()));
        eventually("all intents", async || Ok((merchant.books.operations().await? == 6).then_some(()))).await?;
        eventually("as many requests as there are places", sent).await?;
        assert_eq!(cluster.worker(0).terminate().await?.code(), Some(0), "the worker ends well");
        assert_eq!(operations(&merchant, "finished_at IS NOT NULL").await?, 2, "what had begun is finished");
        assert_eq!(operations(&merchant, "pushes > 0").await?, 2, "nothing more was taken");
        merchant.mock(&cluster, &[]).await?;
        cluster.add(Kind::Worker).await.map(drop)
    };
    tokio::try_join!(together(6, |_| merchant.pay(100)), stopping)?;
    eventually("an end", async || Ok((merchant.books.unfinished().await? == 0).then_some(()))).await?;
    merchant.books.audit().await
}
