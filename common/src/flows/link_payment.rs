//! The outcome of a payment for a link: the link is locked first, and is paid or open again in the same transaction.

use super::late::{Recorded, too_late};
use super::outcome::{conclude, finish};
use super::reversal::reverse_partial;
use crate::db::Tx;
use crate::error::Result;
use crate::id::{PaymentId, PaymentLinkId};
use crate::operations::{self, Claimed};
use crate::payment_links;
use crate::payments;
use crate::proof::failpoint;
use crate::providers::Answer;
use crate::time::Timestamp;

/// Writes the outcome of a charge for a link. Writing it twice changes nothing the second time.
///
/// Locks: the link, the payment, the operation.
pub(super) async fn charge_for_link(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: PaymentId,
    link: PaymentLinkId,
    answer: &Answer,
    now: Timestamp,
) -> Result<Recorded> {
    let mut link = payment_links::lock(tx, claimed.account_id, link, now).await?;
    let mut payment = payments::lock(tx, claimed.account_id, payment).await?;
    let operation = operations::lock(tx, claimed.id).await?;
    if let Some(recorded) = too_late(tx, claimed, &payment, &operation, answer, now).await? {
        return Ok(recorded);
    }
    conclude(&mut payment, claimed, answer, now)?;
    finish(tx, claimed, &payment, answer, now).await?;
    match answer {
        Answer::Charged { amount, .. } if *amount >= payment.amount_requested => {
            payment_links::pay(tx, &mut link, payment.id, now).await?;
        }
        Answer::Charged { .. } => {
            payment_links::payment_failed(tx, &mut link).await?;
            reverse_partial(tx, &mut payment, now).await?;
        }
        Answer::Declined { .. }
        | Answer::Mismatched { .. }
        | Answer::Challenged { .. }
        | Answer::Refused { .. }
        | Answer::Done { .. }
        | Answer::Stored { .. } => {
            payment_links::payment_failed(tx, &mut link).await?;
        }
    }
    failpoint("link_payment.written").await?;
    Ok(Recorded::end_of(&operation))
}
