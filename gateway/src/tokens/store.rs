//! SQL that creates card fields' tokens. Their use is in `cards/store.rs`.

use foundation::time::Timestamp;
use sqlx::PgPool;
use sqlx::types::Json;

use crate::cards::{Brand, Cardholder, MaskedCard, TokenHash};
use crate::id::AccountId;

pub(super) struct NewToken<'a> {
    pub(super) account: AccountId,
    pub(super) hash: TokenHash,
    pub(super) number: Vec<u8>,
    pub(super) security_code: Option<Vec<u8>>,
    pub(super) masked_card: &'a MaskedCard,
    pub(super) holder: &'a Cardholder,
    pub(super) now: Timestamp,
    pub(super) expires_at: Timestamp,
}

pub(super) async fn insert(db: &PgPool, new: &NewToken<'_>) -> Result<(), sqlx::Error> {
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
