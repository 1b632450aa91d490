//! Looks up a transaction for an operator, by the gateway's id.

use super::report::{State, Type};
use super::wire::Wire;
use super::{Credentials, report};
use crate::{Booked, BookedKind, BookedState, ProviderError};

/// Returns the transaction with this id in the report, if there is one.
///
/// # Errors
/// [`ProviderError::Unknown`] for an invalid report.
pub(super) async fn booked(wire: &Wire, account: &Credentials, id: &str) -> Result<Option<Booked>, ProviderError> {
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
    // A follow-up has its own reference, unless it was created without one.
    let is_charge = record.is_charge();
    let own = if is_charge { record.reference_id } else { record.child_reference_id.unwrap_or_default() };
    Ok(Some(Booked {
        kind,
        state,
        money,
        reference: Some(own).filter(|own| !own.is_empty()),
        charge: (!is_charge).then_some(record.parent_transaction_id),
    }))
}
