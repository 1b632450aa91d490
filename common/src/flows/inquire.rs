//! Inquiring: asking the provider how a charge stands, and noting that it has settled or expired.

use crate::accounts::Mode;
use crate::clock::Clock;
use crate::db::Db;
use crate::error::Result;
use crate::events::{self, EventType};
use crate::id::PaymentId;
use crate::operations::PROVIDER_TIMEOUT;
use crate::payments::{self, PaymentView, refunds};
use crate::providers::{Providers, Standing};

/// Asks once. What stands as before is asked for again at its next turn, which the scheduler has set.
///
/// # Errors
/// The database's.
pub async fn inquire(db: &Db, providers: &Providers, clock: &Clock, id: PaymentId) -> Result<()> {
    let Some(due) = payments::inquiry(db, id, clock.now()).await? else { return Ok(()) };
    let Some(provider) = providers.get(due.provider) else { return Ok(()) };
    let asked = provider.inquire(due.provider_account_id, due.provider_ref, due.now);
    let standing = match tokio::time::timeout(PROVIDER_TIMEOUT, asked).await {
        Ok(Ok(standing)) => standing,
        Ok(Err(error)) => {
            tracing::warn!(payment = %id, %error, "the provider did not say how the charge stands; asked again later");
            return Ok(());
        }
        Err(_) => {
            tracing::warn!(payment = %id, "the provider did not say in time how the charge stands; asked again later");
            return Ok(());
        }
    };
    let mut tx = db.begin().await?;
    let mut payment = payments::lock(&mut tx, due.account_id, id).await?;
    // A capture or void under way decides first: what the provider says of it now may be only half of the story.
    if payment.pending_operation.is_some() {
        return Ok(());
    }
    let now = due.time.now(&mut *tx, clock).await?;
    let noted = match standing {
        Standing::Settled if payment.settle() => Some(EventType::PaymentSettled),
        Standing::Expired if payment.expire() => Some(EventType::PaymentExpired),
        Standing::Open | Standing::Settled | Standing::Expired | Standing::Voided => None,
    };
    if standing == Standing::Open && payment.captured_at.is_none() {
        // A hold is asked about again when it may have run out, and not every half minute until then.
        let runs_out = payment.created_at.plus(due.provider.authorization_lifetime());
        payment.inquiry_at = payment.inquiry_at.map(|next| next.max(runs_out));
        payments::save(&mut tx, &payment).await?;
        tx.commit().await?;
        return Ok(());
    }
    if let Some(event) = noted {
        payments::save(&mut tx, &payment).await?;
        let refunds = refunds::of_locked(&mut tx, &payment).await?;
        let (livemode, view) = (payment.mode == Mode::Live, PaymentView::new(&payment, &refunds));
        events::append(&mut tx, due.account_id, livemode, event, &view, now).await?;
        tx.commit().await?;
    }
    Ok(())
}
