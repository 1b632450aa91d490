//! SQL of payments.

use std::time::Duration;

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use super::{Inquiry, Payment, Status};
use crate::accounts::AccountTime;
use crate::operations::OperationKind;
use foundation::error::Result;
use foundation::id::{AccountId, InvoiceId, PaymentId, PaymentLinkId};
use foundation::time::Timestamp;
use providers::FailureCode;

/// The columns are shared by all queries.
macro_rules! select_payments {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Payment,
            "SELECT p.id, p.account_id, a.mode, p.provider_account_id, p.customer_id, p.payment_method_id, p.invoice_id,
                    p.payment_link_id, p.status, p.settled, p.capture, p.currency, p.amount_requested, p.amount,
                    p.amount_captured, p.amount_refunded, p.amount_refund_pending, p.amount_base, p.amount_surcharge, p.amount_tax, p.amount_tip,
                    p.card_brand, p.card_last4, p.card_exp_month, p.card_exp_year, p.decline_code, p.decline_type,
                    p.provider_ref, p.created_at, p.captured_at, p.inquiry_at, p.pending_operation, p.has_refunds,
                    p.action_token, p.challenge_url, p.failure_code
             FROM payments p JOIN accounts a ON a.id = p.account_id " + $rest,
            $($arg),*
        )
    };
}

pub(super) async fn find(db: impl PgExecutor<'_>, account: AccountId, id: PaymentId) -> Result<Option<Payment>> {
    let query = select_payments!("WHERE p.account_id = $1 AND p.id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

pub(super) async fn lock(tx: &mut PgConnection, account: AccountId, id: PaymentId) -> Result<Option<Payment>> {
    let query =
        select_payments!("WHERE p.account_id = $1 AND p.id = $2 FOR NO KEY UPDATE OF p", account.uuid(), id.uuid());
    Ok(query.fetch_optional(tx).await?)
}

pub(super) async fn list(
    db: impl PgExecutor<'_>,
    account: AccountId,
    after: Option<PaymentId>,
    limit: i64,
) -> Result<Vec<Payment>> {
    let query = select_payments!(
        "WHERE (p.account_id, p.id) < ($1, $2) AND p.account_id >= $1 ORDER BY p.account_id DESC, p.id DESC LIMIT $3",
        account.uuid(),
        after.map_or(Uuid::max(), PaymentId::uuid),
        limit
    );
    Ok(query.fetch_all(db).await?)
}

pub(super) async fn save(tx: &mut PgConnection, payment: &Payment) -> Result<()> {
    sqlx::query!(
        "UPDATE payments SET status = $3, settled = $4, amount_captured = $5, captured_at = $6, inquiry_at = $7,
                amount_refunded = $8, amount_refund_pending = $9, pending_operation = $10, has_refunds = $11,
                failure_code = $12, settled_at = CASE WHEN $4 THEN coalesce(settled_at, account_now($1, clock_timestamp())) END
         WHERE account_id = $1 AND id = $2",
        payment.account_id.uuid(),
        payment.id.uuid(),
        payment.status as Status,
        payment.settled,
        payment.amount_captured,
        payment.captured_at,
        payment.inquiry_at,
        payment.amount_refunded,
        payment.amount_refund_pending,
        payment.pending_operation as Option<OperationKind>,
        payment.has_refunds,
        payment.failure_code as Option<FailureCode>,
    )
    .execute(tx)
    .await?;
    Ok(())
}

pub(super) async fn save_challenge(tx: &mut PgConnection, payment: &Payment, response: &str) -> Result<()> {
    sqlx::query!(
        "WITH payment AS (
            UPDATE payments SET status = $3, action_token = $4, challenge_url = $5
            WHERE account_id = $1 AND id = $2 RETURNING id)
         UPDATE idempotency_keys k SET answer = $6 FROM payment
         WHERE k.account_id = $1 AND k.payment_id = payment.id AND k.answer IS NULL",
        payment.account_id.uuid(),
        payment.id.uuid(),
        payment.status as Status,
        payment.action_token,
        payment.challenge_url,
        response,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// The status of the live payment for an invoice or link, if there is one. The list of statuses matches the predicate
/// of the unique index, so the query can use it.
macro_rules! live {
    ($tx:ident, $account:expr, $column:literal, $id:expr) => {
        sqlx::query_scalar!(
            "SELECT status FROM payments WHERE account_id = $1 AND "
                + $column
                + " = $2
             AND status NOT IN ('declined', 'failed', 'cancelled', 'expired', 'refunded')",
            $account.uuid(),
            $id.uuid(),
        )
        .fetch_optional($tx)
        .await?
    };
}

pub(super) async fn live_for_invoice(
    tx: &mut PgConnection,
    account: AccountId,
    invoice: InvoiceId,
) -> Result<Option<Status>> {
    Ok(live!(tx, account, "invoice_id", invoice))
}

pub(super) async fn live_for_link(
    tx: &mut PgConnection,
    account: AccountId,
    link: PaymentLinkId,
) -> Result<Option<Status>> {
    Ok(live!(tx, account, "payment_link_id", link))
}

/// Counts unsuccessful payments on a page in the last hour, up to `limit`. The conditions repeat the predicate of the index.
pub(super) async fn unsuccessful_attempts_on_page(
    tx: &mut PgConnection,
    account: AccountId,
    page_object: Uuid,
    now: Timestamp,
    limit: i64,
) -> Result<i64> {
    let attempts = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
            SELECT FROM payments
            WHERE account_id = $1 AND coalesce(invoice_id, payment_link_id) = $2
              AND coalesce(invoice_id, payment_link_id) IS NOT NULL AND payment_method_id IS NULL
              AND status IN ('declined', 'cancelled', 'refunded') AND created_at > $3::timestamptz - interval '1 hour'
            LIMIT $4) tried"#,
        account.uuid(),
        page_object,
        now,
        limit,
    )
    .fetch_one(tx)
    .await?;
    Ok(attempts)
}

pub(super) async fn claim_due_inquiries(db: &PgPool, now: Timestamp, batch: i64) -> Result<Vec<PaymentId>> {
    let rows = sqlx::query_scalar!(
        "UPDATE payments SET inquiry_at = account_now(account_id, $1) + interval '30 seconds'
         WHERE id IN (SELECT id FROM payments WHERE inquiry_at <= $1 AND NOT is_advancing(account_id)
                      ORDER BY inquiry_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED)
         RETURNING id",
        now,
        batch,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

/// Selects by a row range and not by separate columns: the planner must not choose the index over all accounts, in
/// which the account's rows are scattered.
pub(super) async fn claim_due_inquiries_of_account(
    db: &PgPool,
    account: AccountId,
    now: Timestamp,
    batch: i64,
) -> Result<Vec<PaymentId>> {
    let rows = sqlx::query_scalar!(
        "UPDATE payments SET inquiry_at = $2::timestamptz + interval '30 seconds'
         WHERE id IN (SELECT id FROM payments
                      WHERE inquiry_at IS NOT NULL AND (account_id, inquiry_at) >= ($1, '-infinity')
                        AND (account_id, inquiry_at) <= ($1, $2)
                      ORDER BY account_id, inquiry_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED)
         RETURNING id",
        account.uuid(),
        now,
        batch,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

pub(super) async fn due_inquiries(
    db: &PgPool,
    account: AccountId,
    now: Timestamp,
    captured: bool,
    limit: i64,
) -> Result<Vec<PaymentId>> {
    let rows = sqlx::query_scalar!(
        "SELECT id FROM payments
         WHERE inquiry_at IS NOT NULL AND (account_id, inquiry_at) >= ($1, '-infinity') AND (account_id, inquiry_at) <= ($1, $2)
           AND (captured_at IS NOT NULL) = $3
         ORDER BY account_id, inquiry_at LIMIT $4",
        account.uuid(),
        now,
        captured,
        limit,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

pub(super) async fn postpone_inquiries(
    db: &PgPool,
    account: AccountId,
    ids: &[PaymentId],
    now: Timestamp,
    authorization_validity: Duration,
) -> Result<()> {
    let mut ids: Vec<_> = ids.iter().map(|id| id.uuid()).collect();
    ids.sort_unstable();
    sqlx::query!(
        "WITH held AS MATERIALIZED (
             SELECT locked.id FROM unnest($2::uuid[]) AS asked (id)
             CROSS JOIN LATERAL (SELECT p.id FROM payments p WHERE p.account_id = $1 AND p.id = asked.id
                 AND (p.inquiry_at <= $3) IS TRUE FOR NO KEY UPDATE) locked)
         UPDATE payments p SET inquiry_at = $3::timestamptz
            + greatest(interval '30 seconds', ($3 - coalesce(captured_at, created_at + make_interval(secs => $4))) / 4)
         FROM held WHERE p.account_id = $1 AND p.id = held.id",
        account.uuid(),
        &ids,
        now,
        authorization_validity.as_secs_f64(),
    )
    .execute(db)
    .await?;
    Ok(())
}

pub(super) async fn next_inquiry(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    let due = sqlx::query_scalar!(
        r#"SELECT inquiry_at AS "inquiry_at!" FROM payments
           WHERE inquiry_at IS NOT NULL AND (account_id, inquiry_at) >= ($1, '-infinity')
             AND (account_id, inquiry_at) <= ($1, 'infinity')
           ORDER BY account_id, inquiry_at LIMIT 1"#,
        account.uuid(),
    )
    .fetch_optional(db)
    .await?;
    Ok(due)
}

pub(super) async fn inquiry(db: &PgPool, id: PaymentId, now: Timestamp) -> Result<Option<Inquiry>> {
    let row = sqlx::query!(
        r#"SELECT p.id, p.account_id, p.provider_account_id, a.provider, p.provider_ref AS "provider_ref!",
                  p.created_at, p.captured_at, o.reference,
                  EXISTS (SELECT 1 FROM test_clocks c WHERE c.account_id = p.account_id) AS "has_clock!",
                  account_now(p.account_id, $2) AS "now!", clock_timestamp() AS "asked_at!"
           FROM payments p JOIN provider_accounts a ON a.id = p.provider_account_id
           JOIN operations o ON o.account_id = p.account_id AND o.payment_id = p.id AND o.kind IN ('sale', 'authorize')
           WHERE p.id = $1 AND p.inquiry_at IS NOT NULL AND p.provider_ref IS NOT NULL"#,
        id.uuid(),
        now,
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| Inquiry {
        id: row.id,
        account_id: row.account_id,
        time: AccountTime::new(row.account_id, row.has_clock),
        now: row.now,
        read_at: row.asked_at,
        provider_account_id: row.provider_account_id,
        provider: row.provider,
        provider_ref: row.provider_ref,
        reference: row.reference,
        created_at: row.created_at,
        captured_at: row.captured_at,
    }))
}
