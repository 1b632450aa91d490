//! What a card field needs to know of its checkout session: who frames it, and whom it gives the card to.

use sqlx::PgPool;

use crate::accounts::Mode;
use crate::crypto::sha256;
use crate::error::{Error, Result};
use crate::providers::ProviderKind;

/// A session as its card field meets it.
#[derive(Debug)]
pub struct FieldSession {
    /// The page that started it, and that alone may frame the field.
    pub origin: String,
    /// The account's mode.
    pub mode: Mode,
    /// Who takes the card.
    pub provider: ProviderKind,
    /// By what the provider knows the account in a browser, if it has such a thing.
    pub field_key: Option<String>,
}

/// The session that a card field is opened for.
///
/// # Errors
/// [`Error::NotFound`] for an unknown session; [`Error::Conflict`] for one that was exchanged or has expired.
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
        return Err(Error::conflict("the checkout session was exchanged before, or has expired"));
    }
    Ok(FieldSession { origin: row.origin, mode: row.mode, provider: row.provider, field_key: row.field_key })
}
