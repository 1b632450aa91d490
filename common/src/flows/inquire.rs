//! Inquiring: asking the provider how a charge stands, and noting that it has settled or expired.

use std::time::Duration;

use super::books::compare_charge;
use super::reversal::{is_unwanted_part, refund_part, reverse_partial};
use crate::accounts::Mode;
use crate::clock::Clock;
use crate::db::{Db, Tx};
use crate::error::Result;
use crate::events::{self, EventType};
use crate::id::PaymentId;
use crate::operations::PROVIDER_TIMEOUT;
use crate::payments::{self, Inquiry, Payment, PaymentView, Status, refunds};
use crate::proof::failpoint;
use crate::providers::{Inquired, Providers, Standing};
use crate::time::Timestamp;

/// How long until a part that is being refunded is looked at again.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Asks once. What stands as before is asked for again at its next turn, which the scheduler has set.
///
/// # Errors
/// The database's.
pub async fn inquire(db: &Db, providers: &Providers, clock: &Clock, id: PaymentId) -> Result<()> {
    let Some(due) = payments::inquiry(db, id, clock.now()).await? else { return Ok(()) };
    let Some(provider) = providers.get(due.provider) else { return Ok(()) };
    let asked = provider.inquire(Inquired {
        account: due.provider_account_id,
        charge: due.provider_ref.clone(),
        reference: due.reference.clone(),
        created_at: due.created_at,
        captured_at: due.captured_at,
        now: due.now,
    });
    let told = match tokio::time::timeout(PROVIDER_TIMEOUT, asked).await {
        Ok(Ok(told)) => told,
        Ok(Err(error)) => {
            tracing::warn!(payment = %id, %error, "the provider did not say how the charge stands; asked again later");
            return Ok(());
        }
        Err(_) => {
            tracing::warn!(payment = %id, "the provider did not say in time how the charge stands; asked again later");
            return Ok(());
        }
    };
    failpoint("inquire.answered").await?;
    if let Some(lines) = &told.lines {
        compare_charge(db, provider, &due, lines).await?;
    }
    note(db, clock, &due, told.standing).await
}

/// Notes what the provider has told of the charge as it was when it was read.
pub(super) async fn note(db: &Db, clock: &Clock, due: &Inquiry, standing: Standing) -> Result<()> {
    let mut tx = db.begin().await?;
    let mut payment = payments::lock(&mut tx, due.account_id, due.id).await?;
    // A capture or void under way decides first: what the provider says of it now may be only half of the story.
    if payment.pending_operation.is_some() {
        return Ok(());
    }
    // So does a capture that has come to its end since: what was told before is of a hold.
    if payment.captured_at != due.captured_at {
        return Ok(());
    }
    let now = due.time.now(&mut *tx, clock).await?;
    if is_unwanted_part(&payment) {
        return give_part_back(tx, payment, standing, now).await;
    }
    let noted = match standing {
        Standing::Settled if payment.settle() => Some(EventType::PaymentSettled),
        Standing::Expired if payment.expire() => Some(EventType::PaymentExpired),
        Standing::Voided if payment.status.may_become(Status::Cancelled) => {
            tracing::warn!(payment = %due.id, "the charge was voided at the provider, and not by us; the payment is cancelled");
            payment.voided()?;
            Some(EventType::PaymentCancelled)
        }
        Standing::Open { .. } | Standing::Settled | Standing::Expired | Standing::Voided => None,
    };
    // It is asked about again when something may have become of it, and not every half minute until then.
    let until = match standing {
        Standing::Open { until: None } if payment.captured_at.is_none() => {
            Some(payment.created_at.plus(due.provider.authorization_lifetime()))
        }
        Standing::Open { until } => until,
        Standing::Settled | Standing::Expired | Standing::Voided => None,
    };
    if let Some(until) = until {
        payment.inquiry_at = payment.inquiry_at.map(|next| next.max(until));
        payments::save(&mut tx, &payment).await?;
        tx.commit().await?;
        return Ok(());
    }
    if let Some(event) = noted {
        payments::save(&mut tx, &payment).await?;
        let refunds = refunds::of_locked(&mut tx, &payment).await?;
        let (livemode, view) = (payment.mode == Mode::Live, PaymentView::new(&payment, &refunds));
        events::append(&mut tx, due.account_id, livemode, event, &view, now).await?;
        failpoint("inquire.written").await?;
        tx.commit().await?;
    }
    Ok(())
}

/// A part that could not be given back when it was tried is tried again, until it is back: its invoice or link can neither be
/// paid nor collected before that. The turns of the inquiry are the pauses in between.
async fn give_part_back(mut tx: Tx, mut payment: Payment, standing: Standing, now: Timestamp) -> Result<()> {
    if payment.amount_refund_pending > 0 {
        return Ok(());
    }
    let event = match standing {
        Standing::Open { .. } => {
            reverse_partial(&mut tx, &mut payment, now).await?;
            None
        }
        Standing::Settled => {
            let news = payment.settle();
            // Asked again until the money is back.
            payment.inquiry_at = Some(now.plus(ASK_AGAIN));
            refund_part(&mut tx, &mut payment, now).await?;
            payments::save(&mut tx, &payment).await?;
            news.then_some(EventType::PaymentSettled)
        }
        Standing::Voided | Standing::Expired => {
            payment.voided()?;
            payments::save(&mut tx, &payment).await?;
            Some(EventType::PaymentCancelled)
        }
    };
    if let Some(event) = event {
        let refunds = refunds::of_locked(&mut tx, &payment).await?;
        let (livemode, view) = (payment.mode == Mode::Live, PaymentView::new(&payment, &refunds));
        events::append(&mut tx, payment.account_id, livemode, event, &view, now).await?;
    }
    failpoint("inquire.gave_part_back").await?;
    tx.commit().await?;
    Ok(())
}
