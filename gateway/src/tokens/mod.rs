//! Card fields' tokens: a browser sends a card and gets a single-use token. The security code is stored only with the
//! token, and only until it is used or expires.

mod sign;

use std::time::Duration;

use foundation::time::Timestamp;
use sqlx::PgPool;
use sqlx::types::Json;

use crate::accounts::Account;
use crate::cards::{Brand, CardNumber, Cardholder, KeyRing, MaskedCard, SecurityCode, TokenHash, vault};
use crate::failure::{Failure, Result};
use crate::id::AccountId;

/// As long as a card field's session.
const LIFETIME: Duration = Duration::from_secs(30 * 60);

/// A card entered in a card field.
pub struct EnteredCard {
    pub number: CardNumber,
    pub masked_card: MaskedCard,
    pub security_code: Option<SecurityCode>,
    pub holder: Cardholder,
}

/// A new token.
pub struct FieldToken {
    pub text: String,
    pub expires_at: Timestamp,
}

/// Stores a card and its security code until the token is used. The token is signed with the secret key that belongs to
/// `app_key`.
///
/// # Errors
/// A database error, or the secret key cannot be decrypted.
pub async fn create(
    db: &PgPool,
    card_keys: &KeyRing,
    account: &Account,
    app_key: &str,
    card: &EnteredCard,
    now: Timestamp,
) -> Result<FieldToken> {
    let expires_at = now.plus(LIFETIME);
    let secret_key = account.secret_key_for(app_key, card_keys);
    let secret_key = secret_key.ok_or(Failure::NotEntered("the account's secret key cannot be decrypted"))?;
    let text = sign::sign(&secret_key, &card.masked_card, now, expires_at);
    let hash = TokenHash::of(&text);
    let code = card.security_code.as_ref();
    insert(
        db,
        &NewToken {
            account: account.id,
            hash,
            number: card_keys.seal(card.number.expose(), &vault::number_context(&hash)),
            security_code: code.map(|code| card_keys.seal(code.expose(), &vault::code_context(&hash))),
            masked_card: &card.masked_card,
            holder: &card.holder,
            now,
            expires_at,
        },
    )
    .await?;
    Ok(FieldToken { text, expires_at })
}

struct NewToken<'a> {
    account: AccountId,
    hash: TokenHash,
    number: Vec<u8>,
    security_code: Option<Vec<u8>>,
    masked_card: &'a MaskedCard,
    holder: &'a Cardholder,
    now: Timestamp,
    expires_at: Timestamp,
}

async fn insert(db: &PgPool, new: &NewToken<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO gateway.field_tokens (token_hash, account_id, number, security_code, brand, masked, expiry, holder,
             created_at, expires_at, forget_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)",
        new.hash.bytes(),
        new.account.uuid(),
        new.number,
        new.security_code,
        new.masked_card.brand as Brand,
        new.masked_card.masked,
        new.masked_card.expiry.to_string(),
        Json(new.holder) as _,
        new.now,
        new.expires_at,
    )
    .execute(db)
    .await?;
    Ok(())
}
