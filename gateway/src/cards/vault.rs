//! The vault: cards that merchants keep, and the tokens that capture fields get.

use common::crypto::random_hex;
use common::time::Timestamp;
use sqlx::PgPool;

use super::source::Funding;
use super::{Face, Holder, KeyRing, Number, SecurityCode, TokenHash, store};
use crate::failure::{Code, Failure, Result};
use crate::id::AccountId;

/// What every token of the vault begins with.
pub const CARD_PREFIX: &str = "card_";
/// What every token of a capture field begins with.
pub const FIELD_PREFIX: &str = "fld_";

/// What a token stands for.
pub(super) struct Found {
    pub(super) number: Number,
    pub(super) security_code: Option<SecurityCode>,
    pub(super) face: Face,
    pub(super) holder: Holder,
}

/// A card that was put into the vault.
#[derive(Debug)]
pub struct Stored {
    /// The merchant's name for it.
    pub token: String,
    /// What may be shown of it.
    pub face: Face,
}

/// What a vault's ciphertext of a number is bound to.
pub fn number_context(token: &TokenHash) -> String {
    token.context("number")
}

/// What a capture field's ciphertext of a security code is bound to.
pub fn code_context(token: &TokenHash) -> String {
    token.context("security_code")
}

/// What the ciphertext of a capture field's answer is bound to.
pub fn stored_as_context(token: &TokenHash) -> String {
    token.context("stored_as")
}

/// Keeps a card. A capture field's token is spent by it.
///
/// # Errors
/// 02 if the token was spent by another just now.
pub async fn store(
    db: &PgPool,
    key: &KeyRing,
    account: AccountId,
    funding: &Funding,
    holder: &Holder,
    now: Timestamp,
) -> Result<Stored> {
    let token = format!("{CARD_PREFIX}{}", random_hex(16));
    let hash = TokenHash::of(&token);
    let number = key.seal(funding.number.expose(), &number_context(&hash));
    let mut tx = common::db::begin(db).await?;
    if let Some(spent) = funding.spends {
        let stored_as = key.seal(&token, &stored_as_context(&spent));
        if !store::spend_field_token(&mut tx, account, spent, Some(&stored_as)).await? {
            return Err(Code::Card.because("card_token was used before"));
        }
    }
    store::insert_card(&mut tx, account, hash, &number, &funding.face, holder, now).await?;
    tx.commit().await.map_err(|_| Failure::Unknown)?;
    Ok(Stored { token, face: funding.face.clone() })
}

/// What a capture field's token was stored as before: asked again, the answer is the same.
///
/// # Errors
/// Only the database's.
pub async fn stored_before(db: &PgPool, key: &KeyRing, account: AccountId, token: &str) -> Result<Option<Stored>> {
    let hash = TokenHash::of(token);
    let Some(row) = store::find_field_token(db, account, hash).await? else { return Ok(None) };
    let Some(sealed) = &row.stored_as else { return Ok(None) };
    let token = key.open(sealed, &stored_as_context(&hash)).ok_or(Failure::NotEntered("another key"))?;
    Ok(Some(Stored { token: token.expose().clone(), face: face(&row)? }))
}

/// The card of a token, of either kind.
pub(super) async fn find(db: &PgPool, key: &KeyRing, account: AccountId, token: &str) -> Result<Found> {
    let hash = TokenHash::of(token);
    let row = match token.starts_with(FIELD_PREFIX) {
        true => store::find_field_token(db, account, hash).await?,
        false => store::find_card(db, account, hash).await?,
    };
    let row = row.ok_or(Code::Card.because("card_token is unknown or has expired"))?;
    let sealed = row.number.as_ref().ok_or(Code::Card.because("card_token was used before"))?;
    let unreadable = || Failure::NotEntered("the card was encrypted under another key");
    let number = key.open(sealed, &number_context(&hash)).ok_or_else(unreadable)?;
    let number = Number::parse(number.expose()).ok_or_else(unreadable)?;
    let security_code = match &row.security_code {
        Some(sealed) => {
            let code = key.open(sealed, &code_context(&hash)).ok_or_else(unreadable)?;
            SecurityCode::parse(code.expose())
        }
        None => None,
    };
    Ok(Found { number, security_code, face: face(&row)?, holder: row.holder.0 })
}

fn face(row: &store::Row) -> Result<Face> {
    let expiry = super::Expiry::read(&row.expiry).ok_or(Failure::NotEntered("a stored card cannot be read"))?;
    Ok(Face { brand: row.brand, masked: row.masked.clone(), expiry })
}

/// Spends a capture field's token within the transaction that uses it.
///
/// # Errors
/// 02 if it was spent or has expired meanwhile.
pub async fn spend(db: &mut sqlx::PgConnection, account: AccountId, token: TokenHash) -> Result<()> {
    match store::spend_field_token(db, account, token, None).await? {
        true => Ok(()),
        false => Err(Code::Card.because("card_token was used before, or has expired")),
    }
}
