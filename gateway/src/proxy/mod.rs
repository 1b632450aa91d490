//! Proxy numbers: what a browser puts in place of a card number, so that a merchant's server never sees one. They look like
//! card numbers, and the check of Luhn tells them apart: it fails.
//!
//! A proxy number that was made for an account is that account's alone. One whose page names no account may be used by any, until a
//! charge of one of them is approved, or its card is stored in the vault: from then on it is that account's. What was refused or
//! declined binds nothing, so that nobody can take a number away from another account without being paid by the card behind it.

mod store;

use std::time::Duration;

use common::crypto::{hex, random_u32};
use common::time::Timestamp;
use sqlx::PgPool;

use crate::accounts::Vaulting;
use crate::cards::{KeyRing, Number};
use crate::failure::{Failure, Result};
use crate::id::AccountId;

/// How long a proxy number is good.
const LIFETIME: Duration = Duration::from_secs(30 * 60);

/// A proxy number that an account has used, as it is looked up.
#[derive(Clone, Debug)]
pub struct Used(Vec<u8>);

/// Makes a proxy number for a card number, and for this account alone if the page names one.
///
/// # Errors
/// Only the database's.
pub async fn create(
    db: &PgPool,
    vaulting: &Vaulting,
    number: &Number,
    account: Option<AccountId>,
    now: Timestamp,
) -> Result<String> {
    let proxy = random_proxy();
    let hash = vaulting.pepper.hash(&proxy);
    let sealed = vaulting.card_keys.seal(number.expose(), &context(&hash));
    store::insert(db, &hash, account, &sealed, now.plus(LIFETIME)).await?;
    Ok(proxy)
}

/// The card number that a proxy number stands for, unless it is another account's. Nothing is bound by this: see [`bind`].
///
/// # Errors
/// Only the database's.
pub async fn resolve(
    db: &PgPool,
    vaulting: &Vaulting,
    account: AccountId,
    proxy: &str,
) -> Result<Option<(Number, Used)>> {
    let hash = vaulting.pepper.hash(proxy);
    let Some(sealed) = store::find(db, account, &hash).await? else { return Ok(None) };
    let number = open(&vaulting.card_keys, &sealed, &hash);
    let number = number.ok_or(Failure::NotEntered("the card was encrypted under another key"))?;
    Ok(Some((number, Used(hash.to_vec()))))
}

/// Binds a proxy number to the account that has charged or stored the card behind it. If that fails nothing is lost: the number
/// stays usable by other accounts until it expires, as it was.
pub async fn bind(db: &PgPool, account: AccountId, used: &Used) {
    if let Err(error) = store::bind(db, account, &used.0).await {
        tracing::warn!(%error, "a proxy number was not bound to the account that used it");
    }
}

fn open(key: &KeyRing, sealed: &[u8], hash: &[u8]) -> Option<Number> {
    Number::parse(key.open(sealed, &context(hash))?.expose())
}

/// What a proxy number's ciphertext is bound to.
pub fn context(hash: &[u8]) -> String {
    format!("proxy:{}", hex(hash))
}

/// Sixteen digits that begin with 9, as no card of ours does, with a wrong check digit. There are some 2^49 of them: guessing one
/// that is in use takes longer than it lives.
fn random_proxy() -> String {
    let random = u64::from(random_u32()) << 32 | u64::from(random_u32());
    let digits = format!("9{:014}", random % 100_000_000_000_000);
    let right = (0..10).find(|check| crate::cards::passes_luhn(&format!("{digits}{check}")));
    let right = right.expect("one of ten check digits is right");
    let wrong = (right + 1 + random_u32() % 9) % 10;
    format!("{digits}{wrong}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_looks_like_a_card_and_is_none() {
        for _ in 0..1_000 {
            let proxy = random_proxy();
            assert!(proxy.len() == 16 && proxy.bytes().all(|byte| byte.is_ascii_digit()), "{proxy}");
            assert!(Number::parse(&proxy).is_none(), "{proxy}");
        }
    }
}
