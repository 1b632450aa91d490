//! Disputes of payments, as their provider reports them.

pub mod books;
mod list;
mod view;

use sqlx::{PgConnection, PgExecutor, PgPool};

use crate::payments::Payment;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, DisputeId, PaymentId};
use foundation::money::Currency;
use foundation::time::Timestamp;
use providers::{DisputeReason, DisputeStatus, ReportedDispute};

pub use list::{Filter, list};
pub use view::DisputeView;

/// A dispute as stored.
#[derive(Clone, Debug)]
pub struct Dispute {
    pub id: DisputeId,
    pub payment_id: PaymentId,
    /// The provider's reference for it.
    pub provider_ref: String,
    pub amount: i64,
    /// The payment's currency.
    pub currency: Currency,
    pub reason: DisputeReason,
    pub status: DisputeStatus,
    pub respond_by: Option<Timestamp>,
    /// When the money was withdrawn.
    pub created_at: Timestamp,
    /// When it was decided.
    pub closed_at: Option<Timestamp>,
    /// Rises with each change.
    pub version: i64,
}

/// The columns are shared by all queries.
macro_rules! select_disputes {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Dispute,
            "SELECT d.id, d.payment_id, d.provider_ref, d.amount, d.currency, d.reason, d.status, d.respond_by, d.created_at,
                    d.closed_at, d.version
             FROM disputes d " + $rest,
            $($arg),*
        )
    };
}

use select_disputes;

/// Returns a dispute.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: &PgPool, account: AccountId, id: DisputeId) -> Result<Dispute> {
    find(db, account, id).await?.ok_or_else(|| Error::no_such("dispute", id))
}

async fn find(db: &PgPool, account: AccountId, id: DisputeId) -> Result<Option<Dispute>> {
    let query = select_disputes!("WHERE d.account_id = $1 AND d.id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

/// Returns the disputes of a payment, in the order of creation.
///
/// # Errors
/// Database errors only.
pub async fn of_payment(db: impl PgExecutor<'_>, account: AccountId, payment: PaymentId) -> Result<Vec<Dispute>> {
    let query = select_disputes!("WHERE d.account_id = $1 AND d.payment_id = $2", account.uuid(), payment.uuid());
    let mut rows = query.fetch_all(db).await?;
    rows.sort_by_key(|dispute| dispute.id);
    Ok(rows)
}

/// Inserts a dispute that the provider has reported. The payment is locked.
///
/// # Errors
/// Database errors only.
pub async fn open(
    tx: &mut PgConnection,
    payment: &Payment,
    reported: &ReportedDispute,
    now: Timestamp,
) -> Result<Dispute> {
    let dispute = Dispute {
        id: DisputeId::new(now),
        payment_id: payment.id,
        provider_ref: reported.provider_ref.clone(),
        amount: reported.amount,
        currency: payment.currency,
        reason: reported.reason,
        status: reported.status,
        respond_by: reported.respond_by,
        created_at: now,
        closed_at: reported.status.is_closed().then_some(now),
        version: 1,
    };
    sqlx::query!(
        "INSERT INTO disputes (id, account_id, payment_id, provider_account_id, provider_ref, amount, currency, reason,
                status, respond_by, created_at, closed_at, reinstatement_ref)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        dispute.id.uuid(),
        payment.account_id.uuid(),
        payment.id.uuid(),
        payment.provider_account_id.uuid(),
        dispute.provider_ref,
        dispute.amount,
        dispute.currency.code(),
        dispute.reason as DisputeReason,
        dispute.status as DisputeStatus,
        dispute.respond_by,
        now,
        dispute.closed_at,
        reported.reinstatement(),
    )
    .execute(tx)
    .await?;
    Ok(dispute)
}

/// Writes what the provider reports of a dispute. Returns `false` if nothing has changed, or if the dispute was decided
/// before and its status cannot change so. The payment is locked.
///
/// # Errors
/// Database errors only.
pub async fn update(
    tx: &mut PgConnection,
    account: AccountId,
    dispute: &mut Dispute,
    reported: &ReportedDispute,
    now: Timestamp,
) -> Result<bool> {
    if !dispute.status.may_become(reported.status) {
        // A provider may book the money of a won dispute after the decision.
        if let Some(reinstatement) = reported.reinstatement() {
            sqlx::query!(
                "UPDATE disputes SET reinstatement_ref = $3, written_at = clock_timestamp()
                 WHERE account_id = $1 AND id = $2 AND reinstatement_ref IS NULL",
                account.uuid(),
                dispute.id.uuid(),
                reinstatement,
            )
            .execute(&mut *tx)
            .await?;
        }
        return Ok(false);
    }
    if (dispute.status, dispute.respond_by) == (reported.status, reported.respond_by) {
        return Ok(false);
    }
    dispute.status = reported.status;
    dispute.respond_by = reported.respond_by;
    dispute.closed_at = reported.status.is_closed().then_some(now);
    dispute.version = sqlx::query_scalar!(
        "UPDATE disputes SET status = $3, respond_by = $4, closed_at = $5, reinstatement_ref = $6, written_at = clock_timestamp()
         WHERE account_id = $1 AND id = $2 RETURNING version",
        account.uuid(),
        dispute.id.uuid(),
        dispute.status as DisputeStatus,
        dispute.respond_by,
        dispute.closed_at,
        reported.reinstatement(),
    )
    .fetch_one(tx)
    .await?;
    Ok(true)
}
