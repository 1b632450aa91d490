//! SQL of the vault and of card fields' tokens.

use foundation::time::Timestamp;
use sqlx::types::Json;
use sqlx::{PgConnection, PgPool};

use super::{Brand, Cardholder, MaskedCard, TokenHash};
use crate::id::AccountId;

/// A stored card: in the vault or under a card field's token.
pub(super) struct SealedCard {
    pub(super) number: Option<Vec<u8>>,
    pub(super) security_code: Option<Vec<u8>>,
    pub(super) brand: Brand,
    pub(super) masked: String,
    pub(super) expiry: String,
    pub(super) holder: Json<Cardholder>,
    pub(super) stored_as: Option<Vec<u8>>,
}

pub(super) async fn insert_card(
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

pub(super) async fn find_card(
    db: &PgPool,
    account: AccountId,
    token: TokenHash,
) -> Result<Option<SealedCard>, sqlx::Error> {
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
pub(super) async fn find_field_token(
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
pub(super) async fn spend_field_token(
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
