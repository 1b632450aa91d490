//! The e-mails to be sent, and the results of the others.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{Kind, TIMELY};
use foundation::crypto::{KeyRing, Place, Secret};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, EventId, InvitationId};

/// How long a claim lasts, which is longer than sending takes.
const CLAIM: Duration = Duration::from_secs(120);
/// How long an e-mail that has ended is kept.
const KEPT: Duration = Duration::from_secs(30 * 86_400);

/// The queue of an e-mail. Receipts have their own, so that many of them delay no other e-mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// All but receipts: their recipients wait for them.
    Transactional,
    Receipts,
}

/// What an e-mail is about.
#[derive(Clone, Debug)]
pub enum Subject {
    /// What happened to a customer's invoice or payment.
    Event(Kind, EventId),
    /// An invitation to the portal, with its sealed link.
    Invitation(InvitationId, Vec<u8>),
}

impl Subject {
    /// The kind of invitations, as stored and in metrics.
    pub const INVITATION: &'static str = "invitation";

    /// As stored, and in metrics.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Event(kind, _) => kind.name(),
            Self::Invitation(..) => Self::INVITATION,
        }
    }

    /// The public id.
    pub fn id(&self) -> String {
        match self {
            Self::Event(_, id) => id.to_string(),
            Self::Invitation(id, _) => id.to_string(),
        }
    }

    const fn uuid(&self) -> Uuid {
        match self {
            Self::Event(_, id) => id.uuid(),
            Self::Invitation(id, _) => id.uuid(),
        }
    }
}

/// Where the link of an invitation's e-mail is stored.
pub fn link_place(account: AccountId, invitation: InvitationId) -> Place {
    Place::new("mails.link", account, invitation)
}

/// The link of an invitation.
///
/// # Errors
/// [`Error::Internal`] if it cannot be decrypted.
pub fn open_link(
    encryption: &KeyRing,
    account: AccountId,
    invitation: InvitationId,
    sealed: &[u8],
) -> Result<Secret<String>> {
    let link = encryption.open(sealed, &link_place(account, invitation));
    link.ok_or_else(|| Error::internal("the link of an invitation cannot be decrypted"))
}

/// Writes the e-mail of an invitation, in the transaction of the invitation, which was created in this account. The link is
/// sealed, and is removed when the e-mail has ended.
///
/// # Errors
/// Database errors only.
pub async fn write_invitation(
    tx: &mut PgConnection,
    encryption: &KeyRing,
    account: AccountId,
    invitation: InvitationId,
    link: &Secret<String>,
) -> Result<()> {
    let sealed = encryption.seal(link.expose(), &link_place(account, invitation));
    sqlx::query!(
        "INSERT INTO mails (id, account_id, kind, due_at, link) VALUES ($1, $2, $3, clock_timestamp(), $4)",
        invitation.uuid(),
        account.uuid(),
        Subject::INVITATION,
        sealed,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// An e-mail that this process has claimed.
#[derive(Clone, Debug)]
pub struct Due {
    pub subject: Subject,
    pub account_id: AccountId,
    /// Including this one.
    pub attempts: i32,
    /// Whether a server may have accepted it in an earlier attempt, without saying so.
    pub unconfirmed: bool,
}

/// The row of an e-mail.
struct Claimed {
    id: Uuid,
    account_id: AccountId,
    /// `None` for an invitation.
    kind: Option<Kind>,
    attempts: i32,
    unconfirmed: bool,
    link: Option<Vec<u8>>,
}

impl From<Claimed> for Due {
    fn from(row: Claimed) -> Self {
        let subject = match row.kind {
            Some(kind) => Subject::Event(kind, EventId::from_uuid(row.id)),
            None => Subject::Invitation(InvitationId::from_uuid(row.id), row.link.unwrap_or_default()),
        };
        Self { subject, account_id: row.account_id, attempts: row.attempts, unconfirmed: row.unconfirmed }
    }
}

/// Claims the oldest due e-mail of each of the accounts that follow one, up to a number of e-mails. A loose index scan
/// finds the accounts, and reads no further than the last e-mail that is claimed: the cost does not depend on how many
/// wait. `$queue` is the condition of a partial index, `$known` that and the kinds that this build knows.
macro_rules! claim_of_each {
    ($queue:literal, $known:literal, $after:expr, $limit:expr) => {
        sqlx::query_as!(
            Claimed,
            r#"WITH RECURSIVE waiting AS (
                   (SELECT account_id FROM mails WHERE account_id > $1 AND due_at IS NOT NULL AND "#
                + $queue
                + r#"
                        -- While nothing is due, the accounts whose e-mails are tried again later are not visited.
                        AND EXISTS (SELECT FROM mails WHERE due_at <= (SELECT clock_timestamp()))
                    ORDER BY account_id LIMIT 1)
                   UNION ALL
                   SELECT (SELECT m.account_id FROM mails m WHERE m.account_id > w.account_id AND m.due_at IS NOT NULL
                               AND "#
                + $queue
                + r#" ORDER BY m.account_id LIMIT 1)
                   FROM waiting w WHERE w.account_id IS NOT NULL)
               UPDATE mails SET attempts = attempts + 1, reason = NULL,
                   due_at = clock_timestamp() + make_interval(secs => $3)
               WHERE id = ANY (ARRAY (
                   SELECT oldest.id FROM waiting w CROSS JOIN LATERAL (
                       SELECT m.id FROM mails m
                       WHERE (m.account_id, m.due_at) <= (w.account_id, (SELECT clock_timestamp()))
                         AND m.account_id >= w.account_id AND m.due_at IS NOT NULL AND "#
                + $known
                + r#"
                       ORDER BY m.account_id, m.due_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) oldest
                   LIMIT $2))
               RETURNING id, account_id AS "account_id: AccountId", nullif(kind, 'invitation') AS "kind?: Kind", attempts,
                   unconfirmed, link"#,
            $after,
            $limit,
            CLAIM.as_secs_f64(),
        )
    };
}

/// Claims due e-mails, of the kinds that this build knows, for two minutes. If that process dies, another one then claims
/// them. Round-robin: a claim takes each account's oldest due e-mail, starting after the account `last`, and sets that to
/// the account served last, or to `None` if there are no more accounts. The next claim then starts with the first one.
///
/// # Errors
/// Database errors only.
pub async fn claim(db: &PgPool, queue: Queue, limit: usize, last: &mut Option<AccountId>) -> Result<Vec<Due>> {
    let after = last.take().map_or(Uuid::nil(), AccountId::uuid);
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let claimed = match queue {
        Queue::Transactional => {
            let known = claim_of_each!(
                "kind <> 'receipt'",
                "kind <> 'receipt' AND kind IN ('invoice', 'collection_failed', 'invitation')",
                after,
                most
            );
            known.fetch_all(db).await?
        }
        Queue::Receipts => claim_of_each!("kind = 'receipt'", "kind = 'receipt'", after, most).fetch_all(db).await?,
    };
    if claimed.len() == limit {
        *last = claimed.iter().map(|row| row.account_id).max();
    }
    Ok(claimed.into_iter().map(Due::from).collect())
}

/// The result of an attempt.
#[derive(Clone, Debug)]
pub enum Attempted {
    Sent,
    /// It is not to be sent, for this reason.
    NotSent(&'static str),
    /// It cannot be sent yet, for this reason, and is to be tried again after this time.
    NotYet(&'static str, Duration),
    /// It failed for this reason, and the next attempt is due after this time; `None` if there is none.
    Failed(String, Option<Duration>),
    /// The same, and a server may have accepted it.
    Unconfirmed(String, Option<Duration>),
}

/// Records the result of a claimed e-mail, unless another process has claimed it since.
///
/// # Errors
/// Database errors only.
pub async fn record(db: &PgPool, due: &Due, attempted: &Attempted) -> Result<()> {
    let (outcome, reason, retry) = match attempted {
        Attempted::Sent => (Some("sent"), None, None),
        Attempted::NotSent(reason) => (Some("not_sent"), Some(*reason), None),
        Attempted::NotYet(reason, wait) => (None, Some(*reason), Some(wait.as_secs_f64())),
        Attempted::Failed(reason, None) | Attempted::Unconfirmed(reason, None) => {
            (Some("failed"), Some(reason.as_str()), None)
        }
        Attempted::Failed(reason, Some(wait)) | Attempted::Unconfirmed(reason, Some(wait)) => {
            (None, Some(reason.as_str()), Some(wait.as_secs_f64()))
        }
    };
    sqlx::query!(
        "UPDATE mails SET outcome = $3, reason = $4, due_at = clock_timestamp() + make_interval(secs => $5),
             ended_at = CASE WHEN $3::text IS NOT NULL THEN clock_timestamp() END,
             link = CASE WHEN $3::text IS NULL THEN link END, unconfirmed = unconfirmed OR $6
         WHERE id = $1 AND attempts = $2 AND outcome IS NULL",
        due.subject.uuid(),
        due.attempts,
        outcome,
        reason,
        retry,
        matches!(attempted, Attempted::Unconfirmed(..)),
    )
    .execute(db)
    .await?;
    Ok(())
}

/// How many seconds the oldest due e-mail waits; 0 without one.
///
/// # Errors
/// Database errors only.
pub async fn oldest_due_seconds(db: &PgPool) -> Result<f64> {
    let seconds = sqlx::query_scalar!(
        r#"SELECT greatest(extract(epoch FROM clock_timestamp() - min(due_at)), 0)::float8 AS "seconds"
           FROM mails WHERE due_at IS NOT NULL"#
    );
    Ok(seconds.fetch_one(db).await?.unwrap_or(0.0))
}

/// Deletes at most `limit` e-mails that ended long ago, and as many that no worker has claimed until it was too late to
/// send them. Returns how many.
///
/// # Errors
/// Database errors only.
pub async fn delete_ended(db: &PgPool, limit: i64) -> Result<u64> {
    let deleted = sqlx::query!(
        "DELETE FROM mails WHERE id = ANY (
             ARRAY(SELECT id FROM mails WHERE ended_at < (SELECT clock_timestamp() - make_interval(secs => $1))
                   ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)
             || ARRAY(SELECT id FROM mails WHERE due_at < (SELECT clock_timestamp() - make_interval(secs => $3))
                      ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED))",
        KEPT.as_secs_f64(),
        limit,
        TIMELY.as_secs_f64(),
    );
    Ok(deleted.execute(db).await?.rows_affected())
}
