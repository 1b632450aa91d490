//! The card gateway as a provider: form posts, and the report to recover lost responses (docs/gateway.md).
//!
//! Class B. A charge is looked up by its `reference_id`, and a repeated one is refused forever. The same applies to
//! follow-ups, which have their own reference: the report shows it as `child_reference_id`.

mod account;
mod approval;
mod booked;
mod credentials;
mod decline;
mod field_token;
mod follow_up;
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
use ulid::Ulid;

pub use account::{AccountSettings, Settings, account_settings};
pub use credentials::Credentials;
pub use field_token::{FieldToken, PREFIX as FIELD_PREFIX};

use self::follow_up::FollowUp;
use self::wire::Wire;
use super::{
    Action, Booked, Card, ChargeInquiry, ChargeReport, Found, Provider, ProviderError, ProviderResponse, RecoveryClass,
    Request, Statement, StatementLine,
};
use crate::credentials::CredentialsCache;
use crate::facts::Facts;
use crate::{OperationKind, ProviderKind};
use foundation::crypto::KeyRing;
use foundation::id::ProviderAccountId;
use foundation::time::Timestamp;

/// The currencies that the gateway supports. An account may support fewer.
pub const CURRENCIES: [&str; 11] = ["USD", "EUR", "GBP", "CAD", "AUD", "NZD", "AED", "DKK", "MXN", "SEK", "CHF"];

/// Charges settle at the end of the day in the account's time zone, which the report contains. The first inquiry after
/// this time finds out when that is.
const FIRST_INQUIRY_AFTER: Duration = Duration::from_secs(60 * 60);

pub(super) const FACTS: Facts = Facts {
    name: "card_gateway",
    is_reference: |text| text.len() == 26 && Ulid::from_string(text).is_ok(),
    unsupported: &[],
    currencies: Some(&CURRENCIES),
    steps: &[],
    may_challenge: true,
    may_approve_part: false,
    requires_payer: true,
    // It does not record what its limits decline, and leaves the reference unused.
    records_declines: false,
    is_test_token: |_| false,
    test_tokens: Vec::new,
    settles_after: FIRST_INQUIRY_AFTER,
    authorization_lifetime: ProviderKind::LONGEST_AUTHORIZATION,
};

#[derive(Clone)]
pub struct CardGateway {
    wire: Wire,
    accounts: Arc<CredentialsCache<Credentials>>,
}

impl CardGateway {
    /// Creates the adapter for the gateway at this URL, `https://…` without a trailing slash. The credentials of our
    /// accounts are in the database, encrypted with the key.
    pub fn new(base: String, db: PgPool, encryption: KeyRing) -> Self {
        Self { wire: Wire::new(base), accounts: Arc::new(CredentialsCache::new(db, encryption)) }
    }

    async fn credentials(&self, account: ProviderAccountId) -> Result<Arc<Credentials>, ProviderError> {
        self.accounts.of(account).await
    }
}

impl Provider for CardGateway {
    fn recovery(
        &self,
        _: ProviderAccountId,
        kind: OperationKind,
    ) -> BoxFuture<'_, Result<RecoveryClass, ProviderError>> {
        let class = match kind {
            // The same field token always yields the same vault token.
            OperationKind::StoreCard => RecoveryClass::Idempotent,
            OperationKind::Sale
            | OperationKind::Authorize
            | OperationKind::Capture
            | OperationKind::Void
            | OperationKind::Refund
            | OperationKind::Reverse
            | OperationKind::ReverseByRefund => RecoveryClass::Lookup,
        };
        std::future::ready(Ok(class)).boxed()
    }

    fn execute(&self, request: Request) -> BoxFuture<'_, Result<ProviderResponse, ProviderError>> {
        async move {
            let account = self.credentials(request.account).await?;
            match &request.action {
                Action::Charge { .. } => sale::charge(&self.wire, &account, &request).await,
                Action::StoreCard { token } => sale::store_card(&self.wire, &account, token).await,
                Action::Capture { .. } | Action::Void { .. } | Action::Refund { .. } => {
                    let follow = follow_up_of(&request.action)?;
                    follow_up::execute(&self.wire, &account, follow, &request).await
                }
            }
        }
        .boxed()
    }

    fn look_up(&self, request: Request) -> BoxFuture<'_, Result<Found, ProviderError>> {
        async move {
            let account = self.credentials(request.account).await?;
            match &request.action {
                Action::Charge { .. } => sale::look_up(&self.wire, &account, &request).await,
                Action::StoreCard { .. } => Ok(Found::Nothing),
                Action::Capture { .. } | Action::Void { .. } | Action::Refund { .. } => {
                    follow_up::look_up(&self.wire, &account, follow_up_of(&request.action)?, &request).await
                }
            }
        }
        .boxed()
    }

    fn booked<'a>(
        &'a self,
        account: ProviderAccountId,
        provider_ref: &'a str,
    ) -> BoxFuture<'a, Result<Option<Booked>, ProviderError>> {
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
    ) -> BoxFuture<'_, Result<Statement, ProviderError>> {
        async move {
            let (account, limit) = (self.credentials(account).await?, usize::try_from(limit).unwrap_or(0));
            statement::read(&self.wire, &account, since, limit).await
        }
        .boxed()
    }

    fn booked_line(
        &self,
        account: ProviderAccountId,
        provider_ref: String,
    ) -> BoxFuture<'_, Result<Option<StatementLine>, ProviderError>> {
        async move {
            let account = self.credentials(account).await?;
            statement::booked(&self.wire, &account, &provider_ref).await
        }
        .boxed()
    }

    fn inquire(&self, inquiry: ChargeInquiry) -> BoxFuture<'_, Result<ChargeReport, ProviderError>> {
        async move {
            let account = self.credentials(inquiry.account).await?;
            inquiry::report(&self.wire, &account, &inquiry).await
        }
        .boxed()
    }
}

/// Builds the gateway's follow-up request for an action.
fn follow_up_of(action: &Action) -> Result<FollowUp<'_>, ProviderError> {
    let (charge, kind) = match action {
        Action::Capture { charge, money } => (charge, follow_up::FollowUpKind::Capture(*money)),
        Action::Void { charge } => (charge, follow_up::FollowUpKind::Void),
        Action::Refund { charge, money } => (charge, follow_up::FollowUpKind::Refund(*money)),
        Action::Charge { .. } | Action::StoreCard { .. } => {
            return Err(ProviderError::Unknown("expected a capture, void or refund".to_owned()));
        }
    };
    Ok(FollowUp { charge, kind })
}

/// Builds a card from the gateway's fields.
fn card(brand: &str, masked: &str, month: &str, year: &str) -> Option<Card> {
    let last4 = masked.get(masked.len().checked_sub(4)?..)?;
    let card = Card {
        brand: brand.to_ascii_lowercase(),
        last4: last4.to_owned(),
        exp_month: month.parse().ok()?,
        exp_year: year.parse().ok()?,
    };
    card.is_valid().then_some(card)
}
