//! Follow-ups of a charge: capture, void, refund. Each has its own reference, which the gateway accepts once. The
//! report shows them as children of the charge: `reference_id` is the charge's reference, `child_reference_id` their
//! own.

use serde::Deserialize;

use super::report::{Record, State, Type};
use super::wire::{self, Reply, Wire};
use super::{Credentials, report};
use crate::{Found, ProviderError, ProviderResponse, Request};
use foundation::money::Money;
use foundation::rule_enabled;

#[derive(Deserialize)]
struct Done {
    #[serde(deserialize_with = "wire::id")]
    transaction_id: String,
}

pub(super) struct FollowUp<'a> {
    pub(super) charge: &'a str,
    pub(super) kind: FollowUpKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum FollowUpKind {
    Capture(Money),
    Void,
    Refund(Money),
}

impl FollowUpKind {
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

    /// Whether a record of the report is for this action.
    fn matches(self, record: &Record) -> Result<bool, ProviderError> {
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

/// Executes a capture, void or refund. The reference makes a retry safe. `valid_until`, after which the gateway does
/// not accept the request, is a second safeguard, which depends on the gateway's clock.
pub(super) async fn execute(
    wire: &Wire,
    account: &Credentials,
    follow: FollowUp<'_>,
    request: &Request,
) -> Result<ProviderResponse, ProviderError> {
    let amount = follow.kind.money().map(Money::to_decimal);
    let valid_until = request.valid_until.as_millisecond().to_string();
    let mut fields = vec![("transaction_id", follow.charge), ("valid_until", valid_until.as_str())];
    if rule_enabled!(ChildReference) {
        fields.push(("reference_id", request.reference.as_str()));
    }
    fields.extend(amount.as_deref().map(|amount| ("amount", amount)));
    match wire.post::<Done>(follow.kind.script(), account, &fields).await? {
        Reply::Success(done) => Ok(ProviderResponse::Done { provider_ref: done.transaction_id }),
        // Only we use our references, so this is a retry of our own request: its outcome is looked up.
        Reply::Refusal(refusal) if refusal.code == "26" => {
            Err(ProviderError::Unknown("the reference was used before".to_owned()))
        }
        Reply::Refusal(refusal) => refusal.response(),
    }
}

/// Looks up the child with our reference. Any other child, also one without a reference, was not requested by us
/// and is never taken for ours, whatever its kind and amount.
pub(super) async fn look_up(
    wire: &Wire,
    account: &Credentials,
    follow: FollowUp<'_>,
    request: &Request,
) -> Result<Found, ProviderError> {
    let parent = report::by_id(wire, account, follow.charge).await?;
    // Without its charge, nothing is known about the follow-up: the account may have been renamed.
    let parent = parent.ok_or_else(|| ProviderError::Unknown(format!("the report has no charge {}", follow.charge)))?;
    let records = report::by_reference(wire, account, &parent.reference_id).await?;
    check_complete(&records, follow.charge)?;
    let mut ours = Vec::new();
    for child in records.iter().filter(|record| record.parent_transaction_id == follow.charge) {
        match &child.child_reference_id {
            Some(reference) if *reference == request.reference => ours.push(child),
            Some(_) => {}
            // It may be ours, so the request may not be repeated.
            None => return Err(child.unknown("its own reference is missing")),
        }
    }
    match ours.as_slice() {
        [] => Ok(Found::Nothing),
        [child] => outcome_of(child, &follow, &request.reference),
        some => Err(ProviderError::Unknown(format!("the report has {} children under one reference", some.len()))),
    }
}

/// The outcome of the child with our reference. A child without effect has used up the reference, so the request has
/// ended.
fn outcome_of(child: &Record, follow: &FollowUp<'_>, reference: &str) -> Result<Found, ProviderError> {
    if !follow.kind.matches(child)? {
        tracing::error!(
            operation = reference, provider_ref = child.transaction_id, kind = ?child.transaction_type, amount = child.amount,
            requested = ?follow.kind,
            "the gateway reports a different capture, void or refund than requested; the outcome stays unknown and needs manual review"
        );
        return Err(child.unknown("a different capture, void or refund than requested"));
    }
    Ok(match child.state()? {
        State::Done => Found::Response(ProviderResponse::Done { provider_ref: child.transaction_id.clone() }),
        State::Pending => Found::Pending,
        State::Declined(_) => Found::Response(ProviderResponse::refused(child.decline_reason.clone())),
        State::NotProcessed => Found::Response(ProviderResponse::never_processed(child.decline_reason.clone())),
    })
}

/// Checks that the records contain the charge, and the charge of every child. If one is missing, others may be missing
/// too.
fn check_complete(records: &[Record], charge: &str) -> Result<(), ProviderError> {
    let has = |id: &str| records.iter().any(|record| record.is_charge() && record.transaction_id == id);
    if !has(charge) {
        return Err(ProviderError::Unknown(format!("the report does not contain the charge {charge}")));
    }
    let stray = records.iter().find(|record| !record.is_charge() && !has(&record.parent_transaction_id));
    stray.map_or(Ok(()), |record| Err(record.unknown("its charge is missing")))
}
