//! The contract of every provider adapter: what a response, a fault and a repeated reference mean.
//!
//! An adapter's tests implement [`Fixture`] for its provider and run [`contract_suite!`] for each recovery class that
//! it supports. Each check gets its own fixture, so it may break it.

mod checks;

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use sqlx::PgPool;

use super::{
    Action, Card, ChargeInquiry, ChargeStatus, Decline, Found, Payer, Provider, ProviderError, ProviderResponse,
    RecoveryClass, Request, Source,
};
use crate::{OperationKind, ProviderKind};
use foundation::clock::Clock;
use foundation::crypto::Secret;
use foundation::id::ProviderAccountId;
use foundation::money::Money;
use foundation::time::Timestamp;

/// How long a check waits for what must happen, on a slow machine too.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Requests are valid for longer than a slow machine takes to send them.
const LIFETIME: Duration = Duration::from_secs(600);
const AMOUNT: i64 = 1_250;

/// Adds an account that is connected to a provider with these credentials.
pub(crate) async fn add_account(db: &PgPool, id: ProviderAccountId, provider: ProviderKind, sealed: Option<&[u8]>) {
    sqlx::query(
        "WITH merchant AS (INSERT INTO merchants (id, name, created_at) VALUES ($1, 'Shop', now())),
              account AS (INSERT INTO accounts (id, merchant_id, mode, name, timezone, provider_account_id, created_at)
                          VALUES ($1, $1, 'test', 'Shop', 'UTC', $1, now()))
         INSERT INTO provider_accounts (id, account_id, provider, credentials, created_at) VALUES ($1, $1, $2, $3, now())",
    )
    .bind(id.uuid())
    .bind(provider)
    .bind(sealed)
    .execute(db)
    .await
    .expect("written");
}

/// What happens when a test card is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CardOutcome {
    Approval,
    /// Approved for less than the requested amount.
    Part,
    Decline,
}

/// An approved charge in the provider's own ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BookedCharge {
    /// In minor units.
    pub(crate) amount: i64,
    pub(crate) captured: bool,
}

/// A provider under test, with two accounts of its own, and access to its ledger.
pub(crate) trait Fixture: Send + Sync {
    fn provider(&self) -> &dyn Provider;
    /// The recovery class for charges.
    fn class(&self) -> RecoveryClass;
    /// The account that the checks charge.
    fn account(&self) -> ProviderAccountId;
    /// Another account at the same provider.
    fn other_account(&self) -> ProviderAccountId;
    /// A fresh token of the first account; `None` if the provider has no such cards.
    fn token(&self, outcome: CardOutcome) -> BoxFuture<'_, Option<String>>;
    /// The first account's approved charges with this reference.
    fn booked<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Vec<BookedCharge>>;
    /// Drops the next response, after the ledger was written.
    fn drop_next_response(&self) -> BoxFuture<'_, ()>;
    /// From now on, the provider holds every request after it has arrived and before it writes the ledger.
    fn hold_requests(&self) -> BoxFuture<'_, ()>;
    /// Waits until a request is held.
    fn holds_a_request(&self) -> BoxFuture<'_, ()>;
    /// Executes the held requests, and holds no others.
    fn release_requests(&self) -> BoxFuture<'_, ()>;
    /// From now on, every request is rejected.
    fn reject_requests(&self) -> BoxFuture<'_, ()>;
    /// How long after a capture at noon the money settles.
    fn settles_after(&self) -> Duration;
    /// The reference under which a check's request is sent, where references of earlier runs are remembered.
    fn unique(&self, reference: &str) -> String {
        reference.to_owned()
    }
    /// Advances the clock of a provider that has its own clock.
    fn advance(&self, _: Duration) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

/// Every check as a separate test: `contract_suite!(class_a, fixture(RecoveryClass::Idempotent))`. The expression is a
/// future of a fixture. A list of checks after it leaves out the others; `by_class` leaves out what is the same in each
/// recovery class.
macro_rules! contract_suite {
    (by_class $module:ident, $fixture:expr) => {
        $crate::contract::contract_suite!($module, $fixture;
            declares_its_recovery_class,
            repeated_references_follow_the_recovery_class,
            repeated_declines_charge_nothing,
            concurrent_duplicates_charge_once,
            unknown_references_are_not_found,
            a_client_timeout_does_not_cancel_the_charge,
            a_lost_response_is_unknown_and_booked,
            captures_happen_once_and_within_the_authorization,
            refunds_cannot_exceed_the_captured_amount,
        );
    };
    ($module:ident, $fixture:expr) => {
        $crate::contract::contract_suite!($module, $fixture;
            declares_its_recovery_class,
            charges_are_approved_in_full,
            authorizations_do_not_settle_until_captured,
            declines_have_a_code_and_a_type,
            partial_approvals_are_below_the_requested_amount,
            unknown_tokens_are_refused,
            unknown_charges_are_refused,
            repeated_references_follow_the_recovery_class,
            repeated_declines_charge_nothing,
            concurrent_duplicates_charge_once,
            unknown_references_are_not_found,
            a_client_timeout_does_not_cancel_the_charge,
            a_lost_response_is_unknown_and_booked,
            rejected_requests_book_nothing,
            stored_cards_keep_their_behavior,
            accounts_are_isolated,
            charges_settle_after_the_settlement_time,
            voided_charges_never_settle,
            refunded_charges_stay_settled,
            captures_happen_once_and_within_the_authorization,
            settled_charges_cannot_be_voided,
            refunds_cannot_exceed_the_captured_amount,
            voided_charges_cannot_be_captured_or_refunded,
        );
    };
    (ignored $why:literal, $module:ident, $fixture:expr; $($check:ident,)*) => {
        $crate::contract::contract_suite!($module, $fixture; $(#[ignore = $why] $check,)*);
    };
    ($module:ident, $fixture:expr; $($(#[$meta:meta])* $check:ident,)*) => {
        mod $module {
            use super::*;
            $(
                $(#[$meta])*
                #[tokio::test(flavor = "multi_thread")]
                async fn $check() {
                    let fixture = $fixture.await;
                    $crate::contract::$check(&fixture).await;
                }
            )*
        }
    };
}
pub(crate) use checks::*;
pub(crate) use contract_suite;

// --- requests --------------------------------------------------------------------------------------------------------

pub(crate) fn noon() -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000).expect("in range")
}

fn dollars(minor: i64) -> Money {
    Money { minor, currency: "USD".parse().expect("a currency") }
}

pub(crate) fn request(fixture: &dyn Fixture, reference: &str, action: Action) -> Request {
    Request {
        account: fixture.account(),
        reference: fixture.unique(reference),
        action,
        now: noon(),
        valid_until: Clock::system().now().plus(LIFETIME),
        return_url: None,
        payer: Some(Payer { email: "ada@example.com".to_owned(), name: "Ada Lovelace".to_owned() }),
        payer_address: None,
    }
}

/// A charge of 12.50 with a fresh token; `None` if the provider has no such cards.
async fn charge(fixture: &dyn Fixture, reference: &str, outcome: CardOutcome, capture: bool) -> Option<Request> {
    let source = Source::Token(Secret::new(fixture.token(outcome).await?));
    Some(request(fixture, reference, Action::Charge { source, money: dollars(AMOUNT), capture }))
}

async fn sale(fixture: &dyn Fixture, reference: &str) -> Request {
    charge(fixture, reference, CardOutcome::Approval, true).await.expect("every provider can approve a charge")
}

async fn execute(fixture: &dyn Fixture, request: &Request) -> Result<ProviderResponse, ProviderError> {
    fixture.provider().execute(request.clone()).await
}

async fn response_to(fixture: &dyn Fixture, request: &Request) -> ProviderResponse {
    execute(fixture, request).await.expect("the provider responds")
}

async fn look_up(fixture: &dyn Fixture, request: &Request) -> Found {
    fixture.provider().look_up(request.clone()).await.expect("the provider responds")
}

/// An inquiry about a charge that was created and captured at noon.
fn charge_inquiry(fixture: &dyn Fixture, account: ProviderAccountId, charge: &str, now: Timestamp) -> ChargeInquiry {
    ChargeInquiry {
        account,
        charge: charge.to_owned(),
        reference: fixture.unique("op_1"),
        created_at: noon(),
        captured_at: Some(noon()),
        now,
    }
}

async fn settled(fixture: &dyn Fixture, charge: &str, after: Duration) -> bool {
    let inquiry = fixture.provider().inquire(charge_inquiry(fixture, fixture.account(), charge, noon().plus(after)));
    inquiry.await.expect("the provider responds").status == ChargeStatus::Settled
}

/// The provider's reference of an approval, its amount, and the card if the provider returns it.
pub(crate) fn charged(response: ProviderResponse) -> (String, i64, Option<Card>) {
    let ProviderResponse::Charged { provider_ref, amount, card } = response else {
        panic!("expected an approval, not {response:?}")
    };
    (provider_ref, amount, card)
}

pub(crate) fn declined(response: ProviderResponse) -> Decline {
    let ProviderResponse::Declined { decline, .. } = response else { panic!("expected a decline, not {response:?}") };
    decline
}

fn assert_refused(response: &ProviderResponse) {
    assert!(matches!(response, ProviderResponse::Refused { reason, .. } if !reason.is_empty()), "{response:?}");
}

fn assert_done(response: &ProviderResponse) {
    assert!(matches!(response, ProviderResponse::Done { provider_ref } if !provider_ref.is_empty()), "{response:?}");
}

fn assert_card_is_valid(card: &Card) {
    assert!(!card.brand.is_empty() && card.brand == card.brand.to_lowercase(), "{card:?}");
    assert!(card.last4.len() == 4 && card.last4.bytes().all(|b| b.is_ascii_digit()), "{card:?}");
    assert!((1..=12).contains(&card.exp_month) && card.exp_year > 2000, "{card:?}");
}

fn one_sale() -> Vec<BookedCharge> {
    vec![BookedCharge { amount: AMOUNT, captured: true }]
}

/// Waits until the ledger has an entry: a request that timed out may still arrive.
async fn eventually_booked(fixture: &dyn Fixture, reference: &str) -> Vec<BookedCharge> {
    let poll = async {
        loop {
            let booked = fixture.booked(reference).await;
            if !booked.is_empty() {
                return booked;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(TIMEOUT, poll).await.expect("the request arrives although its caller timed out")
}
