//! Void and cancel_schedule against collection: after their answer nothing is charged.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::{LONG_AGO, ask, attempts, customer_with, invoice, ledger, run, schedule, shown};
use crate::support::{Merchant, cluster, eventually, merchant, ok, race, together};

const ROUNDS: usize = 200;

/// Asks for `what` while the invoice is being collected. Whether that came first.
async fn against(merchant: &Merchant, customer: &str, round: usize, what: &str, becomes: &str) -> Result<bool> {
    let made = invoice(merchant, customer, 500).await?;
    ok(&schedule(merchant, &made, LONG_AGO).await?);
    // Sometimes before the claim, sometimes after it, sometimes after the outcome.
    let later = async |millis: usize| sleep(Duration::from_millis(millis as u64)).await;
    let ask = async {
        later(round % 9).await;
        ask(merchant, &made, what).await
    };
    let run = async {
        later(round % 5).await;
        run(merchant).await
    };
    let (answer, _) = race(round, ask, run).await?;
    if answer.status == 200 && answer.body["amountPaid"] == 0 {
        assert_eq!(answer.body["status"], becomes);
        assert_eq!(shown(merchant, &made).await?["status"], becomes);
        assert!(attempts(merchant, &made).await?.is_empty(), "an attempt after the answer");
        assert!(ledger(merchant, &made).await?.is_empty(), "charged after the answer");
        return Ok(true);
    }
    // Too late: an attempt is in flight, or has paid.
    let paid = eventually("paid", async || {
        let invoice = shown(merchant, &made).await?;
        Ok((invoice["amountPaid"] == 500).then_some(invoice))
    })
    .await?;
    assert!(answer.status == 409 || paid["status"] == "voided", "{} {}", answer.status, answer.body);
    assert_eq!(ledger(merchant, &made).await?, ["sale 500"]);
    Ok(false)
}

#[tokio::test]
async fn whoever_comes_first_void_or_cancel_or_the_attempt() -> Result<()> {
    let merchant = merchant().await?;
    merchant.mock(cluster().await?, &["--latency-ms", "4"]).await?;
    let (customer, _) = customer_with(&merchant, "tok_ok").await?;
    for (what, becomes) in [("void", "voided"), ("cancel_schedule", "open")] {
        let mut won = 0;
        for first in (0..ROUNDS).step_by(4) {
            let rounds = together(4, async |i| against(&merchant, &customer, first + i, what, becomes).await).await?;
            won += rounds.into_iter().filter(|won| *won).count();
        }
        println!("{what} came first {won} times of {ROUNDS}");
        assert!((1..ROUNDS).contains(&won), "{what} came first {won} times: no race");
    }
    merchant.books.audit().await
}
