//! Compares a provider's books with ours: which operation or disputed money a statement line belongs to, and how the two
//! differ.

mod charge;
mod difference;
mod differences;
mod missing;
mod our_entry;
mod statement;

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use sqlx::PgPool;

pub use charge::compare_charge;
pub use difference::Difference;
pub use differences::{NewDifference, end_recorded_differences, open_differences, record_difference};
pub use missing::{LookUpResult, look_up_missing};
pub use our_entry::OurEntry;
pub use statement::{listed_in, statement_between};

use domain::disputes::{self, books::DisputeMovement};
use domain::operations::State;
use domain::operations::books::{self, RecordedOperation};
use foundation::error::Result;
use foundation::id::{AccountId, PaymentId, ProviderAccountId};
use providers::{Entry, StatementLine};

/// What is in our books that statement lines may belong to.
pub struct OurBooks {
    by_reference: HashMap<String, RecordedOperation>,
    of_payments: HashMap<PaymentId, Vec<RecordedOperation>>,
    /// Disputed money of these payments, by the provider's reference.
    movements: HashMap<String, DisputeMovement>,
}

/// What a statement line belongs to.
pub enum LineMatch<'a> {
    Operation(&'a RecordedOperation),
    Movement(&'a DisputeMovement),
    /// Nothing of ours.
    Unmatched {
        /// The payment whose charge it follows, if the charge is ours.
        payment: Option<PaymentId>,
        /// An unfinished void of the same charge. A cancellation without a reference may belong to it: some providers
        /// keep no references. A capture or refund is never taken for ours without our reference.
        candidate: Option<&'a RecordedOperation>,
    },
}

impl OurBooks {
    /// Reads what these lines may belong to. Call it after reading the lines, so that it is at least as recent.
    pub async fn load(db: &PgPool, account: AccountId, at: ProviderAccountId, lines: &[StatementLine]) -> Result<Self> {
        let references: HashSet<&String> =
            lines.iter().map(|line| &line.reference).filter(|reference| !reference.is_empty()).collect();
        let mut by_reference = index_by_reference(books::by_reference(db, at, &owned(references)).await?);
        // A line without one of our references can only be matched by its charge's reference.
        let unmatched = lines.iter().filter(|line| !by_reference.contains_key(&line.reference));
        let charges: HashSet<&String> =
            unmatched.filter_map(|line| line.follows.as_ref()).map(|charge| &charge.reference).collect();
        by_reference.extend(index_by_reference(books::by_reference(db, at, &owned(charges.clone())).await?));
        let payments: HashSet<PaymentId> =
            charges.into_iter().filter_map(|charge| by_reference.get(charge)?.payment_id).collect();
        let payments: Vec<_> = payments.into_iter().collect();
        let mut of_payments: HashMap<PaymentId, Vec<RecordedOperation>> = HashMap::new();
        for recorded in books::of_payments(db, account, &payments).await? {
            if let Some(payment) = recorded.payment_id {
                of_payments.entry(payment).or_default().push(recorded);
            }
        }
        let movements = disputes::books::of_payments(db, account, &payments).await?.into_iter();
        let movements = movements.map(|movement| (movement.provider_ref.clone(), movement)).collect();
        Ok(Self { by_reference, of_payments, movements })
    }

    /// The operations of one payment, for the lines of its charge.
    pub fn for_payment(payment: PaymentId, operations: Vec<RecordedOperation>) -> Self {
        let by_reference = index_by_reference(operations.clone());
        Self { by_reference, of_payments: HashMap::from([(payment, operations)]), movements: HashMap::new() }
    }

    /// Matches a line: by its reference; without one of our references, by the provider_ref of an operation of the same
    /// charge, or of disputed money.
    pub fn match_line(&self, line: &StatementLine) -> LineMatch<'_> {
        if let Some(movement) = self.movements.get(&line.provider_ref).filter(|_| line.entry.is_dispute()) {
            return LineMatch::Movement(movement);
        }
        if let Some(recorded) = self.by_reference.get(&line.reference).filter(|_| !line.reference.is_empty()) {
            return LineMatch::Operation(recorded);
        }
        let charge = line.follows.as_ref().and_then(|follows| self.by_reference.get(&follows.reference));
        let payment = charge.and_then(|charge| charge.payment_id);
        let others = payment.and_then(|payment| self.of_payments.get(&payment)).map(Vec::as_slice).unwrap_or_default();
        if let Some(recorded) =
            others.iter().find(|recorded| recorded.provider_ref.as_ref() == Some(&line.provider_ref))
        {
            return LineMatch::Operation(recorded);
        }
        let has_same_request =
            |recorded: &&RecordedOperation| !recorded.state.is_final() && request_difference(recorded, line).is_none();
        let may_be_ours = line.entry == Entry::Void && line.reference.is_empty();
        let candidate = others.iter().filter(|_| may_be_ours).find(has_same_request);
        LineMatch::Unmatched { payment, candidate }
    }
}

fn index_by_reference(operations: Vec<RecordedOperation>) -> HashMap<String, RecordedOperation> {
    operations.into_iter().map(|recorded| (recorded.reference.clone(), recorded)).collect()
}

fn owned(references: HashSet<&String>) -> Vec<String> {
    references.into_iter().cloned().collect()
}

/// Returns how a line differs from the operation's request: in kind or charge, or in amount.
pub fn request_difference(recorded: &RecordedOperation, line: &StatementLine) -> Option<Difference> {
    let same_charge =
        line.follows.as_ref().is_none_or(|follows| recorded.target_ref.as_ref() == Some(&follows.provider_ref));
    if recorded.entry() != Some(line.entry) || !same_charge {
        return Some(Difference::Status);
    }
    let compared = line.entry != Entry::Void;
    (compared && recorded.money().is_some_and(|money| money != line.money)).then_some(Difference::Amount)
}

/// Returns how a line differs from the operation that it belongs to.
pub fn find_difference(recorded: &RecordedOperation, line: &StatementLine) -> Option<Difference> {
    if recorded.state != State::Succeeded || recorded.provider_ref.as_ref() != Some(&line.provider_ref) {
        return Some(Difference::Status);
    }
    request_difference(recorded, line)
}

/// The provider's side, for display.
pub fn provider_side(line: &StatementLine) -> Value {
    json!({
        "kind": line.entry.name(), "provider_ref": line.provider_ref, "reference": line.reference,
        "amount": line.money.minor, "currency": line.money.currency.code(), "occurred_at": line.occurred_at,
        "charge": line.follows.as_ref().map(|follows| &follows.provider_ref),
    })
}

/// Our side, for display.
pub fn our_side(recorded: &RecordedOperation) -> Value {
    json!({
        "operation": recorded.id, "kind": recorded.kind.name(), "state": recorded.state.name(),
        "provider_ref": recorded.provider_ref, "payment": recorded.payment_id, "amount": recorded.amount,
        "currency": recorded.currency.map(|currency| currency.code()),
    })
}

#[cfg(test)]
mod tests;
