//! The vault of stored cards, and the use of capture fields' tokens.

use foundation::crypto::random_hex;
use foundation::time::Timestamp;
use sqlx::PgPool;

use super::source::Funding;
use super::{CardNumber, Holder, KeyRing, MaskedCard, SecurityCode, TokenHash, store};
use crate::failure::{Code, Failure, Result};
use crate::id::AccountId;

/// Prefix of vault tokens.
pub const CARD_PREFIX: &str = "card_";
/// Prefix of capture fields' tokens.
pub const FIELD_PREFIX: &str = "fld_";

/// The card of a token.
pub(super) struct TokenCard {
    pub(super) number: CardNumber,
    pub(super) security_code: Option<SecurityCode>,
    pub(super) masked_card: MaskedCard,
    pub(super) holder: Holder,
}

/// A card in the vault.
#[derive(Debug)]
pub struct StoredCard {
    pub token: String,
    pub masked_card: MaskedCard,
}

/// The encryption context of a card number.
pub fn number_context(token: &TokenHash) -> String {
    token.context("number")
}

/// The encryption context of a security code.
pub fn code_context(token: &TokenHash) -> String {
    token.context("security_code")
}

/// The encryption context of the vault token that a capture field's token was exchanged for.
pub fn stored_as_context(token: &TokenHash) -> String {
    token.context("stored_as")
}

/// Stores a card. This uses up a capture field's token.
///
/// # Errors
/// 02 if a concurrent request has used the token.
pub async fn store(
    db: &PgPool,
    key: &KeyRing,
    account: AccountId,
    funding: &Funding,
    holder: &Holder,
    now: Timestamp,
) -> Result<StoredCard> {
    let token = format!("{CARD_PREFIX}{}", random_hex(16));
    let hash = TokenHash::of(&token);
    let number = key.seal(funding.number.expose(), &number_context(&hash));
    let mut tx = foundation::db::begin(db).await?;
    if let Some(spent) = funding.field_token {
        let stored_as = key.seal(&token, &stored_as_context(&spent));
        if !store::spend_field_token(&mut tx, account, spent, Some(&stored_as)).await? {
            return Err(Code::Card.because("card_token was used before"));
        }
    }
    store::insert_card(&mut tx, account, hash, &number, &funding.masked_card, holder, now).await?;
    tx.commit().await.map_err(|_| Failure::Unknown)?;
    Ok(StoredCard { token, masked_card: funding.masked_card.clone() })
}

/// The card stored from a capture field's token, so that a repeated request gets the same response.
///
/// # Errors
/// Database errors.
pub async fn find_stored(db: &PgPool, key: &KeyRing, account: AccountId, token: &str) -> Result<Option<StoredCard>> {
    let hash = TokenHash::of(token);
    let Some(row) = store::find_field_token(db, account, hash).await? else { return Ok(None) };
    let Some(sealed) = &row.stored_as else { return Ok(None) };
    let token = key
        .open(sealed, &stored_as_context(&hash))
        .ok_or(Failure::NotEntered("the stored card was encrypted under another key"))?;
    Ok(Some(StoredCard { token: token.expose().clone(), masked_card: masked_card(&row)? }))
}

/// The card of a vault token or a capture field's token.
pub(super) async fn find(db: &PgPool, key: &KeyRing, account: AccountId, token: &str) -> Result<TokenCard> {
    let hash = TokenHash::of(token);
    let row = match token.starts_with(FIELD_PREFIX) {
        true => store::find_field_token(db, account, hash).await?,
        false => store::find_card(db, account, hash).await?,
    };
    let row = row.ok_or(Code::Card.because("card_token is unknown or has expired"))?;
    let sealed = row.number.as_ref().ok_or(Code::Card.because("card_token was used before"))?;
    let unreadable = || Failure::NotEntered("the card was encrypted under another key");
    let number = key.open(sealed, &number_context(&hash)).ok_or_else(unreadable)?;
    let number = CardNumber::parse(number.expose()).ok_or_else(unreadable)?;
    let security_code = match &row.security_code {
        Some(sealed) => {
            let code = key.open(sealed, &code_context(&hash)).ok_or_else(unreadable)?;
            SecurityCode::parse(code.expose())
        }
        None => None,
    };
    Ok(TokenCard { number, security_code, masked_card: masked_card(&row)?, holder: row.holder.0 })
}

fn masked_card(row: &store::Row) -> Result<MaskedCard> {
    let expiry = super::Expiry::from_display(&row.expiry).ok_or(Failure::NotEntered("a stored card cannot be read"))?;
    Ok(MaskedCard { brand: row.brand, masked: row.masked.clone(), expiry })
}

/// Uses up a capture field's token within the transaction that enters the charge.
///
/// # Errors
/// 02 if it was used or has expired.
pub async fn spend(db: &mut sqlx::PgConnection, account: AccountId, token: TokenHash) -> Result<()> {
    match store::spend_field_token(db, account, token, None).await? {
        true => Ok(()),
        false => Err(Code::Card.because("card_token was used before, or has expired")),
    }
}
