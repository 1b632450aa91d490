//! Which changes of a payment are allowed, and for which amounts. Pure functions, called while the payment is locked
//! (docs/payments.md, Payments).

use super::payment::Payment;
use super::status::Status;
use foundation::error::{Error, Result};
use foundation::rule_enabled;
use providers::capabilities::{Grants, Permission};

fn check_at_most(amount: i64, max: i64, what: &'static str) -> Result<()> {
    if amount > max {
        return Err(Error::invalid("amount", format!("amount exceeds {what} ({max})")));
    }
    Ok(())
}

impl Payment {
    /// Returns the amount to capture: the requested amount, or all that is authorized.
    ///
    /// # Errors
    /// [`Error::NotEntitled`] or [`Error::NotSupported`] for less than all where that is not allowed; 422 `amount` for
    /// more than was authorized; [`Error::Conflict`] if there is nothing to capture, or a change is in progress.
    pub fn may_capture(&self, requested: Option<i64>, grants: &Grants) -> Result<i64> {
        let amount = requested.unwrap_or(self.amount);
        if amount < self.amount {
            grants.require(Permission::PaymentsPartialCapture)?;
        }
        check_at_most(amount, self.amount, "the authorized amount")?;
        match self.status {
            Status::Authorized | Status::PartiallyAuthorized if self.amount_captured == 0 => {
                self.nothing_pending().map(|()| amount)
            }
            Status::Authorized | Status::PartiallyAuthorized | Status::PendingSettlement => {
                Err(Error::conflict("the payment has already been captured"))
            }
            Status::Processing
            | Status::RequiresAction
            | Status::Settled
            | Status::PartiallyRefunded
            | Status::Refunded
            | Status::Declined
            | Status::Failed
            | Status::Cancelled
            | Status::Expired => Err(self.wrong_status("captured")),
        }
    }

    /// Checks that the payment may be voided.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it has settled or has a refund, or a change is in progress.
    pub fn may_void(&self) -> Result<()> {
        match self.status {
            _ if self.settled => Err(Error::conflict("the payment has settled; refund it instead")),
            _ if self.amount_refunded + self.amount_refund_pending > 0 => {
                Err(Error::conflict("the payment has a refund; refund the rest instead"))
            }
            Status::Authorized | Status::PartiallyAuthorized | Status::PendingSettlement => self.nothing_pending(),
            Status::Processing
            | Status::RequiresAction
            | Status::Settled
            | Status::PartiallyRefunded
            | Status::Refunded
            | Status::Declined
            | Status::Failed
            | Status::Cancelled
            | Status::Expired => Err(self.wrong_status("voided")),
        }
    }

    /// Returns the amount to refund: the requested amount, or all that is left.
    ///
    /// # Errors
    /// [`Error::Conflict`] if nothing was captured, nothing is left, or a change is in progress; 422 `amount` for more
    /// than is left; [`Error::NotEntitled`] or [`Error::NotSupported`] for less than all where that is not allowed.
    pub fn may_refund(&self, requested: Option<i64>, grants: &Grants) -> Result<i64> {
        if self.status == Status::Cancelled || self.amount_captured == 0 {
            return Err(self.wrong_status("refunded"));
        }
        let reserved = if rule_enabled!(Reservation) { self.amount_refund_pending } else { 0 };
        let left = self.amount_captured - self.amount_refunded - reserved - self.amount_disputed;
        if left <= 0 {
            return Err(Error::conflict("nothing is left to refund"));
        }
        let amount = requested.unwrap_or(left);
        if amount < left {
            grants.require(Permission::PaymentsPartialRefund)?;
        }
        check_at_most(amount, left, "the amount left to refund")?;
        self.nothing_pending().map(|()| amount)
    }

    fn nothing_pending(&self) -> Result<()> {
        match self.pending_operation {
            None => Ok(()),
            Some(kind) => Err(Error::conflict(format!("a {} of the payment is in progress", kind.name()))),
        }
    }

    fn wrong_status(&self, change: &str) -> Error {
        Error::conflict(format!("a payment that is {} cannot be {change}", self.status.name()))
    }
}
