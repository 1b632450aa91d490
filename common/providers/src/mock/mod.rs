//! The mock provider: in-process, with its own ledger, which it commits on its own connections, and configurable
//! faults.
//!
//! It simulates a remote server: a request that has arrived is executed even if its caller times out.

mod card;
mod disputes;
mod ledger;
mod settings;
mod statement;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::PgPool;

pub use card::CardBehavior;
pub use disputes::DISPUTE_DECIDED_AFTER;
use ledger::ApprovedCharge;
pub use settings::{ActiveFaults, Faults, read as read_faults, set_faults};

use super::{
    Action, Booked, ChargeInquiry, ChargeReport, Found, Provider, ProviderError, ProviderResponse, RecoveryClass,
    Request, Statement, StatementLine,
};
use crate::OperationKind;
use crate::facts::Facts;
use foundation::db::Batcher;
use foundation::id::ProviderAccountId;
use foundation::time::Timestamp;

/// The time from capture to settlement, on the account's clock.
pub const SETTLES_AFTER: Duration = Duration::from_secs(60);
/// The lifetime of an authorization that is not captured, on the account's clock.
pub const AUTHORIZATION_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

pub(super) const FACTS: Facts = Facts {
    name: "mock",
    is_reference,
    unsupported: &[],
    currencies: None,
    steps: &[],
    may_challenge: false,
    may_approve_part: true,
    requires_payer: false,
    records_declines: true,
    is_test_token: |token| CardBehavior::of_token(token).is_some(),
    test_tokens: || CardBehavior::ALL.into_iter().map(CardBehavior::token).collect(),
    settles_after: SETTLES_AFTER,
    authorization_lifetime: AUTHORIZATION_LIFETIME,
};

/// Whether this is `mock_` and 24 hexadecimal digits.
fn is_reference(text: &str) -> bool {
    text.strip_prefix("mock_").is_some_and(|hex| hex.len() == 24 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The mock: adapter and provider in one.
#[derive(Clone, Debug)]
pub struct Mock {
    db: PgPool,
    /// Charges that arrive together are written by one statement, so that the mock costs a payment little.
    charges: Arc<Batcher<ApprovedCharge, Option<ProviderResponse>>>,
}

impl Mock {
    /// Creates a mock whose ledger is in the schema `mock` of this database. Use a separate pool: its transactions must
    /// not share connections with ours. Must be called inside a Tokio runtime.
    pub fn new(db: PgPool) -> Self {
        let charges = Batcher::start("mock_charges", db.clone(), |db, charges: &[ApprovedCharge]| {
            Box::pin(ledger::write_approved(db, charges))
        });
        Self { db, charges: Arc::new(charges) }
    }

    /// Executes a request that has arrived.
    async fn serve(self, request: Request) -> Result<ProviderResponse, ProviderError> {
        if let Some(charge) = ApprovedCharge::of(&request)
            && let Some(response) = self.charges.call(charge).await?
        {
            return Ok(response);
        }
        let faults = settings::read(&self.db, request.account).await?;
        if faults.refuse {
            return Err(ProviderError::unavailable("the mock processes nothing"));
        }
        let follows = matches!(request.action, Action::Capture { .. } | Action::Void { .. } | Action::Refund { .. });
        if faults.reject && follows {
            return Ok(ProviderResponse::refused("the mock refuses captures, voids and refunds"));
        }
        // Half before the ledger is written and half after, so that an interruption can hit either side.
        let half = Duration::from_millis(u64::from(faults.latency_ms.unsigned_abs())) / 2;
        pause(half).await;
        #[cfg(debug_assertions)]
        foundation::faults::reach("mock.received").await.map_err(|error| ProviderError::Unknown(error.to_string()))?;
        let response = ledger::record(&self.db, &request, faults.recovery).await?;
        pause(half).await;
        if faults.lose_responses > 0 && settings::take_dropped_response(&self.db, request.account).await? {
            return Err(ProviderError::Unknown("the mock was configured to drop this response".into()));
        }
        Ok(response)
    }
}

async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

impl From<sqlx::Error> for ProviderError {
    fn from(error: sqlx::Error) -> Self {
        Self::Unknown(format!("the mock's ledger: {error}"))
    }
}

impl Provider for Mock {
    fn recovery(
        &self,
        account: ProviderAccountId,
        kind: OperationKind,
    ) -> BoxFuture<'_, Result<RecoveryClass, ProviderError>> {
        async move {
            // Saving a card moves no money and is idempotent in every class.
            if kind == OperationKind::StoreCard {
                return Ok(RecoveryClass::Idempotent);
            }
            Ok(settings::read(&self.db, account).await?.recovery)
        }
        .boxed()
    }

    #[expect(clippy::disallowed_methods, reason = "a provider executes a request even if its caller disconnects")]
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<ProviderResponse, ProviderError>> {
        let served = tokio::spawn(self.clone().serve(request));
        async move { served.await.unwrap_or_else(|_| Err(ProviderError::Unknown("the task of the mock failed".into()))) }.boxed()
    }

    fn look_up(&self, request: Request) -> BoxFuture<'_, Result<Found, ProviderError>> {
        async move { ledger::find(&mut *self.db.acquire().await?, &request).await }.boxed()
    }

    fn booked<'a>(
        &'a self,
        account: ProviderAccountId,
        provider_ref: &'a str,
    ) -> BoxFuture<'a, Result<Option<Booked>, ProviderError>> {
        ledger::booked(&self.db, account, provider_ref).boxed()
    }

    fn statement(
        &self,
        account: ProviderAccountId,
        since: Timestamp,
        limit: i64,
    ) -> BoxFuture<'_, Result<Statement, ProviderError>> {
        async move {
            let lines = statement::read(&self.db, account, since, limit).await?;
            Ok(Statement::limited(lines, usize::try_from(limit).unwrap_or(0)))
        }
        .boxed()
    }

    fn booked_line(
        &self,
        account: ProviderAccountId,
        provider_ref: String,
    ) -> BoxFuture<'_, Result<Option<StatementLine>, ProviderError>> {
        async move { statement::booked(&self.db, account, &provider_ref).await }.boxed()
    }

    fn inquire(&self, inquiry: ChargeInquiry) -> BoxFuture<'_, Result<ChargeReport, ProviderError>> {
        async move {
            let ChargeInquiry { account, charge, now, .. } = inquiry;
            let status = ledger::status(&self.db, account, &charge, now).await?;
            let class = settings::read(&self.db, account).await?.recovery;
            let lines = match class {
                RecoveryClass::Idempotent | RecoveryClass::IdempotentFor(_) | RecoveryClass::Lookup => {
                    Some(statement::of_charge(&self.db, account, &charge).await?)
                }
                RecoveryClass::Neither => None,
            };
            let disputes = disputes::of_charge(&self.db, &charge, now).await?;
            Ok(ChargeReport { status, lines, disputes })
        }
        .boxed()
    }
}
