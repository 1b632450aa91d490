//! A COMMIT hangs in its backend after the client's connection was lost, and takes effect later, when it seems to have
//! failed.

use anyhow::Result;
use sqlx::PgPool;
use testkit::Client;

use super::network::Network;
use crate::support::{Merchant, created, eventually, sale};

/// Makes every commit of a payment wait for a lock, as it would for an unreachable standby.
const HANGS: [&str; 2] = [
    "CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS
     $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$",
    "CREATE CONSTRAINT TRIGGER hang AFTER INSERT ON payments DEFERRABLE INITIALLY DEFERRED
     FOR EACH ROW EXECUTE FUNCTION hang()",
];

/// The statements that wait for this kind of lock, with their start times.
async fn waiting(db: &PgPool, lock: &str) -> Result<Vec<String>> {
    let query =
        "SELECT pid || ' ' || query_start FROM pg_stat_activity WHERE datname = current_database() AND wait_event = $1";
    Ok(sqlx::query_scalar(query).bind(lock).fetch_all(db).await?)
}

#[tokio::test]
async fn a_commit_applied_after_its_connection_was_lost_is_not_a_failure() -> Result<()> {
    let network = Network::new().await?;
    // In one process both payments, or their repetitions, could share a statement.
    let cluster = network.cluster()?.api(2).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let other = Client::new(&cluster.api_url(1))?.bearer(&merchant.account.secret_key)?;
    let other = other.header("idempotency-key", "hangs")?;
    let db = PgPool::connect(network.database.url()).await?;
    for statement in HANGS {
        sqlx::query(statement).execute(&db).await?;
    }
    let mut standby = db.acquire().await?;
    sqlx::query("SELECT pg_advisory_lock(1)").execute(&mut *standby).await?;

    let hanging = async {
        let both = async || Ok((waiting(&db, "advisory").await?.len() == 2).then_some(()));
        eventually("two hanging COMMITs", both).await?;
        network.proxy.close_connections();
        let retrying = async || Ok(Some(waiting(&db, "transactionid").await?).filter(|waiting| waiting.len() == 2));
        let retries = eventually("retries that wait for the first attempts", retrying).await?;
        let timed_out = async || {
            let waiting = waiting(&db, "transactionid").await?;
            Ok((!retries.iter().any(|retry| waiting.contains(retry))).then_some(()))
        };
        eventually("the retries to time out", timed_out).await?;
        sqlx::query("SELECT pg_advisory_unlock(1)").execute(&mut *standby).await?;
        anyhow::Ok(())
    };
    let (without_key, with_key, ()) =
        tokio::try_join!(merchant.pay(100), other.post("/v1/payments", sale(200)), hanging)?;
    assert_eq!(created(&without_key)["status"], "pending_settlement");
    assert_eq!(created(&with_key)["status"], "pending_settlement");
    let charged: Vec<i64> =
        sqlx::query_scalar("SELECT amount FROM mock.transactions ORDER BY amount").fetch_all(&db).await?;
    assert_eq!(charged, [100, 200]);
    Ok(())
}
