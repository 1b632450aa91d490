//! A provider's books beside ours: which operation a line is about, and how the two differ.

mod charge;
mod differences;
mod missing;
mod reading;

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use sqlx::PgPool;

pub(super) use charge::compare_charge;
pub use differences::{
    BookDifference, Difference, DifferenceFilter, list_differences, open_differences, resolve_difference,
};
pub(super) use differences::{NewDifference, note};
pub(super) use missing::look_up;
pub(super) use reading::{between, told_by};

use crate::error::Result;
use crate::id::{AccountId, PaymentId, ProviderAccountId};
use crate::operations::State;
use crate::operations::books::{self, Known};
use crate::providers::{Entry, StatementLine};

/// What our books have about some lines of a provider's.
pub(super) struct Ours {
    by_reference: HashMap<String, Known>,
    of_payments: HashMap<PaymentId, Vec<Known>>,
}

/// What a line is about.
pub(super) enum About<'a> {
    /// An operation of ours.
    Ours(&'a Known),
    /// None of ours.
    Nobody {
        /// The payment whose charge it follows, if that is one of ours.
        payment: Option<PaymentId>,
        /// An operation that has not ended and asked for just this. A child that came without a reference may be its.
        may_be: Option<&'a Known>,
    },
}

impl Ours {
    /// Reads what our books have about these lines. It is read after the lines were, so that it is at least as new.
    pub(super) async fn about(
        db: &PgPool,
        account: AccountId,
        at: ProviderAccountId,
        lines: &[StatementLine],
    ) -> Result<Self> {
        let named: HashSet<&String> =
            lines.iter().map(|line| &line.reference).filter(|name| !name.is_empty()).collect();
        let mut by_reference = keyed(books::by_reference(db, at, &owned(named)).await?);
        // What came without a reference of ours is known by its charge's, if at all.
        let strays = lines.iter().filter(|line| !by_reference.contains_key(&line.reference));
        let charges: HashSet<&String> =
            strays.filter_map(|line| line.follows.as_ref()).map(|it| &it.reference).collect();
        by_reference.extend(keyed(books::by_reference(db, at, &owned(charges.clone())).await?));
        let payments: HashSet<PaymentId> =
            charges.into_iter().filter_map(|charge| by_reference.get(charge)?.payment_id).collect();
        let payments: Vec<_> = payments.into_iter().collect();
        let mut of_payments: HashMap<PaymentId, Vec<Known>> = HashMap::new();
        for known in books::of_payments(db, account, &payments).await? {
            if let Some(payment) = known.payment_id {
                of_payments.entry(payment).or_default().push(known);
            }
        }
        Ok(Self { by_reference, of_payments })
    }

    /// What our books have of one payment, about the lines of its charge.
    pub(super) fn of_payment(payment: PaymentId, operations: Vec<Known>) -> Self {
        let by_reference = keyed(operations.clone());
        Self { by_reference, of_payments: HashMap::from([(payment, operations)]) }
    }

    /// What a line is about: the operation with its reference; of a line without one of ours the operation that our books have done
    /// under the provider's name for it.
    pub(super) fn of(&self, line: &StatementLine) -> About<'_> {
        if let Some(known) = self.by_reference.get(&line.reference).filter(|_| !line.reference.is_empty()) {
            return About::Ours(known);
        }
        let charge = line.follows.as_ref().and_then(|follows| self.by_reference.get(&follows.reference));
        let payment = charge.and_then(|charge| charge.payment_id);
        let others = payment.and_then(|payment| self.of_payments.get(&payment)).map(Vec::as_slice).unwrap_or_default();
        if let Some(known) = others.iter().find(|known| known.provider_ref.as_ref() == Some(&line.provider_ref)) {
            return About::Ours(known);
        }
        let asks_for_it = |known: &&Known| !known.state.is_final() && as_asked(known, line).is_none();
        let may_be = others.iter().filter(|_| line.reference.is_empty()).find(asks_for_it);
        About::Nobody { payment, may_be }
    }
}

fn keyed(known: Vec<Known>) -> HashMap<String, Known> {
    known.into_iter().map(|known| (known.reference.clone(), known)).collect()
}

fn owned(names: HashSet<&String>) -> Vec<String> {
    names.into_iter().cloned().collect()
}

/// How a line differs from what the operation with its reference asked for: in what was done or to which charge, or in how much.
pub(super) fn as_asked(known: &Known, line: &StatementLine) -> Option<Difference> {
    let same_charge =
        line.follows.as_ref().is_none_or(|follows| known.target_ref.as_ref() == Some(&follows.provider_ref));
    if known.entry() != Some(line.entry) || !same_charge {
        return Some(Difference::Status);
    }
    let compared = line.entry != Entry::Void;
    (compared && known.money().is_some_and(|money| money != line.money)).then_some(Difference::Amount)
}

/// How a line differs from the operation that it is about.
pub(super) fn differs(known: &Known, line: &StatementLine) -> Option<Difference> {
    if known.state != State::Succeeded || known.provider_ref.as_ref() != Some(&line.provider_ref) {
        return Some(Difference::Status);
    }
    as_asked(known, line)
}

/// What the provider says, for a person to read.
pub(super) fn theirs(line: &StatementLine) -> Value {
    json!({
        "kind": line.entry.name(), "provider_ref": line.provider_ref, "reference": line.reference,
        "amount": line.money.minor, "currency": line.money.currency.code(), "occurred_at": line.occurred_at,
        "charge": line.follows.as_ref().map(|follows| &follows.provider_ref),
    })
}

/// What our books say, for a person to read.
pub(super) fn ours(known: &Known) -> Value {
    json!({
        "operation": known.id, "kind": known.kind.name(), "state": known.state.name(),
        "provider_ref": known.provider_ref, "payment": known.payment_id, "amount": known.amount,
        "currency": known.currency.map(|currency| currency.code()),
    })
}

#[cfg(test)]
mod tests;
