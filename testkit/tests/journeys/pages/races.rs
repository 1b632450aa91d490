//! Concurrent requests for one page: exactly one takes effect, and every client sees the true result.

use std::sync::Arc;

use anyhow::Result;
use reqwest::Method;
use serde_json::Value;
use testkit::Cluster;
use tokio::time::sleep;

use super::{INVOICES, LINKS, current, event_types, ledgers, link_at, wait_for_status};
use crate::support::{
    Merchant, Payer, concurrently, created, id, jitter, race, redirect_payment_id, redundant_cluster,
};

const ROUNDS: usize = 40;
const CONCURRENCY: usize = 20;

/// A new merchant, whose provider takes a while.
async fn racing_merchant() -> Result<(Arc<Cluster>, Merchant)> {
    let cluster = redundant_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.mock(&cluster, &["--latency-ms", "30"]).await?;
    Ok((cluster, merchant))
}

/// Asserts the number of charges at the mock, including declined ones.
async fn assert_charges(merchant: &Merchant, count: usize) -> Result<()> {
    assert_eq!(merchant.books.charges().await?, i64::try_from(count)?, "charges at the mock");
    merchant.books.audit_with_failed_payments().await
}

#[tokio::test]
async fn of_two_concurrent_payers_one_pays() -> Result<()> {
    let (shared, merchant) = racing_merchant().await?;
    let cluster = &*shared;
    for batch in 0..ROUNDS / CONCURRENCY {
        let round = async |i: usize| {
            let round = batch * CONCURRENCY + i;
            let (made, payer) = link_at(cluster, &merchant, 500).await?;
            let other = Payer::for_object(&made, &cluster.api_url(1))?;
            let first = async {
                sleep(jitter(round, 1, 10)).await;
                payer.submit("tok_ok").await
            };
            let second = async {
                sleep(jitter(round, 2, 10)).await;
                other.submit("tok_ok").await
            };
            let (first, second) = tokio::try_join!(first, second)?;
            let payments: Vec<_> = [&first, &second].into_iter().filter_map(redirect_payment_id).collect();
            assert_eq!(payments.len(), 1, "exactly one payment: {payments:?}");
            let loser = if redirect_payment_id(&first).is_some() { (&other, &second) } else { (&payer, &first) };
            let page = loser.0.follow(loser.1).await?;
            assert!(page.html.contains("being processed") || page.html.contains("Paid on"), "{}", page.html);
            let paid = wait_for_status(&merchant, &made, "paid").await?;
            assert_eq!(paid["paymentId"].as_str(), Some(payments[0].as_str()));
            assert_eq!(ledgers(&merchant, &made).await?, ["sale 500"]);
            assert_eq!(event_types(&merchant, &made).await?, ["payment_link.paid"]);
            Ok(())
        };
        concurrently(CONCURRENCY, round).await?;
    }
    assert_charges(&merchant, ROUNDS).await
}

/// Races a payer against an action that ends the object: either it is paid, or it has ended and nothing was charged.
/// Returns how often it was paid.
async fn race_payer_against(
    cluster: &Cluster,
    merchant: &Merchant,
    (path, action, end_status): (&str, &str, &str),
    make: impl AsyncFn() -> Result<Value>,
) -> Result<usize> {
    let mut paid = 0;
    for batch in 0..ROUNDS / CONCURRENCY {
        let round = async |i: usize| {
            let round = batch * CONCURRENCY + i;
            let made = make().await?;
            let payer = Payer::for_object(&made, &cluster.api_url(1))?;
            let paying = async {
                sleep(jitter(round, 1, 40)).await;
                payer.submit("tok_ok").await
            };
            let ending = async {
                sleep(jitter(round, 2, 80)).await;
                merchant.api.send(Method::POST, &format!("{path}/{}/{action}", id(&made)?), None).await
            };
            let (paid, ended) = tokio::try_join!(paying, ending)?;
            let (paid, done) = (redirect_payment_id(&paid).is_some(), ended.status == 200);
            assert!(done || ended.status == 409, "{}", ended.body);
            Ok((made, paid, done))
        };
        for (made, was_paid, was_ended) in concurrently(CONCURRENCY, round).await? {
            let now = current(merchant, &made).await?;
            let charged = ledgers(merchant, &made).await?;
            // A payment that was not sent when its invoice was voided has failed.
            let was_charged = was_paid && !(was_ended && path == INVOICES && charged.is_empty());
            if was_charged {
                paid += 1;
                assert_eq!(charged, ["sale 500"]);
                assert!(now["paymentId"].is_string(), "{now}");
            } else {
                assert!(was_ended, "one of the two must succeed: {now}");
                assert_eq!(now["status"], end_status);
                assert!(charged.is_empty(), "{charged:?}");
            }
            // A paid link is not cancelled; a paid invoice may be voided, and keeps its payment.
            assert!(!(was_paid && was_ended) || path == INVOICES, "{now}");
        }
    }
    assert_charges(merchant, paid).await?;
    Ok(paid)
}

#[tokio::test]
async fn payment_races_with_link_cancellation() -> Result<()> {
    let (shared, merchant) = racing_merchant().await?;
    let cluster = &*shared;
    let make = async || Ok(link_at(cluster, &merchant, 500).await?.0);
    let paid = race_payer_against(cluster, &merchant, (LINKS, "cancel", "cancelled"), make).await?;
    eprintln!("paid {paid}, cancelled {}", ROUNDS - paid);
    Ok(())
}

#[tokio::test]
async fn payment_races_with_invoice_void() -> Result<()> {
    let (shared, merchant) = racing_merchant().await?;
    let cluster = &*shared;
    let customer = merchant.customer().await?;
    let make = async || {
        let body = serde_json::json!({"customerId": customer, "currency": "USD", "amount": 500});
        Ok(created(&merchant.api.post(INVOICES, body).await?).clone())
    };
    let paid = race_payer_against(cluster, &merchant, (INVOICES, "void", "voided"), make).await?;
    eprintln!("paid {paid}, voided {}", ROUNDS - paid);
    Ok(())
}

/// The cardholder pays on the page while schedulers and manual runs collect the same invoice.
#[tokio::test]
async fn payment_races_with_collection() -> Result<()> {
    let (shared, merchant) = racing_merchant().await?;
    let cluster = &*shared;
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    let mut by_payer = 0;
    for batch in 0..ROUNDS / CONCURRENCY {
        let round = async |i: usize| {
            let round = batch * CONCURRENCY + i;
            let body = serde_json::json!({"customerId": customer, "currency": "USD", "amount": 500});
            let made = created(&merchant.api.post(INVOICES, body).await?).clone();
            let path = format!("{INVOICES}/{}", id(&made)?);
            let payer = Payer::for_object(&made, &cluster.api_url(1))?;
            let paying = async {
                sleep(jitter(round, 1, 60)).await;
                payer.submit("tok_ok").await
            };
            let collecting = async {
                let at = serde_json::json!({"collectAt": "2020-01-01T00:00:00Z"});
                sleep(jitter(round, 2, 40)).await;
                merchant.api.post(&format!("{path}/schedule"), at).await?;
                merchant.api.send(Method::POST, &format!("{INVOICES}/scheduler/run"), None).await
            };
            let (paying, _) = race(round, paying, collecting).await?;
            let paid = wait_for_status(&merchant, &made, "paid").await?;
            assert_eq!(ledgers(&merchant, &made).await?, ["sale 500"]);
            let attempts = merchant.api.get(&format!("{path}/attempts")).await?;
            let attempts = attempts.body["data"].as_array().expect("a list").clone();
            let by_payer = redirect_payment_id(&paying);
            assert_eq!(attempts.len(), usize::from(by_payer.is_none()), "{attempts:?}");
            let payment = by_payer.clone().map_or_else(|| attempts[0]["paymentId"].clone(), Value::from);
            assert_eq!(paid["paymentId"], payment);
            Ok(usize::from(by_payer.is_some()))
        };
        by_payer += concurrently(CONCURRENCY, round).await?.into_iter().sum::<usize>();
    }
    assert!((1..ROUNDS).contains(&by_payer), "the page won {by_payer} times: no race");
    assert_charges(&merchant, ROUNDS).await
}
