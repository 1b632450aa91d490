//! The time of an account: the system time, or that of its test clock (docs/billing.md, Test clock).

use sqlx::PgExecutor;

use foundation::clock::Clock;
use foundation::error::Result;
use foundation::id::AccountId;
use foundation::time::Timestamp;

/// Determines the time of an account. That it has a test clock may be cached; the clock itself is read each time.
#[derive(Clone, Copy, Debug)]
pub struct AccountTime {
    account: AccountId,
    has_clock: bool,
}

impl AccountTime {
    /// The time of an account, which may have a test clock.
    pub const fn new(account: AccountId, has_clock: bool) -> Self {
        Self { account, has_clock }
    }

    /// Whether the account has a test clock.
    pub const fn has_clock(self) -> bool {
        self.has_clock
    }

    /// Returns the current time. Without a test clock, no query is made.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn now(self, db: impl PgExecutor<'_>, clock: &Clock) -> Result<Timestamp> {
        let now = clock.now();
        if !self.has_clock {
            return Ok(now);
        }
        let query = sqlx::query_scalar!(r#"SELECT account_now($1, $2) AS "now!""#, self.account.uuid(), now);
        Ok(query.fetch_one(db).await?)
    }
}
