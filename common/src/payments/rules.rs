//! What may be done to a payment, and for how much: pure, asked under the payment's lock (docs/api.md, Payments).

use super::{Payment, Status};
use crate::capabilities::{Grants, Operation};
use crate::error::{Error, Result};
use crate::proof::{self, Rule};

fn too_much(amount: i64, left: i64, what: &'static str) -> Result<()> {
    if amount > left {
        return Err(Error::invalid("amount", format!("amount is more than the {left} that {what}")));
    }
    Ok(())
}

impl Payment {
    /// How much a capture takes: what was asked for, or all that is authorized.
    ///
    /// # Errors
    /// [`Error::NotEntitled`] or [`Error::NotSupported`] for less than all where that is not allowed; 422 `amount` for more
    /// than was authorized; [`Error::Conflict`] if there is nothing to capture, or a change is under way.
    pub fn may_capture(&self, asked: Option<i64>, grants: &Grants) -> Result<i64> {
        let amount = asked.unwrap_or(self.amount);
        if amount < self.amount {
            grants.require(Operation::PaymentsPartialCapture)?;
        }
        too_much(amount, self.amount, "was authorized")?;
        match self.status {
            Status::Authorized | Status::PartiallyAuthorized if self.amount_captured == 0 => {
                self.nothing_pending().map(|()| amount)
            }
            Status::Authorized | Status::PartiallyAuthorized | Status::PendingSettlement => {
                Err(Error::conflict("the payment was captured before"))
            }
            Status::Processing
            | Status::RequiresAction
            | Status::Settled
            | Status::PartiallyRefunded
            | Status::Refunded
            | Status::Declined
            | Status::Failed
            | Status::Cancelled
            | Status::Expired => Err(self.stands_in_the_way("captured")),
        }
    }

    /// Whether it may be voided.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it has settled, is refunded in part or is about to be, or a change is under way.
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
            | Status::Expired => Err(self.stands_in_the_way("voided")),
        }
    }

    /// How much a refund gives back: what was asked for, or all that is left.
    ///
    /// # Errors
    /// [`Error::Conflict`] if nothing was captured, nothing is left, or a change is under way; 422 `amount` for more than is
    /// left; [`Error::NotEntitled`] or [`Error::NotSupported`] for less than all where that is not allowed.
    pub fn may_refund(&self, asked: Option<i64>, grants: &Grants) -> Result<i64> {
        if self.status == Status::Cancelled || self.amount_captured == 0 {
            return Err(self.stands_in_the_way("refunded"));
        }
        let reserved = if proof::holds(Rule::Reservation) { self.amount_refund_pending } else { 0 };
        let left = self.amount_captured - self.amount_refunded - reserved;
        if left == 0 {
            return Err(Error::conflict("nothing is left to refund"));
        }
        let amount = asked.unwrap_or(left);
        if amount < left {
            grants.require(Operation::PaymentsPartialRefund)?;
        }
        too_much(amount, left, "is left to refund")?;
        self.nothing_pending().map(|()| amount)
    }

    fn nothing_pending(&self) -> Result<()> {
        match self.pending_operation {
            None => Ok(()),
            Some(kind) => Err(Error::conflict(format!("a {} of the payment is under way", kind.name()))),
        }
    }

    fn stands_in_the_way(&self, done: &str) -> Error {
        Error::conflict(format!("a payment that is {} cannot be {done}", self.status.name()))
    }
}
