//! The card gateway as a provider: forms over HTTP, and the report for whoever lost an answer (docs/gateway.md).
//!
//! Class B. A charge is looked up by its `reference_id`, and a repeated one is refused for ever. So is what follows a charge, by a
//! reference of its own, which the report shows as `child_reference_id`.

mod account;
mod booked;
mod credentials;
mod decline;
mod field_token;
mod follow;
#[cfg(test)]
mod fuzz;
mod inquiry;
mod report;
mod sale;
mod statement;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::PgPool;

pub use account::{AccountSettings, Settings, account_settings};
pub use credentials::{Credentials, read as read_credentials};
pub use field_token::{FieldToken, PREFIX as FIELD_PREFIX};

use self::credentials::Remembered;
use self::follow::Follow;
use self::wire::Wire;
use super::{
    Action, Answer, Booked, Card, ChargeReport, Fault, Found, Inquired, Provider, RecoveryClass, Request, StatementLine,
};
use crate::crypto::KeyRing;
use crate::id::ProviderAccountId;
use crate::operations::Kind;
use crate::time::Timestamp;

/// What it takes, of whatever an account of it takes.
pub(crate) const CURRENCIES: [&str; 11] = ["USD", "EUR", "GBP", "CAD", "AUD", "NZD", "AED", "DKK", "MXN", "SEK", "CHF"];

/// It settles when a day ends in its account's zone, which the report tells: it is asked so long after capture when that is.
pub(super) const FIRST_INQUIRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// The adapter.
#[derive(Clone)]
pub struct CardGateway {
    wire: Wire,
    accounts: Arc<Remembered>,
}

impl CardGateway {
    /// The gateway at this address, `https://…` without a slash at the end. By what it knows our accounts stands in the
    /// database, under the key.
    pub fn new(base: String, db: PgPool, encryption: KeyRing) -> Self {
        Self { wire: Wire::new(base), accounts: Arc::new(Remembered::new(db, encryption)) }
    }

    async fn credentials(&self, account: ProviderAccountId) -> Result<Arc<Credentials>, Fault> {
        self.accounts.of(account).await
    }
}

impl Provider for CardGateway {
    fn recovery(&self, _: ProviderAccountId, kind: Kind) -> BoxFuture<'_, Result<RecoveryClass, Fault>> {
        let class = match kind {
            // A token of the field is changed for the same token of the vault, however often.
            Kind::StoreCard => RecoveryClass::Idempotent,
            Kind::Sale | Kind::Authorize | Kind::Capture | Kind::Void | Kind::Refund | Kind::Reverse => {
                RecoveryClass::Lookup
            }
        };
        std::future::ready(Ok(class)).boxed()
    }

    fn execute(&self, request: Request) -> BoxFuture<'_, Result<Answer, Fault>> {
        async move {
            let account = self.credentials(request.account).await?;
            match &request.action {
                Action::Charge { .. } => sale::charge(&self.wire, &account, &request).await,
                Action::StoreCard { token } => sale::store_card(&self.wire, &account, token).await,
                Action::Capture { .. } | Action::Void { .. } | Action::Refund { .. } => {
                    let follow = follow_of(&request.action)?;
                    follow::execute(&self.wire, &account, follow, &request).await
                }
            }
        }
        .boxed()
    }

    fn look_up(&self, request: Request) -> BoxFuture<'_, Result<Found, Fault>> {
        async move {
            let account = self.credentials(request.account).await?;
            match &request.action {
                Action::Charge { .. } => sale::look_up(&self.wire, &account, &request).await,
                Action::StoreCard { .. } => Ok(Found::Nothing),
                Action::Capture { .. } | Action::Void { .. } | Action::Refund { .. } => {
                    follow::look_up(&self.wire, &account, follow_of(&request.action)?, &request).await
                }
            }
        }
        .boxed()
    }

    fn booked<'a>(
        &'a self,
        account: ProviderAccountId,
        provider_ref: &'a str,
    ) -> BoxFuture<'a, Result<Option<Booked>, Fault>> {
        async move {
            let account = self.credentials(account).await?;
            booked::booked(&self.wire, &account, provider_ref).await
        }
        .boxed()
    }

    fn statement(
        &self,
        account: ProviderAccountId,
        since: Timestamp,
        limit: i64,
    ) -> BoxFuture<'_, Result<Vec<StatementLine>, Fault>> {
        async move {
            let account = self.credentials(account).await?;
            statement::read(&self.wire, &account, since, usize::try_from(limit).unwrap_or(0)).await
        }
        .boxed()
    }

    fn booked_line(
        &self,
        account: ProviderAccountId,
        provider_ref: String,
    ) -> BoxFuture<'_, Result<Option<StatementLine>, Fault>> {
        async move {
            let account = self.credentials(account).await?;
            statement::booked(&self.wire, &account, &provider_ref).await
        }
        .boxed()
    }

    fn inquire(&self, inquired: Inquired) -> BoxFuture<'_, Result<ChargeReport, Fault>> {
        async move {
            let account = self.credentials(inquired.account).await?;
            inquiry::report(&self.wire, &account, &inquired).await
        }
        .boxed()
    }
}

/// What follows a charge, as the gateway is asked for it.
fn follow_of(action: &Action) -> Result<Follow<'_>, Fault> {
    let (charge, kind) = match action {
        Action::Capture { charge, money } => (charge, follow::Kind::Capture(*money)),
        Action::Void { charge } => (charge, follow::Kind::Void),
        Action::Refund { charge, money } => (charge, follow::Kind::Refund(*money)),
        Action::Charge { .. } | Action::StoreCard { .. } => {
            return Err(Fault::Unknown("a charge follows nothing".to_owned()));
        }
    };
    Ok(Follow { charge, kind })
}

/// What the gateway says a card looks like.
fn card(brand: &str, masked: &str, month: &str, year: &str) -> Option<Card> {
    let last4 = masked.get(masked.len().checked_sub(4)?..)?;
    let card = Card {
        brand: brand.to_ascii_lowercase(),
        last4: last4.to_owned(),
        exp_month: month.parse().ok()?,
        exp_year: year.parse().ok()?,
    };
    card.is_shown().then_some(card)
}
