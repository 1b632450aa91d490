//! The vault of stored cards, and the use of card fields' tokens.

use foundation::calendar::Date;
use foundation::crypto::random_hex;
use foundation::time::Timestamp;
use sqlx::types::Json;
use sqlx::{PgConnection, PgPool};

use super::funding::{Funding, Source};
use super::{Brand, CardNumber, Cardholder, Expiry, KeyRing, MaskedCard, SecurityCode, TokenHash};
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
        if !spend_field_token(&mut tx, account, spent, Some(&stored_as)).await? {
            return Err(Code::Card.because("card_token was used before"));
        }
    }
    insert_card(&mut tx, account, hash, &number, &funding.masked_card, holder, now).await?;
    tx.commit().await.map_err(|_| Failure::Unknown)?;
    Ok(StoredCard { token, masked_card: funding.masked_card.clone() })
}

/// The card stored from a card field's token, so that a repeated request gets the same response.
///
/// # Errors
/// Database errors.
pub async fn find_stored(db: &PgPool, key: &KeyRing, account: AccountId, token: &str) -> Result<Option<StoredCard>> {
    let hash = TokenHash::of(token);
    let Some(card) = find_field_token(db, account, hash).await? else { return Ok(None) };
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
        true => find_field_token(db, account, hash).await?,
        false => find_card(db, account, hash).await?,
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

fn masked_card(card: &SealedCard) -> Result<MaskedCard> {
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
pub async fn spend(db: &mut PgConnection, account: AccountId, token: TokenHash) -> Result<()> {
    match spend_field_token(db, account, token, None).await? {
        true => Ok(()),
        false => Err(Code::Card.because("card_token was used before, or has expired")),
    }
}

/// A stored card: in the vault or under a card field's token.
struct SealedCard {
    number: Option<Vec<u8>>,
    security_code: Option<Vec<u8>>,
    brand: Brand,
    masked: String,
    expiry: String,
    holder: Json<Cardholder>,
    stored_as: Option<Vec<u8>>,
}

async fn insert_card(
    db: &mut PgConnection,
    account: AccountId,
    token: TokenHash,
    number: &[u8],
    masked_card: &MaskedCard,
    holder: &Cardholder,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO gateway.cards (token_hash, account_id, number, brand, masked, expiry, holder, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        token.bytes(),
        account.uuid(),
        number,
        masked_card.brand as Brand,
        masked_card.masked,
        masked_card.expiry.to_string(),
        Json(holder) as _,
        now,
    )
    .execute(db)
    .await?;
    Ok(())
}

async fn find_card(db: &PgPool, account: AccountId, token: TokenHash) -> Result<Option<SealedCard>, sqlx::Error> {
    sqlx::query_as!(
        SealedCard,
        r#"SELECT number AS "number?", NULL::bytea AS security_code, brand AS "brand: Brand", masked, expiry,
                  holder AS "holder: Json<Cardholder>", NULL::bytea AS stored_as
           FROM gateway.cards WHERE token_hash = $1 AND account_id = $2"#,
        token.bytes(),
        account.uuid(),
    )
    .fetch_optional(db)
    .await
}

/// A card field's token that was used or has not expired.
async fn find_field_token(
    db: &PgPool,
    account: AccountId,
    token: TokenHash,
) -> Result<Option<SealedCard>, sqlx::Error> {
    sqlx::query_as!(
        SealedCard,
        r#"SELECT number, security_code, brand AS "brand: Brand", masked, expiry, holder AS "holder: Json<Cardholder>",
                  stored_as
           FROM gateway.field_tokens
           WHERE token_hash = $1 AND account_id = $2 AND (spent_at IS NOT NULL OR expires_at > clock_timestamp())"#,
        token.bytes(),
        account.uuid(),
    )
    .fetch_optional(db)
    .await
}

/// Marks a card field's token as used and erases the card. Only one of several concurrent calls succeeds.
async fn spend_field_token(
    db: &mut PgConnection,
    account: AccountId,
    token: TokenHash,
    stored_as: Option<&[u8]>,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "UPDATE gateway.field_tokens
         SET spent_at = clock_timestamp(), number = NULL, security_code = NULL, stored_as = $3,
             forget_at = clock_timestamp() + interval '1 day'
         WHERE token_hash = $1 AND account_id = $2 AND spent_at IS NULL AND expires_at > clock_timestamp()",
        token.bytes(),
        account.uuid(),
        stored_as,
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() == 1)
}
