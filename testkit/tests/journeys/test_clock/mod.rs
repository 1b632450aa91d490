//! The test clock of an account: reading, advancing, and work that falls due.

mod advance;
mod billing;
mod bounds;
mod due;
mod faults;
mod stopped;
mod ticking;

use anyhow::Result;

use crate::support::{Merchant, eventually};

const CAPTURED: &str = "payment.captured";
const AUTHORIZED: &str = "payment.authorized";
const SETTLED: &str = "payment.settled";
const EXPIRED: &str = "payment.expired";

/// Asserts that the payment's only events are `start` and, exactly `after` by the account's time, `end`.
async fn assert_ended_after(merchant: &Merchant, payment: &str, start: &str, after: &str, end: &str) -> Result<()> {
    let history = merchant.event_history(payment).await?;
    let due = merchant.later(&history[0].1, after).await?;
    assert_eq!(history, [(start.to_owned(), history[0].1.clone()), (end.to_owned(), due)]);
    Ok(())
}

/// Waits until a request to the mock is in flight.
async fn wait_for_request_in_flight(merchant: &Merchant) -> Result<()> {
    eventually("a request in flight", async || Ok((merchant.books.in_flight().await? > 0).then_some(()))).await
}
