//! How many of the process's database connections the requests of one account use at the same time. A request that waits
//! for another one of its account, such as for the lock of the account's usage row, holds a connection meanwhile, and a
//! report may take seconds: without a limit, one account could hold all connections. Authentication and look-ups of single
//! rows wait for no lock and are not limited.

use std::time::Duration;

use foundation::concurrency::{ConcurrencyLimit, FairConcurrencyLimit, Permit};
use foundation::error::Result;

use crate::id::AccountId;

/// At most this many connections of one account at the same time. The transactions that enter charges of an account wait
/// for each other anyway.
const OF_ACCOUNT: usize = 4;
/// How long a request waits: longer than it has to be entered.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);
const BUSY: &str = "too many requests of the account are waiting";

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    Account(AccountId),
    ReportsOf(AccountId),
    Reports,
}

impl Owner {
    /// Its part of `limited` connections. Whatever their number, another account has one too.
    fn quota(&self, limited: usize) -> usize {
        let of_account = OF_ACCOUNT.min(limited * 2 / 3);
        let quota = match self {
            Self::Account(_) => of_account,
            Self::ReportsOf(_) => of_account / 2,
            Self::Reports => limited / 2,
        };
        quota.max(1)
    }
}

/// Permits transactions of accounts.
pub struct ConnectionLimit(FairConcurrencyLimit<Owner>);

impl ConnectionLimit {
    /// For a pool of this size, a quarter of which stays free for what is not limited.
    pub fn new(connections: u32) -> Self {
        let limited = (connections - connections / 4).max(1) as usize;
        let limit = ConcurrencyLimit::new(limited, PERMIT_TIMEOUT, BUSY);
        Self(FairConcurrencyLimit::new(limit, move |owner: &Owner| owner.quota(limited)))
    }

    /// Permits a transaction of the account until the permit is dropped. It must not be held while the acquirer is called.
    ///
    /// # Errors
    /// [`foundation::error::Error::Busy`] if no permit becomes free in time.
    pub async fn acquire(&self, account: AccountId) -> Result<Permit> {
        self.0.acquire([Owner::Account(account)]).await
    }

    /// Permits a report of the account until the permit is dropped.
    ///
    /// # Errors
    /// As [`Self::acquire`].
    pub async fn acquire_for_report(&self, account: AccountId) -> Result<Permit> {
        self.0.acquire([Owner::Account(account), Owner::ReportsOf(account), Owner::Reports]).await
    }
}

#[cfg(test)]
mod tests {
    use foundation::error::Error;
    use foundation::time::Timestamp;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reports_leave_connections_to_charges_and_to_other_accounts() -> Result<()> {
        let limit = ConnectionLimit::new(16);
        let accounts: Vec<_> = (0..4).map(|_| AccountId::new(Timestamp::MAX)).collect();
        let mut reports = Vec::new();
        for account in &accounts[..3] {
            for _ in 0..2 {
                reports.push(limit.acquire_for_report(*account).await?);
            }
            assert!(matches!(limit.acquire_for_report(*account).await, Err(Error::Busy(_))), "too many of one account");
        }
        assert!(matches!(limit.acquire_for_report(accounts[3]).await, Err(Error::Busy(_))), "too many of all accounts");
        let _charges = (limit.acquire(accounts[0]).await?, limit.acquire(accounts[0]).await?);
        assert!(matches!(limit.acquire(accounts[0]).await, Err(Error::Busy(_))), "reports count for their account");
        let _other = limit.acquire(accounts[3]).await?;
        reports.pop();
        limit.acquire_for_report(accounts[3]).await?;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_pool_has_a_connection_for_another_account_too() -> Result<()> {
        let (limit, account) = (ConnectionLimit::new(4), AccountId::new(Timestamp::MAX));
        let _charges = (limit.acquire(account).await?, limit.acquire(account).await?);
        assert!(matches!(limit.acquire(account).await, Err(Error::Busy(_))));
        limit.acquire(AccountId::new(Timestamp::MAX)).await?;
        Ok(())
    }
}
