//! Who settles the money of a provider account, and in what.

use sqlx::PgExecutor;

use crate::error::{Error, Result};
use crate::id::ProviderAccountId;
use crate::money::Currency;
use crate::providers::ProviderKind;

/// Who settles, and what the account is kept to.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// Who is there.
    pub provider: ProviderKind,
    /// The currencies that an operator has kept it to; none is all that the provider takes.
    pub currencies: Option<Vec<String>>,
}

impl Settlement {
    /// Whether the account can be paid in this currency.
    pub fn takes(&self, currency: Currency) -> bool {
        self.provider.takes(currency, self.currencies.as_deref())
    }

    /// Refuses a currency that the account cannot be paid in.
    ///
    /// # Errors
    /// 422 `currency`
    pub fn require(&self, currency: Currency) -> Result<()> {
        if self.takes(currency) {
            return Ok(());
        }
        Err(Error::invalid("currency", format!("this account cannot be paid in {currency}")))
    }
}

/// Who settles the money of a provider account.
///
/// # Errors
/// Only the database's.
pub async fn settlement(db: impl PgExecutor<'_>, account: ProviderAccountId) -> Result<Settlement> {
    let query =
        sqlx::query_as!(Settlement, "SELECT provider, currencies FROM provider_accounts WHERE id = $1", account.uuid());
    Ok(query.fetch_one(db).await?)
}
