//! What time it is for an account: everyone's time, or that of its test clock (docs/billing.md, Test clock).

use sqlx::PgExecutor;

use crate::clock::Clock;
use crate::error::Result;
use crate::id::AccountId;
use crate::time::Timestamp;

/// Where an account's time is read. That it has a test clock may be remembered; what the clock shows is read each time.
#[derive(Clone, Copy, Debug)]
pub struct AccountTime {
    account: AccountId,
    has_clock: bool,
}

impl AccountTime {
    /// The time of an account, and whether a test clock tells it.
    pub const fn new(account: AccountId, has_clock: bool) -> Self {
        Self { account, has_clock }
    }

    /// The time now. Without a test clock this asks nobody.
    ///
    /// # Errors
    /// Only the database's.
    pub async fn now(self, db: impl PgExecutor<'_>, clock: &Clock) -> Result<Timestamp> {
        let now = clock.now();
        if !self.has_clock {
            return Ok(now);
        }
        let query = sqlx::query_scalar!(r#"SELECT account_now($1, $2) AS "now!""#, self.account.uuid(), now);
        Ok(query.fetch_one(db).await?)
    }
}
