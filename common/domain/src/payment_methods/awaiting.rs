//! Cards that are saved with a payment: such a card becomes active only with the approval of that payment. Until then it
//! is `processing`, so nothing else charges, lists or detaches it, and its customer is not deleted. If the payment ends
//! otherwise, a trigger makes the card `failed`, whatever statement and release writes that.

use sqlx::PgConnection;

use super::{PaymentMethod, select_payment_methods};
use foundation::error::Result;
use foundation::id::{AccountId, PaymentId, PaymentMethodId};
use providers::Card;

/// Returns the card that awaits a payment.
///
/// # Errors
/// Database errors only.
pub async fn awaiting(db: &mut PgConnection, account: AccountId, payment: PaymentId) -> Result<Option<PaymentMethod>> {
    let query = select_payment_methods!(
        "WHERE m.account_id = $1 AND m.saved_for_payment_id = $2 AND m.awaits_operation_id IS NOT NULL",
        account.uuid(),
        payment.uuid()
    );
    Ok(query.fetch_optional(db).await?)
}

/// Stores the provider's token and details of a card, which continues to await its payment.
///
/// # Errors
/// Database errors only.
pub async fn store_awaiting(tx: &mut PgConnection, id: PaymentMethodId, provider_ref: &str, card: &Card) -> Result<()> {
    sqlx::query!(
        "UPDATE payment_methods SET provider_ref = $2, brand = $3, last4 = $4, exp_month = $5, exp_year = $6
         WHERE id = $1 AND awaits_operation_id IS NOT NULL",
        id.uuid(),
        provider_ref,
        card.brand,
        card.last4,
        card.exp_month,
        card.exp_year,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Makes a card active whose payment is approved. Returns `false` if it awaits none any more.
///
/// # Errors
/// Database errors only.
pub async fn accept(tx: &mut PgConnection, id: PaymentMethodId) -> Result<bool> {
    let updated = sqlx::query!(
        "UPDATE payment_methods SET status = 'active', awaits_operation_id = NULL, awaits_action_token = NULL
         WHERE id = $1 AND awaits_operation_id IS NOT NULL",
        id.uuid(),
    );
    Ok(updated.execute(tx).await?.rows_affected() == 1)
}
