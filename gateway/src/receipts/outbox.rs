//! The receipts to be sent, and the results of the others.

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::id::TransactionId;
use crate::transactions::ReceiptRequest;

const MAX_COUNTED: i64 = 1_000;

/// The recipient of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub(super) enum Addressee {
    Cardholder,
    Merchant,
}

impl Addressee {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cardholder => "cardholder",
            Self::Merchant => "merchant",
        }
    }
}

/// A claimed receipt.
pub(super) struct DueReceipt {
    pub(super) id: Uuid,
    account_id: Uuid,
    pub(super) transaction_id: TransactionId,
    pub(super) addressee: Addressee,
    pub(super) email: String,
    /// Including the current attempt.
    pub(super) tries: i32,
}

/// One row per requested recipient with an address.
pub(super) async fn insert(
    db: &mut PgConnection,
    id: TransactionId,
    request: ReceiptRequest,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO gateway.receipts (transaction_id, account_id, addressee, email, due_at)
         SELECT id, account_id, 'cardholder', details->>'email', clock_timestamp()
         FROM gateway.transactions WHERE id = $1 AND $2
         UNION ALL
         SELECT charge.id, charge.account_id, 'merchant', contact_email, clock_timestamp()
         FROM gateway.transactions AS charge JOIN gateway.accounts ON accounts.id = charge.account_id
         WHERE charge.id = $1 AND $3 AND contact_email IS NOT NULL",
        id.uuid(),
        request.cardholder,
        request.merchant,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Claims due receipts and postpones their next attempt. If that process dies, the receipt is retried after that
/// interval, which is longer than sending takes.
///
/// Round-robin: takes the oldest due receipt of each account, starting after the account `last`, and sets that to the
/// account served last, or to `None` if there are no more. The next claim then starts with the first one. A loose index
/// scan finds the accounts, and reads no further than the last receipt that is claimed.
pub(super) async fn claim_due(
    db: &PgPool,
    limit: usize,
    last: &mut Option<Uuid>,
) -> Result<Vec<DueReceipt>, sqlx::Error> {
    let after = last.take().unwrap_or_default();
    let claimed = sqlx::query_as!(
        DueReceipt,
        r#"WITH RECURSIVE waiting AS (
               (SELECT account_id FROM gateway.receipts WHERE account_id > $1 AND due_at IS NOT NULL
                    -- While nothing is due, the accounts whose receipts are tried again later are not visited.
                    AND EXISTS (SELECT FROM gateway.receipts WHERE due_at <= statement_timestamp())
                ORDER BY account_id LIMIT 1)
               UNION ALL
               SELECT (SELECT r.account_id FROM gateway.receipts r
                       WHERE r.account_id > w.account_id AND r.due_at IS NOT NULL ORDER BY r.account_id LIMIT 1)
               FROM waiting w WHERE w.account_id IS NOT NULL)
           UPDATE gateway.receipts SET tries = tries + 1, due_at = clock_timestamp() + interval '2 minutes'
           WHERE id = ANY (ARRAY (
               SELECT oldest.id FROM waiting w CROSS JOIN LATERAL (
                   SELECT r.id FROM gateway.receipts r
                   WHERE (r.account_id, r.due_at) <= (w.account_id, statement_timestamp())
                     AND r.account_id >= w.account_id AND r.due_at IS NOT NULL
                   ORDER BY r.account_id, r.due_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) oldest
               LIMIT $2))
           RETURNING id, account_id, transaction_id AS "transaction_id: TransactionId", addressee AS "addressee: Addressee",
               email, tries"#,
        after,
        i64::try_from(limit).unwrap_or(i64::MAX),
    )
    .fetch_all(db)
    .await?;
    if claimed.len() == limit {
        *last = claimed.iter().map(|receipt| receipt.account_id).max();
    }
    Ok(claimed)
}

pub(super) async fn sent(db: &PgPool, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE gateway.receipts SET sent_at = clock_timestamp(), due_at = NULL WHERE id = $1 AND due_at IS NOT NULL",
        id,
    )
    .execute(db)
    .await?;
    Ok(())
}

pub(super) async fn failed(db: &PgPool, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE gateway.receipts SET given_up_at = clock_timestamp(), due_at = NULL WHERE id = $1 AND due_at IS NOT NULL",
        id,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Reschedules a receipt, unless another process has claimed it since.
pub(super) async fn reschedule(db: &PgPool, id: Uuid, tries: i32, seconds: u32) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE gateway.receipts SET due_at = clock_timestamp() + make_interval(secs => $3)
         WHERE id = $1 AND tries = $2 AND due_at IS NOT NULL",
        id,
        tries,
        f64::from(seconds),
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Pending receipts, counted up to 1,000.
pub(super) async fn pending(db: &PgPool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
             SELECT 1 FROM gateway.receipts WHERE due_at IS NOT NULL ORDER BY due_at LIMIT $1) AS pending"#,
        MAX_COUNTED,
    )
    .fetch_one(db)
    .await
}
