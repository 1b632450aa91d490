//! The log of requests, as merchants see it.

use sqlx::PgPool;
use uuid::Uuid;

use foundation::error::Result;
use foundation::id::{AccountId, KeyId, RequestId};

/// The days after which a request is no longer in the log.
pub const RETENTION_DAYS: u32 = 7;

/// A request with a valid key, and its response.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: RequestId,
    pub account: AccountId,
    pub key: KeyId,
    pub method: String,
    /// Without the query.
    pub path: String,
    pub status: i16,
    /// `error.code` of the response.
    pub code: Option<String>,
    /// In milliseconds.
    pub duration_ms: i32,
}

/// Writes entries.
///
/// # Errors
/// Database errors only.
pub async fn write(db: &PgPool, entries: &[Entry]) -> Result<()> {
    let column = |of: fn(&Entry) -> String| entries.iter().map(of).collect::<Vec<_>>();
    let codes: Vec<Option<String>> = entries.iter().map(|entry| entry.code.clone()).collect();
    sqlx::query!(
        "INSERT INTO requests (account_id, id, key_id, method, path, status, code, duration_ms)
         SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::smallint[], $7::text[], $8::integer[])",
        &entries.iter().map(|entry| entry.account.uuid()).collect::<Vec<_>>(),
        &entries.iter().map(|entry| entry.id.uuid()).collect::<Vec<_>>(),
        &entries.iter().map(|entry| entry.key.uuid()).collect::<Vec<_>>(),
        &column(|entry| entry.method.clone()),
        &column(|entry| entry.path.clone()),
        &entries.iter().map(|entry| entry.status).collect::<Vec<_>>(),
        &codes as &[Option<String>],
        &entries.iter().map(|entry| entry.duration_ms).collect::<Vec<_>>(),
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The columns are shared by all queries. Each has conditions that are bounds of an index, because plans are made for
/// any values.
macro_rules! select_entries {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Entry,
            r#"SELECT id AS "id: RequestId", account_id AS "account: AccountId", key_id AS "key: KeyId", method, path, status,
                   code, duration_ms
               FROM requests WHERE account_id = $1 AND "# + $rest,
            $($arg),*
        )
    };
}

/// The entry of this request, if the account has it.
///
/// # Errors
/// Database errors only.
pub async fn find(db: &PgPool, account: AccountId, id: RequestId) -> Result<Option<Entry>> {
    Ok(select_entries!("id = $2", account.uuid(), id.uuid()).fetch_optional(db).await?)
}

/// The entries of an account before this one, newest first; `refused` selects those with a status of 400 or more.
///
/// # Errors
/// Database errors only.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    before: Option<RequestId>,
    refused: bool,
    limit: i64,
) -> Result<Vec<Entry>> {
    let (account, before) = (account.uuid(), before.map_or(Uuid::max(), RequestId::uuid));
    Ok(match refused {
        true => {
            select_entries!("id < $2 AND status >= 400 ORDER BY id DESC LIMIT $3", account, before, limit)
                .fetch_all(db)
                .await?
        }
        false => select_entries!("id < $2 ORDER BY id DESC LIMIT $3", account, before, limit).fetch_all(db).await?,
    })
}

/// Empties the part of the log that tomorrow's entries go to. Returns whether it had any.
///
/// # Errors
/// Database errors, also if the part is in use; the next call tries again.
pub async fn clear_oldest(db: &PgPool) -> Result<bool> {
    let cleared = sqlx::query_scalar!(r#"SELECT clear_oldest_requests() AS "cleared!""#);
    Ok(cleared.fetch_one(db).await?)
}
