//! The audit log of operators' changes. It is append-only, and an operator's change cannot be committed without its
//! record.

use std::ops::{Deref, DerefMut};

use serde_json::Value;
use sqlx::PgPool;

use foundation::actor::Actor;
use foundation::db::{Db, Tx};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, AuditId};
use foundation::time::Timestamp;

/// What was changed, and for which account.
#[derive(Debug)]
pub struct Entry {
    /// Such as `keys.revoke`.
    pub action: &'static str,
    pub account: Option<AccountId>,
    /// The public id of the changed object.
    pub object: Option<String>,
    /// Further details. Never a secret.
    pub detail: Value,
}

/// A transaction that can be committed only together with its audit record.
pub struct AuditedTx {
    tx: Tx,
    actor: String,
}

impl AuditedTx {
    ///
    /// # Errors
    /// The operator is not known, or a database error.
    pub async fn begin(db: &Db, actor: &Actor) -> Result<Self> {
        let actor = actor.name()?.to_owned();
        Ok(Self { tx: db.begin().await?, actor })
    }

    /// Writes the record and commits.
    ///
    /// # Errors
    /// Database errors only; then neither is committed.
    pub async fn commit(mut self, entry: &Entry) -> Result<AuditId> {
        let id = self.record(entry).await?;
        self.tx.commit().await?;
        Ok(id)
    }

    /// Rolls back, for a dry run.
    ///
    /// # Errors
    /// Database errors only.
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

impl Deref for AuditedTx {
    type Target = Tx;

    fn deref(&self) -> &Tx {
        &self.tx
    }
}

impl DerefMut for AuditedTx {
    fn deref_mut(&mut self) -> &mut Tx {
        &mut self.tx
    }
}

#[derive(Debug)]
pub struct Row {
    pub id: AuditId,
    /// By the database's clock.
    pub at: Timestamp,
    pub actor: String,
    pub action: String,
    pub account_id: Option<AccountId>,
    /// The public id of the changed object.
    pub object: Option<String>,
    pub detail: Value,
}

/// Which records to list.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    pub account: Option<AccountId>,
    /// Only records of this time or later.
    pub since: Option<Timestamp>,
    pub limit: i64,
}

/// The columns are shared by all queries.
macro_rules! select_records {
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

/// Lists records, newest first.
///
/// # Errors
/// Database errors only.
pub async fn list(db: &PgPool, filter: Filter) -> Result<Vec<Row>> {
    let since = filter.since.map(Timestamp::as_millisecond).unwrap_or_default().max(0);
    let since = Timestamp::from_millisecond(since).ok_or_else(|| Error::invalid("since", "since is out of range"))?;
    Ok(match filter.account {
        Some(account) => select_records!(
            db,
            "WHERE (account_id, id) >= ($1, ulid_floor($2)) AND account_id <= $1 ORDER BY account_id DESC, id DESC LIMIT $3",
            account.uuid(),
            since,
            filter.limit,
        ),
        None => select_records!(db, "WHERE id >= ulid_floor($1) ORDER BY id DESC LIMIT $2", since, filter.limit),
    })
}

/// Lists records after a given one, oldest first, to continue an export. Records of the last minute are left out: ids
/// are assigned before a transaction commits, so a record with a smaller id may become visible later.
///
/// # Errors
/// Database errors only.
pub async fn after(db: &PgPool, after: AuditId, account: Option<AccountId>, limit: i64) -> Result<Vec<Row>> {
    Ok(match account {
        Some(account) => select_records!(
            db,
            "WHERE (account_id, id) > ($1, $2) AND account_id <= $1
               AND id < ulid_floor((SELECT clock_timestamp()) - interval '1 minute')
             ORDER BY account_id, id LIMIT $3",
            account.uuid(),
            after.uuid(),
            limit,
        ),
        None => select_records!(
            db,
            "WHERE id > $1 AND id < ulid_floor((SELECT clock_timestamp()) - interval '1 minute') ORDER BY id LIMIT $2",
            after.uuid(),
            limit,
        ),
    })
}

/// Returns the records about these objects, oldest first.
///
/// # Errors
/// Database errors only.
pub async fn for_objects(db: &PgPool, objects: &[String]) -> Result<Vec<Row>> {
    let mut rows = select_records!(db, "WHERE object = ANY ($1) LIMIT 500", objects);
    rows.sort_by_key(|row| row.id);
    Ok(rows)
}
