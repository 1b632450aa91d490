//! The audit log: what operators did. It is only ever added to, and a change by an operator cannot be committed without its
//! record.

use std::ops::{Deref, DerefMut};

use serde_json::Value;
use sqlx::PgPool;

use crate::actor::Actor;
use crate::db::{Db, Tx};
use crate::error::{Error, Result};
use crate::id::{AccountId, AuditId};
use crate::time::Timestamp;

/// What was done, to whom and to what.
#[derive(Debug)]
pub struct Entry {
    /// Such as `keys.revoke`.
    pub action: &'static str,
    /// Whose it is.
    pub account: Option<AccountId>,
    /// What it was done to, by the id that people know it by.
    pub object: Option<String>,
    /// What else there is to say. Never a secret.
    pub detail: Value,
}

/// A change under way: a transaction that ends with its record, or not at all.
pub struct Act {
    tx: Tx,
    actor: String,
}

impl Act {
    /// Begins.
    ///
    /// # Errors
    /// It is not known who acts, or the database's.
    pub async fn begin(db: &Db, actor: &Actor) -> Result<Self> {
        let actor = actor.name()?.to_owned();
        Ok(Self { tx: db.begin().await?, actor })
    }

    /// Writes the record, and commits both.
    ///
    /// # Errors
    /// Only the database's; then neither is there.
    pub async fn commit(mut self, entry: &Entry) -> Result<AuditId> {
        let id = self.record(entry).await?;
        self.tx.commit().await?;
        Ok(id)
    }

    /// Takes it all back: it was only tried.
    ///
    /// # Errors
    /// Only the database's.
    pub async fn rollback(self) -> Result<()> {
        Ok(self.tx.rollback().await?)
    }

    async fn record(&mut self, entry: &Entry) -> Result<AuditId> {
        let id = sqlx::query_scalar!(
            r#"INSERT INTO audit_log (actor, action, account_id, object, detail) VALUES ($1, $2, $3, $4, $5)
               RETURNING id AS "id: AuditId""#,
            self.actor,
            entry.action,
            entry.account.map(AccountId::uuid),
            entry.object,
            entry.detail,
        )
        .fetch_one(&mut *self.tx)
        .await?;
        Ok(id)
    }
}

impl Deref for Act {
    type Target = Tx;

    fn deref(&self) -> &Tx {
        &self.tx
    }
}

impl DerefMut for Act {
    fn deref_mut(&mut self) -> &mut Tx {
        &mut self.tx
    }
}

/// A record.
#[derive(Debug)]
pub struct Row {
    /// Its id.
    pub id: AuditId,
    /// When, by the database's clock.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// What was done.
    pub action: String,
    /// Whose it is.
    pub account_id: Option<AccountId>,
    /// What it was done to.
    pub object: Option<String>,
    /// What else there is to say.
    pub detail: Value,
}

/// Which records are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// Of this account alone.
    pub account: Option<AccountId>,
    /// None that is older.
    pub since: Option<Timestamp>,
    /// So many at most.
    pub limit: i64,
}

/// Every reader reads all of a record, so the columns stand once.
macro_rules! read {
    ($db:ident, $rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Row,
            "SELECT id, at, actor, action, account_id, object, detail FROM audit_log " + $rest,
            $($arg),*
        )
        .fetch_all($db)
        .await?
    };
}

/// Records, newest first.
///
/// # Errors
/// Only the database's.
pub async fn list(db: &PgPool, filter: Filter) -> Result<Vec<Row>> {
    let since = filter.since.map(Timestamp::as_millisecond).unwrap_or_default().max(0);
    let since = Timestamp::from_millisecond(since).ok_or_else(|| Error::invalid("since", "since is out of range"))?;
    Ok(match filter.account {
        Some(account) => read!(
            db,
            "WHERE (account_id, id) >= ($1, ulid_floor($2)) AND account_id <= $1 ORDER BY account_id DESC, id DESC LIMIT $3",
            account.uuid(),
            since,
            filter.limit,
        ),
        None => read!(db, "WHERE id >= ulid_floor($1) ORDER BY id DESC LIMIT $2", since, filter.limit),
    })
}

/// Records that come after one, oldest first, for a copy that goes on where it ended. What was written within the last minute is left
/// to the next time: a record gets its id before it can be seen, and one that is seen later could be passed over.
///
/// # Errors
/// Only the database's.
pub async fn after(db: &PgPool, after: AuditId, account: Option<AccountId>, limit: i64) -> Result<Vec<Row>> {
    Ok(match account {
        Some(account) => read!(
            db,
            "WHERE (account_id, id) > ($1, $2) AND account_id <= $1
               AND id < ulid_floor((SELECT clock_timestamp()) - interval '1 minute')
             ORDER BY account_id, id LIMIT $3",
            account.uuid(),
            after.uuid(),
            limit,
        ),
        None => read!(
            db,
            "WHERE id > $1 AND id < ulid_floor((SELECT clock_timestamp()) - interval '1 minute') ORDER BY id LIMIT $2",
            after.uuid(),
            limit,
        ),
    })
}

/// Records about these objects, oldest first.
///
/// # Errors
/// Only the database's.
pub async fn about(db: &PgPool, objects: &[String]) -> Result<Vec<Row>> {
    let mut rows = read!(db, "WHERE object = ANY ($1) LIMIT 500", objects);
    rows.sort_by_key(|row| row.id);
    Ok(rows)
}
