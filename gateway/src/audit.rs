//! The audit log of operators' actions. It is append-only; each record is written in the transaction of the change.

use foundation::time::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sqlx::{PgConnection, PgPool};

/// Appends a record.
///
/// # Errors
/// Database errors.
pub async fn record(
    db: &mut PgConnection,
    actor: &str,
    action: &'static str,
    username: Option<&str>,
    detail: &Value,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO gateway.audit_log (actor, action, username, detail) VALUES ($1, $2, $3, $4)",
        actor,
        action,
        username,
        detail,
    )
    .execute(db)
    .await?;
    Ok(())
}

#[derive(Debug, Serialize)]
pub struct AuditRecord {
    id: i64,
    at: Timestamp,
    actor: String,
    action: String,
    username: Option<String>,
    detail: Value,
}

/// Records, newest first, optionally of one account.
///
/// # Errors
/// Database errors.
pub async fn list(db: &PgPool, username: Option<&str>, limit: i64) -> Result<Vec<AuditRecord>, sqlx::Error> {
    match username {
        Some(username) => {
            sqlx::query_as!(
                AuditRecord,
                "SELECT id, at, actor, action, username, detail FROM gateway.audit_log WHERE username = $1
                 ORDER BY id DESC LIMIT $2",
                username,
                limit,
            )
            .fetch_all(db)
            .await
        }
        None => {
            sqlx::query_as!(
                AuditRecord,
                "SELECT id, at, actor, action, username, detail FROM gateway.audit_log ORDER BY id DESC LIMIT $1",
                limit,
            )
            .fetch_all(db)
            .await
        }
    }
}

/// Records after an id, oldest first, for copies that continue where the last one ended. The list stops before the
/// first record of the last minute: ids are assigned before records become visible, so a later record could appear
/// below an id that was already copied. Records behind that first one are left out even if they are older, because
/// times do not follow the ids.
///
/// # Errors
/// Database errors.
pub async fn after(
    db: &PgPool,
    after: i64,
    username: Option<&str>,
    limit: i64,
) -> Result<Vec<AuditRecord>, sqlx::Error> {
    let records = match username {
        Some(username) => sqlx::query_as!(
            AgedRecord,
            r#"SELECT id, at, actor, action, username, detail, at < clock_timestamp() - interval '1 minute' AS "is_old!"
                   FROM gateway.audit_log WHERE username = $1 AND id > $2 ORDER BY username, id LIMIT $3"#,
            username,
            after,
            limit,
        )
        .fetch_all(db)
        .await?,
        None => sqlx::query_as!(
            AgedRecord,
            r#"SELECT id, at, actor, action, username, detail, at < clock_timestamp() - interval '1 minute' AS "is_old!"
                   FROM gateway.audit_log WHERE id > $1 ORDER BY id LIMIT $2"#,
            after,
            limit,
        )
        .fetch_all(db)
        .await?,
    };
    Ok(records.into_iter().take_while(|record| record.is_old).map(AgedRecord::into_record).collect())
}

/// A record, and whether it is older than a minute.
struct AgedRecord {
    id: i64,
    at: Timestamp,
    actor: String,
    action: String,
    username: Option<String>,
    detail: Value,
    is_old: bool,
}

impl AgedRecord {
    fn into_record(self) -> AuditRecord {
        let Self { id, at, actor, action, username, detail, .. } = self;
        AuditRecord { id, at, actor, action, username, detail }
    }
}
