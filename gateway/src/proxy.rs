//! Proxy numbers: a browser replaces a card number by one, so that a merchant's server never sees the card. They look
//! like card numbers but fail the Luhn check.
//!
//! A proxy number created for an account is usable by that account only. If the page names no account, any account may
//! use it until one of them gets a charge approved or stores the card; it is then bound to that account. Refused and
//! declined charges bind nothing, so an account cannot take a proxy number from another without being paid by the card.

use std::time::Duration;

use foundation::crypto::{hex, random_u32};
use foundation::time::Timestamp;
use sqlx::PgPool;

use crate::accounts::CryptoKeys;
use crate::cards::{CardNumber, KeyRing, ProxyHash};
use crate::failure::{Failure, Result};
use crate::id::AccountId;

/// How long a proxy number is valid.
const LIFETIME: Duration = Duration::from_secs(30 * 60);

/// Creates a proxy number for a card number, bound to `account` if given.
///
/// # Errors
/// Database errors.
pub async fn create(
    db: &PgPool,
    crypto: &CryptoKeys,
    number: &CardNumber,
    account: Option<AccountId>,
    now: Timestamp,
) -> Result<String> {
    let proxy = random_proxy();
    let hash = crypto.pepper.hash(&proxy);
    let sealed = crypto.card_keys.seal(number.expose(), &context(&hash));
    insert(db, &hash, account, &sealed, now.plus(LIFETIME)).await?;
    Ok(proxy)
}

/// The card number behind a proxy number, unless it is bound to another account. Does not bind it; see [`bind`].
///
/// # Errors
/// Database errors.
pub async fn resolve(
    db: &PgPool,
    crypto: &CryptoKeys,
    account: AccountId,
    proxy: &str,
) -> Result<Option<(CardNumber, ProxyHash)>> {
    let hash = crypto.pepper.hash(proxy);
    let Some(sealed) = find(db, account, &hash).await? else { return Ok(None) };
    let number = open(&crypto.card_keys, &sealed, &hash);
    let unreadable = || Failure::field("creditcard_number", "cannot be decrypted: it was encrypted under another key");
    let number = number.ok_or_else(unreadable)?;
    Ok(Some((number, ProxyHash(hash))))
}

/// Binds a proxy number to the account that has charged or stored the card. A failure is harmless: the number stays
/// usable by other accounts until it expires.
pub async fn bind(db: &PgPool, account: AccountId, proxy: &ProxyHash) {
    if let Err(error) = set_account(db, account, &proxy.0).await {
        tracing::warn!(%error, "cannot bind a proxy number to the account that used it");
    }
}

fn open(key: &KeyRing, sealed: &[u8], hash: &[u8]) -> Option<CardNumber> {
    CardNumber::parse(key.open(sealed, &context(hash))?.expose())
}

/// The encryption context of a proxy number's card number.
pub fn context(hash: &[u8]) -> String {
    format!("proxy:{}", hex(hash))
}

/// Sixteen digits that begin with 9, as no card brand does, with a wrong check digit. There are about 2^49, so guessing
/// a valid one takes longer than its lifetime.
fn random_proxy() -> String {
    let random = u64::from(random_u32()) << 32 | u64::from(random_u32());
    let digits = format!("9{:014}", random % 100_000_000_000_000);
    let right = (0..10).find(|check| crate::cards::passes_luhn(&format!("{digits}{check}")));
    let right = right.expect("one of ten check digits is right");
    let wrong = (right + 1 + random_u32() % 9) % 10;
    format!("{digits}{wrong}")
}

async fn insert(
    db: &PgPool,
    hash: &[u8],
    account: Option<AccountId>,
    number: &[u8],
    expires_at: Timestamp,
) -> Result<(), sqlx::Error> {
    // On a collision with an existing number the primary key rejects the insert, and the browser has to retry.
    sqlx::query!(
        "INSERT INTO gateway.proxy_numbers (proxy_hash, account_id, number, expires_at) VALUES ($1, $2, $3, $4)",
        hash,
        account.map(AccountId::uuid),
        number,
        expires_at,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The encrypted card number, if the proxy number is not bound to another account.
async fn find(db: &PgPool, account: AccountId, hash: &[u8]) -> Result<Option<Vec<u8>>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT number FROM gateway.proxy_numbers
         WHERE proxy_hash = $1 AND expires_at > clock_timestamp() AND (account_id IS NULL OR account_id = $2)",
        hash,
        account.uuid(),
    )
    .fetch_optional(db)
    .await
}

/// Binds a proxy number to an account, unless it is already bound.
async fn set_account(db: &PgPool, account: AccountId, hash: &[u8]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE gateway.proxy_numbers SET account_id = $2 WHERE proxy_hash = $1 AND account_id IS NULL",
        hash,
        account.uuid(),
    )
    .execute(db)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_number_has_card_format_but_fails_luhn() {
        for _ in 0..1_000 {
            let proxy = random_proxy();
            assert!(proxy.len() == 16 && proxy.bytes().all(|byte| byte.is_ascii_digit()), "{proxy}");
            assert!(CardNumber::parse(&proxy).is_none(), "{proxy}");
        }
    }
}
