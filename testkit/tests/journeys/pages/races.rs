//! Several want something of one page at once: one of them gets it, and everyone is told the truth.

use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::Value;
use testkit::Cluster;
use tokio::time::sleep;

use super::{INVOICES, LINKS, becomes, ledgers, link_at, shown, told};
use crate::support::{Merchant, Payer, created, eventually, id, payment_made, race, together};

const ROUNDS: usize = 100;
const AT_ONCE: usize = 20;

/// Two of each process, so that those who race do not even share one.
async fn rivals() -> Result<(Cluster, Merchant)> {
    let cluster = Cluster::builder().api(2).worker(2).scheduler(2).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.mock(&cluster, &["--latency-ms", "30"]).await?;
    Ok((cluster, merchant))
}

/// A number that looks like chance and is the same in each run.
fn jitter(round: usize, salt: usize, below_ms: usize) -> Duration {
    let mixed = (round * 7919 + salt * 104_729).wrapping_mul(2_654_435_761) >> 7;
    Duration::from_millis((mixed % below_ms) as u64)
}

/// The mock has charged so many times for all links and invoices, declined or not.
async fn charges_are(merchant: &Merchant, count: usize) -> Result<()> {
    assert_eq!(merchant.books.charges().await?, i64::try_from(count)?, "charges at the mock");
    merchant.books.audit().await
}

#[tokio::test]
async fn of_two_payers_one_pays() -> Result<()> {
    let (cluster, merchant) = rivals().await?;
    for batch in 0..ROUNDS / AT_ONCE {
        let round = async |i: usize| {
            let round = batch * AT_ONCE + i;
            let (made, payer) = link_at(&cluster, &merchant, 500).await?;
            let other = Payer::of(&made, &cluster.api_url(1))?;
            let first = async {
                sleep(jitter(round, 1, 10)).await;
                payer.submit("tok_ok").await
            };
            let second = async {
                sleep(jitter(round, 2, 10)).await;
                other.submit("tok_ok").await
            };
            let (first, second) = tokio::try_join!(first, second)?;
            let payments: Vec<_> = [&first, &second].into_iter().filter_map(payment_made).collect();
            assert_eq!(payments.len(), 1, "one has paid: {payments:?}");
            let loser = if payment_made(&first).is_some() { (&other, &second) } else { (&payer, &first) };
            let page = loser.0.follow(loser.1).await?;
            assert!(page.html.contains("being processed") || page.html.contains("Paid on"), "{}", page.html);
            let paid = becomes(&merchant, &made, "paid").await?;
            assert_eq!(paid["paymentId"].as_str(), Some(payments[0].as_str()));
            assert_eq!(ledgers(&merchant, &made).await?, ["sale 500"]);
            assert_eq!(told(&merchant, &made).await?, ["payment_link.paid"]);
            Ok(())
        };
        together(AT_ONCE, round).await?;
    }
    charges_are(&merchant, ROUNDS).await
}

#[tokio::test]
async fn of_a_hundred_payers_of_one_link_one_pays() -> Result<()> {
    let (cluster, merchant) = rivals().await?;
    let (made, payer) = link_at(&cluster, &merchant, 500).await?;
    let other = Payer::of(&made, &cluster.api_url(1))?;
    let answers = together(100, async |i| [&payer, &other][i % 2].submit("tok_ok").await).await?;
    let payments: Vec<_> = answers.iter().filter_map(payment_made).collect();
    assert_eq!(payments.len(), 1, "{payments:?}");
    assert_eq!(becomes(&merchant, &made, "paid").await?["paymentId"].as_str(), Some(payments[0].as_str()));
    charges_are(&merchant, 1).await
}

/// Whatever ends it races against its payer: then it is paid and the merchant was refused, or it has ended and nobody was
/// charged. Answers how often it was paid.
async fn payer_against(
    cluster: &Cluster,
    merchant: &Merchant,
    (path, end, ended): (&str, &str, &str),
    make: impl AsyncFn() -> Result<Value>,
) -> Result<usize> {
    let mut paid = 0;
    for batch in 0..ROUNDS / AT_ONCE {
        let round = async |i: usize| {
            let round = batch * AT_ONCE + i;
            let made = make().await?;
            let payer = Payer::of(&made, &cluster.api_url(1))?;
            let paying = async {
                sleep(jitter(round, 1, 40)).await;
                payer.submit("tok_ok").await
            };
            let ending = async {
                sleep(jitter(round, 2, 80)).await;
                merchant.api.send(Method::POST, &format!("{path}/{}/{end}", id(&made)?), None).await
            };
            let (paid, refused) = tokio::try_join!(paying, ending)?;
            let (paid, done) = (payment_made(&paid).is_some(), refused.status == 200);
            assert!(done || refused.status == 409, "{}", refused.body);
            Ok((made, paid, done))
        };
        for (made, was_paid, was_ended) in together(AT_ONCE, round).await? {
            let now = shown(merchant, &made).await?;
            let charged = ledgers(merchant, &made).await?;
            if was_paid {
                paid += 1;
                assert_eq!(charged, ["sale 500"]);
                assert!(now["paymentId"].is_string(), "{now}");
            } else {
                assert!(was_ended, "somebody must have got what he wanted: {now}");
                assert_eq!(now["status"], ended);
                assert!(charged.is_empty(), "{charged:?}");
            }
            // A paid link is not cancelled; a paid invoice may be voided, and keeps its payment.
            assert!(!(was_paid && was_ended) || path == INVOICES, "{now}");
        }
    }
    charges_are(merchant, paid).await?;
    Ok(paid)
}

#[tokio::test]
async fn a_payer_against_the_cancellation_of_the_link() -> Result<()> {
    let (cluster, merchant) = rivals().await?;
    let make = async || Ok(link_at(&cluster, &merchant, 500).await?.0);
    let paid = payer_against(&cluster, &merchant, (LINKS, "cancel", "cancelled"), make).await?;
    eprintln!("paid {paid}, cancelled {}", ROUNDS - paid);
    Ok(())
}

#[tokio::test]
async fn a_payer_against_the_voiding_of_the_invoice() -> Result<()> {
    let (cluster, merchant) = rivals().await?;
    let customer = merchant.customer().await?;
    let make = async || {
        let body = serde_json::json!({"customerId": customer, "currency": "USD", "amount": 500});
        Ok(created(&merchant.api.post(INVOICES, body).await?).clone())
    };
    let paid = payer_against(&cluster, &merchant, (INVOICES, "void", "voided"), make).await?;
    eprintln!("paid {paid}, voided {}", ROUNDS - paid);
    Ok(())
}

#[tokio::test]
async fn what_was_begun_is_finished_though_the_api_dies() -> Result<()> {
    let (mut cluster, merchant) = rivals().await?;
    let (made, payer) = link_at(&cluster, &merchant, 500).await?;
    cluster.worker(0).pause()?;
    cluster.worker(1).pause()?;
    let dying = async {
        eventually("the intent", async || Ok((merchant.books.operations().await? == 1).then_some(()))).await?;
        cluster.api(0).kill9()
    };
    let (answer, died) = tokio::join!(payer.submit("tok_ok"), dying);
    died?;
    assert!(answer.is_err(), "nobody was there to answer");
    let other = Payer::of(&made, &cluster.api_url(1))?;
    other.pay("tok_ok").await?.shows(200, &["being processed"]);
    cluster.redis.flush_all().await?;
    cluster.worker(0).resume()?;
    cluster.worker(1).resume()?;
    eventually("the outcome", async || {
        let page = other.open().await?;
        Ok(page.html.contains("Paid on").then_some(()))
    })
    .await
    .context("the page tells of it")?;
    cluster.api(0).restart().await?;
    charges_are(&merchant, 1).await
}

/// The cardholder pays on the page while the schedulers, and runs beside them, collect the same invoice.
#[tokio::test]
async fn a_payer_against_the_collection() -> Result<()> {
    let (cluster, merchant) = rivals().await?;
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    let mut by_payer = 0;
    for batch in 0..ROUNDS / AT_ONCE {
        let round = async |i: usize| {
            let round = batch * AT_ONCE + i;
            let body = serde_json::json!({"customerId": customer, "currency": "USD", "amount": 500});
            let made = created(&merchant.api.post(INVOICES, body).await?).clone();
            let path = format!("{INVOICES}/{}", id(&made)?);
            let payer = Payer::of(&made, &cluster.api_url(1))?;
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
            let paid = becomes(&merchant, &made, "paid").await?;
            assert_eq!(ledgers(&merchant, &made).await?, ["sale 500"]);
            let attempts = merchant.api.get(&format!("{path}/attempts")).await?;
            let attempts = attempts.body["data"].as_array().expect("a list").clone();
            let by_payer = payment_made(&paying);
            assert_eq!(attempts.len(), usize::from(by_payer.is_none()), "{attempts:?}");
            let payment = by_payer.clone().map_or_else(|| attempts[0]["paymentId"].clone(), Value::from);
            assert_eq!(paid["paymentId"], payment);
            Ok(usize::from(by_payer.is_some()))
        };
        by_payer += together(AT_ONCE, round).await?.into_iter().sum::<usize>();
    }
    assert!((1..ROUNDS).contains(&by_payer), "the page came first {by_payer} times: no race");
    charges_are(&merchant, ROUNDS).await
}
