//! 3-D Secure: which charges are challenged.

use foundation::crypto::random_hex;
use sqlx::PgPool;

use crate::accounts::Account;
use crate::acquirer::cards::{self, CardBehavior};
use crate::cards::funding::Source;
use crate::cards::{CardNumber, KeyRing, TokenHash};
use crate::failure::{Failure, Result};
use crate::id::TransactionId;
use crate::transactions::{NewCharge, TransactionKind, reason};

/// The authentication that a charge requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    NotRequired,
    /// The cardholder must confirm.
    Challenge,
    /// Authentication is impossible, so the charge is declined: the reason, and the issuer's response code if the
    /// issuer requires authentication.
    Decline(&'static str, Option<&'static str>),
}

/// A challenge for a cardholder.
pub struct Challenge {
    /// The hash of the random token in the page's URL.
    pub hash: TokenHash,
    /// The encrypted card number, needed after confirmation.
    pub number: Vec<u8>,
    pub url: String,
}

/// Decides whether the cardholder is challenged.
///
/// # Errors
/// A1 for a sale that requires a challenge and has no return URL.
pub fn authentication(account: &Account, new: &NewCharge) -> Result<Authentication> {
    // A wallet has authenticated its owner already, and a credit takes no money.
    if !new.kind.is_charge() || new.funding.source == Source::Wallet || !account.three_ds {
        return Ok(Authentication::NotRequired);
    }
    match (CardBehavior::of(&new.funding.number), &new.return_url) {
        (CardBehavior::RequiresAuthentication, Some(_)) => Ok(Authentication::Challenge),
        (CardBehavior::RequiresAuthentication, None) if new.kind == TransactionKind::Sale => {
            Err(Failure::field("3ds_redirect_url", "is missing; this card requires 3-D Secure authentication"))
        }
        (CardBehavior::RequiresAuthentication, None) => {
            Ok(Authentication::Decline(reason::AUTHENTICATION_REQUIRED, Some(cards::AUTHENTICATION_REQUIRED)))
        }
        (_, _) if account.deny_unauthenticated => Ok(Authentication::Decline(reason::NOT_AUTHENTICATED, None)),
        (_, _) => Ok(Authentication::NotRequired),
    }
}

impl Challenge {
    /// A challenge with an unguessable URL below `public_url`.
    pub fn new(card_keys: &KeyRing, public_url: &str, id: TransactionId, number: &CardNumber) -> Self {
        let token = random_hex(32);
        Self {
            hash: TokenHash::of(&token),
            number: card_keys.seal(number.expose(), &number_context(id)),
            url: format!("{public_url}/services/3ds/{token}"),
        }
    }
}

/// Decrypts the card number of a challenged charge.
pub fn open_number(card_keys: &KeyRing, id: TransactionId, sealed: &[u8]) -> Option<CardNumber> {
    CardNumber::parse(card_keys.open(sealed, &number_context(id))?.expose())
}

/// The encryption context of a challenged charge's card number.
pub fn number_context(id: TransactionId) -> String {
    format!("transaction:{}", id.uuid())
}

/// What the challenge page shows, and the return URL.
pub struct ChallengeView {
    pub id: TransactionId,
    pub merchant: String,
    pub amount: i64,
    pub currency: String,
    pub masked: String,
    pub return_url: String,
    /// Whether the cardholder can still decide.
    pub open: bool,
    /// Seconds left.
    pub seconds: i32,
}

/// The challenge of a page.
///
/// # Errors
/// Database errors.
pub async fn find(db: &PgPool, page: TokenHash) -> Result<Option<ChallengeView>, sqlx::Error> {
    sqlx::query_as!(
        ChallengeView,
        r#"SELECT id AS "id: TransactionId", amount, currency, masked, return_url AS "return_url!",
                  (SELECT name FROM gateway.accounts WHERE accounts.id = account_id) AS "merchant!",
                  state = 'challenged' AND challenge_ends_at > clock_timestamp() AS "open!",
                  greatest(0, ceil(extract(epoch FROM challenge_ends_at - clock_timestamp())))::int AS "seconds!"
           FROM gateway.transactions WHERE challenge_hash = $1"#,
        page.bytes(),
    )
    .fetch_optional(db)
    .await
}
