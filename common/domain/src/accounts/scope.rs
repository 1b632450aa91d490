//! The accounts whose due work is processed.

use sqlx::{PgConnection, PgPool};

use foundation::clock::Clock;
use foundation::error::Result;
use foundation::id::AccountId;
use foundation::rule_enabled;
use foundation::time::Timestamp;

/// The accounts whose due work is processed, and the time that decides what is due.
#[derive(Clone, Copy, Debug)]
pub enum Scope {
    /// All accounts whose clock is not being advanced, at the database's time ([`Self::all_accounts`]). The claiming
    /// statement holds the clock of each account it selects, with `hold_clock`.
    AllAccounts(Timestamp),
    /// One account, at its own time. Nothing is due while its clock is being advanced.
    Account(AccountId, Timestamp),
    /// One account whose clock is being advanced, at the clock's current instant; used by the advance itself.
    Advance(AccountId, Timestamp),
}

impl Scope {
    /// All accounts, at the database's current time: a process's own clock never makes work due.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn all_accounts(db: &PgPool) -> Result<Self> {
        if !rule_enabled!(DatabaseClock) {
            return Ok(Self::AllAccounts(Clock::system().now()));
        }
        let now = sqlx::query_scalar!(r#"SELECT clock_timestamp() AS "now!: Timestamp""#);
        Ok(Self::AllAccounts(now.fetch_one(db).await?))
    }

    /// The same scope, limited to one account, at the account's time.
    #[must_use]
    pub const fn of(self, account: AccountId, now: Timestamp) -> Self {
        match self {
            Self::AllAccounts(_) | Self::Account(..) => Self::Account(account, now),
            Self::Advance(..) => Self::Advance(account, now),
        }
    }

    /// Whether the account's clock permits its due work in this transaction. If so, no advance of the clock starts
    /// before the transaction ends.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn hold(self, tx: &mut PgConnection) -> Result<bool> {
        let Self::Account(account, _) = self else { return Ok(true) };
        Ok(sqlx::query_scalar!(r#"SELECT hold_clock($1) AS "held!""#, account.uuid()).fetch_one(tx).await?)
    }
}
