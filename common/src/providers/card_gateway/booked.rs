//! A transaction that a person asks about, by the gateway's name for it.

use super::report::{State, Type};
use super::wire::Wire;
use super::{Credentials, report};
use crate::providers::{Booked, BookedKind, BookedState, Fault};

/// What the report has under this id; none if it has nothing.
///
/// # Errors
/// [`Fault::Unknown`] for a report that makes no sense.
pub(super) async fn booked(wire: &Wire, account: &Credentials, id: &str) -> Result<Option<Booked>, Fault> {
    let Some(record) = report::by_id(wire, account, id).await? else { return Ok(None) };
    let kind = match record.transaction_type {
        Type::Sale => BookedKind::Sale,
        Type::Authorize => BookedKind::Authorize,
        Type::Capture => BookedKind::Capture,
        Type::Void => BookedKind::Void,
        Type::Refund => BookedKind::Refund,
        Type::Credit => BookedKind::Other,
    };
    let state = match record.state()? {
        State::Done => BookedState::Approved,
        State::Pending => BookedState::Pending,
        State::Declined(_) | State::NotProcessed => BookedState::Failed,
    };
    let money = if kind == BookedKind::Void { None } else { Some(record.money()?) };
    // What follows a charge has a reference of its own, unless it came without one.
    let is_charge = record.is_charge();
    let own = if is_charge { record.reference_id } else { record.child_reference_id };
    Ok(Some(Booked {
        kind,
        state,
        money,
        reference: Some(own).filter(|own| !own.is_empty()),
        charge: (!is_charge).then_some(record.parent_transaction_id),
    }))
}
