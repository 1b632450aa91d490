//! The SQL of the audit log.

use common::time::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sqlx::{PgConnection, PgPool};

/// Writes that it was done.
///
/// # Errors
/// Only the database's.
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

/// A record.
#[derive(Debug, Serialize)]
pub struct Row {
    id: i64,
    at: Timestamp,
    actor: String,
    action: String,
    username: Option<String>,
    detail: Value,
}

/// Records, newest first, of this account alone if one is named.
///
/// # Errors
/// Only the database's.
pub async fn list(db: &PgPool, username: Option<&str>, limit: i64) -> Result<Vec<Row>, sqlx::Error> {
    match username {
        Some(username) => {
            sqlx::query_as!(
                Row,
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
                Row,
                "SELECT id, at, actor, action, username, detail FROM gateway.audit_log ORDER BY id DESC LIMIT $1",
                limit,
            )
            .fetch_all(db)
            .await
        }
    }
}

/// Records that come after one, oldest first, for a copy that goes on where it ended. What was written within the last minute is left
/// to the next time: a record gets its id before it can be seen, and one that is seen later could be passed over.
///
/// # Errors
/// Only the database's.
pub async fn after(db: &PgPool, after: i64, username: Option<&str>, limit: i64) -> Result<Vec<Row>, sqlx::Error> {
    match username {
        Some(username) => {
            sqlx::query_as!(
                Row,
                "SELECT id, at, actor, action, username, detail FROM gateway.audit_log
                 WHERE username = $1 AND id > $2 AND at < clock_timestamp() - interval '1 minute'
                 ORDER BY username, id LIMIT $3",
                username,
                after,
                limit,
            )
            .fetch_all(db)
            .await
        }
        None => {
            sqlx::query_as!(
                Row,
                "SELECT id, at, actor, action, username, detail FROM gateway.audit_log
                 WHERE id > $1 AND at < clock_timestamp() - interval '1 minute' ORDER BY id LIMIT $2",
                after,
                limit,
            )
            .fetch_all(db)
            .await
        }
    }
}
