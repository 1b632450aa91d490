//! The mock provider: in-process, with books of its own that it commits on its own connections, and faults to order.
//!
//! It plays a server at the other end of a wire: a request that has arrived goes on although the caller has given up.

mod card;
mod ledger;
mod settings;
mod statement;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::PgPool;

pub use card::Nature;
pub use settings::{Faults, set_faults};

use super::{
    Action, Answer, Booked, ChargeReport, Fault, Found, Inquired, Provider, RecoveryClass, Request, StatementLine,
};
use crate::id::ProviderAccountId;
use crate::operations::Kind;
use crate::time::Timestamp;

/// Captured money settles so long after its capture, on the account's clock.
pub const SETTLES_AFTER: Duration = Duration::from_secs(60);
/// An authorization that is not captured expires after so long, on the account's clock.
pub const AUTHORIZATION_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// The mock, as adapter and provider in one.
#[derive(Clone, Debug)]
pub struct Mock {
    db: PgPool,
}

impl Mock {
    /// A mock whose books are in the schema `mock` of this database. Give it a pool of its own: its commits are none of ours.
    pub fn new(db: PgPool) -> Self {
        Self { db }
    }

    /// What the provider does with a request once it has arrived.
    async fn serve(self, request: Request) -> Result<Answer, Fault> {
        if let Some(answer) = ledger::charge_at_once(&self.db, &request).await? {
            return Ok(answer);
        }
        let faults = settings::read(&self.db, request.account).await?;
        if faults.refuse {
            return Err(Fault::unavailable("the mock processes nothing (ctl mock set --refuse)"));
        }
        let follows = matches!(request.action, Action::Capture { .. } | Action::Void { .. } | Action::Refund { .. });
        if faults.reject && follows {
            return Ok(Answer::refused("the mock refuses what follows a charge (ctl mock set --reject)"));
        }
        // Half before the books are written and half after, so that a fault in the middle meets either side.
        let half = Duration::from_millis(u64::from(faults.latency_ms.unsigned_abs())) / 2;
        pause(half).await;
        let answer = ledger::record(&self.db, &request, faults.recovery).await?;
        pause(half).await;
        if faults.lose_answers > 0 && settings::lose_one_answer(&self.db, request.account).await? {
            return Err(Fault::Unknown("the mock was told to lose this answer".into()));
        }
        Ok(answer)
    }
}

async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Unknown(format!("the mock's books: {error}"))
    }
}

impl Provider for Mock {
    fn recovery(&self, account: ProviderAccountId, kind: Kind) -> BoxFuture<'_, Result<RecoveryClass, Fault>> {
        async move {
            // Saving moves no money: the books take the same card twice, whatever the class.
            if kind == Kind::StoreCard {
                return Ok(RecoveryClass::Idempotent);
            }
            Ok(settings::read(&self.db, account).await?.recovery)
        }
        .boxed()
    }

    #[expect(clippy::disallowed_methods, reason = "a provider goes on although the caller has hung up")]
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<Answer, Fault>> {
        let served = tokio::spawn(self.clone().serve(request));
        async move { served.await.unwrap_or_else(|_| Err(Fault::Unknown("the mock broke off".into()))) }.boxed()
    }

    fn look_up(&self, request: Request) -> BoxFuture<'_, Result<Found, Fault>> {
        async move { ledger::find(&mut *self.db.acquire().await?, &request).await }.boxed()
    }

    fn booked<'a>(
        &'a self,
        account: ProviderAccountId,
        provider_ref: &'a str,
    ) -> BoxFuture<'a, Result<Option<Booked>, Fault>> {
        ledger::booked(&self.db, account, provider_ref).boxed()
    }

    fn statement(
        &self,
        account: ProviderAccountId,
        since: Timestamp,
        limit: i64,
    ) -> BoxFuture<'_, Result<Vec<StatementLine>, Fault>> {
        async move { statement::read(&self.db, account, since, limit).await }.boxed()
    }

    fn booked_line(
        &self,
        account: ProviderAccountId,
        provider_ref: String,
    ) -> BoxFuture<'_, Result<Option<StatementLine>, Fault>> {
        async move { statement::booked(&self.db, account, &provider_ref).await }.boxed()
    }

    fn inquire(&self, inquired: Inquired) -> BoxFuture<'_, Result<ChargeReport, Fault>> {
        async move {
            let Inquired { account, charge, now, .. } = inquired;
            let standing = ledger::standing(&self.db, account, &charge, now).await?;
            let class = settings::read(&self.db, account).await?.recovery;
            let lines = match class {
                RecoveryClass::Idempotent | RecoveryClass::Lookup => {
                    Some(statement::of_charge(&self.db, account, &charge).await?)
                }
                RecoveryClass::Neither => None,
            };
            Ok(ChargeReport { standing, lines })
        }
        .boxed()
    }
}
