//! What users did, each once.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use foundation::crypto::{KeyRing, Place, Secret, random_hex, sha256};
use foundation::db::{Transaction, begin};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, MerchantId, UserId};
use foundation::time::Timestamp;

use crate::accounts::Mode;

/// How long a new secret can be shown.
pub(super) const SECRET_LIFETIME: Duration = Duration::from_secs(600);

/// Bytes of a nonce.
const NONCE: usize = 16;

/// A form that a user has sent.
#[derive(Clone, Debug)]
pub struct Action {
    /// The form's nonce, 32 hexadecimal digits. A form that is sent twice has the same one.
    pub nonce: String,
    pub user: UserId,
    pub account: AccountId,
    /// Such as `payments.refund`.
    pub name: String,
    /// SHA-256 of what is requested.
    pub content: [u8; 32],
    /// The object that is changed.
    pub object: Option<String>,
}

/// Its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The status of /v1's response.
    pub status: i16,
    /// The object that was changed or created.
    pub object: Option<String>,
    /// Why it was refused.
    pub message: Option<String>,
}

impl Outcome {
    /// It was refused, for this reason.
    pub fn refused(object: Option<String>, message: &str) -> Self {
        Self { status: 422, object, message: Some(message.to_owned()) }
    }
}

/// Whether a form was sent before.
#[derive(Debug, PartialEq, Eq)]
pub enum Begun<First = ()> {
    First(First),
    /// The outcome is unknown while the first request is being processed, or if it was interrupted.
    Again(Option<Outcome>),
    /// With the same nonce, something else was requested.
    Other,
}

impl Action {
    /// Stores the action before it is done.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn begin(&self, db: &PgPool) -> Result<Begun> {
        let mut connection = db.acquire().await?;
        Ok(match self.insert(&mut connection).await? {
            true => Begun::First(()),
            false => self.repeated(&mut connection).await?,
        })
    }

    /// Stores the action in the transaction of the change that it makes. Waits for another request that has begun it.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn begin_change(self, db: &PgPool) -> Result<Begun<Change>> {
        let mut tx = begin(db).await?;
        match self.insert(&mut tx).await? {
            true => Ok(Begun::First(Change { tx, action: self })),
            false => self.repeated(&mut tx).await,
        }
    }

    async fn insert(&self, db: &mut PgConnection) -> Result<bool> {
        let inserted = sqlx::query!(
            "INSERT INTO user_actions (nonce, user_id, account_id, action, content, object, began_at)
             VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp()) ON CONFLICT (nonce) DO NOTHING",
            self.nonce,
            self.user.uuid(),
            self.account.uuid(),
            self.name,
            &self.content[..],
            self.object,
        );
        Ok(inserted.execute(db).await?.rows_affected() == 1)
    }

    async fn repeated<First>(&self, db: &mut PgConnection) -> Result<Begun<First>> {
        let found = sqlx::query!(
            "SELECT status, object, message FROM user_actions
             WHERE nonce = $1 AND user_id = $2 AND account_id = $3 AND action = $4 AND content = $5",
            self.nonce,
            self.user.uuid(),
            self.account.uuid(),
            self.name,
            &self.content[..],
        );
        Ok(match found.fetch_optional(db).await? {
            Some(found) => again(found.status, found.object, found.message),
            None => Begun::Other,
        })
    }

    /// Stores the outcome, unless there is one, and returns the stored one. `secret` is what [`take_secret`] returns.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn finish(
        &self,
        db: &mut PgConnection,
        encryption: &KeyRing,
        outcome: Outcome,
        secret: Option<Secret<String>>,
    ) -> Result<Outcome> {
        let sealed = secret.map(|secret| encryption.seal(secret.expose(), &self.secret_place()));
        sqlx::query!(
            "UPDATE user_actions SET status = $2, object = $3, message = $4, secret = $5 WHERE nonce = $1 AND status IS NULL",
            self.nonce,
            outcome.status,
            outcome.object,
            outcome.message,
            sealed,
        )
        .execute(&mut *db)
        .await?;
        Ok(match find(db, self.user, &self.nonce).await? {
            Begun::Again(Some(stored)) => stored,
            Begun::Again(None) | Begun::First(()) | Begun::Other => outcome,
        })
    }

    fn secret_place(&self) -> Place {
        Place::new("user_actions.secret", self.account, &self.nonce)
    }

    /// Forgets an action that was not begun, so that the form can be sent again.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn abandon(&self, db: &PgPool) -> Result<()> {
        sqlx::query!("DELETE FROM user_actions WHERE nonce = $1 AND status IS NULL", self.nonce).execute(db).await?;
        Ok(())
    }
}

/// Whether the user has sent a form with this nonce before, whatever was requested, and its result.
///
/// # Errors
/// Database errors only.
pub async fn find_action(db: &PgPool, user: UserId, nonce: &str) -> Result<Begun> {
    find(&mut *db.acquire().await?, user, nonce).await
}

/// Stores what a new user of the merchant did without a form of an account, in the transaction of the change. It is logged
/// in one of the merchant's accounts, because each entry belongs to one.
pub(super) async fn record(
    tx: &mut PgConnection,
    (user, merchant): (UserId, MerchantId),
    name: &str,
    object: &str,
) -> Result<()> {
    let recorded = sqlx::query!(
        "INSERT INTO user_actions (nonce, user_id, account_id, action, content, object, status, began_at)
         SELECT $1::text, $2::uuid, id, $3::text, $4::bytea, $5::text, 200, clock_timestamp()
         FROM accounts WHERE merchant_id = $6 ORDER BY mode LIMIT 1",
        random_hex(NONCE),
        user.uuid(),
        name,
        &sha256(object.as_bytes())[..],
        object,
        merchant.uuid(),
    );
    match recorded.execute(tx).await?.rows_affected() {
        0 => Err(Error::internal("the merchant has no account in which the action could be logged")),
        _ => Ok(()),
    }
}

async fn find(db: &mut PgConnection, user: UserId, nonce: &str) -> Result<Begun> {
    let found = sqlx::query!(
        "SELECT status, object, message FROM user_actions WHERE nonce = $1 AND user_id = $2",
        nonce,
        user.uuid(),
    );
    Ok(match found.fetch_optional(db).await? {
        Some(found) => again(found.status, found.object, found.message),
        None => Begun::First(()),
    })
}

/// An action that has begun, with its outcome if that is known.
fn again<First>(status: Option<i16>, object: Option<String>, message: Option<String>) -> Begun<First> {
    Begun::Again(status.map(|status| Outcome { status, object, message }))
}

/// Returns the secret that the user's action has created, the first time only, and for [`SECRET_LIFETIME`].
///
/// # Errors
/// Database errors; [`Error::Internal`] if it cannot be decrypted.
pub async fn take_secret(
    db: &PgPool,
    encryption: &KeyRing,
    user: UserId,
    nonce: &str,
) -> Result<Option<Secret<String>>> {
    let taken = sqlx::query!(
        r#"WITH shown AS (SELECT nonce, secret FROM user_actions
               WHERE nonce = $1 AND user_id = $2 AND secret IS NOT NULL FOR UPDATE)
           UPDATE user_actions a SET secret = NULL FROM shown WHERE a.nonce = shown.nonce AND a.nonce = $1
           RETURNING a.account_id AS "account_id: AccountId", shown.secret AS "secret!",
               a.began_at > clock_timestamp() - make_interval(secs => $3) AS "is_new!""#,
        nonce,
        user.uuid(),
        SECRET_LIFETIME.as_secs_f64(),
    );
    let Some(taken) = taken.fetch_optional(db).await?.filter(|taken| taken.is_new) else { return Ok(None) };
    let place = Place::new("user_actions.secret", taken.account_id, nonce);
    let secret = encryption.open(&taken.secret, &place);
    secret.map(Some).ok_or_else(|| Error::internal("the secret of an action cannot be decrypted"))
}

/// A change and its record, which are committed together.
pub struct Change {
    tx: Transaction,
    action: Action,
}

impl Change {
    /// Commits, with the object that was changed and the secret to show once.
    ///
    /// # Errors
    /// Database errors only; then neither is committed.
    pub async fn commit(
        mut self,
        encryption: &KeyRing,
        object: Option<String>,
        secret: Option<Secret<String>>,
    ) -> Result<Outcome> {
        let outcome = Outcome { status: 200, object: object.or_else(|| self.action.object.clone()), message: None };
        let outcome = self.action.finish(&mut self.tx, encryption, outcome, secret).await?;
        self.tx.commit().await?;
        Ok(outcome)
    }

    /// Rolls back, because the change was refused: the form can be sent again.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn rollback(self) -> Result<()> {
        Ok(self.tx.rollback().await?)
    }
}

impl Deref for Change {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.tx
    }
}

impl DerefMut for Change {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.tx
    }
}

/// Which entries of the log are shown; `None` for all.
#[derive(Clone, Debug, Default)]
pub struct ActionFilter {
    /// The e-mail address of who did it.
    pub email: Option<String>,
    pub action: Option<String>,
    /// The object that was changed or created.
    pub object: Option<String>,
    /// Only what began at this time or later.
    pub from: Option<Timestamp>,
    /// Only what began before this time.
    pub before: Option<Timestamp>,
}

/// An entry of the log.
#[derive(Debug)]
pub struct Entry {
    pub began_at: Timestamp,
    /// The mode of the account in which it was done.
    pub mode: Mode,
    pub email: String,
    pub action: String,
    pub object: Option<String>,
    /// `None` if it is being done or was interrupted.
    pub status: Option<i16>,
}

/// The latest entries of a merchant's accounts, newest first, at most `limit`. The last one's time leads to those before it: no
/// two have the same one, to the microsecond.
///
/// # Errors
/// Database errors only.
pub async fn list_actions(db: &PgPool, merchant: MerchantId, filter: &ActionFilter, limit: i64) -> Result<Vec<Entry>> {
    let rows = sqlx::query_as!(
        Entry,
        r#"SELECT a.began_at, o.mode, u.email, a.action, a.object, a.status
           FROM accounts o CROSS JOIN LATERAL (
               SELECT * FROM user_actions l WHERE l.account_id = o.id
                   AND l.began_at >= coalesce($3, '-infinity'::timestamptz) AND l.began_at < coalesce($4, 'infinity'::timestamptz)
                   AND ($5::text IS NULL OR l.action = $5) AND ($6::text IS NULL OR l.object = $6)
                   AND ($7::text IS NULL OR l.user_id = ANY (ARRAY(SELECT id FROM users WHERE merchant_id = $1 AND email = lower($7))))
               ORDER BY l.began_at DESC LIMIT $2) a
           JOIN users u ON u.id = a.user_id
           WHERE o.merchant_id = $1 ORDER BY a.began_at DESC LIMIT $2"#,
        merchant.uuid(),
        limit,
        filter.from,
        filter.before,
        filter.action.as_deref(),
        filter.object.as_deref(),
        filter.email.as_deref(),
    );
    Ok(rows.fetch_all(db).await?)
}
