//! What follows a charge: capture, void, refund. Each carries a reference of its own, which the gateway takes once; the report shows
//! them as children of the charge, with its reference, and with their own as `child_reference_id`.

use serde::Deserialize;

use super::report::{Record, State, Type};
use super::wire::{self, Reply, Wire};
use super::{Credentials, report};
use crate::money::Money;
use crate::proof::{self, Rule};
use crate::providers::{Answer, Fault, Found, Request};

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
#[derive(Clone, Copy, Debug)]
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

    const fn money(self) -> Option<Money> {
        match self {
            Self::Capture(money) | Self::Refund(money) => Some(money),
            Self::Void => None,
        }
    }

    /// Whether this is what a record of the report is about.
    fn is(self, record: &Record) -> Result<bool, Fault> {
        let kind = match self {
            Self::Capture(_) => Type::Capture,
            Self::Void => Type::Void,
            Self::Refund(_) => Type::Refund,
        };
        Ok(record.transaction_type == kind
            && match self.money() {
                Some(money) => record.money()? == money,
                None => true,
            })
    }
}

/// Captures, voids or refunds. The reference is what makes it safe to send the request again; that it may not be entered after
/// `valid_until` is a second defence, which depends on the gateway's clock.
pub(super) async fn execute(
    wire: &Wire,
    account: &Credentials,
    follow: Follow<'_>,
    request: &Request,
) -> Result<Answer, Fault> {
    let amount = follow.kind.money().map(Money::to_decimal);
    let valid_until = request.valid_until.as_millisecond().to_string();
    let mut fields = vec![("transaction_id", follow.charge), ("valid_until", valid_until.as_str())];
    if proof::holds(Rule::ChildReference) {
        fields.push(("reference_id", request.reference.as_str()));
    }
    fields.extend(amount.as_deref().map(|amount| ("amount", amount)));
    match wire.post::<Done>(follow.kind.script(), account, &fields).await? {
        Reply::Success(done) => Ok(Answer::Done { provider_ref: done.transaction_id }),
        // Our own request, for nobody else uses our references: what became of it is looked up.
        Reply::Refusal(refusal) if refusal.code == "26" => {
            Err(Fault::Unknown("the reference was used before".to_owned()))
        }
        Reply::Refusal(refusal) => refusal.answer(),
    }
}

/// What became of such a request: the child with its reference. A child without any was entered by a release that sent none, or at
/// the gateway itself: of those the one that our books do not have, of this kind and amount, is taken for it.
pub(super) async fn look_up(
    wire: &Wire,
    account: &Credentials,
    follow: Follow<'_>,
    request: &Request,
) -> Result<Found, Fault> {
    let parent = report::by_id(wire, account, follow.charge).await?;
    // Without its charge nothing can be said of what follows it: the account may have been given another name meanwhile.
    let parent = parent.ok_or_else(|| Fault::Unknown(format!("the report has no charge {}", follow.charge)))?;
    let records = report::by_reference(wire, account, &parent.reference_id).await?;
    is_whole(&records, follow.charge)?;
    let children = records.iter().filter(|record| record.parent_transaction_id == follow.charge);
    let (ours, others): (Vec<_>, Vec<_>) = children.partition(|record| record.child_reference_id == request.reference);
    match ours.as_slice() {
        [] => {}
        [child] => return found(child, &follow, &request.reference),
        some => return Err(Fault::Unknown(format!("the report has {} children under one reference", some.len()))),
    }
    let (mut done, mut pending) = (None, false);
    for record in others.into_iter().filter(|record| record.child_reference_id.is_empty()) {
        if request.recorded.contains(&record.transaction_id) || !follow.kind.is(record)? {
            continue;
        }
        match record.state()? {
            State::Done => done = Some(record),
            State::Pending => pending = true,
            // It has done nothing, and neither will it: the request may be sent once more.
            State::Declined(_) | State::NotProcessed => {}
        }
    }
    Ok(match done {
        _ if pending => Found::Pending,
        Some(record) => Found::Answer(Answer::Done { provider_ref: record.transaction_id.clone() }),
        None => Found::Nothing,
    })
}

/// What became of the child with our reference. One that did nothing has used the reference up, so it is the end of the request.
fn found(child: &Record, follow: &Follow<'_>, reference: &str) -> Result<Found, Fault> {
    if !follow.kind.is(child)? {
        tracing::error!(
            operation = reference, provider_ref = child.transaction_id, kind = ?child.transaction_type, amount = child.amount,
            asked = ?follow.kind,
            "the gateway reports another capture, void or refund than was asked: its outcome stays unknown until a person has looked into it"
        );
        return Err(child.unknown("another capture, void or refund than was asked"));
    }
    Ok(match child.state()? {
        State::Done => Found::Answer(Answer::Done { provider_ref: child.transaction_id.clone() }),
        State::Pending => Found::Pending,
        State::Declined(_) => Found::Answer(Answer::refused(child.decline_reason.clone())),
        State::NotProcessed => Found::Answer(Answer::never_processed(child.decline_reason.clone())),
    })
}

/// Whether the charge is there, and of whatever follows a charge that one. Where they are left out something else may be, too.
fn is_whole(records: &[Record], charge: &str) -> Result<(), Fault> {
    let has = |id: &str| records.iter().any(|record| record.is_charge() && record.transaction_id == id);
    if !has(charge) {
        return Err(Fault::Unknown(format!("the report leaves out the charge {charge}")));
    }
    let stray = records.iter().find(|record| !record.is_charge() && !has(&record.parent_transaction_id));
    stray.map_or(Ok(()), |record| Err(record.unknown("what it follows is left out")))
}
