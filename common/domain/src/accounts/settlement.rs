//! The provider, currencies and operations of a provider account.

use sqlx::PgExecutor;

use foundation::error::{Error, Result};
use foundation::id::ProviderAccountId;
use foundation::money::{Currency, Money};
use providers::ProviderKind;
use providers::capabilities::Permission;

/// The provider, currencies and operations of a provider account.
#[derive(Clone, Debug)]
pub struct Settlement {
    pub provider: ProviderKind,
    /// The currencies to which an operator has restricted it; `None` if all that the provider supports.
    pub currencies: Option<Vec<String>>,
    /// Operations that it does not support, in addition to those that its provider never supports.
    unsupported: Vec<String>,
}

impl Settlement {
    /// Whether the provider account supports this operation.
    pub fn permits(&self, operation: Permission) -> bool {
        is_supported(self.provider, &self.unsupported, operation)
    }

    /// Whether the account can be paid in this currency.
    pub fn supports(&self, currency: Currency) -> bool {
        self.provider.supports(currency, self.currencies.as_deref())
    }

    /// Checks that the account can be paid exactly this amount.
    ///
    /// # Errors
    /// 422 `currency` or `amount`.
    pub fn require(&self, money: Money) -> Result<()> {
        require(self.provider, self.currencies.as_deref(), money)
    }
}

pub(super) fn require(provider: ProviderKind, own: Option<&[String]>, money: Money) -> Result<()> {
    require_currency(provider, own, money.currency)?;
    provider.require_step("amount", money)
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

/// Whether a provider account supports an operation. `unsupported` are those that only this account does not support.
pub(super) fn is_supported(provider: ProviderKind, unsupported: &[String], operation: Permission) -> bool {
    !provider.unsupported().contains(&operation) && !unsupported.iter().any(|name| name == operation.name())
}

/// Returns the settlement settings of a provider account.
///
/// # Errors
/// Database errors only.
pub async fn settlement(db: impl PgExecutor<'_>, account: ProviderAccountId) -> Result<Settlement> {
    Ok(sqlx::query_as!(
        Settlement,
        "SELECT provider, currencies, unsupported FROM provider_accounts WHERE id = $1",
        account.uuid()
    )
    .fetch_one(db)
    .await?)
}
