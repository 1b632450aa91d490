//! Accounts with their settings.

use sqlx::PgPool;

use super::Mode;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, MerchantId};
use foundation::time::Timestamp;
use providers::ProviderKind;

/// An account as operators see it.
#[derive(Debug)]
pub struct AccountRow {
    pub id: AccountId,
    pub merchant_id: MerchantId,
    pub mode: Mode,
    /// The displayed name.
    pub name: String,
    /// IANA time zone name.
    pub timezone: String,
    /// The provider for new payments.
    pub provider: ProviderKind,
    /// Whether partial captures are allowed.
    pub partial_capture: bool,
    /// Whether partial refunds are allowed.
    pub partial_refund: bool,
    /// Surcharge, tax and tip.
    pub modifiers: serde_json::Value,
    pub allowed_origins: Vec<String>,
    /// Requests per second of each key, if set.
    pub rate_limit: Option<i32>,
    /// Burst of each key, if set.
    pub burst: Option<i32>,
    /// The email address sent to a provider for a payer who has none.
    pub email: Option<String>,
    /// The contact for cardholders' questions.
    pub support_contact: Option<String>,
    /// The lines of the merchant's address.
    pub address: Option<String>,
    /// The merchant's number for tax.
    pub tax_number: Option<String>,
    /// The colour of buttons and links on payers' pages, as `#rrggbb`.
    pub color: Option<String>,
    /// Whether the account is connected to its provider, or its provider needs no connection.
    pub connected: bool,
    pub created_at: Timestamp,
}

/// The columns are shared by both queries.
macro_rules! select_accounts {
    ($rest:literal $(, $arg:expr)*) => {
        sqlx::query_as!(
            AccountRow,
            r#"SELECT a.id, a.merchant_id, a.mode, a.name, a.timezone, p.provider, a.partial_capture, a.partial_refund,
                    a.modifiers, a.allowed_origins, a.rate_limit, a.burst, a.email, a.support_contact, a.address, a.tax_number, a.color, a.created_at,
                    p.provider = 'mock' OR p.credentials IS NOT NULL AS "connected!"
             FROM accounts a JOIN provider_accounts p ON p.id = a.provider_account_id "# + $rest
            $(, $arg)*
        )
    };
}

/// Lists all accounts, newest first.
///
/// # Errors
/// Database errors only.
pub async fn list(db: &PgPool) -> Result<Vec<AccountRow>> {
    Ok(select_accounts!("ORDER BY a.id DESC").fetch_all(db).await?)
}

/// An account with its settings.
///
/// # Errors
/// [`Error::NotFound`] for an unknown account.
pub async fn retrieve(db: &PgPool, account: AccountId) -> Result<AccountRow> {
    let found = select_accounts!("WHERE a.id = $1", account.uuid()).fetch_optional(db).await?;
    found.ok_or_else(|| Error::no_such("account", account))
}
