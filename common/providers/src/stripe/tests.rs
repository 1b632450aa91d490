//! The adapter passes the adapter contract against a double of Stripe, and has some tests of its own.

mod statement;
mod voids;

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use testkit::Database;
use testkit::stripe::{self as double, CardBehavior, StripeKeys};
use tokio::sync::OnceCell;

use super::charge::CHALLENGE_LIFETIME;
use super::wire::{Form, Reply};
use super::{Credentials, KEYS_ARE_KEPT, Stripe};
use crate::contract::{
    BookedCharge, CardOutcome, Fixture, TIMEOUT, add_account, charged, contract_suite, declined, noon, request,
};
use crate::credentials::Stored as _;
use crate::{
    Action, ChargeInquiry, ChargeReport, ChargeStatus, DeclineType, DisputeReason, DisputeStatus, Entry, Found,
    OperationKind, Provider, ProviderError, ProviderKind, ProviderResponse, RecoveryClass, Request, Source,
};
use foundation::clock::Clock;
use foundation::crypto::{EncryptionKey, KeyRing, Secret};
use foundation::db;
use foundation::id::{AccountId, ProviderAccountId};
use foundation::money::Money;

contract_suite!(class_a, StripeFixture::new());

// What Stripe's test mode can show: it has no clock of ours, and refuses the same key twice at once. `./dev stripe-check`
// runs this there, and the nightly run at a double.
contract_suite!(ignored "as class_a, unless at Stripe", at_stripe, StripeFixture::at_stripe();
    declares_its_recovery_class,
    charges_are_approved_in_full,
    authorizations_do_not_settle_until_captured,
    declines_have_a_code_and_a_type,
    unknown_tokens_are_refused,
    unknown_charges_are_refused,
    repeated_references_follow_the_recovery_class,
    repeated_declines_charge_nothing,
    unknown_references_are_not_found,
    a_client_timeout_does_not_cancel_the_charge,
    a_lost_response_is_unknown_and_booked,
    rejected_requests_book_nothing,
    stored_cards_keep_their_behavior,
    voided_charges_never_settle,
    refunded_charges_stay_settled,
    captures_happen_once_and_within_the_authorization,
    refunds_cannot_exceed_the_captured_amount,
    voided_charges_cannot_be_captured_or_refunded,
);

/// Two accounts at a double of Stripe, or one at Stripe itself, and the adapter.
struct StripeFixture {
    adapter: Stripe,
    stripe: double::Stripe,
    keys: StripeKeys,
    account: ProviderAccountId,
    other_account: ProviderAccountId,
    /// What references begin with at Stripe, which remembers those of earlier runs.
    run: Option<String>,
    remote: Option<double::Stripe>,
}

/// The database of all fixtures, each of which has accounts of its own.
async fn database() -> &'static Database {
    static SHARED: OnceCell<Database> = OnceCell::const_new();
    SHARED.get_or_init(async || Database::create().await.expect("a database")).await
}

impl StripeFixture {
    async fn new() -> Self {
        let stripe = double::Stripe::start().expect("a double");
        stripe.stop_clock(noon().as_millisecond() / 1000);
        let (keys, other) = (stripe.account(), stripe.account());
        Self::connected(stripe, [keys, other], None).await
    }

    /// Stripe, behind a proxy that adds the faults, if the environment has a key of its test mode; otherwise a double.
    async fn at_stripe() -> Self {
        let (url, keys, remote) = match std::env::var("STRIPE_SECRET_KEY") {
            Ok(secret_key) => {
                assert!(secret_key.contains("_test_"), "a key of the test mode");
                let (publishable_key, webhook_secret) = ("pk_test_unused".to_owned(), "whsec_unused".to_owned());
                (super::BASE_URL.to_owned(), StripeKeys { secret_key, publishable_key, webhook_secret }, None)
            }
            Err(_) => {
                let remote = double::Stripe::start().expect("a double");
                (remote.url().to_owned(), remote.account(), Some(remote))
            }
        };
        let stripe = double::Stripe::before(&url).expect("a proxy");
        let run = format!("check_{}_", foundation::crypto::random_hex(8));
        let mut fixture = Self::connected(stripe, [keys.clone(), keys], Some(run)).await;
        fixture.remote = remote;
        fixture
    }

    async fn connected(stripe: double::Stripe, [keys, other]: [StripeKeys; 2], run: Option<String>) -> Self {
        let db = db::pool(&Secret::new(database().await.url().to_owned()), 2, "stripe-tests").expect("its address");
        let encryption = KeyRing::new(EncryptionKey::from_hex(&"00".repeat(32)).expect("a key"), vec![]);
        let connect = async |keys: &StripeKeys| {
            let id = ProviderAccountId::new(Clock::system().now());
            let credentials = Credentials::parse(&keys.json()).expect("credentials");
            let sealed = credentials.seal(&encryption, AccountId::from_uuid(id.uuid()), id);
            add_account(&db, id, ProviderKind::Stripe, Some(&sealed)).await;
            id
        };
        let (account, other_account) = (connect(&keys).await, connect(&other).await);
        let adapter = Stripe::new(Some(stripe.url().to_owned()), db.clone(), encryption);
        Self { adapter, stripe, keys, account, other_account, run, remote: None }
    }

    /// The payments at Stripe itself.
    async fn remote_intents(&self) -> Vec<Value> {
        let account = self.adapter.accounts.of(self.account).await.expect("credentials");
        let list: Option<super::objects::List<Value>> =
            self.adapter.wire.with(&account).get("/v1/payment_intents?limit=100").await.expect("a list");
        list.expect("a list").data
    }

    /// Posts a form under an idempotency key.
    async fn post(&self, path: &str, key: &str, form: Form) -> Reply<Value> {
        let account = self.adapter.accounts.of(self.account).await.expect("credentials");
        self.adapter.wire.with(&account).post(path, key, form).await.expect("a reply")
    }

    fn card(&self, behavior: CardBehavior) -> Source {
        Source::Token(Secret::new(self.stripe.token(&self.keys, behavior)))
    }

    fn sale(&self, reference: &str, behavior: CardBehavior) -> Request {
        request(self, reference, Action::Charge { source: self.card(behavior), money: dollars(1_250), capture: true })
    }

    async fn execute(&self, request: &Request) -> ProviderResponse {
        self.adapter.execute(request.clone()).await.expect("a response")
    }

    async fn look_up(&self, request: &Request) -> Found {
        self.adapter.look_up(request.clone()).await.expect("a response")
    }

    async fn report(&self, charge: &str, after: Duration) -> ChargeReport {
        let inquiry = ChargeInquiry {
            account: self.account,
            charge: charge.to_owned(),
            reference: "op_1".to_owned(),
            created_at: noon(),
            captured_at: Some(noon()),
            now: noon().plus(after),
        };
        self.adapter.inquire(inquiry).await.expect("a report")
    }
}

fn dollars(minor: i64) -> Money {
    Money { minor, currency: "USD".parse().expect("a currency") }
}

impl Fixture for StripeFixture {
    fn provider(&self) -> &dyn Provider {
        &self.adapter
    }

    fn class(&self) -> RecoveryClass {
        RecoveryClass::IdempotentFor(KEYS_ARE_KEPT)
    }

    fn account(&self) -> ProviderAccountId {
        self.account
    }

    fn other_account(&self) -> ProviderAccountId {
        self.other_account
    }

    fn token(&self, outcome: CardOutcome) -> BoxFuture<'_, Option<String>> {
        let behavior = match outcome {
            CardOutcome::Approval => Some(CardBehavior::Approve),
            // Stripe approves in full or not at all.
            CardOutcome::Part => None,
            CardOutcome::Decline => Some(CardBehavior::DeclineCharges("insufficient_funds")),
        };
        let token = |behavior| match (&self.run, behavior) {
            (None, behavior) => self.stripe.token(&self.keys, behavior),
            (Some(_), CardBehavior::Approve) => "pm_card_visa".to_owned(),
            (Some(_), _) => "pm_card_chargeCustomerFail".to_owned(),
        };
        std::future::ready(behavior.map(token)).boxed()
    }

    fn booked<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Vec<BookedCharge>> {
        async move {
            let intents = match self.run {
                None => self.stripe.objects(&self.keys, "payment_intent"),
                Some(_) => self.remote_intents().await,
            };
            let unique = self.unique(reference);
            let approved = |intent: &&Value| {
                (intent["metadata"]["reference"] == unique || intent["metadata"]["reference"] == reference)
                    && (intent["status"] == "succeeded" || intent["status"] == "requires_capture")
            };
            let booked = intents.iter().filter(approved).map(|intent| BookedCharge {
                amount: intent["amount"].as_i64().expect("an amount"),
                captured: intent["status"] == "succeeded",
            });
            booked.collect()
        }
        .boxed()
    }

    fn unique(&self, reference: &str) -> String {
        format!("{}{reference}", self.run.as_deref().unwrap_or_default())
    }

    fn drop_next_response(&self) -> BoxFuture<'_, ()> {
        self.stripe.lose_responses(1);
        std::future::ready(()).boxed()
    }

    fn hold_requests(&self) -> BoxFuture<'_, ()> {
        self.stripe.hold(true);
        std::future::ready(()).boxed()
    }

    fn holds_a_request(&self) -> BoxFuture<'_, ()> {
        let held = tokio::time::timeout(TIMEOUT, self.stripe.holds_a_request());
        held.map(|held| held.expect("the request arrives")).boxed()
    }

    fn release_requests(&self) -> BoxFuture<'_, ()> {
        self.stripe.hold(false);
        std::future::ready(()).boxed()
    }

    fn reject_requests(&self) -> BoxFuture<'_, ()> {
        self.stripe.refuse(Some(429));
        std::future::ready(()).boxed()
    }

    fn settles_after(&self) -> Duration {
        double::AVAILABLE_AFTER
    }

    fn advance(&self, time: Duration) -> BoxFuture<'_, ()> {
        self.stripe.advance(time);
        std::future::ready(()).boxed()
    }
}

impl Drop for StripeFixture {
    fn drop(&mut self) {
        if self.run.is_some() && self.remote.is_none() {
            println!("left at Stripe: {}", self.stripe.left().join(" "));
        }
    }
}

// --- tests of this adapter -------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_key_is_looked_up_by_our_reference() {
    let fixture = StripeFixture::new().await;
    let sale = fixture.sale("op_1", CardBehavior::Approve);
    let response = fixture.execute(&sale).await;
    fixture.stripe.forget_keys();
    assert_eq!(fixture.look_up(&sale).await, Found::Nothing, "the search lags");
    fixture.stripe.advance(double::SEARCH_LAG);
    assert_eq!(fixture.look_up(&sale).await, Found::Response(response.clone()));
    let (charge, ..) = charged(response);
    for (reference, action) in [
        ("op_2", Action::Refund { charge: charge.clone(), money: dollars(50) }),
        ("op_3", Action::Refund { charge: charge.clone(), money: dollars(50) }),
    ] {
        let follow = request(&fixture, reference, action);
        assert_eq!(fixture.look_up(&follow).await, Found::Nothing);
        let response = fixture.execute(&follow).await;
        assert_eq!(fixture.look_up(&follow).await, Found::Response(response));
    }
}

/// Stripe returns a hundred at once.
#[tokio::test(flavor = "multi_thread")]
async fn all_refunds_of_a_charge_are_read() {
    let fixture = StripeFixture::new().await;
    let (charge, ..) = charged(fixture.execute(&fixture.sale("op_1", CardBehavior::Approve)).await);
    let refund = |n: usize| {
        let action = Action::Refund { charge: charge.clone(), money: dollars(1) };
        request(&fixture, &format!("op_refund_{n}"), action)
    };
    let oldest = fixture.execute(&refund(0)).await;
    for n in 1..=200 {
        fixture.execute(&refund(n)).await;
    }
    let lines = fixture.report(&charge, Duration::ZERO).await.lines.expect("lines");
    assert_eq!(lines.iter().filter(|line| line.entry == Entry::Refund).count(), 201);
    assert_eq!(fixture.look_up(&refund(0)).await, Found::Response(oldest));
    assert_eq!(fixture.look_up(&refund(201)).await, Found::Nothing);
}

#[tokio::test(flavor = "multi_thread")]
async fn captures_and_voids_are_found_in_their_charge() {
    let fixture = StripeFixture::new().await;
    let authorize = |reference: &str| {
        let source = fixture.card(CardBehavior::Approve);
        request(&fixture, reference, Action::Charge { source, money: dollars(1_250), capture: false })
    };
    let (first, ..) = charged(fixture.execute(&authorize("op_1")).await);
    let (second, ..) = charged(fixture.execute(&authorize("op_2")).await);
    let (third, ..) = charged(fixture.execute(&fixture.sale("op_3", CardBehavior::Approve)).await);
    for (reference, action) in [
        ("op_4", Action::Capture { charge: first, money: dollars(1_000) }),
        ("op_5", Action::Void { charge: second }),
        ("op_6", Action::Void { charge: third }),
    ] {
        let follow = request(&fixture, reference, action);
        assert_eq!(fixture.look_up(&follow).await, Found::Nothing);
        let response = fixture.execute(&follow).await;
        assert_eq!(fixture.look_up(&follow).await, Found::Response(response));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_is_pending_until_the_cardholder_answers() {
    let fixture = StripeFixture::new().await;
    for (reference, passes) in [("op_1", true), ("op_2", false)] {
        let url = Some("https://shop.example/thanks".to_owned());
        let sale = Request { return_url: url, ..fixture.sale(reference, CardBehavior::Challenge) };
        let ProviderResponse::Challenged { url } = fixture.execute(&sale).await else { panic!("no challenge") };
        let intent = url.rsplit('/').next().expect("an id").to_owned();
        assert!(matches!(fixture.execute(&sale).await, ProviderResponse::Challenged { .. }), "again");
        fixture.stripe.advance(double::SEARCH_LAG);
        assert_eq!(fixture.look_up(&sale).await, Found::Pending);
        fixture.stripe.answer_challenge(&fixture.keys, &intent, passes);
        let response = fixture.execute(&sale).await;
        assert_eq!(fixture.look_up(&sale).await, Found::Response(response.clone()));
        if passes {
            assert_eq!(charged(response).0, intent);
        } else {
            assert_eq!(declined(response).code, "authentication_failed");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_cardholder_a_challenge_is_a_decline() {
    let fixture = StripeFixture::new().await;
    let decline = declined(fixture.execute(&fixture.sale("op_1", CardBehavior::Challenge)).await);
    assert_eq!((decline.code.as_str(), decline.kind), ("authentication_required", DeclineType::Hard));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_expires_or_is_open_until_it_does() {
    let fixture = StripeFixture::new().await;
    let source = fixture.card(CardBehavior::Approve);
    let authorize = request(&fixture, "op_1", Action::Charge { source, money: dollars(1_250), capture: false });
    let (charge, ..) = charged(fixture.execute(&authorize).await);
    let report = fixture.report(&charge, Duration::ZERO).await;
    let ChargeStatus::Open { until: Some(until) } = report.status else { panic!("{report:?}") };
    let seconds = (until.as_millisecond() - noon().as_millisecond()) / 1000;
    fixture.stripe.advance(Duration::from_secs(seconds.try_into().expect("later")));
    let report = fixture.report(&charge, Duration::ZERO).await;
    assert_eq!(report.status, ChargeStatus::Expired);
    let entries: Vec<_> = report.lines.into_iter().flatten().map(|line| line.entry).collect();
    assert_eq!(entries, [Entry::Charge], "nobody requested a void");
    let Found::Response(found) = fixture.look_up(&authorize).await else { panic!("not found") };
    assert_eq!(charged(found).0, charge, "it was approved then");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_key_and_of_one_request_differ() {
    let fixture = StripeFixture::new().await;
    fixture.stripe.forbid(&fixture.keys, "PaymentIntents: write");
    let refused = fixture.adapter.execute(fixture.sale("op_1", CardBehavior::Approve)).await;
    let is = |error: &Result<_, ProviderError>, expected| matches!(error, Err(ProviderError::NotProcessed { cause, .. }) if *cause == expected);
    assert!(is(&refused, crate::Cause::Setup), "{refused:?}");
    for (status, cause) in [(401, crate::Cause::Credentials), (429, crate::Cause::Unavailable)] {
        fixture.stripe.refuse(Some(status));
        let refused = fixture.adapter.execute(fixture.sale("op_2", CardBehavior::Approve)).await;
        assert!(is(&refused, cause), "{status}: {refused:?}");
    }
    // 409: another request with this key is in progress.
    for status in [409, 500, 503] {
        fixture.stripe.refuse(Some(status));
        let failed = fixture.adapter.execute(fixture.sale("op_2", CardBehavior::Approve)).await;
        assert!(matches!(failed, Err(ProviderError::Unknown(_))), "{status}: {failed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_stripe_repeats_is_looked_up() {
    let fixture = StripeFixture::new().await;
    let sale = fixture.sale("op_1", CardBehavior::Approve);
    fixture.stripe.break_responses(1);
    for attempt in ["the first", "the repeated"] {
        let failed = fixture.adapter.execute(sale.clone()).await;
        assert!(matches!(failed, Err(ProviderError::Unknown(_))), "{attempt}: {failed:?}");
    }
    // The look-up after it is refused: the outcome is as unknown as before.
    fixture.stripe.forbid(&fixture.keys, "PaymentIntents: read");
    let failed = fixture.adapter.execute(sale.clone()).await;
    assert!(matches!(failed, Err(ProviderError::Unknown(_))), "{failed:?}");
    fixture.stripe.permit(&fixture.keys, "PaymentIntents: read");
    fixture.stripe.advance(double::SEARCH_LAG);
    charged(fixture.execute(&sale).await);
    assert_eq!(fixture.booked("op_1").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_used_with_other_parameters_is_looked_up() {
    let fixture = StripeFixture::new().await;
    let url = |host: &str| Some(format!("https://{host}.example/pay"));
    let sale = Request { return_url: url("before"), ..fixture.sale("op_1", CardBehavior::Approve) };
    let (charge, ..) = charged(fixture.execute(&sale).await);
    let other = Request { return_url: url("after"), ..sale };
    let failed = fixture.adapter.execute(other.clone()).await;
    assert!(matches!(failed, Err(ProviderError::Unknown(_))), "the search lags: {failed:?}");
    fixture.stripe.advance(double::SEARCH_LAG);
    assert_eq!(charged(fixture.execute(&other).await).0, charge);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_stripe_created_and_did_not_attempt_was_never_processed() {
    let fixture = StripeFixture::new().await;
    let sale = Request { valid_until: noon(), ..fixture.sale("op_1", CardBehavior::NotAttempted) };
    for wait in [Duration::ZERO, CHALLENGE_LIFETIME.saturating_sub(Duration::from_secs(1))] {
        let failed = fixture.adapter.execute(Request { valid_until: noon().plus(wait), ..sale.clone() }).await;
        assert!(matches!(failed, Err(ProviderError::Unknown(_))), "{wait:?}: {failed:?}");
    }
    let late = Request { valid_until: noon().plus(CHALLENGE_LIFETIME), ..sale };
    fixture.stripe.advance(double::SEARCH_LAG);
    let never = ProviderResponse::never_processed("Stripe did not attempt the payment");
    assert_eq!(fixture.execute(&late).await, never);
    assert_eq!(fixture.look_up(&late).await, Found::Response(never));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_challenge_is_cancelled_and_declined() {
    let fixture = StripeFixture::new().await;
    let url = Some("https://shop.example/thanks".to_owned());
    let sale = Request { return_url: url, valid_until: noon(), ..fixture.sale("op_1", CardBehavior::Challenge) };
    assert!(matches!(fixture.execute(&sale).await, ProviderResponse::Challenged { .. }));
    let late = |time| Request { valid_until: noon().plus(time), ..sale.clone() };
    let in_time = late(CHALLENGE_LIFETIME.saturating_sub(Duration::from_secs(1)));
    assert!(matches!(fixture.execute(&in_time).await, ProviderResponse::Challenged { .. }));
    assert_eq!(declined(fixture.execute(&late(CHALLENGE_LIFETIME)).await).code, "authentication_failed");
    assert_eq!(fixture.stripe.objects(&fixture.keys, "payment_intent")[0]["status"], "canceled");
}

#[tokio::test]
async fn only_what_moves_money_may_need_a_manual_review() {
    let fixture = StripeFixture::new().await;
    let class = async |kind| fixture.adapter.recovery(fixture.account, kind).await.expect("a class");
    assert_eq!(class(OperationKind::StoreCard).await, RecoveryClass::Idempotent);
    assert_eq!(class(OperationKind::Refund).await, RecoveryClass::IdempotentFor(KEYS_ARE_KEPT));
}
