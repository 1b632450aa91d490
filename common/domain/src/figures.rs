//! Figures of an account by day, added up from its events: each event once, in the order in which transactions ended.
//! Reading them costs the same whatever the number of payments.

mod standing;

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

pub use standing::{Standing, StandingKind, add_standing_changes, standing};

use foundation::calendar::Date;
use foundation::db::begin;
use foundation::error::Result;
use foundation::id::AccountId;
use foundation::money::{Currency, Sum};
use foundation::time::Timestamp;

/// Events that one transaction adds.
pub const BATCH: i64 = 5_000;
/// How often figures are brought up to date while a user of the merchant is signed in, and otherwise.
const SOON: Duration = Duration::from_secs(10);
const LATER: Duration = Duration::from_secs(3_600);
/// The days before today that a new cursor begins with.
const KEPT: i32 = 31;
/// A session used this recently counts as active.
const ACTIVE_WITHIN: Duration = Duration::from_secs(600);

/// What is counted and summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Payments that the issuer approved.
    Approved,
    /// Payments that the issuer declined; the detail is the code.
    Declined,
    Captured,
    /// Captured payments that were voided before they settled.
    Voided,
    Refunded,
    /// New disputes.
    Disputed,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Approved, Self::Declined, Self::Captured, Self::Voided, Self::Refunded, Self::Disputed];

    const fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Declined => "declined",
            Self::Captured => "captured",
            Self::Voided => "voided",
            Self::Refunded => "refunded",
            Self::Disputed => "disputed",
        }
    }
}

/// A figure of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    pub day: Date,
    pub kind: Kind,
    pub currency: Currency,
    /// The code of a decline, otherwise empty.
    pub detail: String,
    pub count: i64,
    /// In minor units.
    pub amount: Sum,
}

/// The figures of an account from `days` days ago to today, which is returned too. `now` is the system time.
///
/// # Errors
/// Database errors only.
pub async fn read(db: &PgPool, account: AccountId, now: Timestamp, days: i32) -> Result<(Date, Vec<Figure>)> {
    let today = sqlx::query_scalar!(
        r#"SELECT (account_now(id, $2) AT TIME ZONE timezone)::date AS "today!" FROM accounts WHERE id = $1"#,
        account.uuid(),
        now,
    );
    let today = today.fetch_one(db).await?;
    let rows = sqlx::query!(
        r#"SELECT day, kind, currency AS "currency: Currency", detail, count, amount::text AS "amount!: Sum" FROM figures
           WHERE account_id = $1 AND day > $2::date - $3::integer AND day <= $2 ORDER BY day, kind, currency, detail"#,
        account.uuid(),
        today,
        days,
    );
    let rows = rows.fetch_all(db).await?.into_iter().filter_map(|row| {
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == row.kind)?;
        Some(Figure {
            day: row.day,
            kind,
            currency: row.currency,
            detail: row.detail,
            count: row.count,
            amount: row.amount,
        })
    });
    Ok((today, rows.collect()))
}

/// Adds the events that have followed, at most [`BATCH`], and from now on those to come; at first those of the last
/// [`KEPT`] days. Returns whether there may be more. Does nothing while another process adds them.
///
/// # Errors
/// Database errors only.
pub async fn update(db: &PgPool, account: AccountId) -> Result<bool> {
    // Nothing waits for a process that is adding.
    sqlx::query!(
        "INSERT INTO figure_cursors (account_id, xact, event_id, due_at)
         SELECT $1, coalesce(
                 (SELECT coalesce(xact, 0) FROM events WHERE account_id = $1
                      AND id >= ulid_floor(clock_timestamp() - make_interval(days => $2)) ORDER BY id LIMIT 1),
                 pg_snapshot_xmin(pg_current_snapshot())::text::bigint) - 1,
             '00000000-0000-0000-0000-000000000000', clock_timestamp()
         WHERE NOT EXISTS (SELECT FROM figure_cursors WHERE account_id = $1) ON CONFLICT (account_id) DO NOTHING",
        account.uuid(),
        KEPT,
    )
    .execute(db)
    .await?;
    let mut tx = begin(db).await?;
    let cursor = sqlx::query!(
        "SELECT xact, event_id FROM figure_cursors WHERE account_id = $1 FOR UPDATE SKIP LOCKED",
        account.uuid(),
    );
    let Some(cursor) = cursor.fetch_optional(&mut *tx).await? else { return Ok(false) };
    let added = add(&mut tx, account, (cursor.xact, cursor.event_id)).await?;
    let is_full = added >= BATCH;
    sqlx::query!(
        "UPDATE figure_cursors c SET due_at = clock_timestamp() + make_interval(secs => CASE
             WHEN $2 THEN 0::float8
             WHEN EXISTS (SELECT FROM accounts a JOIN users u ON u.merchant_id = a.merchant_id
                 JOIN user_sessions s ON s.user_id = u.id
                 WHERE a.id = $1 AND s.last_used_at > clock_timestamp() - make_interval(secs => $5)) THEN $3::float8
             ELSE $4::float8 END)
         WHERE account_id = $1",
        account.uuid(),
        is_full,
        SOON.as_secs_f64(),
        LATER.as_secs_f64(),
        ACTIVE_WITHIN.as_secs_f64(),
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(is_full)
}

/// Adds a batch of events after the cursor. Only those of transactions below the oldest one in progress: nothing can be
/// added among them afterwards.
async fn add(tx: &mut PgConnection, account: AccountId, after: (i64, uuid::Uuid)) -> Result<i64> {
    let added = sqlx::query_scalar!(
        r#"WITH batch AS MATERIALIZED (
               SELECT coalesce(xact, 0) AS xact, id, type, payload FROM events
               WHERE account_id = $1 AND (coalesce(xact, 0), id) > ($2, $3)
                   AND coalesce(xact, 0) < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
               ORDER BY coalesce(xact, 0), id LIMIT $4),
           parsed AS MATERIALIZED (
               SELECT ((body->>'timestamp')::timestamptz AT TIME ZONE a.timezone)::date AS day, type,
                   body->'data'->'object' AS object, body->'data'->>'refundId' AS refund
               FROM (SELECT type, payload::jsonb AS body FROM batch WHERE type IN ('payment.authorized', 'payment.captured',
                   'payment.declined', 'payment.cancelled', 'payment.refunded', 'dispute.created')) e
               JOIN accounts a ON a.id = $1),
           facts AS (
               SELECT day, 'approved' AS kind, object, '' AS detail, object->>'amount' AS amount FROM parsed
               WHERE type = 'payment.authorized' OR type = 'payment.captured' AND (object->>'capture')::boolean
               UNION ALL SELECT day, 'declined', object, coalesce(object->>'declineCode', ''), object->>'amountRequested'
               FROM parsed WHERE type = 'payment.declined'
               UNION ALL SELECT day, 'captured', object, '', object->>'amountCaptured'
               FROM parsed WHERE type = 'payment.captured'
               UNION ALL SELECT day, 'voided', object, '', object->>'amountCaptured'
               FROM parsed WHERE type = 'payment.cancelled' AND (object->>'amountCaptured')::bigint > 0
               UNION ALL SELECT day, 'refunded', object, '', r->>'amount'
               FROM parsed CROSS JOIN jsonb_array_elements(object->'refunds') r
               WHERE type = 'payment.refunded' AND r->>'id' = refund
               UNION ALL SELECT day, 'disputed', object, '', object->>'amount' FROM parsed WHERE type = 'dispute.created'),
           summed AS (
               INSERT INTO figures AS f (account_id, day, kind, currency, detail, count, amount)
               SELECT $1, day, kind, object->>'currency', detail, count(*), sum(amount::numeric) FROM facts
               GROUP BY day, kind, object->>'currency', detail ORDER BY day, kind, object->>'currency', detail
               ON CONFLICT (account_id, day, kind, currency, detail)
               DO UPDATE SET count = f.count + excluded.count, amount = f.amount + excluded.amount)
           UPDATE figure_cursors c SET xact = l.xact, event_id = l.id
           FROM (SELECT xact, id FROM batch ORDER BY xact DESC, id DESC LIMIT 1) l WHERE c.account_id = $1
           RETURNING (SELECT count(*) FROM batch) AS "added!""#,
        account.uuid(),
        after.0,
        after.1,
        BATCH,
    );
    Ok(added.fetch_optional(tx).await?.unwrap_or(0))
}

/// Brings the figures of up to `limit` accounts up to date that are due. Returns how many.
///
/// # Errors
/// Database errors only.
pub async fn update_due(db: &PgPool, limit: i64) -> Result<u64> {
    let due = sqlx::query_scalar!(
        "SELECT account_id FROM figure_cursors WHERE due_at <= clock_timestamp() ORDER BY due_at LIMIT $1",
        limit,
    );
    let due = due.fetch_all(db).await?;
    for account in &due {
        if let Err(error) = update(db, *account).await {
            tracing::error!(%account, %error, "the figures of an account could not be brought up to date");
            // The others are not to wait for it.
            sqlx::query!(
                "UPDATE figure_cursors SET due_at = clock_timestamp() + make_interval(secs => $2) WHERE account_id = $1",
                account.uuid(),
                LATER.as_secs_f64(),
            )
            .execute(db)
            .await?;
        }
    }
    Ok(due.len() as u64)
}
