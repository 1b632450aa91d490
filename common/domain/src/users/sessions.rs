//! Sessions of signed-in browsers. All times are of the database's clock.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use foundation::crypto::{Secret, hex, is_hex, random_hex, sha256, unhex};
use foundation::db::begin;
use foundation::error::{Error, Result};
use foundation::id::{MerchantId, UserId};
use foundation::time::Timestamp;

use super::Role;

/// How long a session lasts.
pub const LIFETIME: Duration = Duration::from_secs(12 * 3_600);
/// After how long without a request it ends.
const IDLE_LIMIT: Duration = Duration::from_secs(2 * 3_600);
/// How exactly the last request is recorded.
const RECORDED_EVERY: Duration = Duration::from_secs(60);
/// How long the code of a second factor is awaited.
pub const CODE_LIFETIME: Duration = Duration::from_secs(600);
/// Bytes of a cookie.
const COOKIE: usize = 32;
/// The characters that are stored of a browser's name.
const USER_AGENT: usize = 200;

/// A new session.
#[derive(Debug)]
pub struct Session {
    pub user: UserId,
    /// The value of the cookie, 64 hexadecimal digits.
    pub cookie: Secret<String>,
}

/// The user of a session.
#[derive(Clone, Debug)]
pub struct SignedIn {
    pub id: UserId,
    pub merchant_id: MerchantId,
    pub email: String,
    pub role: Role,
    /// Whether the user has a second factor.
    pub has_factor: bool,
    /// The code of the language that the user has chosen; `None` is that of the browser.
    pub language: Option<String>,
}

/// Creates a session.
pub(super) async fn create(tx: &mut PgConnection, user: UserId, user_agent: &str) -> Result<Session> {
    let cookie = random_hex(COOKIE);
    let user_agent: String = user_agent.chars().take(USER_AGENT).collect();
    sqlx::query!(
        "INSERT INTO user_sessions (cookie_hash, user_id, created_at, last_used_at, user_agent)
         VALUES ($1, $2, clock_timestamp(), clock_timestamp(), $3)",
        &sha256(cookie.as_bytes())[..],
        user.uuid(),
        user_agent,
    )
    .execute(tx)
    .await?;
    Ok(Session { user, cookie: Secret::new(cookie) })
}

/// Stores that the password was right and the code is awaited. Returns the cookie.
pub(super) async fn await_code(tx: &mut PgConnection, user: UserId) -> Result<Secret<String>> {
    let cookie = random_hex(COOKIE);
    sqlx::query!(
        "INSERT INTO user_sign_ins (cookie_hash, user_id, created_at) VALUES ($1, $2, clock_timestamp())",
        &sha256(cookie.as_bytes())[..],
        user.uuid(),
    )
    .execute(tx)
    .await?;
    Ok(Secret::new(cookie))
}

/// A user whose code is awaited.
#[derive(Debug)]
pub struct Awaited {
    pub id: UserId,
    pub email: String,
    /// Another one for each second factor, in hexadecimal: the hash of its sealed secret.
    pub factor: String,
}

/// The user whose code is awaited.
///
/// # Errors
/// Database errors only.
pub async fn awaited_user(db: &PgPool, cookie: &str) -> Result<Option<Awaited>> {
    let found = sqlx::query!(
        r#"SELECT u.id, u.email, u.totp_secret AS "secret!" FROM user_sign_ins s JOIN users u ON u.id = s.user_id
           WHERE s.cookie_hash = $1 AND u.removed_at IS NULL AND u.totp_secret IS NOT NULL
               AND s.created_at > clock_timestamp() - make_interval(secs => $2)"#,
        &sha256(cookie.as_bytes())[..],
        CODE_LIFETIME.as_secs_f64(),
    );
    let found = found.fetch_optional(db).await?;
    Ok(found.map(|user| Awaited { id: user.id, email: user.email, factor: hex(&sha256(&user.secret)) }))
}

/// Replaces a sign-in by a session; `None` if another request has done so.
pub(super) async fn complete(db: &PgPool, user: UserId, cookie: &str, user_agent: &str) -> Result<Option<Session>> {
    let mut tx = begin(db).await?;
    // A new password waits for this session, and ends it.
    sqlx::query!("SELECT FROM users WHERE id = $1 FOR SHARE", user.uuid()).execute(&mut *tx).await?;
    let done = sqlx::query!(
        "DELETE FROM user_sign_ins WHERE cookie_hash = $1 AND user_id = $2",
        &sha256(cookie.as_bytes())[..],
        user.uuid()
    );
    if done.execute(&mut *tx).await?.rows_affected() == 0 {
        return Ok(None);
    }
    let session = create(&mut tx, user, user_agent).await?;
    tx.commit().await?;
    Ok(Some(session))
}

/// Sessions that have not ended, as `s`, with their users, as `u`. The arguments of the condition begin at `$3`.
macro_rules! select_live {
    ($columns:literal, $condition:literal, $($arg:expr),+ $(,)?) => {
        sqlx::query!(
            "SELECT " + $columns + " FROM user_sessions s JOIN users u ON u.id = s.user_id
             WHERE u.removed_at IS NULL AND s.created_at > clock_timestamp() - make_interval(secs => $1)
                 AND s.last_used_at > clock_timestamp() - make_interval(secs => $2) AND " + $condition,
            LIFETIME.as_secs_f64(),
            IDLE_LIMIT.as_secs_f64(),
            $($arg),+
        )
    };
}

/// The user of the session with this cookie, if it has not expired.
///
/// # Errors
/// Database errors only.
pub async fn find_session(db: &PgPool, cookie: &str) -> Result<Option<SignedIn>> {
    find(&mut *db.acquire().await?, cookie).await
}

pub(super) async fn find(db: &mut PgConnection, cookie: &str) -> Result<Option<SignedIn>> {
    if !is_hex(cookie, COOKIE) {
        return Ok(None);
    }
    let hash = sha256(cookie.as_bytes());
    let found = select_live!(
        r#"u.id, u.merchant_id, u.email, u.role, u.language, u.totp_secret IS NOT NULL AS "has_factor!",
               s.last_used_at < clock_timestamp() - make_interval(secs => $4) AS "is_to_record!""#,
        "s.cookie_hash = $3",
        &hash[..],
        RECORDED_EVERY.as_secs_f64(),
    );
    let Some(found) = found.fetch_optional(&mut *db).await? else { return Ok(None) };
    if found.is_to_record {
        sqlx::query!("UPDATE user_sessions SET last_used_at = clock_timestamp() WHERE cookie_hash = $1", &hash[..])
            .execute(db)
            .await?;
    }
    Ok(Some(SignedIn {
        id: found.id,
        merchant_id: found.merchant_id,
        email: found.email,
        role: found.role,
        has_factor: found.has_factor,
        language: found.language,
    }))
}

/// A session as its user sees it.
#[derive(Debug)]
pub struct SessionRow {
    /// The hash of its cookie, in hexadecimal.
    pub id: String,
    pub created_at: Timestamp,
    /// To about a minute.
    pub last_used_at: Timestamp,
    /// What the browser says it is.
    pub user_agent: Option<String>,
    /// Whether it is the one of this cookie.
    pub is_current: bool,
}

/// The sessions of a user, the latest first. `cookie` is that of the request.
///
/// # Errors
/// Database errors only.
pub async fn sessions(db: &PgPool, user: UserId, cookie: &str) -> Result<Vec<SessionRow>> {
    let rows = select_live!(
        "s.cookie_hash, s.created_at, s.last_used_at, s.user_agent",
        "s.user_id = $3 ORDER BY s.created_at DESC",
        user.uuid(),
    );
    let current = sha256(cookie.as_bytes());
    let rows = rows.fetch_all(db).await?.into_iter().map(|row| SessionRow {
        id: hex(&row.cookie_hash),
        created_at: row.created_at,
        last_used_at: row.last_used_at,
        user_agent: row.user_agent,
        is_current: row.cookie_hash == current,
    });
    Ok(rows.collect())
}

/// Ends one of the user's sessions, by [`SessionRow::id`].
///
/// # Errors
/// [`Error::NotFound`].
pub async fn end_session(tx: &mut PgConnection, user: UserId, id: &str) -> Result<()> {
    let unknown = || Error::no_such("session", "");
    let hash = unhex(id).ok_or_else(unknown)?;
    let query = sqlx::query_scalar!(
        r#"DELETE FROM user_sessions WHERE cookie_hash = $1 AND user_id = $2 RETURNING true AS "ended!""#,
        hash,
        user.uuid()
    );
    query.fetch_optional(tx).await?.map(drop).ok_or_else(unknown)
}

/// Ends all sessions of a user.
pub(super) async fn delete_all(tx: &mut PgConnection, user: UserId) -> Result<()> {
    delete_all_but(tx, user, "").await
}

/// Ends all sessions of a user but the one with this cookie, and what the user did not complete.
async fn delete_all_but(tx: &mut PgConnection, user: UserId, cookie: &str) -> Result<()> {
    sqlx::query!(
        "WITH awaiting AS (DELETE FROM user_sign_ins WHERE cookie_hash = ANY (ARRAY(
             SELECT cookie_hash FROM user_sign_ins WHERE user_id = $1 ORDER BY cookie_hash FOR UPDATE)))
         DELETE FROM user_sessions WHERE cookie_hash = ANY (ARRAY(
             SELECT cookie_hash FROM user_sessions WHERE user_id = $1 AND cookie_hash <> $2
             ORDER BY cookie_hash FOR UPDATE))",
        user.uuid(),
        &sha256(cookie.as_bytes())[..],
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Ends the user's sessions but the one with this cookie, which gets another one. It is returned: a browser with the former one
/// is signed out.
///
/// # Errors
/// [`Error::Conflict`] if the session has ended.
pub(super) async fn renew(tx: &mut PgConnection, user: UserId, cookie: &str) -> Result<Secret<String>> {
    delete_all_but(tx, user, cookie).await?;
    let new = random_hex(COOKIE);
    let rotated = sqlx::query!(
        "UPDATE user_sessions SET cookie_hash = $3 WHERE cookie_hash = $1 AND user_id = $2",
        &sha256(cookie.as_bytes())[..],
        user.uuid(),
        &sha256(new.as_bytes())[..],
    );
    match rotated.execute(tx).await?.rows_affected() {
        0 => Err(Error::conflict("the session has ended")),
        _ => Ok(Secret::new(new)),
    }
}

/// Ends a session.
///
/// # Errors
/// Database errors only.
pub async fn delete_session(db: &PgPool, cookie: &str) -> Result<()> {
    sqlx::query!("DELETE FROM user_sessions WHERE cookie_hash = $1", &sha256(cookie.as_bytes())[..])
        .execute(db)
        .await?;
    Ok(())
}
