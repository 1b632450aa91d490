//! The provider and currencies of a provider account.

use sqlx::PgExecutor;

use foundation::error::{Error, Result};
use foundation::id::ProviderAccountId;
use foundation::money::Currency;
use providers::ProviderKind;

/// The provider and currencies of a provider account.
#[derive(Clone, Debug)]
pub struct Settlement {
    pub provider: ProviderKind,
    /// The currencies to which an operator has restricted it; `None` if all that the provider supports.
    pub currencies: Option<Vec<String>>,
}

impl Settlement {
    /// Whether the account can be paid in this currency.
    pub fn supports(&self, currency: Currency) -> bool {
        self.provider.supports(currency, self.currencies.as_deref())
    }

    /// Checks that the account can be paid in this currency.
    ///
    /// # Errors
    /// 422 `currency`.
    pub fn require(&self, currency: Currency) -> Result<()> {
        if self.supports(currency) {
            return Ok(());
        }
        Err(Error::invalid("currency", format!("this account cannot be paid in {currency}")))
    }
}

/// Returns the settlement settings of a provider account.
///
/// # Errors
/// Database errors only.
pub async fn settlement(db: impl PgExecutor<'_>, account: ProviderAccountId) -> Result<Settlement> {
    let query =
        sqlx::query_as!(Settlement, "SELECT provider, currencies FROM provider_accounts WHERE id = $1", account.uuid());
    Ok(query.fetch_one(db).await?)
}
