//! Checkout sessions and payment tokens: capabilities of at least 128 random bits, of which only a hash is kept.
//!
//! Their lifetimes run on real time, by the database's clock, so that every process agrees on them.

mod field;

use std::time::Duration;

pub use field::{FieldSession, field_session};
use sqlx::{PgConnection, PgPool};

use crate::accounts::{Caller, Mode, Payee};
use crate::crypto::{Secret, random_hex, sha256};
use crate::error::{Error, Result};
use crate::id::{AccountId, ProviderAccountId};
use crate::providers::{ProviderKind, Source};
use crate::time::Timestamp;

/// How long a checkout session can be exchanged.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(30 * 60);
/// How long a payment token can be spent.
pub const TOKEN_LIFETIME: Duration = Duration::from_secs(120);
/// How long the hash of a token or session is kept after its end, so that a late replay is told the truth.
const KEPT_AFTER_EXPIRY: Duration = Duration::from_secs(24 * 3600);
const RANDOM_BYTES: usize = 20;
const SESSION_PREFIX: &str = "cs_";
const TOKEN_PREFIX: &str = "mtok_";

/// What a token from this session is for. It informs the card field and the provider, and binds nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "checkout_intent", rename_all = "snake_case")]
pub enum Intent {
    /// To be charged.
    #[default]
    OneTime,
    /// To be saved with a customer.
    Store,
}

/// A session or token just made: the only time that it is shown.
#[derive(Debug)]
pub struct Issued {
    /// The capability itself.
    pub text: Secret<String>,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// Starts a checkout session for a page of this origin.
///
/// # Errors
/// Only the database's.
pub async fn start_session(
    db: &PgPool,
    caller: &Caller,
    intent: Intent,
    origin: &str,
    now: Timestamp,
) -> Result<Issued> {
    let text = format!("{SESSION_PREFIX}{}", random_hex(RANDOM_BYTES));
    let expires_at = sqlx::query_scalar!(
        "INSERT INTO checkout_sessions (id_hash, account_id, provider_account_id, intent, origin, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp() + make_interval(secs => $7)) RETURNING expires_at",
        &sha256(text.as_bytes())[..],
        caller.account_id.uuid(),
        caller.provider_account_id.uuid(),
        intent as Intent,
        origin,
        now,
        SESSION_LIFETIME.as_secs_f64(),
    )
    .fetch_one(db)
    .await?;
    Ok(Issued { text: Secret::new(text), expires_at })
}

/// Exchanges what the card field got from the provider for a payment token. A session is exchanged once.
///
/// # Errors
/// [`Error::NotFound`] for an unknown session, 422 `upstreamToken` for one that the provider did not give,
/// [`Error::Conflict`] for a session that was exchanged or has expired.
pub async fn exchange(
    pool: &PgPool,
    caller: &Caller,
    session: &str,
    upstream_token: &str,
    now: Timestamp,
) -> Result<Issued> {
    let session = sha256(session.as_bytes());
    let mut tx = pool.begin().await?;
    let found = sqlx::query!(
        r#"SELECT s.provider_account_id, p.provider, (s.exchanged_at IS NULL AND s.expires_at > clock_timestamp()) AS "open!"
           FROM checkout_sessions s JOIN provider_accounts p ON p.id = s.provider_account_id
           WHERE s.id_hash = $1 AND s.account_id = $2 FOR NO KEY UPDATE OF s"#,
        &session[..],
        caller.account_id.uuid(),
    )
    .fetch_optional(&mut *tx)
    .await?
    .ok_or(Error::NotFound("checkout session"))?;
    if caller.mode == Mode::Live || !found.provider.is_test_token(upstream_token) {
        return Err(Error::invalid("upstreamToken", "upstreamToken is unknown"));
    }
    if !found.open {
        return Err(Error::conflict("the checkout session was exchanged before, or has expired"));
    }
    sqlx::query!("UPDATE checkout_sessions SET exchanged_at = clock_timestamp() WHERE id_hash = $1", &session[..])
        .execute(&mut *tx)
        .await?;
    let text = format!("{TOKEN_PREFIX}{}", random_hex(RANDOM_BYTES));
    let expires_at = sqlx::query_scalar!(
        "INSERT INTO payment_tokens (token_hash, account_id, provider_account_id, upstream_token, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, clock_timestamp() + make_interval(secs => $6)) RETURNING expires_at",
        &sha256(text.as_bytes())[..],
        caller.account_id.uuid(),
        found.provider_account_id.uuid(),
        upstream_token,
        now,
        TOKEN_LIFETIME.as_secs_f64(),
    )
    .fetch_one(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Issued { text: Secret::new(text), expires_at })
}

/// What a token pays with, and where.
#[derive(Debug)]
pub struct Spent {
    /// The provider account that gave the token.
    pub provider_account_id: ProviderAccountId,
    /// What the provider is sent.
    pub source: Source,
}

/// Whose token it must be: the account that is paid.
#[derive(Clone, Copy, Debug)]
pub struct Recipient {
    account_id: AccountId,
    mode: Mode,
    provider_account_id: ProviderAccountId,
    provider: ProviderKind,
}

impl From<&Caller> for Recipient {
    fn from(caller: &Caller) -> Self {
        let Caller { account_id, mode, provider_account_id, provider, .. } = *caller;
        Self { account_id, mode, provider_account_id, provider }
    }
}

impl From<&Payee> for Recipient {
    fn from(payee: &Payee) -> Self {
        let Payee { account_id, mode, provider_account_id, provider, .. } = *payee;
        Self { account_id, mode, provider_account_id, provider }
    }
}

/// What a test token of the provider pays with. Those are good any number of times, so there is nothing to spend.
pub fn test_token(to: impl Into<Recipient>, token: &str) -> Option<Spent> {
    let to = to.into();
    let known = to.mode == Mode::Test && to.provider.is_test_token(token);
    known.then(|| Spent {
        provider_account_id: to.provider_account_id,
        source: Source::Token(Secret::new(token.to_owned())),
    })
}

/// Spends a token within the transaction of what it pays for: if that is not committed, the token is fresh again.
///
/// # Errors
/// [`Error::Conflict`] for a spent token; 422 `paymentToken` for an unknown, another account's or an expired one.
pub async fn spend(tx: &mut PgConnection, to: impl Into<Recipient>, token: &str) -> Result<Spent> {
    let to = to.into();
    if let Some(spent) = test_token(to, token) {
        return Ok(spent);
    }
    let hash = sha256(token.as_bytes());
    let spent = sqlx::query!(
        "UPDATE payment_tokens SET spent_at = clock_timestamp()
         WHERE token_hash = $1 AND account_id = $2 AND spent_at IS NULL AND expires_at > clock_timestamp()
         RETURNING provider_account_id, upstream_token",
        &hash[..],
        to.account_id.uuid(),
    )
    .fetch_optional(&mut *tx)
    .await?;
    match spent {
        Some(row) => Ok(Spent {
            provider_account_id: row.provider_account_id,
            source: Source::Token(Secret::new(row.upstream_token)),
        }),
        None => Err(why_not(tx, to.account_id, &hash).await?),
    }
}

async fn why_not(tx: &mut PgConnection, account: AccountId, hash: &[u8]) -> Result<Error> {
    let row = sqlx::query!(
        r#"SELECT spent_at IS NOT NULL AS "spent!" FROM payment_tokens WHERE token_hash = $1 AND account_id = $2"#,
        hash,
        account.uuid()
    )
    .fetch_optional(tx)
    .await?;
    Ok(match row {
        Some(row) if row.spent => Error::conflict("the payment token was spent before"),
        Some(_) => Error::invalid("paymentToken", "the payment token has expired"),
        None => Error::invalid("paymentToken", "the payment token is unknown"),
    })
}

/// Forgets sessions and tokens that ended long ago, a bounded number at a time; answers how many.
///
/// # Errors
/// Only the database's.
pub async fn forget_ended(db: &PgPool) -> Result<u64> {
    let kept = KEPT_AFTER_EXPIRY.as_secs_f64();
    let sessions = sqlx::query!(
        "DELETE FROM checkout_sessions WHERE id_hash IN (SELECT id_hash FROM checkout_sessions
            WHERE expires_at < clock_timestamp() - make_interval(secs => $1) LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        kept
    )
    .execute(db)
    .await?;
    let tokens = sqlx::query!(
        "DELETE FROM payment_tokens WHERE token_hash IN (SELECT token_hash FROM payment_tokens
            WHERE expires_at < clock_timestamp() - make_interval(secs => $1) LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        kept
    )
    .execute(db)
    .await?;
    Ok(sessions.rows_affected() + tokens.rows_affected())
}
