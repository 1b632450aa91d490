//! Stripe as a provider (docs.stripe.com/api): PaymentIntents, Refunds, and SetupIntents for saved cards.
//!
//! A repeated idempotency key returns the first response, but Stripe may forget keys after 24 hours. Until then a request
//! whose response was lost is sent again; afterwards it is looked up by our reference in Stripe's metadata.

mod account;
mod amount;
mod card;
mod charge;
mod credentials;
mod decline;
mod disputes;
mod event;
mod follow_up;
mod inquiry;
mod objects;
mod statement;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::PgPool;

pub use account::{AtStripe, check};
pub use credentials::Credentials;
pub use event::{Event, Signature};

use self::card::SavedCard;
use self::wire::{SendError, Wire};
use super::{
    Action, Booked, ChargeInquiry, ChargeReport, Found, Provider, ProviderError, ProviderResponse, RecoveryClass,
    Request, Statement, StatementLine,
};
use crate::credentials::CredentialsCache;
use crate::facts::Facts;
use crate::{OperationKind, ProviderKind};
use foundation::crypto::KeyRing;
use foundation::id::ProviderAccountId;
use foundation::time::Timestamp;

/// Stripe's own base URL.
const BASE_URL: &str = "https://api.stripe.com";

/// An hour less than Stripe keeps idempotency keys at least.
const KEYS_ARE_KEPT: Duration = Duration::from_secs(23 * 60 * 60);
/// Money is available two days after a capture at the earliest; a first inquiry finds out when.
const FIRST_INQUIRY_AFTER: Duration = Duration::from_secs(60 * 60);
/// The prefix of Stripe's test cards (docs.stripe.com/testing), each use of which is a new PaymentMethod.
const TEST_CARD: &str = "pm_card_";

pub(super) const FACTS: Facts = Facts {
    name: "stripe",
    is_reference,
    unsupported: &[],
    currencies: None,
    steps: &amount::STEPS,
    may_challenge: true,
    may_approve_part: false,
    requires_payer: false,
    records_declines: true,
    is_test_token: |token| token.starts_with(TEST_CARD) && is_token(token),
    test_tokens: || vec!["pm_card_visa", "pm_card_chargeDeclined", "pm_card_authenticationRequired"],
    settles_after: FIRST_INQUIRY_AFTER,
    authorization_lifetime: ProviderKind::LONGEST_AUTHORIZATION,
};

#[derive(Clone)]
pub struct Stripe {
    wire: Wire,
    accounts: Arc<CredentialsCache<Credentials>>,
}

impl Stripe {
    /// Creates the adapter for Stripe, or for another server at this URL without a trailing slash. The keys of our
    /// accounts are in the database, encrypted.
    pub fn new(base: Option<String>, db: PgPool, encryption: KeyRing) -> Self {
        let base = base.unwrap_or_else(|| BASE_URL.to_owned());
        Self { wire: Wire::new(base), accounts: Arc::new(CredentialsCache::new(db, encryption)) }
    }

    /// Sends a request.
    async fn send(&self, request: &Request) -> Result<ProviderResponse, SendError> {
        let account = self.accounts.of(request.account).await?;
        let stripe = self.wire.with(&account);
        match &request.action {
            Action::Charge { .. } => charge::charge(stripe, request).await,
            Action::StoreCard { token } => card::store(stripe, request, token).await,
            Action::Capture { charge, money } => follow_up::capture(stripe, request, charge, *money).await,
            Action::Void { charge } => follow_up::void(stripe, request, charge).await,
            Action::Refund { charge, money } => follow_up::refund(stripe, request, charge, *money).await,
        }
    }
}

/// Whether this has the form of one of our references at Stripe: a payment, its capture or cancellation, or a refund.
fn is_reference(text: &str) -> bool {
    let (id, what) = text.split_once(':').unwrap_or((text, ""));
    wire::is_id("re_", text) || (wire::is_id("pi_", id) && ["", "capture", "void"].contains(&what))
}

/// Whether this has the form of a PaymentMethod, which Stripe's card field returns.
pub fn is_token(text: &str) -> bool {
    wire::is_id("pm_", text)
}

impl Provider for Stripe {
    fn recovery(
        &self,
        _: ProviderAccountId,
        kind: OperationKind,
    ) -> BoxFuture<'_, Result<RecoveryClass, ProviderError>> {
        let class = match kind {
            // Saving a card again moves no money.
            OperationKind::StoreCard => RecoveryClass::Idempotent,
            OperationKind::Sale
            | OperationKind::Authorize
            | OperationKind::Capture
            | OperationKind::Void
            | OperationKind::Refund
            | OperationKind::Reverse
            | OperationKind::ReverseByRefund => RecoveryClass::IdempotentFor(KEYS_ARE_KEPT),
        };
        std::future::ready(Ok(class)).boxed()
    }

    fn execute(&self, request: Request) -> BoxFuture<'_, Result<ProviderResponse, ProviderError>> {
        async move {
            match self.send(&request).await {
                // Stripe would repeat that answer to every repetition of the request.
                Err(SendError::Failed(reason) | SendError::KeyUsed(reason)) => match self.look_up(request).await {
                    Ok(Found::Response(response)) => Ok(response),
                    // Whatever the look-up says: the request, or an earlier one, may have had an effect.
                    Ok(Found::Pending | Found::Nothing) | Err(_) => Err(ProviderError::Unknown(reason)),
                },
                Err(SendError::Provider(error)) => Err(error),
                Ok(response) => Ok(response),
            }
        }
        .boxed()
    }

    fn look_up(&self, request: Request) -> BoxFuture<'_, Result<Found, ProviderError>> {
        async move {
            let account = self.accounts.of(request.account).await?;
            let stripe = self.wire.with(&account);
            match &request.action {
                Action::Charge { .. } => charge::look_up(stripe, &request).await,
                // A card that was saved and not recorded is never used.
                Action::StoreCard { .. } => Ok(Found::Nothing),
                Action::Capture { charge, money } => follow_up::look_up_capture(stripe, &request, charge, *money).await,
                Action::Void { charge } => follow_up::look_up_void(stripe, &request, charge).await,
                Action::Refund { charge, money } => {
                    follow_up::look_up_refund(stripe, &request, charge, Some(*money)).await
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
            let account = self.accounts.of(account).await?;
            let stripe = self.wire.with(&account);
            statement::booked(stripe, provider_ref).await
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
            let account = self.accounts.of(account).await?;
            let stripe = self.wire.with(&account);
            statement::read(stripe, since, usize::try_from(limit).unwrap_or(0)).await
        }
        .boxed()
    }

    fn booked_line(
        &self,
        account: ProviderAccountId,
        provider_ref: String,
    ) -> BoxFuture<'_, Result<Option<StatementLine>, ProviderError>> {
        async move {
            let account = self.accounts.of(account).await?;
            let stripe = self.wire.with(&account);
            statement::booked_line(stripe, &provider_ref).await
        }
        .boxed()
    }

    fn inquire(&self, inquiry: ChargeInquiry) -> BoxFuture<'_, Result<ChargeReport, ProviderError>> {
        async move {
            let account = self.accounts.of(inquiry.account).await?;
            let stripe = self.wire.with(&account);
            inquiry::report(stripe, &inquiry).await
        }
        .boxed()
    }
}
