//! The time of a test account: read, moved ahead, and what falls due on the way.

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

/// The payment was captured or authorized, and so much later by the account's time, to the millisecond, this happened to it.
async fn ends_after(merchant: &Merchant, payment: &str, begins: &str, after: &str, ends: &str) -> Result<()> {
    let history = merchant.history(payment).await?;
    let due = merchant.later(&history[0].1, after).await?;
    assert_eq!(history, [(begins.to_owned(), history[0].1.clone()), (ends.to_owned(), due)]);
    Ok(())
}

/// Once a request is under way to the mock.
async fn is_under_way(merchant: &Merchant) -> Result<()> {
    eventually("a request under way", async || Ok((merchant.books.sent().await? > 0).then_some(()))).await
}
