//! Checkout sessions and payment tokens: bearer secrets of at least 128 random bits, of which only a hash is stored.
//!
//! Their lifetimes are measured by the database's clock, so all processes agree.

mod field;

use std::time::Duration;

pub use field::{FieldSession, field_session};
use sqlx::{PgConnection, PgPool};

use crate::accounts::{Caller, Mode, Payee};
use crate::mutants;
use foundation::card_number::has_card_number;
use foundation::crypto::{KeyRing, Secret, random_hex, sha256};
use foundation::db;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, PaymentMethodId, ProviderAccountId};
use foundation::time::Timestamp;
use providers::card_gateway::{self, FIELD_PREFIX, FieldToken};
use providers::stripe;
use providers::{ProviderKind, Source};

/// How long a checkout session can be exchanged.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(30 * 60);
/// How long a payment token can be spent.
pub const TOKEN_LIFETIME: Duration = Duration::from_secs(120);
/// How long the hash of a token or session is kept after its expiry, so that a late replay gets an accurate error.
const KEPT_AFTER_EXPIRY: Duration = Duration::from_secs(24 * 3600);
const RANDOM_BYTES: usize = 20;
const SESSION_PREFIX: &str = "cs_";
const TOKEN_PREFIX: &str = "mtok_";
const TEST_TOKEN_PREFIX: &str = "tok_";

/// What a token of this session is for. It informs the card field and the provider, and is not enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "checkout_intent", rename_all = "snake_case")]
pub enum Intent {
    /// A single charge.
    #[default]
    OneTime,
    /// Saving the card for a customer.
    Store,
}

/// A newly issued session or token. Its text cannot be retrieved again.
#[derive(Debug)]
pub struct Issued {
    pub text: Secret<String>,
    pub expires_at: Timestamp,
}

/// The random token in our URL of a challenge.
pub fn action_token() -> String {
    random_hex(RANDOM_BYTES)
}

/// Starts a checkout session for a page of this origin.
///
/// # Errors
/// Database errors only.
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

/// Exchanges the provider's token from the card field for a payment token. A session and a provider token can each be
/// exchanged once.
///
/// # Errors
/// [`Error::NotFound`] for an unknown session, 422 `upstreamToken` for a token that the provider did not issue,
/// [`Error::Conflict`] if the session was already exchanged or has expired, or the token was already used.
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
        let provider_account = (found.provider, found.provider_account_id);
        // The provider must accept its token for as long as the payment token is valid.
        let lasts = match field_token(&mut tx, provider_account, upstream_token, encryption).await? {
            Some(CardFieldToken::OfGateway(token)) => token.expires_at >= found.clock.plus(TOKEN_LIFETIME),
            Some(CardFieldToken::OfStripe) => true,
            None => false,
        };
        if !lasts {
            return Err(invalid_token("upstreamToken", caller.mode, found.provider, upstream_token));
        }
    }
    if !found.open {
        return Err(Error::conflict("the checkout session has already been exchanged or has expired"));
    }
    sqlx::query!("UPDATE checkout_sessions SET exchanged_at = clock_timestamp() WHERE id_hash = $1", &session[..])
        .execute(&mut *tx)
        .await?;
    let text = format!("{TOKEN_PREFIX}{}", random_hex(RANDOM_BYTES));
    // Test tokens are reusable.
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
    .ok_or_else(|| Error::conflict("upstreamToken has already been used"))?;
    tx.commit().await?;
    Ok(Issued { text: Secret::new(text), expires_at })
}

/// A token of a provider's card field.
enum CardFieldToken {
    OfGateway(FieldToken),
    /// It does not expire, and Stripe itself refuses a foreign one and a second use.
    OfStripe,
}

/// Reads a token of this provider account's card field; `None` for anything else. The gateway's is signed, so no provider
/// is queried.
async fn field_token(
    db: &mut PgConnection,
    (provider, account): (ProviderKind, ProviderAccountId),
    text: &str,
    encryption: &KeyRing,
) -> Result<Option<CardFieldToken>> {
    match provider {
        ProviderKind::Mock => Ok(None),
        // The id of a saved card has the same prefix.
        ProviderKind::Stripe => {
            let is_ours = text.parse::<PaymentMethodId>().is_ok();
            Ok((stripe::is_token(text) && !is_ours).then_some(CardFieldToken::OfStripe))
        }
        ProviderKind::CardGateway if !text.starts_with(FIELD_PREFIX) => Ok(None),
        ProviderKind::CardGateway => {
            let credentials =
                providers::credentials::read::<card_gateway::Credentials>(db, encryption, account).await?;
            let verified = credentials.and_then(|credentials| FieldToken::verify(text, &credentials));
            Ok(verified.map(CardFieldToken::OfGateway))
        }
    }
}

/// The payment source of a spent token.
#[derive(Debug)]
pub struct SpentToken {
    /// The provider account that issued the token.
    pub provider_account_id: ProviderAccountId,
    pub source: Source,
}

/// The account that is paid, which must own the token.
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

/// Returns the payment source of a test token. Test tokens are reusable, so nothing is marked as spent.
pub fn test_token(to: impl Into<Recipient>, token: &str) -> Option<SpentToken> {
    let to = to.into();
    let is_test_token = to.mode == Mode::Test && to.provider.is_test_token(token);
    is_test_token.then(|| SpentToken {
        provider_account_id: to.provider_account_id,
        source: Source::Token(Secret::new(token.to_owned())),
    })
}

/// Spends a token within the transaction of its payment: a rollback makes it usable again. A token of a card field
/// may also be spent directly, without an exchange, for as long as a payment token would be valid.
///
/// # Errors
/// [`Error::Conflict`] for a token that is already spent; 422 `paymentToken` if it is unknown, expired or another
/// account's.
pub async fn spend(
    tx: &mut PgConnection,
    to: impl Into<Recipient>,
    token: &str,
    encryption: &KeyRing,
) -> Result<SpentToken> {
    let to = to.into();
    if let Some(spent) = test_token(to, token) {
        return Ok(spent);
    }
    if let Some(field_token) = field_token(tx, (to.provider, to.provider_account_id), token, encryption).await? {
        return spend_directly(tx, to, token, &field_token).await;
    }
    let hash = sha256(token.as_bytes());
    let spent = sqlx::query!(
        // The operation has the provider's token from now on, until it ends.
        "WITH unspent AS MATERIALIZED (
             SELECT token_hash, upstream_token FROM payment_tokens
             WHERE token_hash = $1 AND account_id = $2 AND spent_at IS NULL AND expires_at > clock_timestamp()
             FOR NO KEY UPDATE)
         UPDATE payment_tokens t SET spent_at = clock_timestamp(), upstream_token = ''
         FROM unspent WHERE t.token_hash = unspent.token_hash
         RETURNING t.provider_account_id, unspent.upstream_token",
        &hash[..],
        to.account_id.uuid(),
    )
    .fetch_optional(&mut *tx)
    .await?;
    mutants::restore_token(tx, &hash, spent.as_ref().map_or("", |row| &row.upstream_token)).await?;
    match spent {
        Some(row) => Ok(SpentToken {
            provider_account_id: row.provider_account_id,
            source: Source::Token(Secret::new(row.upstream_token)),
        }),
        None => Err(rejection(tx, to, token, &hash).await?),
    }
}

/// The error for an invalid token. The text may be a card number, so it is not repeated.
fn invalid_token(param: &'static str, mode: Mode, provider: ProviderKind, token: &str) -> Error {
    let test_tokens = if mode == Mode::Test { provider.test_tokens() } else { vec![] };
    let message = if !token.starts_with(TOKEN_PREFIX) && has_card_number(token) {
        format!(
            "{param} must be a token, but looks like a card number: card numbers must not be sent to this API; use the card field \
             (docs/elements.md), and send the token that it returns"
        )
    } else if !token.starts_with(TEST_TOKEN_PREFIX) {
        format!("{param} is unknown or has expired")
    } else if test_tokens.is_empty() {
        format!(
            "{param} is a test token, which works only in test accounts with the mock provider: this account accepts tokens of its card \
             field"
        )
    } else {
        format!("{param} is not a test token; the test tokens are {}", test_tokens.join(", "))
    };
    Error::invalid(param, message)
}

/// The unique row prevents a second use of the token, also through an exchange.
async fn spend_directly(
    tx: &mut PgConnection,
    to: Recipient,
    token: &str,
    field_token: &CardFieldToken,
) -> Result<SpentToken> {
    let hash = sha256(token.as_bytes());
    let (issued_at, expires_at) = match field_token {
        CardFieldToken::OfGateway(signed) => {
            (Some(signed.issued_at), Some(signed.issued_at.plus(TOKEN_LIFETIME).min(signed.expires_at)))
        }
        CardFieldToken::OfStripe => (None, None),
    };
    let spent = sqlx::query!(
        r#"INSERT INTO payment_tokens
            (token_hash, account_id, provider_account_id, upstream_token, upstream_hash, created_at, expires_at, spent_at)
         VALUES ($1, $2, $3, '', $1, coalesce($4, clock_timestamp()),
            coalesce($5, clock_timestamp() + make_interval(secs => $6)), clock_timestamp())
         ON CONFLICT DO NOTHING RETURNING expires_at > clock_timestamp() AS "fresh!""#,
        &hash[..],
        to.account_id.uuid(),
        to.provider_account_id.uuid(),
        issued_at,
        expires_at,
        TOKEN_LIFETIME.as_secs_f64(),
    )
    .fetch_optional(tx)
    .await?;
    match spent {
        None => Err(Error::conflict("the payment token has already been spent")),
        // Never committed: the caller rolls back on this error.
        Some(row) if !row.fresh => Err(Error::invalid("paymentToken", "the payment token has expired")),
        Some(_) => Ok(SpentToken {
            provider_account_id: to.provider_account_id,
            source: Source::Token(Secret::new(token.to_owned())),
        }),
    }
}

async fn rejection(tx: &mut PgConnection, to: Recipient, token: &str, hash: &[u8]) -> Result<Error> {
    let row = sqlx::query!(
        r#"SELECT spent_at IS NOT NULL AS "spent!" FROM payment_tokens WHERE token_hash = $1 AND account_id = $2"#,
        hash,
        to.account_id.uuid()
    )
    .fetch_optional(tx)
    .await?;
    Ok(match row {
        Some(row) if row.spent => Error::conflict("the payment token has already been spent"),
        Some(_) => Error::invalid("paymentToken", "the payment token has expired"),
        None => invalid_token("paymentToken", to.mode, to.provider, token),
    })
}

/// Deletes up to `batch` sessions that expired long ago. Returns the number deleted.
///
/// # Errors
/// Database errors only.
pub async fn delete_expired_sessions(db: &PgPool, batch: i64) -> Result<u64> {
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

/// Deletes up to `batch` tokens that expired long ago. Returns the number deleted.
///
/// # Errors
/// Database errors only.
pub async fn delete_expired_tokens(db: &PgPool, batch: i64) -> Result<u64> {
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
