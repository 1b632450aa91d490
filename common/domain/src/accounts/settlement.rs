//! The provider and currencies of a provider account.

use sqlx::PgExecutor;

use foundation::error::{Error, Result};
use foundation::id::ProviderAccountId;
use foundation::money::{Currency, Money};
use providers::ProviderKind;

/// The provider and currencies of a provider account.
#[derive(Clone, Debug)]
pub struct Settlement {
    pub id: ProviderAccountId,
    pub provider: ProviderKind,
    /// The currencies to which an operator has restricted it; `None` if all that the provider supports.
    pub currencies: Option<Vec<String>>,
}

impl Settlement {
    /// Whether the account can be paid in this currency.
    pub fn supports(&self, currency: Currency) -> bool {
        self.provider.supports(currency, self.currencies.as_deref())
    }

    /// Checks that the account can be paid exactly this amount.
    ///
    /// # Errors
    /// 422 `currency` or `amount`.
    pub fn require(&self, money: Money) -> Result<()> {
        require_currency(self.provider, self.currencies.as_deref(), money.currency)?;
        self.provider.require_step("amount", money)
    }
}

/// Checks that a provider account can be paid in this currency; it need not exist yet.
///
/// # Errors
/// 422 `currency`.
pub(super) fn require_currency(provider: ProviderKind, own: Option<&[String]>, currency: Currency) -> Result<()> {
    if provider.supports(currency, own) {
        return Ok(());
    }
    Err(Error::invalid("currency", format!("this account cannot be paid in {currency}")))
}

/// Returns the settlement settings of a provider account.
///
/// # Errors
/// Database errors only.
pub async fn settlement(db: impl PgExecutor<'_>, account: ProviderAccountId) -> Result<Settlement> {
    Ok(sqlx::query_as!(
        Settlement,
        "SELECT id, provider, currencies FROM provider_accounts WHERE id = $1",
        account.uuid()
    )
    .fetch_one(db)
    .await?)
}
