//! The outcome of a payment for a link: the link is locked first, and is paid or open again in the same transaction.

use super::outcome::{conclude, finish, is_overtaken, late_charge, misfit};
use super::reversal::reverse_partial;
use crate::db::Db;
use crate::error::Result;
use crate::id::PaymentLinkId;
use crate::operations::{self, Claimed};
use crate::payment_links;
use crate::payments::{self, Payment};
use crate::proof::failpoint;
use crate::providers::Answer;
use crate::time::Timestamp;

/// Writes the outcome of a charge for a link. Writing it twice changes nothing the second time.
///
/// Locks: the link, the payment, the operation.
pub(super) async fn charge_for_link(
    db: &Db,
    claimed: &Claimed,
    payment: &Payment,
    link: PaymentLinkId,
    answer: &Answer,
    now: Timestamp,
) -> Result<()> {
    let mut tx = db.begin().await?;
    let mut link = payment_links::lock(&mut tx, claimed.account_id, link, now).await?;
    let mut payment = payments::lock(&mut tx, claimed.account_id, payment.id).await?;
    let operation = operations::lock(&mut tx, claimed.id).await?;
    if is_overtaken(claimed, &operation, answer) {
        return Ok(());
    }
    if operation.state.is_final() {
        late_charge(&mut tx, claimed, &payment, &operation, answer, now).await?;
        tx.commit().await?;
        return Ok(());
    }
    if !payment.status.is_under_way() {
        return Err(misfit(claimed, &format!("a charge of a payment that is {}", payment.status.name())));
    }
    conclude(&mut payment, claimed, answer, now)?;
    finish(&mut tx, claimed, &payment, answer, now).await?;
    match answer {
        Answer::Charged { amount, .. } if *amount >= payment.amount_requested => {
            payment_links::pay(&mut tx, &mut link, payment.id, now).await?;
        }
        Answer::Charged { .. } => {
            payment_links::payment_failed(&mut tx, &mut link).await?;
            reverse_partial(&mut tx, &mut payment, now).await?;
        }
        Answer::Declined { .. }
        | Answer::Challenged { .. }
        | Answer::Refused { .. }
        | Answer::Done { .. }
        | Answer::Stored { .. } => {
            payment_links::payment_failed(&mut tx, &mut link).await?;
        }
    }
    failpoint("link_payment.written").await?;
    tx.commit().await?;
    Ok(())
}
