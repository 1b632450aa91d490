//! The outcome of a payment for a payment link: the link is locked first, and becomes paid or open again in the same
//! transaction.

use crate::charge::outcome::charge::end_charge;
use crate::charge::outcome::stale::Recorded;
use crate::charge::reversal::reverse_partial;
use domain::charges::Claimed;
use domain::payment_links;
use foundation::db::Tx;
use foundation::error::Result;
use foundation::failpoint;
use foundation::id::{PaymentId, PaymentLinkId};
use foundation::time::Timestamp;
use providers::ProviderResponse;

/// Records the outcome of a charge for a payment link. Recording it again changes nothing.
///
/// Lock order: the link, the payment, the operation.
pub(super) async fn charge_for_link(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: PaymentId,
    link: PaymentLinkId,
    response: &ProviderResponse,
    now: Timestamp,
) -> Result<Recorded> {
    let mut link = payment_links::lock(tx, claimed.account_id, link, now).await?;
    let (recorded, payment) = end_charge(tx, claimed, payment, None, response, now).await?;
    let Some(mut payment) = payment else { return Ok(recorded) };
    match response {
        ProviderResponse::Charged { amount, .. } if *amount >= payment.amount_requested => {
            payment_links::pay(tx, &mut link, payment.id, now).await?;
        }
        ProviderResponse::Charged { .. } => {
            payment_links::payment_failed(tx, &mut link).await?;
            reverse_partial(tx, &mut payment, now).await?;
        }
        ProviderResponse::Declined { .. }
        | ProviderResponse::Mismatched { .. }
        | ProviderResponse::Challenged { .. }
        | ProviderResponse::Refused { .. }
        | ProviderResponse::Done { .. }
        | ProviderResponse::Stored { .. } => {
            payment_links::payment_failed(tx, &mut link).await?;
        }
    }
    failpoint!("link_payment.written");
    Ok(recorded)
}
