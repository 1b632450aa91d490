//! Inquiries: requests to the provider whether a charge has settled or its authorization has expired.

use sqlx::PgPool;

use crate::accounts::{AccountTime, Scope};
use foundation::db::column;
use foundation::error::Result;
use foundation::id::{AccountId, PaymentId, ProviderAccountId};
use foundation::time::Timestamp;
use providers::ProviderKind;

/// Maximum number of inquiries that one scheduler tick enqueues.
pub const INQUIRY_BATCH: i64 = 500;

/// Returns the payments whose inquiry is due and moves their `inquiry_at` forward. The moved time is the claim, so a
/// crash of the worker delays the inquiry by half a minute.
///
/// # Errors
/// Database errors only.
pub async fn take_due_inquiries(db: &PgPool, scope: Scope) -> Result<Vec<PaymentId>> {
    match scope {
        Scope::AllAccounts(now) => claim_due_inquiries(db, now, INQUIRY_BATCH).await,
        Scope::Account(account, now) | Scope::Advance(account, now) => {
            claim_due_inquiries_of_account(db, account, now, INQUIRY_BATCH).await
        }
    }
}

async fn claim_due_inquiries(db: &PgPool, now: Timestamp, batch: i64) -> Result<Vec<PaymentId>> {
    let rows = sqlx::query_scalar!(
        "UPDATE payments SET inquiry_at = account_now(account_id, $1) + interval '30 seconds'
         WHERE id = ANY (ARRAY(SELECT id FROM payments WHERE inquiry_at <= $1 AND NOT is_advancing(account_id)
                      ORDER BY inquiry_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED))
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
async fn claim_due_inquiries_of_account(
    db: &PgPool,
    account: AccountId,
    now: Timestamp,
    batch: i64,
) -> Result<Vec<PaymentId>> {
    let rows = sqlx::query_scalar!(
        "UPDATE payments SET inquiry_at = $2::timestamptz + interval '30 seconds'
         WHERE id = ANY (ARRAY(SELECT id FROM payments
                      WHERE inquiry_at IS NOT NULL AND (account_id, inquiry_at) >= ($1, '-infinity')
                        AND (account_id, inquiry_at) <= ($1, $2)
                      ORDER BY account_id, inquiry_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED))
         RETURNING id",
        account.uuid(),
        now,
        batch,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

/// Makes the inquiry about a charge due now, whatever its state. One that is in progress is repeated, because it may not see
/// what this is requested for. `now` is the system's time.
///
/// # Errors
/// Database errors only.
pub async fn inquire_soon(db: &PgPool, account: ProviderAccountId, provider_ref: &str, now: Timestamp) -> Result<()> {
    sqlx::query!(
        // `least` ignores NULL.
        "UPDATE payments SET inquiry_at = least(inquiry_at, account_now(account_id, $3)),
                inquiry_requests = inquiry_requests + 1
         WHERE provider_account_id = $1 AND provider_ref = $2",
        account.uuid(),
        provider_ref,
        now,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// What a charge is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InquiryKind {
    /// A captured payment waits for settlement.
    Settlement,
    /// An authorization waits for its expiry.
    Expiry,
}

/// A payment whose inquiry is due.
#[derive(Clone, Copy, Debug)]
pub struct DueInquiry {
    pub id: PaymentId,
    /// How often one had been requested when this was read.
    pub requests: i64,
}

/// Returns up to `limit` payments of one account whose inquiry is due by the account's time, without claiming them: the
/// advance of a test clock runs the inquiries itself and calls [`postpone_inquiries`] for those that changed nothing.
///
/// # Errors
/// Database errors only.
pub async fn due_inquiries(
    db: &PgPool,
    account: AccountId,
    now: Timestamp,
    kind: InquiryKind,
    limit: i64,
) -> Result<Vec<DueInquiry>> {
    Ok(sqlx::query_as!(
        DueInquiry,
        "SELECT id, inquiry_requests AS requests FROM payments
         WHERE inquiry_at IS NOT NULL AND (account_id, inquiry_at) >= ($1, '-infinity') AND (account_id, inquiry_at) <= ($1, $2)
           AND (captured_at IS NOT NULL) = $3
         ORDER BY account_id, inquiry_at LIMIT $4",
        account.uuid(),
        now,
        kind == InquiryKind::Settlement,
        limit,
    )
    .fetch_all(db)
    .await?)
}

/// Postpones inquiries that changed nothing, unless one has been requested again. An advance jumps from one due time to
/// the next, so without a growing delay a charge that stays open for a year of account time would cause a million
/// inquiries. The delay grows with the time since the capture or since the authorization ran out. It ends with a minute,
/// or an hour, so that the advance queries all charges of about the same time in one step.
///
/// # Errors
/// Database errors only.
pub async fn postpone_inquiries(db: &PgPool, account: AccountId, asked: &[DueInquiry], now: Timestamp) -> Result<()> {
    let mut asked = asked.to_vec();
    asked.sort_unstable_by_key(|due| due.id);
    sqlx::query!(
        "WITH held AS MATERIALIZED (
             SELECT locked.account_id, locked.id FROM unnest($2::uuid[], $5::bigint[]) AS asked (id, requests)
             CROSS JOIN LATERAL (SELECT p.account_id, p.id FROM payments p WHERE p.account_id = $1 AND p.id = asked.id
                 AND (p.inquiry_at <= $3) IS TRUE AND p.inquiry_requests = asked.requests FOR NO KEY UPDATE) locked)
         UPDATE payments p SET inquiry_at = (SELECT date_bin(unit, $3::timestamptz + delay, timestamptz 'epoch') + unit
             FROM (SELECT greatest(interval '30 seconds',
                     ($3 - coalesce(p.captured_at, p.created_at + make_interval(secs => $4))) / 4)) AS d (delay)
             CROSS JOIN LATERAL (SELECT CASE WHEN delay < interval '1 hour' THEN interval '1 minute'
                 ELSE interval '1 hour' END) AS u (unit))
         FROM held WHERE p.account_id = held.account_id AND p.id = held.id",
        account.uuid(),
        &column(&asked, |due| due.id.uuid()),
        now,
        ProviderKind::LONGEST_AUTHORIZATION.as_secs_f64(),
        &column(&asked, |due| due.requests),
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns when the next inquiry of an account is due, by the account's time.
///
/// # Errors
/// Database errors only.
pub async fn next_inquiry(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    Ok(sqlx::query_scalar!(
        r#"SELECT inquiry_at AS "inquiry_at!" FROM payments
           WHERE inquiry_at IS NOT NULL AND (account_id, inquiry_at) >= ($1, '-infinity')
             AND (account_id, inquiry_at) <= ($1, 'infinity')
           ORDER BY account_id, inquiry_at LIMIT 1"#,
        account.uuid(),
    )
    .fetch_optional(db)
    .await?)
}

/// A payment whose charge may have settled or expired, with the data to query the provider.
#[derive(Debug)]
pub struct Inquiry {
    pub id: PaymentId,
    pub account_id: AccountId,
    pub time: AccountTime,
    /// The account's time when this was read.
    pub now: Timestamp,
    /// The database's time when this was read: everything in our books by then must be known to the provider.
    pub read_at: Timestamp,
    pub provider_account_id: ProviderAccountId,
    pub provider: ProviderKind,
    /// The provider's reference for the charge.
    pub provider_ref: String,
    /// Our reference at the provider.
    pub reference: String,
    pub created_at: Timestamp,
    /// When money was first captured.
    pub captured_at: Option<Timestamp>,
    /// When the next one was due, and how often one had been requested: one of them changes if another one is requested.
    pub inquiry_at: Option<Timestamp>,
    pub inquiry_requests: i64,
}

/// Returns what is needed to query the provider about a payment's charge; `None` if no inquiry is needed. `now` is the
/// system's time.
///
/// # Errors
/// Database errors only.
pub async fn inquiry(db: &PgPool, id: PaymentId, now: Timestamp) -> Result<Option<Inquiry>> {
    let row = sqlx::query!(
        r#"SELECT p.id, p.account_id, p.provider_account_id, a.provider, p.provider_ref AS "provider_ref!",
                  p.created_at, p.captured_at, p.inquiry_at, p.inquiry_requests, o.reference,
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
        inquiry_at: row.inquiry_at,
        inquiry_requests: row.inquiry_requests,
    }))
}
