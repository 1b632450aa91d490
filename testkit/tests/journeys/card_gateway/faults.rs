//! The gateway dies before its acquirer has what it has entered. The simulation kills it, and workers, at other times.

use anyhow::Result;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use testkit::Cluster;

use super::APPROVES;
use crate::support::{Shop, accepted, created, eventually, id, ok};

/// Kills the gateway after it has entered two transactions and before its acquirer has them, and restarts it. It will
/// never process them.
async fn kill_before_the_acquirer(cluster: &mut Cluster, begin: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let mut holder = PgConnection::connect(cluster.database_url()).await?;
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    let mut lock = holder.begin().await?;
    sqlx::query("LOCK TABLE gateway.acquirer_books IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await?;
    begin().await?;
    // Others than the entered transactions may wait too.
    let waiting = "SELECT pid FROM pg_locks WHERE relation = 'gateway.acquirer_books'::regclass AND NOT granted
                   AND (SELECT count(*) = 2 FROM gateway.transactions WHERE recover_at IS NOT NULL)";
    let waiting: Vec<i32> = eventually("a request to the acquirer", async || {
        let waiting: Vec<i32> = sqlx::query_scalar(waiting).fetch_all(&mut db).await?;
        Ok((!waiting.is_empty()).then_some(waiting))
    })
    .await?;
    cluster.gateway(0).kill9()?;
    sqlx::query("SELECT pg_terminate_backend(pid) FROM unnest($1) pid").bind(waiting).execute(&mut db).await?;
    lock.rollback().await?;
    sqlx::query("UPDATE gateway.transactions SET recover_at = now() WHERE recover_at IS NOT NULL")
        .execute(&mut db)
        .await?;
    cluster.gateway(0).restart().await
}

#[tokio::test]
async fn a_refund_and_a_collection_that_the_gateway_never_processed_are_sent_again() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).gateway(1).start().await?;
    let (refunding, collecting) = (Shop::new(&cluster, &[]).await?, Shop::new(&cluster, &[]).await?);
    let payment = id(created(&refunding.pay(APPROVES, 500).await?))?;
    let (customer, _) = collecting.saved_card(APPROVES).await?;
    let body = json!({"customerId": customer, "currency": "USD", "amount": 700});
    let api = &collecting.merchant.api;
    let invoice = format!("/v1/invoices/{}", id(created(&api.post("/v1/invoices", body).await?))?);
    let begin = async || {
        accepted(&refunding.merchant.refund(&payment, Some(200)).await?);
        let due = json!({"collectAt": "2020-01-01T00:00:00Z"});
        ok(&api.post(&format!("{invoice}/schedule"), due).await?);
        Ok(())
    };
    kill_before_the_acquirer(&mut cluster, begin).await?;
    eventually("the refund", async || {
        let payment = refunding.merchant.payment(&payment).await?;
        anyhow::ensure!(payment["refunds"][0]["status"] == "succeeded", "{payment}");
        Ok(Some(()))
    })
    .await?;
    assert_eq!(refunding.records().await?, "sale 500 approved, refund 200 failed, refund 200 approved");
    eventually("the invoice to be paid", async || {
        let invoice = api.get(&invoice).await?.body;
        anyhow::ensure!(invoice["status"] == "paid", "{invoice}");
        Ok(Some(()))
    })
    .await?;
    let attempts = api.get(&format!("{invoice}/attempts")).await?.body;
    assert_eq!(attempts["data"].as_array().map(Vec::len), Some(1), "no attempt is used up: {attempts}");
    assert_eq!(attempts["data"][0]["status"], "succeeded");
    assert_eq!(collecting.records().await?, "sale 700 failed, sale 700 approved");
    Ok(())
}
