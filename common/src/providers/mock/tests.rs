//! The mock keeps the contract of every adapter, in each class; and what is the mock's own.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::PgPool;

use super::{Faults, Mock, Nature, SETTLES_AFTER, set_faults};
use crate::crypto::Secret;
use crate::db;
use crate::id::ProviderAccountId;
use crate::money::Money;
use crate::providers::contract::{Booked, Fixture, Wanted, charged, contract_suite, declined, noon, request};
use crate::providers::{Action, Decline, DeclineType, Provider, RecoveryClass, Source};

contract_suite!(class_a, MockFixture::new(RecoveryClass::Idempotent));
contract_suite!(class_b, MockFixture::new(RecoveryClass::Lookup));
contract_suite!(class_c, MockFixture::new(RecoveryClass::Neither));

/// The mock on a database of its own.
struct MockFixture {
    mock: Mock,
    db: PgPool,
    class: RecoveryClass,
    account: ProviderAccountId,
    other_account: ProviderAccountId,
    _database: testkit::Database,
}

impl MockFixture {
    async fn new(class: RecoveryClass) -> Self {
        let database = testkit::Database::create().await.expect("a database");
        let db = db::pool(&Secret::new(database.url().to_owned()), 10, "mock-provider").expect("its address");
        let fixture = Self {
            mock: Mock::new(db.clone()),
            db,
            class,
            account: ProviderAccountId::new(noon()),
            other_account: ProviderAccountId::new(noon()),
            _database: database,
        };
        for account in [fixture.account, fixture.other_account] {
            let faults = Faults { recovery: Some(class), ..Faults::default() };
            set_faults(&fixture.db, account, &faults).await.expect("set");
        }
        fixture
    }

    async fn order(&self, faults: Faults) {
        set_faults(&self.db, self.account, &faults).await.expect("set");
    }

    async fn count(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM mock.transactions").fetch_one(&self.db).await.expect("counted")
    }

    fn sale(&self, token: &str, minor: i64) -> Action {
        let money = Money { minor, currency: "JPY".parse().expect("a currency") };
        Action::Charge { source: Source::Token(Secret::new(token.to_owned())), money, capture: true }
    }
}

impl Fixture for MockFixture {
    fn provider(&self) -> &dyn Provider {
        &self.mock
    }

    fn class(&self) -> RecoveryClass {
        self.class
    }

    fn account(&self) -> ProviderAccountId {
        self.account
    }

    fn other_account(&self) -> ProviderAccountId {
        self.other_account
    }

    fn token(&self, wanted: Wanted) -> BoxFuture<'_, Option<String>> {
        let nature = match wanted {
            Wanted::Approval => Nature::Approves,
            Wanted::Part => Nature::Partial,
            Wanted::Decline => Nature::Insufficient,
        };
        async move { Some(nature.token().to_owned()) }.boxed()
    }

    fn booked<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Vec<Booked>> {
        async move {
            let rows: Vec<(i64, String)> = sqlx::query_as(
                "SELECT amount, kind FROM mock.transactions
                 WHERE account = $1 AND reference = $2 AND approved AND kind IN ('sale', 'authorize') ORDER BY created_at",
            )
            .bind(self.account.uuid())
            .bind(reference)
            .fetch_all(&self.db)
            .await
            .expect("the books can be read");
            rows.into_iter().map(|(amount, kind)| Booked { amount, captured: kind == "sale" }).collect()
        }
        .boxed()
    }

    fn lose_an_answer(&self) -> BoxFuture<'_, ()> {
        self.order(Faults { lose_answers: Some(1), ..Faults::default() }).boxed()
    }

    fn take(&self, latency: Duration) -> BoxFuture<'_, ()> {
        let latency_ms = i32::try_from(latency.as_millis()).expect("a short time");
        self.order(Faults { latency_ms: Some(latency_ms), ..Faults::default() }).boxed()
    }

    fn refuse(&self) -> BoxFuture<'_, ()> {
        self.order(Faults { refuse: Some(true), ..Faults::default() }).boxed()
    }

    fn settles_after(&self) -> Duration {
        SETTLES_AFTER
    }
}

#[tokio::test]
async fn half_is_rounded_down_and_half_of_one_is_a_soft_decline() {
    let fixture = MockFixture::new(RecoveryClass::Idempotent).await;
    for (asked, half) in [(1_251, 625), (1_250, 625), (3, 1), (2, 1)] {
        let sale = request(&fixture, &format!("op_{asked}"), fixture.sale("tok_partial", asked));
        assert_eq!(charged(fixture.mock.execute(sale).await.expect("known")).1, half, "{asked}");
    }
    let sale = request(&fixture, "op_1", fixture.sale("tok_partial", 1));
    let soft = Decline { code: "insufficient_funds".into(), kind: DeclineType::Soft };
    assert_eq!(declined(fixture.mock.execute(sale).await.expect("known")), soft);
}

#[tokio::test]
async fn only_so_many_answers_are_lost_as_were_ordered() {
    let fixture = MockFixture::new(RecoveryClass::Idempotent).await;
    fixture.order(Faults { lose_answers: Some(2), ..Faults::default() }).await;
    let mut lost = Vec::new();
    for n in 0..4 {
        let sale = request(&fixture, &format!("op_{n}"), fixture.sale("tok_ok", 100));
        lost.push(fixture.mock.execute(sale).await.is_err());
    }
    assert_eq!(lost, [true, true, false, false]);
    assert_eq!(fixture.count().await, 4, "what was lost is booked all the same");
}

#[tokio::test]
async fn a_refusal_ends_and_the_same_reference_is_free_again() {
    let fixture = MockFixture::new(RecoveryClass::Lookup).await;
    let sale = request(&fixture, "op_1", fixture.sale("tok_ok", 100));
    fixture.refuse().await;
    fixture.mock.execute(sale.clone()).await.expect_err("turned away");
    fixture.order(Faults { refuse: Some(false), ..Faults::default() }).await;
    charged(fixture.mock.execute(sale).await.expect("known"));
}

#[tokio::test]
async fn a_stored_card_is_one_card_however_often_its_reference_comes() {
    let fixture = MockFixture::new(RecoveryClass::Neither).await;
    let store = || Action::StoreCard { token: Secret::new("tok_ok".to_owned()) };
    let first = fixture.mock.execute(request(&fixture, "op_1", store())).await.expect("known");
    let again = fixture.mock.execute(request(&fixture, "op_1", store())).await.expect("known");
    assert_eq!(first, again);
    assert_ne!(first, fixture.mock.execute(request(&fixture, "op_2", store())).await.expect("known"));
}

#[tokio::test]
async fn what_no_books_say_is_unknown_and_not_a_refusal() {
    let fixture = MockFixture::new(RecoveryClass::Idempotent).await;
    let sale = request(&fixture, "op_1", fixture.sale("tok_ok", 100));
    sqlx::query("ALTER TABLE mock.transactions RENAME TO gone").execute(&fixture.db).await.expect("renamed");
    let answer = fixture.mock.execute(sale).await;
    assert!(matches!(answer, Err(crate::providers::Fault::Unknown(_))), "{answer:?}");
}
