//! 3-D Secure: who is asked, the page that asks, and the way back.

mod page;
mod store;

pub use page::{away, decide, nothing, show, too_many};

use common::crypto::random_hex;

use crate::accounts::Account;
use crate::acquirer::cards::{self, Nature};
use crate::app::App;
use crate::cards::source::Source;
use crate::cards::{Number, TokenHash};
use crate::failure::{Failure, Result};
use crate::id::TransactionId;
use crate::transactions::{Kind, NewCharge, reason};

/// What authentication wants of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing.
    None,
    /// Its cardholder is to be asked.
    Challenge,
    /// It cannot be had, so the charge is declined: why, and the issuer's code where it is the issuer's wish.
    Decline(&'static str, Option<&'static str>),
}

/// A question to a cardholder.
pub struct Challenge {
    /// The page's random name, hashed.
    pub hash: TokenHash,
    /// The card number, encrypted, for when it is confirmed.
    pub number: Vec<u8>,
    /// The page.
    pub url: String,
}

/// Whether a cardholder is to be asked.
///
/// # Errors
/// A1 for a sale that would be challenged and has nowhere to return to.
pub fn wish(account: &Account, new: &NewCharge) -> Result<Wish> {
    // A wallet has asked its owner already; a credit takes nothing from anyone.
    if !new.kind.is_charge() || new.funding.source == Source::Wallet || !account.three_ds {
        return Ok(Wish::None);
    }
    match (Nature::of(&new.funding.number), &new.return_url) {
        (Nature::Authenticates, Some(_)) => Ok(Wish::Challenge),
        (Nature::Authenticates, None) if new.kind == Kind::Sale => {
            Err(Failure::field("3ds_redirect_url", "is missing; the card is to be authenticated by 3-D Secure"))
        }
        (Nature::Authenticates, None) => {
            Ok(Wish::Decline(reason::AUTHENTICATION_REQUIRED, Some(cards::AUTHENTICATION_REQUIRED)))
        }
        (_, _) if account.deny_unauthenticated => Ok(Wish::Decline(reason::NOT_AUTHENTICATED, None)),
        (_, _) => Ok(Wish::None),
    }
}

/// A page for a charge, under a name that nobody guesses.
pub fn new_challenge(app: &App, id: TransactionId, number: &Number) -> Challenge {
    let token = random_hex(32);
    Challenge {
        hash: TokenHash::of(&token),
        number: app.vaulting.card_keys.seal(number.expose(), &number_context(id)),
        url: format!("{}/services/3ds/{token}", app.public_url),
    }
}

/// The number of a charge that waited for its cardholder.
pub fn open_number(app: &App, id: TransactionId, sealed: &[u8]) -> Option<Number> {
    Number::parse(app.vaulting.card_keys.open(sealed, &number_context(id))?.expose())
}

/// What a challenged transaction's ciphertext is bound to.
pub fn number_context(id: TransactionId) -> String {
    format!("transaction:{}", id.uuid())
}
