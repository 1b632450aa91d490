//! What users did, each once.

use sqlx::PgPool;

use foundation::error::Result;
use foundation::id::{AccountId, UserId};
use foundation::time::Timestamp;

/// The entries that are shown.
const LATEST: i64 = 100;

/// A form that a user has sent.
#[derive(Clone, Debug)]
pub struct Action {
    /// Of the form, 32 hexadecimal digits. A form that is sent twice has the same one.
    pub nonce: String,
    pub user: UserId,
    pub account: AccountId,
    /// Such as `payments.refund`.
    pub name: &'static str,
    /// SHA-256 of what is requested.
    pub content: [u8; 32],
    /// The object that is changed.
    pub object: Option<String>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The status of /v1's response.
    pub status: i16,
    /// The object that was changed or created.
    pub object: Option<String>,
    /// Why it was refused.
    pub message: Option<String>,
}

/// Whether a form was sent before.
#[derive(Debug, PartialEq, Eq)]
pub enum Begun {
    First,
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
        if inserted.execute(db).await?.rows_affected() == 1 {
            return Ok(Begun::First);
        }
        let is_same = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM user_actions WHERE nonce = $1 AND user_id = $2 AND account_id = $3
                   AND action = $4 AND content = $5) AS "same!""#,
            self.nonce,
            self.user.uuid(),
            self.account.uuid(),
            self.name,
            &self.content[..],
        );
        if is_same.fetch_one(db).await? {
            find_action(db, self.user, &self.nonce).await.map(Begun::Again)
        } else {
            Ok(Begun::Other)
        }
    }

    /// Stores the outcome, unless there is one, and returns the stored one.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn finish(&self, db: &PgPool, outcome: Outcome) -> Result<Outcome> {
        sqlx::query!(
            "UPDATE user_actions SET status = $2, object = $3, message = $4 WHERE nonce = $1 AND status IS NULL",
            self.nonce,
            outcome.status,
            outcome.object,
            outcome.message,
        )
        .execute(db)
        .await?;
        Ok(find_action(db, self.user, &self.nonce).await?.unwrap_or(outcome))
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

/// The outcome of a user's action, once it is known.
///
/// # Errors
/// Database errors only.
pub async fn find_action(db: &PgPool, user: UserId, nonce: &str) -> Result<Option<Outcome>> {
    let row = sqlx::query_as!(
        Outcome,
        r#"SELECT status AS "status!", object, message FROM user_actions
           WHERE nonce = $1 AND user_id = $2 AND status IS NOT NULL"#,
        nonce,
        user.uuid(),
    );
    Ok(row.fetch_optional(db).await?)
}

/// An entry of the log.
#[derive(Debug)]
pub struct Entry {
    pub began_at: Timestamp,
    pub email: String,
    pub action: String,
    pub object: Option<String>,
    /// `None` if it is being done or was interrupted.
    pub status: Option<i16>,
}

/// The latest entries of an account, newest first.
///
/// # Errors
/// Database errors only.
pub async fn latest_actions(db: &PgPool, account: AccountId) -> Result<Vec<Entry>> {
    let rows = sqlx::query_as!(
        Entry,
        "SELECT a.began_at, u.email, a.action, a.object, a.status
         FROM user_actions a JOIN users u ON u.id = a.user_id
         WHERE a.account_id = $1 ORDER BY a.began_at DESC LIMIT $2",
        account.uuid(),
        LATEST,
    );
    Ok(rows.fetch_all(db).await?)
}
