//! Refunds. While a refund is pending, its amount is reserved on the payment.

mod list;

use serde::Serialize;
use sqlx::PgConnection;
use utoipa::ToSchema;

use super::payment::Payment;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, KeyId, PaymentId, RefundId};
use foundation::merchant_data::{ExternalId, Metadata};
use foundation::money::Currency;
use foundation::schema;
use foundation::time::Timestamp;
use providers::FailureCode;

pub use list::{Filter, Listed, list, retrieve};

/// The state of the refund:
/// - `pending`: accepted; the outcome is not known yet.
/// - `succeeded`: the money was returned to the card. Final.
/// - `failed`: nothing was returned, and the amount can be refunded again. Final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, ToSchema)]
#[sqlx(type_name = "refund_status", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum RefundStatus {
    Pending,
    Succeeded,
    Failed,
}

impl RefundStatus {
    /// All statuses.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Succeeded, Self::Failed];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

/// A refund as stored.
#[derive(Clone, Debug)]
pub struct Refund {
    pub id: RefundId,
    pub payment_id: PaymentId,
    /// In the payment's currency.
    pub amount: i64,
    /// The requested amount; `None` requests the remaining amount.
    pub amount_asked: Option<i64>,
    /// The merchant's own id, unique within the payment.
    pub external_id: Option<ExternalId>,
    pub metadata: Option<Metadata>,
    /// Rises with each change.
    pub version: i64,
    pub status: RefundStatus,
    pub created_at: Timestamp,
    pub failure_code: Option<FailureCode>,
    /// The API key of the request; `None` for a refund that the system itself makes.
    pub requested_by: Option<KeyId>,
}

/// The public JSON of a refund (docs/payments.md, Refunds).
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Refund, description = "A refund to the card.")]
pub struct RefundView {
    pub id: RefundId,
    #[schema(schema_with = schema::refund)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    #[schema(schema_with = schema::version)]
    version: i64,
    /// The payment that is refunded.
    payment_id: PaymentId,
    /// What is refunded, in the currency's minor unit: as sent, or what remained.
    #[schema(value_type = schema::Amount)]
    amount: i64,
    currency: Currency,
    status: RefundStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Your own id, unique within the payment.
    external_id: Option<ExternalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_code: Option<FailureCode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// A readable text for `failureCode`.
    failure_message: Option<&'static str>,
}

impl RefundView {
    /// Renders a refund in the currency of its payment.
    pub fn new(refund: &Refund, currency: Currency, livemode: bool) -> Self {
        Self {
            id: refund.id,
            object: "refund",
            livemode,
            created_at: refund.created_at,
            version: refund.version,
            payment_id: refund.payment_id,
            amount: refund.amount,
            currency,
            status: refund.status,
            external_id: refund.external_id.clone(),
            metadata: refund.metadata.clone(),
            failure_code: refund.failure_code,
            failure_message: refund.failure_code.map(FailureCode::message),
        }
    }
}

/// Inserts a refund that is about to be sent. The same transaction reserves its amount on the payment.
///
/// # Errors
/// Database errors only.
pub async fn insert(tx: &mut PgConnection, account: AccountId, refund: &Refund) -> Result<()> {
    sqlx::query!(
        "INSERT INTO refunds (id, account_id, payment_id, amount, created_at, amount_asked, external_id, requested_by_key,
                metadata)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        refund.id.uuid(),
        account.uuid(),
        refund.payment_id.uuid(),
        refund.amount,
        refund.created_at,
        refund.amount_asked,
        refund.external_id.as_deref(),
        refund.requested_by.map(KeyId::uuid),
        refund.metadata.as_ref() as Option<&Metadata>,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Returns the refund of a locked payment that has this `external_id`.
///
/// # Errors
/// Database errors only.
pub async fn find_by_external_id(
    tx: &mut PgConnection,
    account: AccountId,
    payment: PaymentId,
    external_id: &str,
) -> Result<Option<Refund>> {
    let query = sqlx::query_as!(
        Refund,
        "SELECT id, payment_id, amount, amount_asked, external_id, metadata, version, status, created_at, failure_code,
                requested_by_key AS requested_by
         FROM refunds
         WHERE account_id = $1 AND payment_id = $2 AND external_id = $3",
        account.uuid(),
        payment.uuid(),
        external_id,
    );
    Ok(query.fetch_optional(tx).await?)
}

/// Writes the outcome of a refund and returns its amount.
///
/// # Errors
/// [`Error::Internal`] if it has already ended.
pub async fn finish(
    tx: &mut PgConnection,
    account: AccountId,
    id: RefundId,
    status: RefundStatus,
    failure_code: Option<FailureCode>,
    now: Timestamp,
) -> Result<i64> {
    sqlx::query_scalar!(
        "UPDATE refunds SET status = $3, finished_at = $4, failure_code = $5
         WHERE account_id = $1 AND id = $2 AND status = 'pending' RETURNING amount",
        account.uuid(),
        id.uuid(),
        status as RefundStatus,
        now,
        failure_code as Option<FailureCode>,
    )
    .fetch_optional(tx)
    .await?
    .ok_or_else(|| Error::internal(format!("{id} has already ended")))
}

/// Returns the refunds of a payment, in the order of creation. The payment is locked, or was read in the same snapshot.
///
/// # Errors
/// Database errors only.
pub async fn of_payment(tx: &mut PgConnection, payment: &Payment) -> Result<Vec<Refund>> {
    if !payment.has_refunds {
        return Ok(vec![]);
    }
    of_payments(tx, payment.account_id, std::slice::from_ref(payment)).await
}

/// Returns the refunds of several payments from the same snapshot, in the order of creation.
///
/// # Errors
/// Database errors only.
pub async fn of_payments(db: &mut PgConnection, account: AccountId, payments: &[Payment]) -> Result<Vec<Refund>> {
    let ids: Vec<_> = payments.iter().filter(|p| p.has_refunds).map(|p| p.id.uuid()).collect();
    // A join, sorted here: for `payment_id = ANY (…) ORDER BY`, the planner scans all refunds of the account.
    let mut rows = sqlx::query_as!(
        Refund,
        "SELECT r.id, r.payment_id, r.amount, r.amount_asked, r.external_id, r.metadata, r.version, r.status, r.created_at, r.failure_code,
                r.requested_by_key AS requested_by
         FROM unnest($2::uuid[]) AS p (id)
         CROSS JOIN LATERAL (SELECT * FROM refunds WHERE account_id = $1 AND payment_id = p.id OFFSET 0) r",
        account.uuid(),
        &ids,
    )
    .fetch_all(db)
    .await?;
    rows.sort_by_key(|refund| refund.id);
    Ok(rows)
}
