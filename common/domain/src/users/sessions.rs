//! Sessions of signed-in browsers. All times are of the database's clock.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use foundation::crypto::{Secret, random_hex, sha256};
use foundation::error::Result;
use foundation::id::{MerchantId, UserId};

use super::Role;

/// How long a session lasts.
pub const LIFETIME: Duration = Duration::from_secs(12 * 3_600);
/// After how long without a request it ends.
pub const IDLE_LIMIT: Duration = Duration::from_secs(2 * 3_600);
/// How exactly the last request is recorded.
const RECORDED_EVERY: Duration = Duration::from_secs(60);

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
}

/// Creates a session, and deletes the user's expired ones.
pub(super) async fn create(db: &PgPool, user: UserId) -> Result<Session> {
    let cookie = random_hex(32);
    sqlx::query!(
        "WITH expired AS (DELETE FROM user_sessions WHERE cookie_hash = ANY (ARRAY(
             SELECT cookie_hash FROM user_sessions WHERE user_id = $2
                 AND (created_at < clock_timestamp() - make_interval(secs => $3)
                     OR last_used_at < clock_timestamp() - make_interval(secs => $4))
             ORDER BY cookie_hash FOR UPDATE SKIP LOCKED)))
         INSERT INTO user_sessions (cookie_hash, user_id, created_at, last_used_at)
         VALUES ($1, $2, clock_timestamp(), clock_timestamp())",
        &sha256(cookie.as_bytes())[..],
        user.uuid(),
        LIFETIME.as_secs_f64(),
        IDLE_LIMIT.as_secs_f64(),
    )
    .execute(db)
    .await?;
    Ok(Session { user, cookie: Secret::new(cookie) })
}

/// Whether a text has the form of a cookie.
fn is_cookie(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The user of the session with this cookie, if it has not expired.
///
/// # Errors
/// Database errors only.
pub async fn find_session(db: &PgPool, cookie: &str) -> Result<Option<SignedIn>> {
    if !is_cookie(cookie) {
        return Ok(None);
    }
    let hash = sha256(cookie.as_bytes());
    let found = sqlx::query!(
        r#"SELECT u.id, u.merchant_id, u.email, u.role,
               s.last_used_at < clock_timestamp() - make_interval(secs => $4) AS "is_to_record!"
           FROM user_sessions s JOIN users u ON u.id = s.user_id
           WHERE s.cookie_hash = $1 AND u.removed_at IS NULL AND s.created_at > clock_timestamp() - make_interval(secs => $2)
               AND s.last_used_at > clock_timestamp() - make_interval(secs => $3)"#,
        &hash[..],
        LIFETIME.as_secs_f64(),
        IDLE_LIMIT.as_secs_f64(),
        RECORDED_EVERY.as_secs_f64(),
    );
    let Some(found) = found.fetch_optional(db).await? else { return Ok(None) };
    if found.is_to_record {
        sqlx::query!("UPDATE user_sessions SET last_used_at = clock_timestamp() WHERE cookie_hash = $1", &hash[..])
            .execute(db)
            .await?;
    }
    Ok(Some(SignedIn { id: found.id, merchant_id: found.merchant_id, email: found.email, role: found.role }))
}

/// Ends all sessions of a user.
pub(super) async fn delete_all(tx: &mut PgConnection, user: UserId) -> Result<()> {
    sqlx::query!(
        "DELETE FROM user_sessions WHERE cookie_hash = ANY (ARRAY(
             SELECT cookie_hash FROM user_sessions WHERE user_id = $1 ORDER BY cookie_hash FOR UPDATE))",
        user.uuid(),
    )
    .execute(tx)
    .await?;
    Ok(())
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
