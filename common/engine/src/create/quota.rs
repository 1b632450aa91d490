//! Quota of subscriptions and recurring invoices of a test account. Its clock can be advanced, and every cycle on the
//! way is billed: without a limit one request could create any number of rows. Live accounts have no clock and no
//! quota.

use sqlx::PgConnection;

use domain::accounts::{self, Mode};
use domain::recurring_invoices;
use domain::subscriptions;
use foundation::error::{Error, Result};
use foundation::id::AccountId;

/// Maximum number of uncancelled subscriptions plus active recurring invoices of a test account.
pub const TEST_ACCOUNT_QUOTA: i64 = 1_000;

/// Locks the quota of a test account until this transaction ends. The account is locked, so this must be the first
/// lock.
pub async fn hold(tx: &mut PgConnection, account: AccountId, mode: Mode) -> Result<()> {
    match mode {
        Mode::Test => accounts::lock(tx, account).await,
        Mode::Live => Ok(()),
    }
}

/// Fails if the quota, which [`hold`] has locked, is used up.
///
/// # Errors
/// [`Error::Conflict`] if it is used up.
pub async fn require(tx: &mut PgConnection, account: AccountId, mode: Mode) -> Result<()> {
    const MAX: i64 = TEST_ACCOUNT_QUOTA;
    if mode == Mode::Live {
        return Ok(());
    }
    let running = recurring_invoices::count_running(tx, account, MAX).await?
        + subscriptions::count_running(tx, account, MAX).await?;
    if running < MAX {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "a test account can have at most {MAX} subscriptions and active recurring invoices; cancel one first"
    )))
}
