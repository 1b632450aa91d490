//! SQL of operations.

pub(super) mod admin;
pub(super) mod books;
pub(super) mod breaker;

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use super::{
    Backlog, Claimed, Due, FIRST_PUSH_AFTER, Locked, NewOperation, OperationKind, Origin, Outcome, PROVIDER_TIMEOUT,
    State, Subject, Unfinished,
};
use crate::accounts::AccountTime;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, KeyId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId, RefundId};
use foundation::money::Currency;
use foundation::public_url;
use foundation::time::Timestamp;
use providers::{FailureCode, Payer, ProviderKind, Request, Source};

pub(super) async fn insert(tx: &mut PgConnection, new: &NewOperation<'_>) -> Result<()> {
    let (payment, payment_method) = match new.subject {
        Subject::Payment(id) => (Some(id.uuid()), None),
        Subject::PaymentMethod(id) => (None, Some(id.uuid())),
    };
    let (token, card) = match new.source {
        Some(Source::Token(token)) => (Some(token.expose().as_str()), None),
        Some(Source::Card(card)) => (None, Some(card.as_str())),
        None => (None, None),
    };
    sqlx::query!(
        "INSERT INTO operations
            (id, account_id, payment_id, payment_method_id, refund_id, provider_account_id, kind, reference, amount, currency,
             upstream_token, card_ref, target_ref, next_push_at, reply_to, request_id, created_at, action_token, by_system,
             requested_by_key)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
                 clock_timestamp() + make_interval(secs => $14), $15, $16, clock_timestamp(), $17, $18, $19)",
        new.id.uuid(),
        new.account_id.uuid(),
        payment,
        payment_method,
        new.refund_id.map(RefundId::uuid),
        new.provider_account_id.uuid(),
        new.kind as OperationKind,
        new.id.to_string(),
        new.money.map(|money| money.minor),
        new.money.map(|money| money.currency.code()),
        token,
        card,
        new.target_ref,
        FIRST_PUSH_AFTER.as_secs_f64(),
        new.origin.reply_to,
        new.origin.request_id,
        new.action_token,
        new.by_system,
        new.origin.requested_by.map(KeyId::uuid),
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// A claimed row, before it is converted to a request.
pub(super) struct ClaimedRow {
    id: OperationId,
    account_id: AccountId,
    payment_id: Option<PaymentId>,
    payment_method_id: Option<PaymentMethodId>,
    refund_id: Option<RefundId>,
    provider_account_id: ProviderAccountId,
    provider: ProviderKind,
    kind: OperationKind,
    reference: String,
    amount: Option<i64>,
    currency: Option<Currency>,
    upstream_token: Option<String>,
    card_ref: Option<String>,
    target_ref: Option<String>,
    reply_to: Option<String>,
    request_id: Option<String>,
    payer_address: Option<String>,
    action_token: Option<String>,
    fence: i64,
    not_found: i32,
    sent_before: bool,
    last_request_is_dead: bool,
    has_clock: bool,
    valid_until: Timestamp,
    now: Timestamp,
    background: bool,
    by_system: bool,
    not_processed: i32,
    age_seconds: f64,
    has_breaker: bool,
}

impl ClaimedRow {
    pub(super) fn into_claimed(self) -> Result<Claimed> {
        let subject = match (self.payment_id, self.payment_method_id) {
            (Some(id), None) => Subject::Payment(id),
            (None, Some(id)) => Subject::PaymentMethod(id),
            _ => return Err(Error::internal(format!("{} has no payment and no payment method", self.id))),
        };
        let money = self.amount.zip(self.currency);
        let action = super::action(self.kind, money, self.upstream_token, self.card_ref, self.target_ref)
            .ok_or_else(|| Error::internal(format!("{} lacks a column that its kind requires", self.id)))?;
        let return_url = |token: &String| public_url::of(format_args!("/pay/a/{token}/return"));
        let request = Request {
            account: self.provider_account_id,
            reference: self.reference,
            action,
            now: self.now,
            return_url: self.action_token.as_ref().map(return_url),
            payer: None,
            payer_address: self.payer_address,
            valid_until: self.valid_until,
            recorded: Vec::new(),
        };
        Ok(Claimed {
            id: self.id,
            account_id: self.account_id,
            time: AccountTime::new(self.account_id, self.has_clock),
            provider_account_id: self.provider_account_id,
            provider: self.provider,
            subject,
            refund_id: self.refund_id,
            kind: self.kind,
            request,
            action_token: self.action_token,
            origin: Origin { reply_to: self.reply_to, request_id: self.request_id, ..Origin::default() },
            fence: self.fence,
            sent_before: self.sent_before,
            not_found: self.not_found,
            last_request_is_dead: self.last_request_is_dead,
            background: self.background,
            by_system: self.by_system,
            not_processed: self.not_processed,
            age: Duration::from_secs_f64(self.age_seconds.max(0.0)),
            has_breaker: self.has_breaker,
        })
    }
}

/// Claims the row unless it is finished, leased, or locked by another transaction.
pub(super) async fn claim(
    db: &PgPool,
    id: OperationId,
    lease: Duration,
    expired_after: Duration,
    now: Timestamp,
) -> Result<Option<ClaimedRow>> {
    let row = sqlx::query_as!(
        ClaimedRow,
        r#"WITH candidate AS (
               SELECT o.id, o.state IN ('sending', 'unknown') AS sent_before,
                      coalesce(o.last_sent_at + make_interval(secs => $3) < clock_timestamp(), true) AS last_request_is_dead
               FROM operations o
               WHERE o.id = $1 AND o.finished_at IS NULL AND (o.lease_until IS NULL OR o.lease_until < clock_timestamp())
               FOR NO KEY UPDATE SKIP LOCKED)
           UPDATE operations o SET
               state = CASE WHEN c.sent_before THEN 'unknown' ELSE 'sending' END::operation_state,
               fence = o.fence + 1,
               lease_until = clock_timestamp() + make_interval(secs => $2),
               next_push_at = clock_timestamp() + make_interval(secs => $2 + 1),
               first_sent_at = coalesce(o.first_sent_at, clock_timestamp()),
               last_sent_at = CASE WHEN c.sent_before THEN o.last_sent_at ELSE clock_timestamp() END
           FROM candidate c, provider_accounts p
           WHERE o.id = c.id AND p.id = o.provider_account_id
           RETURNING o.id, o.account_id, o.payment_id, o.payment_method_id, o.refund_id, o.provider_account_id, p.provider, o.kind,
               o.reference, o.amount, o.currency, o.upstream_token, o.card_ref, o.target_ref, o.reply_to, o.request_id,
               o.payer_address,
               o.action_token, o.fence, o.not_found, c.sent_before AS "sent_before!", c.last_request_is_dead AS "last_request_is_dead!",
               clock_timestamp() + make_interval(secs => $5) AS "valid_until!",
               EXISTS (SELECT 1 FROM test_clocks t WHERE t.account_id = o.account_id) AS "has_clock!",
               account_now(o.account_id, $4) AS "now!", o.background, o.by_system, o.not_processed,
               extract(epoch FROM clock_timestamp() - o.created_at)::float8 AS "age_seconds!",
               EXISTS (SELECT 1 FROM provider_breakers b WHERE b.provider_account_id = o.provider_account_id) AS "has_breaker!""#,
        id.uuid(),
        lease.as_secs_f64(),
        expired_after.as_secs_f64(),
        now,
        PROVIDER_TIMEOUT.as_secs_f64(),
    )
    .fetch_optional(db)
    .await?;
    Ok(row)
}

/// The single-use token is deleted when the operation ends, so this may return an empty token: the request is never
/// sent again.
pub(super) async fn read(db: &PgPool, id: OperationId, now: Timestamp) -> Result<ClaimedRow> {
    let row = sqlx::query_as!(
        ClaimedRow,
        r#"SELECT o.id, o.account_id, o.payment_id, o.payment_method_id, o.refund_id, o.provider_account_id, p.provider, o.kind,
               o.reference, o.amount, o.currency, CASE WHEN o.card_ref IS NULL THEN coalesce(o.upstream_token, '') END AS upstream_token, o.card_ref, o.target_ref,
               o.reply_to, o.request_id, o.payer_address, o.action_token, o.fence, o.not_found, true AS "sent_before!", true AS "last_request_is_dead!",
               clock_timestamp() AS "valid_until!",
               EXISTS (SELECT 1 FROM test_clocks t WHERE t.account_id = o.account_id) AS "has_clock!",
               account_now(o.account_id, $2) AS "now!", o.background, o.by_system, o.not_processed,
               extract(epoch FROM clock_timestamp() - o.created_at)::float8 AS "age_seconds!", false AS "has_breaker!"
           FROM operations o JOIN provider_accounts p ON p.id = o.provider_account_id WHERE o.id = $1"#,
        id.uuid(),
        now,
    )
    .fetch_one(db)
    .await?;
    Ok(row)
}

pub(super) async fn payer(db: &PgPool, payment: PaymentId) -> Result<Payer> {
    let payer = sqlx::query_as!(
        Payer,
        r#"SELECT coalesce(c.email, a.email, 'unknown@payer.invalid') AS "email!", coalesce(c.name, a.name) AS "name!"
           FROM payments p JOIN accounts a ON a.id = p.account_id
           LEFT JOIN customers c ON c.account_id = p.account_id AND c.id = p.customer_id
           WHERE p.id = $1"#,
        payment.uuid()
    )
    .fetch_one(db)
    .await?;
    Ok(payer)
}

pub(super) async fn recorded_refunds(db: &PgPool, account: AccountId, payment: PaymentId) -> Result<Vec<String>> {
    let names = sqlx::query_scalar!(
        r#"SELECT provider_ref AS "provider_ref!" FROM operations
           WHERE account_id = $1 AND payment_id = $2 AND kind = 'refund' AND state = 'succeeded'"#,
        account.uuid(),
        payment.uuid()
    )
    .fetch_all(db)
    .await?;
    Ok(names)
}

pub(super) async fn next_refund(
    tx: &mut PgConnection,
    account: AccountId,
    payment: PaymentId,
) -> Result<Option<OperationId>> {
    let id = sqlx::query_scalar!(
        "SELECT id FROM operations WHERE account_id = $1 AND payment_id = $2 AND kind = 'refund' AND state = 'ready'
         ORDER BY id LIMIT 1",
        account.uuid(),
        payment.uuid()
    )
    .fetch_optional(tx)
    .await?;
    Ok(id)
}

/// As long as the fence matches, no other worker has claimed the operation, so the lease may be extended. Returns the
/// time until which the provider may start processing the request that is about to be sent.
pub(super) async fn sending_again(
    db: &PgPool,
    id: OperationId,
    fence: i64,
    lease: Duration,
) -> Result<Option<Timestamp>> {
    let valid_until = sqlx::query_scalar!(
        r#"UPDATE operations SET last_sent_at = clock_timestamp(), lease_until = clock_timestamp() + make_interval(secs => $3),
                next_push_at = clock_timestamp() + make_interval(secs => $3 + 1), not_found = 0
           WHERE id = $1 AND fence = $2 AND finished_at IS NULL
           RETURNING clock_timestamp() + make_interval(secs => $4) AS "valid_until!""#,
        id.uuid(),
        fence,
        lease.as_secs_f64(),
        PROVIDER_TIMEOUT.as_secs_f64(),
    )
    .fetch_optional(db)
    .await?;
    Ok(valid_until)
}

pub(super) async fn leave_unknown(
    tx: &mut PgConnection,
    id: OperationId,
    fence: i64,
    retry_after: Option<Duration>,
    found_nothing: bool,
) -> Result<()> {
    sqlx::query!(
        "UPDATE operations SET state = 'unknown', lease_until = NULL, not_found = CASE WHEN $4 THEN not_found + 1 ELSE 0 END,
                next_push_at = clock_timestamp() + make_interval(secs => $3)
         WHERE id = $1 AND fence = $2 AND finished_at IS NULL",
        id.uuid(),
        fence,
        retry_after.map(|delay| delay.as_secs_f64()),
        found_nothing,
    )
    .execute(tx)
    .await?;
    Ok(())
}

pub(super) async fn unfinished(db: &PgPool, account: AccountId) -> Result<Vec<Unfinished>> {
    let rows = sqlx::query_as!(
        Unfinished,
        r#"SELECT id, state, coalesce(payment_id, payment_method_id) AS "subject!"
           FROM operations o WHERE account_id = $1 AND next_push_at IS NOT NULL AND NOT (state = 'ready' AND not_processed > 0)
             AND NOT (kind = 'refund' AND state = 'ready' AND EXISTS (
                 SELECT FROM operations b WHERE b.account_id = $1 AND b.payment_id = o.payment_id AND b.state::text = 'unknown'
                     AND b.next_push_at IS NULL))"#,
        account.uuid(),
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

pub(super) async fn state(db: &PgPool, account: AccountId, id: OperationId) -> Result<Option<State>> {
    let state = sqlx::query_scalar!(
        "SELECT state FROM operations WHERE account_id = $1 AND id = $2",
        account.uuid(),
        id.uuid()
    )
    .fetch_optional(db)
    .await?;
    Ok(state)
}

pub(super) async fn failure_code(
    db: &PgPool,
    account: AccountId,
    id: OperationId,
) -> Result<Option<Option<FailureCode>>> {
    let code = sqlx::query_scalar!(
        "SELECT failure_code FROM operations WHERE account_id = $1 AND id = $2",
        account.uuid(),
        id.uuid()
    );
    Ok(code.fetch_optional(db).await?)
}

pub(super) async fn store_card_failure(
    db: &PgPool,
    account: AccountId,
    card: PaymentMethodId,
) -> Result<Option<FailureCode>> {
    let code = sqlx::query_scalar!(
        "SELECT failure_code FROM operations WHERE account_id = $1 AND payment_method_id = $2 AND kind = 'store_card'",
        account.uuid(),
        card.uuid()
    );
    Ok(code.fetch_optional(db).await?.flatten())
}

/// Compares the state as text, like every query about a single payment: otherwise a plan that uses the index of all
/// unknown outcomes, cached while there are few, would still be used in an outage, when there are many.
pub(super) async fn another_refund_is_unknown(
    tx: &mut PgConnection,
    account: AccountId,
    payment: PaymentId,
    this: OperationId,
) -> Result<bool> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM operations WHERE account_id = $1 AND payment_id = $2 AND kind = 'refund'
                         AND state::text = 'unknown' AND id <> $3) AS "found!""#,
        account.uuid(),
        payment.uuid(),
        this.uuid()
    )
    .fetch_one(tx)
    .await?;
    Ok(found)
}

pub(super) async fn lock(tx: &mut PgConnection, id: OperationId) -> Result<Locked> {
    let row = sqlx::query_as!(
        Locked,
        r#"SELECT state, provider_ref, fence, coalesce(lease_until >= clock_timestamp(), false) AS "is_held!"
           FROM operations WHERE id = $1 FOR NO KEY UPDATE"#,
        id.uuid()
    )
    .fetch_one(tx)
    .await?;
    Ok(row)
}

pub(super) async fn finish(tx: &mut PgConnection, id: OperationId, outcome: &Outcome<'_>) -> Result<()> {
    // The single-use token and the payer's address have no further use.
    sqlx::query!(
        "UPDATE operations SET state = $2, provider_ref = $3, failure = $4, failure_code = $5, finished_at = clock_timestamp(),
                next_push_at = NULL, lease_until = NULL, upstream_token = NULL, payer_address = NULL
         WHERE id = $1",
        id.uuid(),
        outcome.state as State,
        outcome.provider_ref,
        outcome.failure,
        outcome.failure_code as Option<FailureCode>,
    )
    .execute(tx)
    .await?;
    Ok(())
}

pub(super) async fn take_due(db: &PgPool, batch: i64) -> Result<Vec<Due>> {
    // The delay doubles from 2 s to 30 s, so that an operation that no worker claims is not handed out at every tick.
    // The clock is read in a subquery because it is volatile and could not bound an index scan.
    let rows = sqlx::query_as!(
        Due,
        "UPDATE operations SET pushes = pushes + 1,
                next_push_at = clock_timestamp() + make_interval(secs => least(30, 2 ^ least(pushes + 1, 5)))
         WHERE id IN (SELECT id FROM operations WHERE next_push_at <= (SELECT clock_timestamp())
                      ORDER BY next_push_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED)
         RETURNING id, request_id, background",
        batch,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

pub(super) async fn take_overdue(db: &PgPool, background: bool, overdue_by: Duration, limit: i64) -> Result<Vec<Due>> {
    let rows = sqlx::query_as!(
        Due,
        "UPDATE operations SET pushes = pushes + 1,
                next_push_at = clock_timestamp() + make_interval(secs => least(30, 2 ^ least(pushes + 1, 5)))
         WHERE id IN (SELECT id FROM operations
                      WHERE next_push_at <= (SELECT clock_timestamp() - make_interval(secs => $3)) AND background = $2
                      ORDER BY next_push_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED)
         RETURNING id, request_id, background",
        limit,
        background,
        overdue_by.as_secs_f64(),
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

pub(super) async fn count_background(db: &PgPool, limit: i64) -> Result<i64> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               SELECT FROM operations WHERE background AND finished_at IS NULL AND state <> 'unknown' AND not_processed = 0
               LIMIT $1) AS counted"#,
        limit
    )
    .fetch_one(db)
    .await?;
    Ok(count)
}

pub(super) async fn backlog(db: &PgPool) -> Result<Vec<Backlog>> {
    let rows = sqlx::query_as!(
        Backlog,
        // A refund that waits for another refund of its payment with an unknown outcome is not late on its own.
        // Operations that the provider does not process are not late: the breaker reports them.
        r#"SELECT state, count(*) AS "count!",
                  coalesce(extract(epoch FROM clock_timestamp() - min(created_at) FILTER (
                      WHERE background AND next_push_at IS NOT NULL AND not_processed = 0)), 0)::float8 AS "oldest_in_background_seconds!",
                  coalesce(extract(epoch FROM clock_timestamp() - min(created_at) FILTER (WHERE next_push_at IS NOT NULL
                      AND not_processed = 0 AND (NOT background OR state = 'unknown') AND NOT (kind = 'refund' AND state = 'ready' AND EXISTS (
                          SELECT FROM operations b WHERE b.account_id = o.account_id AND b.payment_id = o.payment_id
                              AND b.state::text = 'unknown')))), 0)::float8 AS "oldest_seconds!",
                  count(*) FILTER (WHERE next_push_at IS NULL) AS "for_a_person!"
           FROM operations o WHERE next_push_at IS NOT NULL OR state = 'unknown' GROUP BY state"#
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}
