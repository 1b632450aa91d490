//! Settling: asking the provider whether captured money has arrived, and noting it.

use sqlx::PgPool;

use crate::accounts::Mode;
use crate::clock::Clock;
use crate::error::Result;
use crate::events::{self, EventType};
use crate::id::PaymentId;
use crate::operations::PROVIDER_TIMEOUT;
use crate::payments::{self, PaymentView};
use crate::providers::Providers;

/// Asks once. What has not settled is asked for again at its next turn, which the scheduler has set.
///
/// # Errors
/// The database's.
pub async fn settle(db: &PgPool, providers: &Providers, clock: &Clock, id: PaymentId) -> Result<()> {
    let Some(due) = payments::unsettled(db, id).await? else { return Ok(()) };
    let Some(provider) = providers.get(due.provider) else { return Ok(()) };
    let asked = provider.is_settled(due.provider_account_id, due.provider_ref, clock.now());
    match tokio::time::timeout(PROVIDER_TIMEOUT, asked).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => return Ok(()),
        Ok(Err(error)) => {
            tracing::warn!(payment = %id, %error, "settlement not known; asked again later");
            return Ok(());
        }
        Err(_) => {
            tracing::warn!(payment = %id, "the provider did not say whether this has settled; asked again later");
            return Ok(());
        }
    }
    let mut tx = db.begin().await?;
    let mut payment = payments::lock(&mut tx, due.account_id, id).await?;
    if payment.settle() {
        payments::save(&mut tx, &payment).await?;
        let livemode = payment.mode == Mode::Live;
        let view = PaymentView::new(&payment);
        events::append(&mut tx, due.account_id, livemode, EventType::PaymentSettled, &view, clock.now()).await?;
    }
    tx.commit().await?;
    Ok(())
}
