//! Processes die between a charge and its response: the gateway's own records still have one sale for each payment.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use testkit::Cluster;

use super::{APPROVES, shop};
use crate::support::{Shop, accepted, concurrently, created, eventually, id, ok};

/// A cluster whose acquirer is slow, so that tests can interrupt a sale in progress.
async fn slow_cluster() -> Result<Cluster> {
    let builder = Cluster::builder().api(1).worker(1).scheduler(1).gateway(1);
    builder.env("GATEWAY_ACQUIRER_DELAY_MS", "1500").start().await
}

async fn wait_for_sale_in_progress(shop: &Shop) -> Result<()> {
    // A sale that this test saw too late has ended, and stays in the table.
    let exists = "SELECT count(*) > 0 FROM gateway.transactions WHERE kind = 'sale'";
    eventually("a sale", async || {
        Ok(sqlx::query_scalar::<_, bool>(exists).fetch_one(&shop.merchant.books.db).await?.then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_worker_killed_during_a_charge_charges_once() -> Result<()> {
    let mut cluster = slow_cluster().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let body = json!({"amount": 500, "currency": "USD", "paymentToken": shop.token(APPROVES).await?});
    let kill = async {
        wait_for_sale_in_progress(&shop).await?;
        cluster.worker(0).kill9()?;
        cluster.worker(0).restart().await
    };
    let (response, killed) = tokio::join!(shop.pay_with(body), kill);
    killed?;
    let payment = id(created(&response?))?;
    shop.merchant.wait_for_status(&payment, "pending_settlement").await?;
    assert_eq!(shop.records().await?, "sale 500 approved");
    Ok(())
}

#[tokio::test]
async fn a_gateway_killed_during_charges_charges_once_or_never() -> Result<()> {
    let mut cluster = slow_cluster().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let tokens = concurrently(6, |_| shop.token(APPROVES)).await?;
    let kill = async {
        wait_for_sale_in_progress(&shop).await?;
        cluster.gateway(0).kill9()?;
        cluster.gateway(0).restart().await
    };
    let pay = |n: usize| {
        let body = json!({"amount": 500, "currency": "USD", "paymentToken": tokens[n]});
        shop.pay_with(body)
    };
    let (responses, killed) = tokio::join!(concurrently(6, pay), kill);
    killed?;
    let mut approved = 0;
    for response in responses? {
        let payment = shop.merchant.wait_until_finished(&id(created(&response))?).await?;
        let status = payment["status"].as_str().unwrap_or_default();
        assert!(["pending_settlement", "failed"].contains(&status), "{payment}");
        approved += usize::from(status == "pending_settlement");
    }
    let records = shop.records().await?;
    assert_eq!(records.matches("sale 500 approved").count(), approved, "{records}");
    assert!(shop.max_sales_per_reference().await? <= 1);
    Ok(())
}

/// When it resumes, another worker has charged the payment.
#[tokio::test]
async fn a_worker_paused_past_its_lease_charges_once() -> Result<()> {
    let mut cluster = slow_cluster().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let body = json!({"amount": 500, "currency": "USD", "paymentToken": shop.token(APPROVES).await?});
    let pause = async {
        wait_for_sale_in_progress(&shop).await?;
        cluster.worker(0).pause()?;
        cluster.add(testkit::ProcessKind::Worker).await?;
        anyhow::Ok(())
    };
    let (response, paused) = tokio::join!(shop.pay_with(body), pause);
    paused?;
    let payment = id(created(&response?))?;
    shop.merchant.wait_for_status(&payment, "pending_settlement").await?;
    cluster.worker(0).resume()?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(shop.merchant.payment(&payment).await?["status"], "pending_settlement");
    assert_eq!(shop.records().await?, "sale 500 approved");
    Ok(())
}

/// Refunds carry no reference at the gateway, so they are made one at a time: a lost one cannot be confused with
/// another.
#[tokio::test]
async fn a_refund_with_a_lost_response_is_made_once() -> Result<()> {
    let mut cluster = slow_cluster().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let payment = id(created(&shop.pay(APPROVES, 500).await?))?;
    for _ in 0..2 {
        accepted(&shop.merchant.refund(&payment, Some(200)).await?);
    }
    eventually("a refund in progress", async || {
        Ok(shop.records().await?.contains("refund 200 in_progress").then_some(()))
    })
    .await?;
    cluster.worker(0).kill9()?;
    cluster.worker(0).restart().await?;
    eventually("both refunds", async || {
        let payment = shop.merchant.payment(&payment).await?;
        Ok((payment["amountRefunded"] == 400).then_some(()))
    })
    .await?;
    assert_eq!(shop.records().await?, "sale 500 approved, refund 200 approved, refund 200 approved");
    Ok(())
}

#[tokio::test]
async fn thirty_payments_with_one_key_are_one_sale() -> Result<()> {
    let shop = shop().await?;
    let api = shop.merchant.api.header("idempotency-key", "thirty")?;
    let body = json!({"amount": 500, "currency": "USD", "paymentToken": shop.token(APPROVES).await?});
    let responses = concurrently(30, |_| api.post("/v1/payments", body.clone())).await?;
    let first = &created(&responses[0])["id"];
    assert!(responses.iter().all(|response| created(response)["id"] == *first));
    assert_eq!(shop.records().await?, "sale 500 approved");
    Ok(())
}

/// Kills the gateway after it has entered a transaction and before its acquirer has it, and restarts it. It will never
/// process that transaction.
async fn kill_before_the_acquirer(cluster: &mut Cluster, begin: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let mut holder = PgConnection::connect(cluster.database_url()).await?;
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    let mut lock = holder.begin().await?;
    sqlx::query("LOCK TABLE gateway.acquirer_books IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await?;
    begin().await?;
    // Others than the entered transaction may wait too.
    let waiting = "SELECT pid FROM pg_locks WHERE relation = 'gateway.acquirer_books'::regclass AND NOT granted
                   AND EXISTS (SELECT FROM gateway.transactions WHERE recover_at IS NOT NULL)";
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
async fn a_refund_that_the_gateway_never_processed_is_sent_again() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).gateway(1).start().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let payment = id(created(&shop.pay(APPROVES, 500).await?))?;
    let refund = async || {
        accepted(&shop.merchant.refund(&payment, Some(200)).await?);
        Ok(())
    };
    kill_before_the_acquirer(&mut cluster, refund).await?;
    eventually("the refund", async || {
        let payment = shop.merchant.payment(&payment).await?;
        anyhow::ensure!(payment["refunds"][0]["status"] == "succeeded", "{payment}");
        Ok(Some(()))
    })
    .await?;
    assert_eq!(shop.records().await?, "sale 500 approved, refund 200 failed, refund 200 approved");
    Ok(())
}

#[tokio::test]
async fn a_collection_that_the_gateway_never_processed_uses_up_no_attempt() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).gateway(1).start().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let (customer, _) = shop.saved_card(APPROVES).await?;
    let body = json!({"customerId": customer, "currency": "USD", "amount": 700});
    let invoice = format!("/v1/invoices/{}", id(created(&shop.merchant.api.post("/v1/invoices", body).await?))?);
    let collect = async || {
        let due = json!({"collectAt": "2020-01-01T00:00:00Z"});
        ok(&shop.merchant.api.post(&format!("{invoice}/schedule"), due).await?);
        Ok(())
    };
    kill_before_the_acquirer(&mut cluster, collect).await?;
    eventually("the invoice to be paid", async || {
        let invoice = shop.merchant.api.get(&invoice).await?.body;
        anyhow::ensure!(invoice["status"] == "paid", "{invoice}");
        Ok(Some(()))
    })
    .await?;
    let attempts = shop.merchant.api.get(&format!("{invoice}/attempts")).await?.body;
    assert_eq!(attempts["data"].as_array().map(Vec::len), Some(1), "{attempts}");
    assert_eq!(attempts["data"][0]["status"], "succeeded");
    assert_eq!(shop.records().await?, "sale 700 failed, sale 700 approved");
    Ok(())
}
