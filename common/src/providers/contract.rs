//! The contract that every adapter keeps, whatever its provider: what an answer, a fault and a repeated reference mean.
//!
//! An adapter's tests say how its provider is asked and hurt ([`Fixture`]), and run [`contract_suite!`] for each recovery
//! class it can be in. Each check gets a fixture of its own, so it may break what it likes.

mod checks;

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};

use super::{
    Action, Answer, Card, Decline, Fault, Found, Inquired, Payer, Provider, RecoveryClass, Request, Source, Standing,
};
use crate::clock::Clock;
use crate::crypto::Secret;
use crate::id::ProviderAccountId;
use crate::money::Money;
use crate::operations::{Kind, PROVIDER_TIMEOUT};
use crate::time::Timestamp;

/// Longer than any look that a check takes at the books.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So long does a slow provider take in these checks.
const SLOW: Duration = Duration::from_millis(400);
const ASKED: i64 = 1_250;

/// What a token's card is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Approve in full.
    Approval,
    /// Approve less than is asked.
    Part,
    /// Decline.
    Decline,
}

/// An approved charge in the provider's own books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Booked {
    /// In minor units.
    pub(crate) amount: i64,
    /// Taken, and not merely held.
    pub(crate) captured: bool,
}

/// A provider to be tried, with two accounts that nobody else uses, and its books as its own statement would show them.
pub(crate) trait Fixture: Send + Sync {
    /// The adapter.
    fn provider(&self) -> &dyn Provider;
    /// The class that it is in, for charges.
    fn class(&self) -> RecoveryClass;
    /// Where the checks charge.
    fn account(&self) -> ProviderAccountId;
    /// Another account at the same provider.
    fn other_account(&self) -> ProviderAccountId;
    /// A fresh token of the first account; none if the provider has no such cards.
    fn token(&self, wanted: Wanted) -> BoxFuture<'_, Option<String>>;
    /// The approved charges that the books of the first account have under a reference.
    fn booked<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Vec<Booked>>;
    /// The next answer is lost, after the books were written.
    fn lose_an_answer(&self) -> BoxFuture<'_, ()>;
    /// From now on every request takes so long.
    fn take(&self, latency: Duration) -> BoxFuture<'_, ()>;
    /// From now on every request is refused.
    fn refuse(&self) -> BoxFuture<'_, ()>;
    /// How long after its capture at noon money settles.
    fn settles_after(&self) -> Duration;
    /// So much time passes at a provider that goes by a clock of its own.
    fn pass(&self, _: Duration) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

/// Every check, each a test of its own: `contract_suite!(class_a, fixture(RecoveryClass::Idempotent))`, where the expression
/// makes a future of a fixture.
macro_rules! contract_suite {
    ($module:ident, $fixture:expr) => {
        $crate::providers::contract::contract_suite!(@ $module, $fixture;
            declares_its_class,
            a_charge_is_approved_in_full,
            an_authorization_takes_nothing_until_it_is_captured,
            a_decline_has_a_code_and_a_type,
            a_part_is_less_than_was_asked,
            an_unknown_token_is_refused,
            an_unknown_charge_is_refused,
            a_repeated_reference_is_handled_by_its_class,
            a_repeated_decline_is_no_second_try,
            twenty_at_once_are_one_charge,
            an_unknown_reference_is_nothing,
            a_caller_that_gives_up_stops_nothing,
            a_lost_answer_is_unknown_and_booked,
            a_refusal_books_nothing,
            a_stored_card_keeps_its_nature,
            another_account_sees_nothing,
            money_settles_after_its_time,
            voided_money_never_settles,
            a_refund_leaves_the_charge_settled,
            captured_is_captured_once_and_within_the_authorization,
            settled_money_is_not_voided,
            no_more_goes_back_than_was_taken,
            voided_money_is_neither_captured_nor_refunded,
        );
    };
    (@ $module:ident, $fixture:expr; $($check:ident,)*) => {
        mod $module {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $check() {
                    let fixture = $fixture.await;
                    $crate::providers::contract::$check(&fixture).await;
                }
            )*
        }
    };
}
pub(crate) use checks::*;
pub(crate) use contract_suite;

// --- asking -------------------------------------------------------------------------------------------------------------

pub(crate) fn noon() -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000).expect("in range")
}

fn dollars(minor: i64) -> Money {
    Money { minor, currency: "USD".parse().expect("a currency") }
}

pub(crate) fn request(fixture: &dyn Fixture, reference: &str, action: Action) -> Request {
    Request {
        account: fixture.account(),
        reference: reference.to_owned(),
        action,
        now: noon(),
        valid_until: Clock::system().now().plus(PROVIDER_TIMEOUT),
        return_url: None,
        payer: Some(Payer { email: "ada@example.com".to_owned(), name: "Ada Lovelace".to_owned() }),
        payer_address: None,
        recorded: Vec::new(),
    }
}

/// A charge of 12.50 by a fresh token; none if the provider has no such cards.
async fn charge(fixture: &dyn Fixture, reference: &str, wanted: Wanted, capture: bool) -> Option<Request> {
    let source = Source::Token(Secret::new(fixture.token(wanted).await?));
    Some(request(fixture, reference, Action::Charge { source, money: dollars(ASKED), capture }))
}

async fn sale(fixture: &dyn Fixture, reference: &str) -> Request {
    charge(fixture, reference, Wanted::Approval, true).await.expect("every provider approves something")
}

async fn execute(fixture: &dyn Fixture, request: &Request) -> Result<Answer, Fault> {
    fixture.provider().execute(request.clone()).await
}

async fn known(fixture: &dyn Fixture, request: &Request) -> Answer {
    execute(fixture, request).await.expect("nothing is wrong with the provider")
}

async fn look_up(fixture: &dyn Fixture, request: &Request) -> Found {
    fixture.provider().look_up(request.clone()).await.expect("nothing is wrong with the provider")
}

/// Asked about a charge that was made, and captured, at noon.
fn inquired(account: ProviderAccountId, charge: &str, now: Timestamp) -> Inquired {
    Inquired {
        account,
        charge: charge.to_owned(),
        reference: "op_1".to_owned(),
        created_at: noon(),
        captured_at: Some(noon()),
        now,
    }
}

async fn settled(fixture: &dyn Fixture, charge: &str, after: Duration) -> bool {
    let asked = fixture.provider().inquire(inquired(fixture.account(), charge, noon().plus(after)));
    asked.await.expect("nothing is wrong with the provider").standing == Standing::Settled
}

/// The provider's name for an approval, how much, and the card, where the provider says.
pub(crate) fn charged(answer: Answer) -> (String, i64, Option<Card>) {
    let Answer::Charged { provider_ref, amount, card } = answer else {
        panic!("an approval was wanted, not {answer:?}")
    };
    (provider_ref, amount, card)
}

pub(crate) fn declined(answer: Answer) -> Decline {
    let Answer::Declined { decline, .. } = answer else { panic!("a decline was wanted, not {answer:?}") };
    decline
}

fn assert_refused(answer: &Answer) {
    assert!(matches!(answer, Answer::Refused { reason, .. } if !reason.is_empty()), "{answer:?}");
}

fn assert_done(answer: &Answer) {
    assert!(matches!(answer, Answer::Done { provider_ref } if !provider_ref.is_empty()), "{answer:?}");
}

fn assert_shows(card: &Card) {
    assert!(!card.brand.is_empty() && card.brand == card.brand.to_lowercase(), "{card:?}");
    assert!(card.last4.len() == 4 && card.last4.bytes().all(|b| b.is_ascii_digit()), "{card:?}");
    assert!((1..=12).contains(&card.exp_month) && card.exp_year > 2000, "{card:?}");
}

/// One sale of the whole amount.
fn one_sale() -> Vec<Booked> {
    vec![Booked { amount: ASKED, captured: true }]
}

/// Waits until the books have an entry: nobody tells us when a request that we gave up on has arrived.
async fn eventually_booked(fixture: &dyn Fixture, reference: &str) -> Vec<Booked> {
    let look = async {
        loop {
            let booked = fixture.booked(reference).await;
            if !booked.is_empty() {
                return booked;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the request arrives although nobody waits for it")
}
