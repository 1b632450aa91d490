//! Attempts to collect an invoice. An attempt is inserted with its payment and ends with the payment's outcome.

use serde::Serialize;
use sqlx::{PgConnection, PgPool};
use utoipa::ToSchema;
use utoipa::openapi::Object;

use super::collection::Failure;
use super::invoice::Invoice;
use super::retrieve;
use crate::accounts::Mode;
use foundation::error::Result;
use foundation::id::{AccountId, CollectionAttemptId, InvoiceId, PaymentId};
use foundation::money::Currency;
use foundation::page::{Page, PageRequest, unknown_cursor};
use foundation::schema;
use foundation::time::Timestamp;
use providers::{DeclineCode, DeclineType};

/// The status of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "collection_attempt_status", rename_all = "snake_case")]
pub enum AttemptStatus {
    /// The card is being charged.
    Processing,
    /// The attempt paid the invoice.
    Succeeded,
    Failed,
}

/// The names in the API. `unknown` is a processing attempt whose payment has an unknown outcome.
const NAMES: [&str; 4] = ["processing", "succeeded", "failed", "unknown"];

/// An attempt as stored.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub id: CollectionAttemptId,
    pub mode: Mode,
    /// Starts at 1.
    pub number: i32,
    pub status: AttemptStatus,
    /// Whether the outcome is unknown and the provider is being queried for it.
    pub unknown: bool,
    /// The amount to collect.
    pub amount: i64,
    pub currency: Currency,
    /// `None` if no card could be charged.
    pub payment_id: Option<PaymentId>,
    pub decline_code: Option<String>,
    /// Whether a retry may succeed.
    pub decline_type: Option<DeclineType>,
    pub attempted_at: Timestamp,
    /// Rises with each change.
    pub version: i64,
    /// When the next attempt was due, as of the failure of this one.
    pub next_attempt_at: Option<Timestamp>,
}

/// An attempt in the API.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CollectionAttempt, description = "One attempt to collect an invoice. Optional fields are present where they apply.")]
pub struct AttemptView<'a> {
    pub id: CollectionAttemptId,
    #[schema(schema_with = schema::collection_attempt)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    #[schema(schema_with = schema::version)]
    version: i64,
    /// Counts the attempts on the invoice, from 1.
    #[schema(value_type = AttemptNumber)]
    number: i32,
    /// - `processing`: the card is being charged.
    /// - `succeeded`: the attempt paid the invoice.
    /// - `failed`: it did not. See `declineCode`.
    /// - `unknown`: the outcome of the charge is unknown, and the provider is being queried for it.
    #[schema(value_type = AttemptStatusName)]
    status: &'static str,
    /// What the attempt charges, in the minor unit of the invoice's currency.
    #[schema(value_type = schema::PositiveAmount)]
    amount: i64,
    currency: Currency,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Absent if there was no card to charge, or its provider account does not support the currency or the amount.
    payment_id: Option<PaymentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AttemptCode>)]
    decline_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_type: Option<DeclineType>,
    /// When the attempt began.
    attempted_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The time that was planned for the next attempt when this one failed.
    next_attempt_at: Option<Timestamp>,
}

schema::field_types! {
    AttemptNumber = schema::integer(1, i64::from(i32::MAX));
    AttemptStatusName = schema::enumeration(NAMES);
    AttemptCode = attempt_codes();
}

fn attempt_codes() -> Object {
    let declines = DeclineCode::ALL.iter().map(|code| (code.name(), code.kind().name(), code.meaning()));
    let others = Failure::without_decline().map(|(failure, meaning)| (failure.code, failure.kind.name(), meaning));
    // Without a payment, a currency is not accepted in general, and not only with the card.
    let declines = declines.filter(|(name, ..)| *name != Failure::CURRENCY.code);
    schema::explained(
        "Why the attempt failed: the decline code of its payment, or another reason:",
        declines.chain(others),
    )
}

impl<'a> AttemptView<'a> {
    pub fn new(attempt: &'a Attempt) -> Self {
        let [processing, succeeded, failed, unknown] = NAMES;
        Self {
            id: attempt.id,
            object: "collection_attempt",
            livemode: attempt.mode == Mode::Live,
            created_at: attempt.attempted_at,
            version: attempt.version,
            number: attempt.number,
            status: match attempt.status {
                AttemptStatus::Processing if attempt.unknown => unknown,
                AttemptStatus::Processing => processing,
                AttemptStatus::Succeeded => succeeded,
                AttemptStatus::Failed => failed,
            },
            amount: attempt.amount,
            currency: attempt.currency,
            payment_id: attempt.payment_id,
            decline_code: attempt.decline_code.as_deref(),
            decline_type: attempt.decline_type,
            attempted_at: attempt.attempted_at,
            next_attempt_at: attempt.next_attempt_at,
        }
    }
}

/// The attempt of a payment.
#[derive(Debug)]
pub struct PaymentAttempt {
    pub id: CollectionAttemptId,
    pub attempted_at: Timestamp,
}

/// Returns the attempt of a payment; `None` if a cardholder paid. The invoice must be locked.
///
/// # Errors
/// Database errors only.
pub async fn of_payment(
    tx: &mut PgConnection,
    account: AccountId,
    payment: PaymentId,
) -> Result<Option<PaymentAttempt>> {
    Ok(sqlx::query_as!(
        PaymentAttempt,
        "SELECT id, attempted_at FROM collection_attempts WHERE account_id = $1 AND payment_id = $2",
        account.uuid(),
        payment.uuid(),
    )
    .fetch_optional(tx)
    .await?)
}

/// Returns the payment of the attempt that has not ended, if there is one. The invoice must be locked.
///
/// # Errors
/// Database errors only.
pub async fn in_flight(tx: &mut PgConnection, account: AccountId, invoice: InvoiceId) -> Result<Option<PaymentId>> {
    let payment = sqlx::query_scalar!(
        r#"SELECT payment_id AS "id!: PaymentId" FROM collection_attempts
           WHERE account_id = $1 AND invoice_id = $2 AND status = 'processing'"#,
        account.uuid(),
        invoice.uuid(),
    );
    Ok(payment.fetch_optional(tx).await?)
}

/// Marks an attempt as succeeded.
///
/// # Errors
/// Database errors only.
pub async fn succeeded(tx: &mut PgConnection, id: CollectionAttemptId) -> Result<()> {
    finish(tx, id, AttemptStatus::Succeeded, None, None).await
}

/// Marks an attempt as failed, and stores when the next one is due.
///
/// # Errors
/// Database errors only.
pub async fn failed(
    tx: &mut PgConnection,
    id: CollectionAttemptId,
    failure: Failure<'_>,
    next: Option<Timestamp>,
) -> Result<()> {
    finish(tx, id, AttemptStatus::Failed, Some(failure), next).await
}

async fn finish(
    tx: &mut PgConnection,
    id: CollectionAttemptId,
    status: AttemptStatus,
    failure: Option<Failure<'_>>,
    next: Option<Timestamp>,
) -> Result<()> {
    sqlx::query!(
        "UPDATE collection_attempts SET status = $2, decline_code = $3, decline_type = $4, next_attempt_at = $5
         WHERE id = $1",
        id.uuid(),
        status as AttemptStatus,
        failure.map(|failure| failure.code),
        failure.map(|failure| failure.kind) as Option<DeclineType>,
        next,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Inserts a failed attempt that charged no card. The invoice must already have its next attempt time.
///
/// # Errors
/// Database errors only.
pub async fn insert_unsent(
    tx: &mut PgConnection,
    invoice: &Invoice,
    number: i32,
    failure: Failure<'_>,
    now: Timestamp,
) -> Result<()> {
    sqlx::query!(
        "INSERT INTO collection_attempts
            (id, account_id, invoice_id, number, status, amount, decline_code, decline_type, attempted_at, next_attempt_at)
         VALUES ($1, $2, $3, $4, 'failed', $5, $6, $7, $8, $9)",
        CollectionAttemptId::new(now).uuid(),
        invoice.account_id.uuid(),
        invoice.id.uuid(),
        number,
        invoice.amount,
        failure.code,
        failure.kind as DeclineType,
        now,
        invoice.next_attempt_at,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Returns a page of an invoice's attempts, oldest first.
///
/// # Errors
/// [`foundation::error::Error::NotFound`] if the account has no such invoice; 422 if the cursor is not one of its attempts.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    invoice: InvoiceId,
    page: PageRequest<CollectionAttemptId>,
) -> Result<Page<Attempt>> {
    retrieve(db, account, invoice).await?;
    let after = match page.starting_after {
        None => 0,
        Some(cursor) => number_of(db, account, invoice, cursor).await?.ok_or_else(unknown_cursor)?,
    };
    Ok(page.page(sqlx::query_as!(
        Attempt,
        r#"SELECT t.id, a.mode, t.number, t.status, t.amount, i.currency AS "currency: Currency", t.payment_id, t.decline_code, t.decline_type, t.attempted_at,
                  t.next_attempt_at, t.version,
                  EXISTS (SELECT 1 FROM operations o WHERE o.account_id = t.account_id AND o.payment_id = t.payment_id
                          AND o.kind IN ('sale', 'authorize') AND o.state::text = 'unknown') AS "unknown!"
           FROM collection_attempts t JOIN accounts a ON a.id = t.account_id
               JOIN invoices i ON i.account_id = t.account_id AND i.id = t.invoice_id
           WHERE t.account_id = $1 AND t.invoice_id = $2 AND t.number > $3 ORDER BY t.number LIMIT $4"#,
        account.uuid(),
        invoice.uuid(),
        after,
        page.fetch(),
    )
    .fetch_all(db)
    .await?))
}

/// Returns the number of an attempt, if it belongs to the invoice.
async fn number_of(
    db: &PgPool,
    account: AccountId,
    invoice: InvoiceId,
    id: CollectionAttemptId,
) -> Result<Option<i32>> {
    let number = sqlx::query_scalar!(
        "SELECT number FROM collection_attempts WHERE account_id = $1 AND invoice_id = $2 AND id = $3",
        account.uuid(),
        invoice.uuid(),
        id.uuid(),
    )
    .fetch_optional(db)
    .await?;
    Ok(number)
}
