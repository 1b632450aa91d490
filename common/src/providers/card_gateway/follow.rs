//! What follows a charge: capture, void, refund. They carry no reference of their own; the report shows them as children of the
//! charge, with its reference.

use serde::Deserialize;

use super::wire::{Reply, Wire};
use super::{Credentials, report};
use crate::money::Money;
use crate::providers::{Answer, Fault, Found};

#[derive(Deserialize)]
struct Done {
    transaction_id: String,
}

pub(super) async fn capture(wire: &Wire, account: &Credentials, charge: &str, money: Money) -> Result<Answer, Fault> {
    post(wire, account, "capture", &[("transaction_id", charge), ("amount", &money.to_decimal())]).await
}

pub(super) async fn refund(wire: &Wire, account: &Credentials, charge: &str, money: Money) -> Result<Answer, Fault> {
    post(wire, account, "refund", &[("transaction_id", charge), ("amount", &money.to_decimal())]).await
}

pub(super) async fn void(wire: &Wire, account: &Credentials, charge: &str) -> Result<Answer, Fault> {
    post(wire, account, "void", &[("transaction_id", charge)]).await
}

async fn post(wire: &Wire, account: &Credentials, script: &str, fields: &[(&str, &str)]) -> Result<Answer, Fault> {
    match wire.post::<Done>(script, account, fields).await? {
        Reply::Success(done) => Ok(Answer::Done { provider_ref: done.transaction_id }),
        Reply::Refusal(refusal) if refusal.is_unknown() => Err(Fault::Unknown(refusal.reason())),
        Reply::Refusal(refusal) => Ok(Answer::Refused { reason: refusal.reason() }),
    }
}

/// What became of a request of this type, which is the only one under way: the child that our books do not have.
pub(super) async fn look_up(
    wire: &Wire,
    account: &Credentials,
    charge: &str,
    kind: &str,
    recorded: &[String],
) -> Result<Found, Fault> {
    let Some(parent) = report::by_id(wire, account, charge).await? else { return Ok(Found::Nothing) };
    let records = report::by_reference(wire, account, &parent.reference_id).await?;
    let ours = |record: &&report::Record| {
        record.parent_transaction_id == charge
            && record.transaction_type == kind
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
