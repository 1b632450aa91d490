//! Captures, voids and refunds: responses, the provider's ledger and events must agree.

mod bodies;
mod capture;
mod expiry;
mod external_ids;
mod races;
mod refund;
mod unknown_outcomes;
mod void;

use anyhow::{Context, Result};

use crate::support::{Merchant, eventually, ids};

pub(super) const AUTHORIZED: &str = "payment.authorized";
pub(super) const CAPTURED: &str = "payment.captured";
pub(super) const CANCELLED: &str = "payment.cancelled";
pub(super) const SETTLED: &str = "payment.settled";
pub(super) const REFUNDED: &str = "payment.refunded";
pub(super) const EXPIRED: &str = "payment.expired";
pub(super) const REFUND_FAILED: &str = "payment.refund_failed";
pub(super) const CAPTURE_FAILED: &str = "payment.capture_failed";
pub(super) const VOID_FAILED: &str = "payment.void_failed";

/// Waits until the account has a payment and returns its id.
async fn first_payment(merchant: &Merchant) -> Result<String> {
    eventually("a payment", async || Ok(ids(&merchant.api.get("/v1/payments").await?).pop()))
        .await
        .context("no payment was created")
}
