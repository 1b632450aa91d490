//! Reading the result of an operation.

use sqlx::PgPool;

use super::types::State;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, OperationId, PaymentMethodId};
use providers::FailureCode;

/// Returns the state of an operation.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn state(db: &PgPool, account: AccountId, id: OperationId) -> Result<State> {
    sqlx::query_scalar!("SELECT state FROM operations WHERE account_id = $1 AND id = $2", account.uuid(), id.uuid())
        .fetch_optional(db)
        .await?
        .ok_or_else(|| Error::no_such("operation", id))
}

/// Returns why an operation failed; `None` if it did not fail or no code was recorded.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn failure_code(db: &PgPool, account: AccountId, id: OperationId) -> Result<Option<FailureCode>> {
    let code = sqlx::query_scalar!(
        "SELECT failure_code FROM operations WHERE account_id = $1 AND id = $2",
        account.uuid(),
        id.uuid()
    );
    code.fetch_optional(db).await?.ok_or_else(|| Error::no_such("operation", id))
}

/// Returns why a card was not saved, if a code was recorded.
///
/// # Errors
/// Database errors only.
pub async fn store_card_failure(db: &PgPool, account: AccountId, card: PaymentMethodId) -> Result<Option<FailureCode>> {
    let code = sqlx::query_scalar!(
        "SELECT failure_code FROM operations WHERE account_id = $1 AND payment_method_id = $2 AND kind = 'store_card'",
        account.uuid(),
        card.uuid()
    );
    Ok(code.fetch_optional(db).await?.flatten())
}
