//! SQL for saved cards.

use sqlx::{PgConnection, PgPool};

use super::PaymentMethod;
use foundation::error::Result;
use foundation::id::{AccountId, CustomerId, PaymentMethodId, ProviderAccountId};
use foundation::time::Timestamp;
use providers::Card;

/// Selects every column of a saved card; all queries share this list.
macro_rules! select_payment_methods {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            PaymentMethod,
            r#"SELECT m.id, m.account_id, a.mode, m.customer_id, m.provider_account_id, m.status, m.provider_ref, m.brand,
                      m.last4, m.exp_month, m.exp_year, m.created_at,
                      (c.default_payment_method_id IS NOT DISTINCT FROM m.id) AS "is_default!"
               FROM payment_methods m JOIN customers c ON c.account_id = m.account_id AND c.id = m.customer_id
                    JOIN accounts a ON a.id = m.account_id "# + $rest,
            $($arg),*
        )
    };
}

pub(super) async fn insert_processing(
    tx: &mut PgConnection,
    id: PaymentMethodId,
    account: AccountId,
    customer: CustomerId,
    provider_account: ProviderAccountId,
    now: Timestamp,
) -> Result<()> {
    sqlx::query!(
        "INSERT INTO payment_methods (id, account_id, customer_id, provider_account_id, status, created_at)
         VALUES ($1, $2, $3, $4, 'processing', $5)",
        id.uuid(),
        account.uuid(),
        customer.uuid(),
        provider_account.uuid(),
        now,
    )
    .execute(tx)
    .await?;
    Ok(())
}

pub(super) async fn finish_saving(
    tx: &mut PgConnection,
    id: PaymentMethodId,
    saved: Option<(&str, &Card)>,
) -> Result<()> {
    sqlx::query!(
        "UPDATE payment_methods SET status = CASE WHEN $2::text IS NULL THEN 'failed' ELSE 'active' END::payment_method_status,
                provider_ref = $2, brand = $3, last4 = $4, exp_month = $5, exp_year = $6
         WHERE id = $1 AND status = 'processing'",
        id.uuid(),
        saved.map(|(provider_ref, _)| provider_ref),
        saved.map(|(_, card)| card.brand.as_str()),
        saved.map(|(_, card)| card.last4.as_str()),
        saved.map(|(_, card)| card.exp_month),
        saved.map(|(_, card)| card.exp_year),
    )
    .execute(tx)
    .await?;
    Ok(())
}

pub(super) async fn find(
    db: &mut PgConnection,
    account: AccountId,
    id: PaymentMethodId,
) -> Result<Option<PaymentMethod>> {
    let query = select_payment_methods!("WHERE m.account_id = $1 AND m.id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

pub(super) async fn is_listed(
    db: &PgPool,
    account: AccountId,
    customer: CustomerId,
    id: PaymentMethodId,
) -> Result<bool> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM payment_methods
                         WHERE account_id = $1 AND customer_id = $2 AND id = $3 AND status = 'active') AS "found!""#,
        account.uuid(),
        customer.uuid(),
        id.uuid()
    )
    .fetch_one(db)
    .await?;
    Ok(found)
}

pub(super) async fn list(
    db: &PgPool,
    account: AccountId,
    customer: CustomerId,
    before: Option<PaymentMethodId>,
    with_default: bool,
    limit: i64,
) -> Result<Vec<PaymentMethod>> {
    let query = select_payment_methods!(
        "WHERE m.account_id = $1 AND m.customer_id = $2 AND m.status = 'active'
           AND ($3::uuid IS NULL OR m.id < $3)
           AND ($4 OR c.default_payment_method_id IS DISTINCT FROM m.id)
         ORDER BY c.default_payment_method_id IS NOT DISTINCT FROM m.id DESC, m.id DESC LIMIT $5",
        account.uuid(),
        customer.uuid(),
        before.map(PaymentMethodId::uuid),
        with_default,
        limit,
    );
    Ok(query.fetch_all(db).await?)
}
