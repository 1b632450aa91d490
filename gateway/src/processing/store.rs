//! SQL of transactions, except for the report and the challenge page.

use foundation::calendar::{Date, TimeZone};
use foundation::time::Timestamp;
use sqlx::types::Json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::outcome::Outcome;
use super::rules::Parent;
use crate::acquirer::cards;
use crate::amount::Amount;
use crate::cards::Brand;
use crate::cards::funding::Source;
use crate::id::{AccountId, TransactionId};
use crate::threeds::Challenge;
use crate::transactions::{Details, NewCharge, State, TransactionKind};

/// A charge to be inserted.
pub(super) struct Entry<'a> {
    pub(super) id: TransactionId,
    pub(super) account: AccountId,
    pub(super) new: &'a NewCharge,
    pub(super) fingerprint: &'a [u8],
    pub(super) challenge: Option<&'a Challenge>,
    pub(super) month: Option<Date>,
    pub(super) now: Timestamp,
}

/// A locked transaction, to be finished.
pub(super) struct LockedTransaction {
    pub(super) kind: TransactionKind,
    pub(super) state: State,
    pub(super) reason: Option<String>,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) month: Option<Date>,
    pub(super) fingerprint: Option<Vec<u8>>,
    pub(super) account_id: AccountId,
    pub(super) parent_id: Option<TransactionId>,
    pub(super) time_zone: TimeZone,
    pub(super) receipt_cardholder: bool,
    pub(super) receipt_merchant: bool,
}

/// The transaction that a capture, void or refund names.
pub(super) struct Target {
    pub(super) kind: TransactionKind,
    pub(super) state: State,
    pub(super) parent_id: Option<TransactionId>,
}

/// What a confirmed charge needs to continue.
pub(super) struct ConfirmedCharge {
    pub(super) number: Vec<u8>,
    pub(super) zip_code: String,
}

/// Limits how long the transaction may stay idle and how long it waits for locks.
pub(super) async fn set_timeouts(db: &mut PgConnection, idle: &str, lock: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "SELECT set_config('idle_in_transaction_session_timeout', $1, true) AS open,
                set_config('lock_timeout', $2, true) AS waits",
        idle,
        lock,
    )
    .fetch_one(db)
    .await?;
    Ok(())
}

pub(super) async fn reference_is_used(
    db: &mut PgConnection,
    account: AccountId,
    reference: &str,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM gateway.transactions
                          WHERE account_id = $1 AND reference_id = $2 AND parent_id IS NULL) AS "used!""#,
        account.uuid(),
        reference,
    )
    .fetch_one(db)
    .await
}

pub(super) async fn child_reference_is_used(
    db: &PgPool,
    account: AccountId,
    reference: &str,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM gateway.child_references
                          WHERE account_id = $1 AND reference_id = $2) AS "used!""#,
        account.uuid(),
        reference,
    )
    .fetch_one(db)
    .await
}

/// Inserts the reference of a child before the child itself. Blocks while another transaction with the same reference
/// is uncommitted.
pub(super) async fn insert_child_reference(
    db: &mut PgConnection,
    account: AccountId,
    reference: &str,
    child: TransactionId,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO gateway.child_references (account_id, reference_id, transaction_id) VALUES ($1, $2, $3)",
        account.uuid(),
        reference,
        child.uuid(),
    )
    .execute(db)
    .await?;
    Ok(())
}

pub(super) async fn wallet_token_is_used(db: &mut PgConnection, token: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM gateway.transactions WHERE wallet_token = $1) AS "used!""#,
        token,
    )
    .fetch_one(db)
    .await
}

pub(super) async fn insert_charge(db: &mut PgConnection, entry: &Entry<'_>) -> Result<(), sqlx::Error> {
    let Entry { new, challenge, .. } = entry;
    let (funding, masked_card) = (&new.funding, &new.funding.masked_card);
    let state = if challenge.is_some() { State::Challenged } else { State::InProgress };
    // The security code is not stored during a challenge, so store the issuer's response to it.
    let cvv = challenge.and_then(|_| cards::cvv_response(&funding.number, funding.security_code.as_ref()));
    sqlx::query!(
        "INSERT INTO gateway.transactions (id, account_id, kind, state, source, amount, currency, reference_id, brand,
             masked, expiry, number, fingerprint, client_ip, details, cvv, challenge_hash, return_url, wallet_token,
             month, created_at, fee, receipt_cardholder, receipt_merchant, challenge_ends_at, recover_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
             $22, $23, $24,
             CASE WHEN $17::bytea IS NOT NULL THEN clock_timestamp() + interval '30 seconds' END,
             clock_timestamp() + CASE WHEN $17::bytea IS NOT NULL THEN interval '30 seconds' ELSE interval '15 seconds' END)",
        entry.id.uuid(),
        entry.account.uuid(),
        new.kind as TransactionKind,
        state as State,
        funding.source as Source,
        new.total().get(),
        new.currency,
        new.reference_id,
        masked_card.brand as Brand,
        masked_card.masked,
        masked_card.expiry.to_string(),
        challenge.map(|challenge| challenge.number.as_slice()),
        entry.fingerprint,
        new.client_ip.map(|ip| ip.to_string()),
        Json(&new.details) as _,
        cvv,
        challenge.map(|challenge| challenge.hash.bytes()),
        challenge.and(new.return_url.as_deref()),
        new.wallet_token,
        entry.month,
        entry.now,
        new.fee.get(),
        new.receipts.cardholder,
        new.receipts.merchant,
    )
    .execute(db)
    .await?;
    Ok(())
}

pub(super) async fn find_target(
    db: &mut PgConnection,
    account: AccountId,
    id: TransactionId,
) -> Result<Option<Target>, sqlx::Error> {
    sqlx::query_as!(
        Target,
        r#"SELECT kind AS "kind: TransactionKind", state AS "state: State", parent_id AS "parent_id: TransactionId"
           FROM gateway.transactions WHERE account_id = $1 AND id = $2"#,
        account.uuid(),
        id.uuid(),
    )
    .fetch_optional(db)
    .await
}

/// Locks a charge and reads what the rules need.
pub(super) async fn lock_parent(
    db: &mut PgConnection,
    account: AccountId,
    id: TransactionId,
) -> Result<Parent, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT kind AS "kind: TransactionKind", state AS "state: State", amount, captured, refunded + refunding AS "returned!",
                  voided, changing AS "changing: TransactionKind", settles_at, lapses_at
           FROM gateway.transactions WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE"#,
        account.uuid(),
        id.uuid(),
    )
    .fetch_one(db)
    .await?;
    Ok(Parent {
        kind: row.kind,
        state: row.state,
        amount: Amount::from_minor(row.amount),
        captured: Amount::from_minor(row.captured),
        returned: Amount::from_minor(row.returned),
        voided: row.voided,
        changing: row.changing,
        settles_at: row.settles_at,
        expires_at: row.lapses_at,
    })
}

/// Reserves the amount of a child on its charge.
pub(super) async fn reserve(
    db: &mut PgConnection,
    id: TransactionId,
    kind: TransactionKind,
    amount: Amount,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE gateway.transactions
         SET refunding = refunding + CASE WHEN $2 = 'refund' THEN $3 ELSE 0::bigint END,
             changing = CASE WHEN $2 = 'refund' THEN changing ELSE $2 END
         WHERE id = $1",
        id.uuid(),
        kind as TransactionKind,
        amount.get(),
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Inserts a child with its parent's card, details and reference. A void includes the fee.
pub(super) async fn insert_child(
    db: &mut PgConnection,
    id: TransactionId,
    parent: TransactionId,
    kind: TransactionKind,
    amount: Amount,
    receipt: bool,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO gateway.transactions (id, account_id, parent_id, kind, state, source, amount, currency, reference_id,
             brand, masked, expiry, details, created_at, fee, receipt_cardholder, recover_at)
         SELECT $1, account_id, id, $3, 'in_progress', source, $4, currency, reference_id, brand, masked, expiry, details,
             $5, CASE WHEN $3 = 'void' THEN fee ELSE 0 END, $6, clock_timestamp() + interval '15 seconds'
         FROM gateway.transactions WHERE id = $2",
        id.uuid(),
        parent.uuid(),
        kind as TransactionKind,
        amount.get(),
        now,
        receipt,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Locks a transaction, after its parent.
pub(super) async fn lock_transaction(
    db: &mut PgConnection,
    id: TransactionId,
) -> Result<LockedTransaction, sqlx::Error> {
    sqlx::query!(
        "SELECT id FROM gateway.transactions
         WHERE id = (SELECT parent_id FROM gateway.transactions WHERE id = $1) FOR NO KEY UPDATE",
        id.uuid(),
    )
    .fetch_optional(&mut *db)
    .await?;
    sqlx::query_as!(
        LockedTransaction,
        r#"SELECT kind AS "kind: TransactionKind", state AS "state: State", reason, amount, currency, month, fingerprint,
                  receipt_cardholder, receipt_merchant,
                  account_id AS "account_id: AccountId", parent_id AS "parent_id: TransactionId",
                  (SELECT time_zone FROM gateway.accounts WHERE accounts.id = account_id) AS "time_zone!: TimeZone"
           FROM gateway.transactions WHERE id = $1 FOR NO KEY UPDATE"#,
        id.uuid(),
    )
    .fetch_one(db)
    .await
}

/// Writes the outcome of a transaction locked by [`lock_transaction`].
pub(super) async fn finish(
    db: &mut PgConnection,
    id: TransactionId,
    outcome: &Outcome,
    transaction: &LockedTransaction,
    settles_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let approved = outcome.state == State::Approved;
    let captured = if approved && transaction.kind == TransactionKind::Sale { transaction.amount } else { 0 };
    let holds = approved && transaction.kind == TransactionKind::Authorize;
    let expires_at = holds.then(|| now.plus(std::time::Duration::from_secs(7 * 24 * 3600)));
    sqlx::query!(
        "UPDATE gateway.transactions
         SET state = $2, reason = $3, auth_code = $4, avs = $5, cvv = COALESCE($6, cvv), captured = $7, settles_at = $8,
             lapses_at = $9, ended_at = $10, recover_at = NULL, number = NULL
         WHERE id = $1",
        id.uuid(),
        outcome.state as State,
        outcome.reason,
        outcome.auth_code,
        outcome.avs,
        outcome.cvv,
        captured,
        settles_at,
        expires_at,
        now,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Applies a child's outcome to its charge and releases the reservation.
pub(super) async fn finish_child(
    db: &mut PgConnection,
    parent: TransactionId,
    child: &LockedTransaction,
    approved: bool,
    settles_at: Option<Timestamp>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE gateway.transactions
         SET captured = captured + CASE WHEN $2 = 'capture' AND $4 THEN $3 ELSE 0::bigint END,
             settles_at = COALESCE($5, settles_at),
             voided = voided OR ($2 = 'void' AND $4),
             changing = CASE WHEN $2 = 'refund' THEN changing END,
             refunding = refunding - CASE WHEN $2 = 'refund' THEN $3 ELSE 0::bigint END,
             refunded = refunded + CASE WHEN $2 = 'refund' AND $4 THEN $3 ELSE 0::bigint END
         WHERE id = $1",
        parent.uuid(),
        child.kind as TransactionKind,
        child.amount,
        approved,
        settles_at,
    )
    .execute(db)
    .await?;
    Ok(())
}

pub(super) async fn status(db: &PgPool, id: TransactionId) -> Result<(State, Option<String>), sqlx::Error> {
    let row =
        sqlx::query!(r#"SELECT state AS "state: State", reason FROM gateway.transactions WHERE id = $1"#, id.uuid(),)
            .fetch_one(db)
            .await?;
    Ok((row.state, row.reason))
}

/// Moves a challenged charge to `in_progress`, once and only in time, and removes the card number from the row.
pub(super) async fn confirm(db: &PgPool, id: TransactionId) -> Result<Option<ConfirmedCharge>, sqlx::Error> {
    let mut tx = foundation::db::begin(db).await?;
    let charge = sqlx::query!(
        r#"SELECT number AS "number!", details AS "details: Json<Details>" FROM gateway.transactions
           WHERE id = $1 AND state = 'challenged' AND challenge_ends_at > clock_timestamp() FOR NO KEY UPDATE"#,
        id.uuid(),
    )
    .fetch_optional(&mut *tx)
    .await?;
    let Some(charge) = charge else { return Ok(None) };
    sqlx::query!(
        "UPDATE gateway.transactions
         SET state = 'in_progress', number = NULL, recover_at = clock_timestamp() + interval '15 seconds' WHERE id = $1",
        id.uuid(),
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Some(ConfirmedCharge { number: charge.number, zip_code: charge.details.0.billing.zip_code }))
}

/// Claims due rows and postpones their next attempt, so that a row is retried after that interval if the process that
/// claimed it dies.
pub(super) async fn claim_due(db: &PgPool, limit: i64) -> Result<Vec<(TransactionId, State)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"UPDATE gateway.transactions SET recover_at = clock_timestamp() + interval '15 seconds'
           WHERE id = ANY (ARRAY (SELECT id FROM gateway.transactions WHERE recover_at <= statement_timestamp()
                                  ORDER BY recover_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED))
           RETURNING id AS "id: TransactionId", state AS "state: State""#,
        limit,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.state)).collect())
}
