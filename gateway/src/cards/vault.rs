//! The vault of stored cards, and the use of card fields' tokens.

use foundation::calendar::Date;
use foundation::crypto::random_hex;
use foundation::time::Timestamp;
use sqlx::PgPool;

use super::funding::{Funding, Source};
use super::{CardNumber, Cardholder, Expiry, KeyRing, MaskedCard, SecurityCode, TokenHash, store};
use crate::failure::{Code, Failure, Result};
use crate::id::AccountId;

/// Prefix of vault tokens.
pub const CARD_PREFIX: &str = "card_";
/// Prefix of card fields' tokens.
pub const FIELD_PREFIX: &str = "fld_";

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

/// The encryption context of the vault token that a card field's token was exchanged for.
pub fn stored_as_context(token: &TokenHash) -> String {
    token.context("stored_as")
}

/// Stores a card. This uses up a card field's token.
///
/// # Errors
/// 02 if a concurrent request has used the token.
pub async fn store(
    db: &PgPool,
    key: &KeyRing,
    account: AccountId,
    funding: &Funding,
    holder: &Cardholder,
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

/// The card stored from a card field's token, so that a repeated request gets the same response.
///
/// # Errors
/// Database errors.
pub async fn find_stored(db: &PgPool, key: &KeyRing, account: AccountId, token: &str) -> Result<Option<StoredCard>> {
    let hash = TokenHash::of(token);
    let Some(card) = store::find_field_token(db, account, hash).await? else { return Ok(None) };
    let Some(sealed) = &card.stored_as else { return Ok(None) };
    let token = key.open(sealed, &stored_as_context(&hash)).ok_or_else(unreadable)?;
    Ok(Some(StoredCard { token: token.expose().clone(), masked_card: masked_card(&card)? }))
}

/// The card of a vault token or a card field's token.
///
/// # Errors
/// 02 for an unknown, expired or used token, 03 for a card that has expired, A1 for one that cannot be decrypted.
pub async fn find(db: &PgPool, key: &KeyRing, account: AccountId, token: &str, today: Date) -> Result<Funding> {
    let hash = TokenHash::of(token);
    let is_field_token = token.starts_with(FIELD_PREFIX);
    let card = match is_field_token {
        true => store::find_field_token(db, account, hash).await?,
        false => store::find_card(db, account, hash).await?,
    };
    let card = card.ok_or(Code::Card.because("card_token is unknown or has expired"))?;
    let sealed = card.number.as_ref().ok_or(Code::Card.because("card_token was used before"))?;
    let number = key.open(sealed, &number_context(&hash)).ok_or_else(unreadable)?;
    let number = CardNumber::parse(number.expose()).ok_or_else(unreadable)?;
    let security_code = match &card.security_code {
        Some(sealed) => {
            let code = key.open(sealed, &code_context(&hash)).ok_or_else(unreadable)?;
            SecurityCode::parse(code.expose())
        }
        None => None,
    };
    let masked_card = masked_card(&card)?;
    if !masked_card.expiry.is_valid_on(today) {
        return Err(Code::Expiry.refuse());
    }
    Ok(Funding {
        number,
        masked_card,
        security_code,
        holder: card.holder.0,
        source: if is_field_token { Source::CardField } else { Source::CardToken },
        field_token: is_field_token.then_some(hash),
        proxy: None,
    })
}

fn masked_card(card: &store::SealedCard) -> Result<MaskedCard> {
    let expiry = Expiry::from_display(&card.expiry).ok_or_else(unreadable)?;
    Ok(MaskedCard { brand: card.brand, masked: card.masked.clone(), expiry })
}

/// Concerns requests with this card only.
fn unreadable() -> Failure {
    Failure::field("card_token", "cannot be decrypted: it was encrypted under another key")
}

/// Uses up a card field's token within the transaction that enters the charge.
///
/// # Errors
/// 02 if it was used or has expired.
pub async fn spend(db: &mut sqlx::PgConnection, account: AccountId, token: TokenHash) -> Result<()> {
    match store::spend_field_token(db, account, token, None).await? {
        true => Ok(()),
        false => Err(Code::Card.because("card_token was used before, or has expired")),
    }
}
