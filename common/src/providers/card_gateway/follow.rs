//! What follows a charge: capture, void, refund. They carry no reference of their own; the report shows them as children of the
//! charge, with its reference.

use serde::Deserialize;

use super::report::Record;
use super::wire::{self, Reply, Wire};
use super::{Credentials, report};
use crate::money::Money;
use crate::providers::{Answer, Fault, Found};
use crate::time::Timestamp;

#[derive(Deserialize)]
struct Done {
    #[serde(deserialize_with = "wire::name")]
    transaction_id: String,
}

/// What is asked, and of which charge.
pub(super) struct Follow<'a> {
    pub(super) charge: &'a str,
    pub(super) kind: Kind,
}

/// The types of the report that are asked for here.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Capture(Money),
    Void,
    Refund(Money),
}

impl Kind {
    const fn script(self) -> &'static str {
        match self {
            Self::Capture(_) => "capture",
            Self::Void => "void",
            Self::Refund(_) => "refund",
        }
    }

    /// Whether this is what a record of the report is about.
    fn is(self, record: &Record) -> bool {
        match self {
            Self::Capture(money) => record.transaction_type == "CAPTURE" && record.money() == Some(money),
            Self::Void => record.transaction_type == "VOID",
            Self::Refund(money) => record.transaction_type == "REFUND" && record.money() == Some(money),
        }
    }
}

/// Captures, voids or refunds.
pub(super) async fn execute(
    wire: &Wire,
    account: &Credentials,
    follow: Follow<'_>,
    valid_until: Timestamp,
) -> Result<Answer, Fault> {
    let amount = match follow.kind {
        Kind::Capture(money) | Kind::Refund(money) => Some(money.to_decimal()),
        Kind::Void => None,
    };
    let valid_until = valid_until.as_millisecond().to_string();
    let mut fields = vec![("transaction_id", follow.charge), ("valid_until", valid_until.as_str())];
    fields.extend(amount.as_deref().map(|amount| ("amount", amount)));
    match wire.post::<Done>(follow.kind.script(), account, &fields).await? {
        Reply::Success(done) => Ok(Answer::Done { provider_ref: done.transaction_id }),
        Reply::Refusal(refusal) => refusal.answer(),
    }
}

/// What became of such a request, which is the only one under way: the child of its kind and amount that our books do not have.
pub(super) async fn look_up(
    wire: &Wire,
    account: &Credentials,
    follow: Follow<'_>,
    recorded: &[String],
) -> Result<Found, Fault> {
    let parent = report::by_id(wire, account, follow.charge).await?;
    // Without its charge nothing can be said of what follows it: the account may have been given another name meanwhile.
    let parent = parent.ok_or_else(|| Fault::Unknown(format!("the report has no charge {}", follow.charge)))?;
    let records = report::by_reference(wire, account, &parent.reference_id).await?;
    let ours = |record: &&Record| {
        record.parent_transaction_id == follow.charge
            && follow.kind.is(record)
            && !recorded.contains(&record.transaction_id)
    };
    let mut ours: Vec<_> = records.iter().filter(ours).collect();
    if ours.iter().any(|record| record.is_pending()) {
        return Ok(Found::Pending);
    }
    ours.retain(|record| record.succeeded());
    Ok(match ours.first() {
        Some(record) => Found::Answer(Answer::Done { provider_ref: record.transaction_id.clone() }),
        // One that failed has done nothing, and neither will it: the request may be sent once more.
        None => Found::Nothing,
    })
}
