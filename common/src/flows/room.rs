//! How much of what bills itself a test account may have at once. Its clock can be moved ahead, and each cycle on the way is made:
//! without a bound one request would make as many rows as somebody likes. A live account has no clock and no bound.

use sqlx::PgConnection;

use crate::accounts::{self, Mode};
use crate::error::{Error, Result};
use crate::id::AccountId;
use crate::recurring_invoices;
use crate::subscriptions;

/// Subscriptions that are not cancelled and active recurring invoices of a test account, at most, together.
pub const RUNNING_OF_A_TEST_ACCOUNT: i64 = 1_000;

/// Keeps others from taking the room of a test account until this transaction ends. The account is locked, so nothing else may be
/// before.
pub(super) async fn hold(tx: &mut PgConnection, account: AccountId, mode: Mode) -> Result<()> {
    match mode {
        Mode::Test => accounts::lock(tx, account).await,
        Mode::Live => Ok(()),
    }
}

/// Refuses one more where there is no room for it. The room is held.
///
/// # Errors
/// [`Error::Conflict`].
pub(super) async fn require(tx: &mut PgConnection, account: AccountId, mode: Mode) -> Result<()> {
    const MOST: i64 = RUNNING_OF_A_TEST_ACCOUNT;
    if mode == Mode::Live {
        return Ok(());
    }
    let running = recurring_invoices::count_running(tx, account, MOST).await?
        + subscriptions::count_running(tx, account, MOST).await?;
    if running < MOST {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "a test account has {MOST} subscriptions and active recurring invoices at most; cancel one first"
    )))
}
