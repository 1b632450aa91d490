//! The data that a card field needs of its checkout session.

use sqlx::PgPool;

use crate::accounts::Mode;
use foundation::crypto::sha256;
use foundation::error::{Error, Result};
use providers::ProviderKind;

/// A checkout session as the card field needs it.
#[derive(Debug)]
pub struct FieldSession {
    /// The origin of the page that started it; only this page may frame the field.
    pub origin: String,
    pub mode: Mode,
    /// The provider that receives the card.
    pub provider: ProviderKind,
    /// The account's public key at the provider, if it has one.
    pub field_key: Option<String>,
}

/// Returns the session that a card field is opened for.
///
/// # Errors
/// [`Error::NotFound`] for an unknown session; [`Error::Conflict`] for one that was already exchanged or has expired.
pub async fn field_session(db: &PgPool, session: &str) -> Result<FieldSession> {
    let row = sqlx::query!(
        r#"SELECT s.origin, a.mode, p.provider, p.field_key,
                  (s.exchanged_at IS NULL AND s.expires_at > clock_timestamp()) AS "open!"
           FROM checkout_sessions s
           JOIN accounts a ON a.id = s.account_id
           JOIN provider_accounts p ON p.id = s.provider_account_id
           WHERE s.id_hash = $1"#,
        &sha256(session.as_bytes())[..],
    )
    .fetch_optional(db)
    .await?
    .ok_or_else(|| Error::no_such("checkout session", ""))?;
    if !row.open {
        return Err(Error::conflict("the checkout session has already been exchanged or has expired"));
    }
    Ok(FieldSession { origin: row.origin, mode: row.mode, provider: row.provider, field_key: row.field_key })
}
