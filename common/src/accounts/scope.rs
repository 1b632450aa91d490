//! Whose due work is looked for.

use sqlx::{PgConnection, PgPool};

use crate::clock::Clock;
use crate::error::Result;
use crate::id::AccountId;
use crate::proof::{self, Rule};
use crate::time::Timestamp;

/// Whose due work is looked for, and by which time.
#[derive(Clone, Copy, Debug)]
pub enum Scope {
    /// Everyone whose clock is not being advanced, at the database's time ([`Self::everyone`]). Who is claimed this way has its clock held, by
    /// `hold_clock` in the claim's own statement.
    Everyone(Timestamp),
    /// One account, at its own time; nothing while its clock is being advanced.
    Account(AccountId, Timestamp),
    /// One account whose clock is being advanced, by whoever advances it, at the instant at which it stands.
    Advance(AccountId, Timestamp),
}

impl Scope {
    /// Everyone, at the time that the database's clock shows now: what a process takes for the time makes nothing due.
    ///
    /// # Errors
    /// Only the database's.
    pub async fn everyone(db: &PgPool) -> Result<Self> {
        if !proof::holds(Rule::DatabaseClock) {
            return Ok(Self::Everyone(Clock::system().now()));
        }
        let now = sqlx::query_scalar!(r#"SELECT clock_timestamp() AS "now!: Timestamp""#);
        Ok(Self::Everyone(now.fetch_one(db).await?))
    }

    /// The same for one account of it, at the account's time.
    #[must_use]
    pub const fn of(self, account: AccountId, now: Timestamp) -> Self {
        match self {
            Self::Everyone(_) | Self::Account(..) => Self::Account(account, now),
            Self::Advance(..) => Self::Advance(account, now),
        }
    }

    /// Whether what is due of the one account may be done in this transaction, as far as its clock is concerned. If so, no
    /// advance begins before its end.
    ///
    /// # Errors
    /// Only the database's.
    pub async fn hold(self, tx: &mut PgConnection) -> Result<bool> {
        let Self::Account(account, _) = self else { return Ok(true) };
        Ok(sqlx::query_scalar!(r#"SELECT hold_clock($1) AS "held!""#, account.uuid()).fetch_one(tx).await?)
    }
}
