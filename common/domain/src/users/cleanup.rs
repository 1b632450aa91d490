//! What ends by itself: sessions, sign-ins without a code, challenges of passkeys, and secrets that were not shown.

use sqlx::PgPool;

use foundation::error::Result;

use super::actions::SECRET_LIFETIME;
use super::passkeys::CHALLENGE_LIFETIME;
use super::sessions::{CODE_LIFETIME, LIFETIME};

/// Deletes what has ended, at most `limit` rows of each kind. Returns the highest number of a kind.
///
/// # Errors
/// Database errors only.
pub async fn clean_up(db: &PgPool, limit: i64) -> Result<u64> {
    let secrets = sqlx::query!(
        "UPDATE user_actions SET secret = NULL WHERE nonce = ANY (ARRAY(
             SELECT nonce FROM user_actions
             WHERE secret IS NOT NULL AND began_at < clock_timestamp() - make_interval(secs => $1)
             ORDER BY began_at LIMIT $2 FOR UPDATE SKIP LOCKED))",
        SECRET_LIFETIME.as_secs_f64(),
        limit,
    );
    let secrets = secrets.execute(db).await?.rows_affected();
    let ended = sqlx::query_scalar!(
        r#"WITH sign_ins AS (DELETE FROM user_sign_ins WHERE cookie_hash = ANY (ARRAY(
               SELECT cookie_hash FROM user_sign_ins WHERE created_at < clock_timestamp() - make_interval(secs => $1)
               ORDER BY created_at LIMIT $3 FOR UPDATE SKIP LOCKED)) RETURNING true),
           sessions AS (DELETE FROM user_sessions WHERE cookie_hash = ANY (ARRAY(
               SELECT cookie_hash FROM user_sessions WHERE created_at < clock_timestamp() - make_interval(secs => $2)
               ORDER BY created_at LIMIT $3 FOR UPDATE SKIP LOCKED)) RETURNING true),
           challenges AS (DELETE FROM user_passkey_challenges WHERE cookie_hash = ANY (ARRAY(
               SELECT cookie_hash FROM user_passkey_challenges WHERE created_at < clock_timestamp() - make_interval(secs => $4)
               ORDER BY created_at LIMIT $3 FOR UPDATE SKIP LOCKED)) RETURNING true)
           SELECT greatest((SELECT count(*) FROM sign_ins), (SELECT count(*) FROM sessions),
               (SELECT count(*) FROM challenges)) AS "ended!""#,
        CODE_LIFETIME.as_secs_f64(),
        LIFETIME.as_secs_f64(),
        limit,
        CHALLENGE_LIFETIME.as_secs_f64(),
    );
    Ok(secrets.max(u64::try_from(ended.fetch_one(db).await?).unwrap_or_default()))
}
