//! The mock passes the adapter contract in each recovery class, and has some tests of its own.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::{Connection, PgConnection, PgPool};
use tokio::sync::Mutex;

use super::{CardBehavior, Faults, Mock, SETTLES_AFTER, set_faults};
use crate::contract::{
    BookedCharge, CardOutcome, Fixture, POLL_INTERVAL, TIMEOUT, charged, contract_suite, declined, noon, request,
};
use crate::{Action, Decline, DeclineType, Provider, RecoveryClass, Source};
use foundation::crypto::Secret;
use foundation::db;
use foundation::id::ProviderAccountId;
use foundation::money::Money;

contract_suite!(class_a, MockFixture::new(RecoveryClass::Idempotent));
contract_suite!(by_class class_b, MockFixture::new(RecoveryClass::Lookup));
contract_suite!(by_class class_c, MockFixture::new(RecoveryClass::Neither));

/// A mock on its own database.
struct MockFixture {
    mock: Mock,
    db: PgPool,
    class: RecoveryClass,
    account: ProviderAccountId,
    other_account: ProviderAccountId,
    /// Locks the ledger while requests are held.
    holder: Mutex<Option<PgConnection>>,
    database: testkit::Database,
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
            holder: Mutex::default(),
            database,
        };
        for account in [fixture.account, fixture.other_account] {
            let faults = Faults { recovery: Some(class), ..Faults::default() };
            set_faults(&fixture.db, account, &faults).await.expect("set");
        }
        fixture
    }

    async fn configure(&self, faults: Faults) {
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

    fn token(&self, outcome: CardOutcome) -> BoxFuture<'_, Option<String>> {
        let behavior = match outcome {
            CardOutcome::Approval => CardBehavior::Approves,
            CardOutcome::Part => CardBehavior::Partial,
            CardOutcome::Decline => CardBehavior::Insufficient,
        };
        async move { Some(behavior.token().to_owned()) }.boxed()
    }

    fn booked<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Vec<BookedCharge>> {
        async move {
            let rows: Vec<(i64, String)> = sqlx::query_as(
                "SELECT amount, kind FROM mock.transactions
                 WHERE account = $1 AND reference = $2 AND approved AND kind IN ('sale', 'authorize') ORDER BY created_at",
            )
            .bind(self.account.uuid())
            .bind(reference)
            .fetch_all(&self.db)
            .await
            .expect("the ledger can be read");
            rows.into_iter().map(|(amount, kind)| BookedCharge { amount, captured: kind == "sale" }).collect()
        }
        .boxed()
    }

    fn drop_next_response(&self) -> BoxFuture<'_, ()> {
        self.configure(Faults { lose_responses: Some(1), ..Faults::default() }).boxed()
    }

    /// Locks the ledger against writes.
    fn hold_requests(&self) -> BoxFuture<'_, ()> {
        async move {
            // With a latency the mock writes the charge in the task of its request, not in the one that writes batches.
            self.configure(Faults { latency_ms: Some(2), ..Faults::default() }).await;
            let mut holder = PgConnection::connect(self.database.url()).await.expect("a connection");
            let lock = "BEGIN; LOCK TABLE mock.transactions IN EXCLUSIVE MODE";
            sqlx::raw_sql(lock).execute(&mut holder).await.expect("locked");
            *self.holder.lock().await = Some(holder);
        }
        .boxed()
    }

    fn holds_a_request(&self) -> BoxFuture<'_, ()> {
        const WAITING: &str =
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'mock.transactions'::regclass";
        async move {
            let held = async {
                while sqlx::query_scalar::<_, i64>(WAITING).fetch_one(&self.db).await.expect("read") == 0 {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            };
            tokio::time::timeout(TIMEOUT, held).await.expect("a request is held");
        }
        .boxed()
    }

    fn release_requests(&self) -> BoxFuture<'_, ()> {
        async move { self.holder.lock().await.take().expect("held").close().await.expect("released") }.boxed()
    }

    fn reject_requests(&self) -> BoxFuture<'_, ()> {
        self.configure(Faults { refuse: Some(true), ..Faults::default() }).boxed()
    }

    fn settles_after(&self) -> Duration {
        SETTLES_AFTER
    }
}

#[tokio::test]
async fn partial_approvals_round_down_and_zero_is_a_soft_decline() {
    let fixture = MockFixture::new(RecoveryClass::Idempotent).await;
    for (requested, half) in [(1_251, 625), (1_250, 625), (3, 1), (2, 1)] {
        let sale = request(&fixture, &format!("op_{requested}"), fixture.sale("tok_partial", requested));
        assert_eq!(charged(fixture.mock.execute(sale).await.expect("a response")).1, half, "{requested}");
    }
    let sale = request(&fixture, "op_1", fixture.sale("tok_partial", 1));
    let soft = Decline { code: "insufficient_funds".into(), kind: DeclineType::Soft };
    assert_eq!(declined(fixture.mock.execute(sale).await.expect("a response")), soft);
}

#[tokio::test]
async fn exactly_the_configured_number_of_responses_is_dropped() {
    let fixture = MockFixture::new(RecoveryClass::Idempotent).await;
    fixture.configure(Faults { lose_responses: Some(2), ..Faults::default() }).await;
    let mut lost = Vec::new();
    for n in 0..4 {
        let sale = request(&fixture, &format!("op_{n}"), fixture.sale("tok_ok", 100));
        lost.push(fixture.mock.execute(sale).await.is_err());
    }
    assert_eq!(lost, [true, true, false, false]);
    assert_eq!(fixture.count().await, 4, "a dropped response is booked too");
}

#[tokio::test]
async fn a_rejected_reference_can_be_reused_after_the_outage() {
    let fixture = MockFixture::new(RecoveryClass::Lookup).await;
    let sale = request(&fixture, "op_1", fixture.sale("tok_ok", 100));
    fixture.reject_requests().await;
    fixture.mock.execute(sale.clone()).await.expect_err("rejected");
    fixture.configure(Faults { refuse: Some(false), ..Faults::default() }).await;
    charged(fixture.mock.execute(sale).await.expect("a response"));
}

#[tokio::test]
async fn storing_a_card_is_idempotent_by_reference() {
    let fixture = MockFixture::new(RecoveryClass::Neither).await;
    let store = || Action::StoreCard { token: Secret::new("tok_ok".to_owned()) };
    let first = fixture.mock.execute(request(&fixture, "op_1", store())).await.expect("a response");
    let again = fixture.mock.execute(request(&fixture, "op_1", store())).await.expect("a response");
    assert_eq!(first, again);
    assert_ne!(first, fixture.mock.execute(request(&fixture, "op_2", store())).await.expect("a response"));
}

#[tokio::test]
async fn a_ledger_failure_is_unknown_and_not_a_refusal() {
    let fixture = MockFixture::new(RecoveryClass::Idempotent).await;
    let sale = request(&fixture, "op_1", fixture.sale("tok_ok", 100));
    sqlx::query("ALTER TABLE mock.transactions RENAME TO gone").execute(&fixture.db).await.expect("renamed");
    let response = fixture.mock.execute(sale).await;
    assert!(matches!(response, Err(crate::ProviderError::Unknown(_))), "{response:?}");
}
