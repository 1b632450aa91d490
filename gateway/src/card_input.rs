//! Card numbers as callers send them: plain, encrypted under the account's secret key, or as a proxy number.

use foundation::crypto::Secret;
use sqlx::PgPool;

use crate::accounts::{Account, CryptoKeys};
use crate::cards::{CardNumber, KeyRing, ProxyHash, digits, ecb};
use crate::failure::{Code, Result};
use crate::proxy;

/// How a card number was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Plain, or as a proxy number.
    Plain,
    Encrypted,
    /// The caller did not specify which, so both are tried.
    Unknown,
}

/// The card number, and the proxy number that stood for it.
///
/// # Errors
/// 02
pub async fn number(
    db: &PgPool,
    crypto: &CryptoKeys,
    account: &Account,
    text: &str,
    encoding: Encoding,
) -> Result<(CardNumber, Option<ProxyHash>)> {
    let decrypted = match encoding {
        Encoding::Plain => None,
        Encoding::Encrypted | Encoding::Unknown => decrypt(account, &crypto.card_keys, text),
    };
    let number = match decrypted {
        Some(number) => Some((number, None)),
        None if encoding == Encoding::Encrypted => None,
        None => plain_or_proxy(db, crypto, account, text).await?,
    };
    number.ok_or(Code::Card.refuse())
}

fn decrypt(account: &Account, card_keys: &KeyRing, text: &str) -> Option<CardNumber> {
    // Decryption under a wrong key does not yield a valid card number.
    let opened = |key: Secret<String>| CardNumber::parse(ecb::decrypt(&key, text)?.expose());
    account.secret_keys(card_keys).find_map(opened)
}

/// A number with a wrong check digit may be a proxy number; those never have a valid one.
async fn plain_or_proxy(
    db: &PgPool,
    crypto: &CryptoKeys,
    account: &Account,
    text: &str,
) -> Result<Option<(CardNumber, Option<ProxyHash>)>> {
    if let Some(number) = CardNumber::parse(text) {
        return Ok(Some((number, None)));
    }
    let Some(digits) = digits(text) else { return Ok(None) };
    let resolved = proxy::resolve(db, crypto, account.id, &digits).await?;
    Ok(resolved.map(|(number, used)| (number, Some(used))))
}
