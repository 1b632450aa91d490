//! Checkout sessions and payment tokens: capabilities of at least 128 random bits, of which only a hash is kept.
//!
//! Their lifetimes run on real time, by the database's clock, so that every process agrees on them.

mod field;

use std::time::Duration;

pub use field::{FieldSession, field_session};
use sqlx::{PgConnection, PgPool};

use crate::accounts::{Caller, Mode, Payee};
use crate::card_number::has_card_number;
use crate::crypto::{KeyRing, Secret, random_hex, sha256};
use crate::db;
use crate::error::{Error, Result};
use crate::id::{AccountId, ProviderAccountId};
use crate::proof::{self, Rule};
use crate::providers::card_gateway::{self, FIELD_PREFIX, FieldToken};
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
const TEST_TOKEN_PREFIX: &str = "tok_";

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

/// What our own address of a challenge ends with.
pub fn action_token() -> String {
    random_hex(RANDOM_BYTES)
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

/// Exchanges what the card field got from the provider for a payment token. A session is exchanged once, and so is what a
/// field gave.
///
/// # Errors
/// [`Error::NotFound`] for an unknown session, 422 `upstreamToken` for one that the provider did not give,
/// [`Error::Conflict`] for a session that was exchanged or has expired, and for a token that was used before.
pub async fn exchange(
    pool: &PgPool,
    caller: &Caller,
    session: &str,
    upstream_token: &str,
    encryption: &KeyRing,
    now: Timestamp,
) -> Result<Issued> {
    let session = sha256(session.as_bytes());
    let mut tx = db::begin(pool).await?;
    let found = sqlx::query!(
        r#"SELECT s.provider_account_id, p.provider, clock_timestamp() AS "clock!", (s.exchanged_at IS NULL AND s.expires_at > clock_timestamp()) AS "open!"
           FROM checkout_sessions s JOIN provider_accounts p ON p.id = s.provider_account_id
           WHERE s.id_hash = $1 AND s.account_id = $2 FOR NO KEY UPDATE OF s"#,
        &session[..],
        caller.account_id.uuid(),
    )
    .fetch_optional(&mut *tx)
    .await?
    .ok_or_else(|| Error::no_such("checkout session", ""))?;
    let test_token = caller.mode == Mode::Test && found.provider.is_test_token(upstream_token);
    if !test_token {
        let given = (found.provider, found.provider_account_id);
        let token = field_token(&mut tx, given, upstream_token, encryption).await?;
        // Until the payment token ends, the provider must still know it.
        if token.is_none_or(|token| token.expires_at < found.clock.plus(TOKEN_LIFETIME)) {
            return Err(no_token("upstreamToken", caller.mode, found.provider, upstream_token));
        }
    }
    if !found.open {
        return Err(Error::conflict("the checkout session was exchanged before, or has expired"));
    }
    sqlx::query!("UPDATE checkout_sessions SET exchanged_at = clock_timestamp() WHERE id_hash = $1", &session[..])
        .execute(&mut *tx)
        .await?;
    let text = format!("{TOKEN_PREFIX}{}", random_hex(RANDOM_BYTES));
    // Test tokens are good any number of times.
    let upstream_hash = (!test_token).then(|| sha256(upstream_token.as_bytes()));
    let expires_at = sqlx::query_scalar!(
        "INSERT INTO payment_tokens
            (token_hash, account_id, provider_account_id, upstream_token, upstream_hash, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp() + make_interval(secs => $7))
         ON CONFLICT DO NOTHING RETURNING expires_at",
        &sha256(text.as_bytes())[..],
        caller.account_id.uuid(),
        found.provider_account_id.uuid(),
        upstream_token,
        upstream_hash.as_ref().map(|hash| &hash[..]),
        now,
        TOKEN_LIFETIME.as_secs_f64(),
    )
    .fetch_optional(&mut *tx)
    .await?
    .ok_or_else(|| Error::conflict("upstreamToken was used before"))?;
    db::commit(tx).await?;
    Ok(Issued { text: Secret::new(text), expires_at })
}

/// Reads what a capture field of this provider account may have given; none for anything else. Nobody is asked: it is signed.
async fn field_token(
    db: &mut PgConnection,
    (provider, account): (ProviderKind, ProviderAccountId),
    text: &str,
    encryption: &KeyRing,
) -> Result<Option<FieldToken>> {
    match provider {
        ProviderKind::Mock => Ok(None),
        ProviderKind::CardGateway if !text.starts_with(FIELD_PREFIX) => Ok(None),
        ProviderKind::CardGateway => {
            let credentials = card_gateway::read_credentials(db, encryption, account).await?;
            Ok(credentials.and_then(|credentials| FieldToken::verify(text, &credentials)))
        }
    }
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

/// Spends a token within the transaction of what it pays for: if that is not committed, the token is fresh again. What a field
/// gave may come directly, without an exchange, and is good for as long as a payment token.
///
/// # Errors
/// [`Error::Conflict`] for a spent token; 422 `paymentToken` for an unknown, another account's or an expired one.
pub async fn spend(
    tx: &mut PgConnection,
    to: impl Into<Recipient>,
    token: &str,
    encryption: &KeyRing,
) -> Result<Spent> {
    let to = to.into();
    if let Some(spent) = test_token(to, token) {
        return Ok(spent);
    }
    if let Some(given) = field_token(tx, (to.provider, to.provider_account_id), token, encryption).await? {
        return spend_directly(tx, to, token, &given).await;
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
    if !proof::holds(Rule::Token) {
        let again = sqlx::query("UPDATE payment_tokens SET spent_at = NULL WHERE token_hash = $1");
        again.bind(&hash[..]).execute(&mut *tx).await?;
    }
    match spent {
        Some(row) => Ok(Spent {
            provider_account_id: row.provider_account_id,
            source: Source::Token(Secret::new(row.upstream_token)),
        }),
        None => Err(why_not(tx, to, token, &hash).await?),
    }
}

/// Why a text is no token, and what to send instead. It may be a card's number, so it is not repeated.
fn no_token(param: &'static str, mode: Mode, provider: ProviderKind, token: &str) -> Error {
    let test_tokens = if mode == Mode::Test { provider.test_tokens() } else { vec![] };
    let message = if !token.starts_with(TOKEN_PREFIX) && has_card_number(token) {
        format!(
            "{param} is a token, and what was sent may be a card number: card numbers never go to this API; let the card field \
             (docs/elements.md) take the card, and send the token that it gives"
        )
    } else if !token.starts_with(TEST_TOKEN_PREFIX) {
        format!("{param} is unknown or has expired")
    } else if test_tokens.is_empty() {
        format!(
            "{param} is a test token, which works in test accounts at the mock provider alone: this account takes tokens that its card \
             field gives"
        )
    } else {
        format!("{param} is no test token; those are {}", test_tokens.join(", "))
    };
    Error::invalid(param, message)
}

/// The row that says so is as unique as that of an exchange: of two who bring the same token, by whichever way, one pays.
async fn spend_directly(tx: &mut PgConnection, to: Recipient, token: &str, given: &FieldToken) -> Result<Spent> {
    let hash = sha256(token.as_bytes());
    let expires_at = given.issued_at.plus(TOKEN_LIFETIME).min(given.expires_at);
    let spent = sqlx::query!(
        r#"INSERT INTO payment_tokens
            (token_hash, account_id, provider_account_id, upstream_token, upstream_hash, created_at, expires_at, spent_at)
         VALUES ($1, $2, $3, $4, $1, $5, $6, clock_timestamp())
         ON CONFLICT DO NOTHING RETURNING expires_at > clock_timestamp() AS "fresh!""#,
        &hash[..],
        to.account_id.uuid(),
        to.provider_account_id.uuid(),
        token,
        given.issued_at,
        expires_at,
    )
    .fetch_optional(tx)
    .await?;
    match spent {
        None => Err(Error::conflict("the payment token was spent before")),
        // Never committed, for the caller gives up.
        Some(row) if !row.fresh => Err(Error::invalid("paymentToken", "the payment token has expired")),
        Some(_) => Ok(Spent {
            provider_account_id: to.provider_account_id,
            source: Source::Token(Secret::new(token.to_owned())),
        }),
    }
}

async fn why_not(tx: &mut PgConnection, to: Recipient, token: &str, hash: &[u8]) -> Result<Error> {
    let row = sqlx::query!(
        r#"SELECT spent_at IS NOT NULL AS "spent!" FROM payment_tokens WHERE token_hash = $1 AND account_id = $2"#,
        hash,
        to.account_id.uuid()
    )
    .fetch_optional(tx)
    .await?;
    Ok(match row {
        Some(row) if row.spent => Error::conflict("the payment token was spent before"),
        Some(_) => Error::invalid("paymentToken", "the payment token has expired"),
        None => no_token("paymentToken", to.mode, to.provider, token),
    })
}

/// Forgets sessions that ended long ago; so many at most, and answers how many.
///
/// # Errors
/// Only the database's.
pub async fn forget_sessions(db: &PgPool, batch: i64) -> Result<u64> {
    let done = sqlx::query!(
        "DELETE FROM checkout_sessions WHERE ctid = ANY (ARRAY(SELECT ctid FROM checkout_sessions
            WHERE expires_at < (SELECT clock_timestamp()) - make_interval(secs => $1)
            ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))",
        KEPT_AFTER_EXPIRY.as_secs_f64(),
        batch,
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}

/// Forgets tokens that ended long ago. As [`forget_sessions`].
///
/// # Errors
/// Only the database's.
pub async fn forget_tokens(db: &PgPool, batch: i64) -> Result<u64> {
    let done = sqlx::query!(
        "DELETE FROM payment_tokens WHERE ctid = ANY (ARRAY(SELECT ctid FROM payment_tokens
            WHERE expires_at < (SELECT clock_timestamp()) - make_interval(secs => $1)
            ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))",
        KEPT_AFTER_EXPIRY.as_secs_f64(),
        batch,
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}
