//! Void and cancel_schedule race with collection: after they succeed, nothing is charged.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::{LONG_AGO, attempts, customer_with, get_invoice, invoice, ledger, post_action, run, schedule};
use crate::support::{Merchant, cluster, concurrently, eventually, merchant, ok, race};

/// Each combination of the delays below at least once.
const ROUNDS: usize = 80;

/// Requests `action` while the invoice is collected. Returns whether the action won.
async fn race_with_collection(
    merchant: &Merchant,
    customer: &str,
    round: usize,
    action: &str,
    expected: &str,
) -> Result<bool> {
    let invoice_id = invoice(merchant, customer, 500).await?;
    ok(&schedule(merchant, &invoice_id, LONG_AGO).await?);
    // The action comes before the claim, after it, or after the outcome.
    let delay = async |millis: usize| sleep(Duration::from_millis(millis as u64)).await;
    let acting = async {
        delay(round % 9).await;
        post_action(merchant, &invoice_id, action).await
    };
    let run = async {
        delay(round % 5).await;
        run(merchant).await
    };
    let (response, _) = race(round, acting, run).await?;
    if response.status == 200 && response.body["amountPaid"] == 0 {
        assert_eq!(response.body["status"], expected);
        assert_eq!(get_invoice(merchant, &invoice_id).await?["status"], expected);
        let attempts = attempts(merchant, &invoice_id).await?;
        assert!(attempts.iter().all(|attempt| attempt["status"] == "failed"), "an attempt goes on: {attempts:?}");
        assert!(ledger(merchant, &invoice_id).await?.is_empty(), "there was a charge after the response");
        return Ok(true);
    }
    // Too late: an attempt is in flight or has paid the invoice.
    let paid = eventually("paid", async || {
        let invoice = get_invoice(merchant, &invoice_id).await?;
        Ok((invoice["amountPaid"] == 500).then_some(invoice))
    })
    .await?;
    assert!(response.status == 409 || paid["status"] == "voided", "{} {}", response.status, response.body);
    assert_eq!(ledger(merchant, &invoice_id).await?, ["sale 500"]);
    Ok(false)
}

#[tokio::test]
async fn void_and_cancel_race_with_an_attempt() -> Result<()> {
    let merchant = merchant().await?;
    merchant.mock(cluster().await?, &["--latency-ms", "4"]).await?;
    let (customer, _) = customer_with(&merchant, "tok_ok").await?;
    for (action, expected) in [("void", "voided"), ("cancel_schedule", "open")] {
        let mut won = 0;
        for first in (0..ROUNDS).step_by(4) {
            let rounds = concurrently(4, async |i| {
                race_with_collection(&merchant, &customer, first + i, action, expected).await
            })
            .await?;
            won += rounds.into_iter().filter(|won| *won).count();
        }
        println!("{action} won {won} of {ROUNDS} rounds");
        assert!((1..ROUNDS).contains(&won), "{action} won {won} of {ROUNDS} rounds, so there was no race");
    }
    merchant.books.audit_with_failed_payments().await
}
