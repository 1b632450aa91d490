//! An entry of our books that a statement line is compared with.

use serde_json::{Value, json};

use super::{Difference, our_side, request_difference};
use domain::disputes::books::DisputeMovement;
use domain::operations::books::RecordedOperation;
use foundation::id::{OperationId, PaymentId};
use providers::{Entry, StatementLine};

#[derive(Clone, Copy, Debug)]
pub enum OurEntry<'a> {
    Operation(&'a RecordedOperation),
    Movement(&'a DisputeMovement),
}

impl<'a> From<&'a RecordedOperation> for OurEntry<'a> {
    fn from(recorded: &'a RecordedOperation) -> Self {
        Self::Operation(recorded)
    }
}

impl<'a> From<&'a DisputeMovement> for OurEntry<'a> {
    fn from(movement: &'a DisputeMovement) -> Self {
        Self::Movement(movement)
    }
}

impl<'a> OurEntry<'a> {
    /// The kind of statement line that the provider would show for it. `None` for a saved card.
    pub const fn entry(self) -> Option<Entry> {
        match self {
            Self::Operation(recorded) => recorded.entry(),
            Self::Movement(movement) => Some(movement.entry),
        }
    }

    /// Our reference at the provider; empty for disputed money.
    pub fn reference(self) -> &'a str {
        match self {
            Self::Operation(recorded) => &recorded.reference,
            Self::Movement(_) => "",
        }
    }

    pub fn provider_ref(self) -> Option<&'a str> {
        match self {
            Self::Operation(recorded) => recorded.provider_ref.as_deref(),
            Self::Movement(movement) => Some(&movement.provider_ref),
        }
    }

    pub const fn payment(self) -> Option<PaymentId> {
        match self {
            Self::Operation(recorded) => recorded.payment_id,
            Self::Movement(movement) => Some(movement.payment_id),
        }
    }

    pub const fn operation(self) -> Option<OperationId> {
        match self {
            Self::Operation(recorded) => Some(recorded.id),
            Self::Movement(_) => None,
        }
    }

    /// Returns how a line differs from what was requested, or from the disputed money that we have recorded.
    pub fn difference(self, line: &StatementLine) -> Option<Difference> {
        match self {
            Self::Operation(recorded) => request_difference(recorded, line),
            Self::Movement(movement) if movement.entry != line.entry => Some(Difference::Status),
            Self::Movement(movement) => (movement.money != line.money).then_some(Difference::Amount),
        }
    }

    /// Our side, for display.
    pub fn side(self) -> Value {
        match self {
            Self::Operation(recorded) => our_side(recorded),
            Self::Movement(movement) => json!({
                "dispute": movement.dispute_id, "kind": movement.entry.name(), "provider_ref": movement.provider_ref,
                "payment": movement.payment_id, "amount": movement.money.minor, "currency": movement.money.currency.code(),
            }),
        }
    }
}
