//! Whatever dies between a charge and its answer: one sale for each payment in the gateway's own records.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use testkit::Cluster;

use super::{APPROVES, shop};
use crate::support::{Shop, accepted, created, eventually, id, together};

/// A gateway whose acquirer takes its time, so that it can be met in the middle.
async fn slow_cluster() -> Result<Cluster> {
    let builder = Cluster::builder().api(1).worker(1).scheduler(1).gateway(1);
    builder.env("GATEWAY_ACQUIRER_DELAY_MS", "1500").start().await
}

async fn under_way(shop: &Shop) -> Result<()> {
    eventually("a sale in the middle", async || Ok(shop.records().await?.contains("in_progress").then_some(()))).await
}

#[tokio::test]
async fn a_worker_that_dies_in_the_middle_charges_once() -> Result<()> {
    let mut cluster = slow_cluster().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let body = json!({"amount": 500, "currency": "USD", "paymentToken": shop.token(APPROVES).await?});
    let dying = async {
        under_way(&shop).await?;
        cluster.worker(0).kill9()?;
        cluster.worker(0).restart().await
    };
    let (answer, died) = tokio::join!(shop.pay_with(body), dying);
    died?;
    let payment = id(created(&answer?))?;
    shop.merchant.becomes(&payment, "pending_settlement").await?;
    assert_eq!(shop.records().await?, "sale 500 approved");
    Ok(())
}

#[tokio::test]
async fn a_gateway_that_dies_in_the_middle_charges_once_or_never() -> Result<()> {
    let mut cluster = slow_cluster().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let tokens = together(6, |_| shop.token(APPROVES)).await?;
    let dying = async {
        under_way(&shop).await?;
        cluster.gateway(0).kill9()?;
        cluster.gateway(0).restart().await
    };
    let pay = |n: usize| {
        let body = json!({"amount": 500, "currency": "USD", "paymentToken": tokens[n]});
        shop.pay_with(body)
    };
    let (answers, died) = tokio::join!(together(6, pay), dying);
    died?;
    let mut approved = 0;
    for answer in answers? {
        let payment = shop.merchant.finished(&id(created(&answer))?).await?;
        let status = payment["status"].as_str().unwrap_or_default();
        assert!(["pending_settlement", "failed"].contains(&status), "{payment}");
        approved += usize::from(status == "pending_settlement");
    }
    let records = shop.records().await?;
    assert_eq!(records.matches("sale 500 approved").count(), approved, "{records}");
    assert!(shop.most_sales_of_a_reference().await? <= 1);
    Ok(())
}

/// A worker that sleeps past its lease wakes up to a payment that is charged, and charges nothing.
#[tokio::test]
async fn a_worker_that_oversleeps_charges_nothing_twice() -> Result<()> {
    let mut cluster = slow_cluster().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let body = json!({"amount": 500, "currency": "USD", "paymentToken": shop.token(APPROVES).await?});
    let sleeping = async {
        under_way(&shop).await?;
        cluster.worker(0).pause()?;
        cluster.add(testkit::Kind::Worker).await?;
        anyhow::Ok(())
    };
    let (answer, slept) = tokio::join!(shop.pay_with(body), sleeping);
    slept?;
    let payment = id(created(&answer?))?;
    shop.merchant.becomes(&payment, "pending_settlement").await?;
    cluster.worker(0).resume()?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(shop.merchant.payment(&payment).await?["status"], "pending_settlement");
    assert_eq!(shop.records().await?, "sale 500 approved");
    Ok(())
}

/// Refunds carry no reference: one that was lost is told from the others by being alone.
#[tokio::test]
async fn a_refund_whose_answer_is_lost_goes_back_once() -> Result<()> {
    let mut cluster = slow_cluster().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let payment = id(created(&shop.pay(APPROVES, 500).await?))?;
    for _ in 0..2 {
        accepted(&shop.merchant.refund(&payment, Some(200)).await?);
    }
    eventually("a refund in the middle", async || {
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
async fn thirty_payments_under_one_key_are_one_sale() -> Result<()> {
    let shop = shop().await?;
    let api = shop.merchant.api.header("idempotency-key", "thirty")?;
    let body = json!({"amount": 500, "currency": "USD", "paymentToken": shop.token(APPROVES).await?});
    let answers = together(30, |_| api.post("/v1/payments", body.clone())).await?;
    let first = &created(&answers[0])["id"];
    assert!(answers.iter().all(|answer| created(answer)["id"] == *first));
    assert_eq!(shop.records().await?, "sale 500 approved");
    Ok(())
}
