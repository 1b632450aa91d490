//! Tests of use cases at chosen times, each on its own database.

mod batches;
mod billed_days;
mod clocks;
mod detached_cards;
mod locks;
mod permits;
mod stale_reports;
mod subscriptions;

use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusRecorder;
use sqlx::AssertSqlSafe;

use crate::{Intents, PaymentRequest, PaymentSource, TakenPayment, create_customer, take_payment};
use domain::accounts::{self, AccountSettings, AccountTime, Caller, KeyKind, Mode, Rate};
use domain::customers::{CustomFields, NewCustomer};
use domain::invoices::Item;
use domain::operations::Origin;
use domain::recurring_invoices::{IssueMode, NewRecurringInvoice, SentCadence, Template};
use foundation::calendar::{PaymentTerms, Unit};
use foundation::crypto::{EncryptionKey, KeyRing, Secret};
use foundation::db::{self, Db};
use foundation::error::Result;
use foundation::id::{CustomerId, KeyId, OperationId, PaymentId, ProviderAccountId};
use foundation::merchant_data::MerchantData;
use foundation::money::Money;
use foundation::time::Timestamp;
use providers::ProviderKind;
use providers::capabilities::{Connected, Grants};

pub(super) fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("an instant")
}

/// How often a recorder has counted failed work of this kind.
pub(super) fn failed(recorder: &PrometheusRecorder, work: &str) -> Option<String> {
    let series = format!("billing_cycles_failed_total{{work=\"{work}\"}} ");
    recorder.handle().render().lines().find_map(|line| line.strip_prefix(&series).map(str::to_owned))
}

/// A database without scheduler and worker, so that due work runs only when a test runs it.
pub(super) struct Fixture {
    pub(super) db: Db,
    _database: Arc<testkit::Database>,
}

impl Fixture {
    pub(super) async fn open() -> Self {
        let database = testkit::Database::create().await.expect("a database");
        let pool = db::pool(&Secret::new(database.url().to_owned()), 20, "flows").expect("a valid URL");
        let redis = testkit::shared().await.expect("a Redis").redis.url();
        let db = Db::new(pool, queue::Publisher::connect(&queue::Redis::new(&redis).expect("a valid URL")));
        foundation::public_url::set("https://pay.example".to_owned());
        Self { db, _database: Arc::new(database) }
    }

    /// Creates a test account.
    pub(super) async fn account(&self, now: Timestamp) -> Caller {
        let settings = AccountSettings {
            name: Some("Shop".into()),
            provider: Some(ProviderKind::Mock),
            ..AccountSettings::default()
        };
        let account_id = accounts::create(&*self.db, now, None, Mode::Test, &settings).await.expect("an account");
        let provider_account = "SELECT id FROM provider_accounts WHERE account_id = $1";
        let provider_account = sqlx::query_scalar(provider_account).bind(account_id.uuid());
        let provider_account = provider_account.fetch_one(&*self.db).await.expect("its provider account");
        Caller {
            key_id: KeyId::new(now),
            key_kind: KeyKind::Secret,
            account_id,
            mode: Mode::Test,
            provider_account_id: ProviderAccountId::from_uuid(provider_account),
            provider: ProviderKind::Mock,
            currencies: None,
            grants: Grants { entitlements: None, unsupported: vec![], forbidden: vec![], connected: Connected::ALL },
            allowed_origins: vec![],
            rate: Rate::default_of(Mode::Test),
            signing_secret: None,
            modifiers: serde_json::json!({}),
            time: AccountTime::new(account_id, false),
        }
    }

    /// Creates a customer.
    pub(super) async fn customer(&self, caller: &Caller, now: Timestamp) -> CustomerId {
        let new = NewCustomer {
            email: "ada@example.com".into(),
            name: None,
            phone: None,
            merchant_data: MerchantData::default(),
            custom_fields: CustomFields::default(),
        };
        create_customer(&self.db, caller, new, None, now).await.expect("a customer").into_new().id
    }
}

/// A recurring invoice for rent, with this cadence, from this day or from today on.
pub(super) fn rent(customer: CustomerId, unit: Unit, start_date: Option<&str>) -> NewRecurringInvoice {
    let item = Item { description: "Rent".into(), quantity: 1, unit_amount: 500 };
    let cadence = SentCadence { unit, interval: 1, day_of_month: None };
    NewRecurringInvoice {
        customer_id: customer.to_string(),
        name: None,
        cadence: cadence.with(false).expect("a cadence"),
        start_date: start_date.map(|day| day.parse().expect("a day")),
        end_date: None,
        issue_mode: IssueMode::AutoSend,
        template: Template {
            currency: "USD".parse().expect("a currency"),
            payment_terms: PaymentTerms::Net7,
            description: None,
            bill: Template::bill(vec![item], None, None).expect("an amount"),
        },
        merchant_data: MerchantData::default(),
    }
}

/// A test account with a customer.
struct Shop {
    db: Db,
    caller: Caller,
    customer: CustomerId,
    _database: Arc<testkit::Database>,
}

/// A payment of this many cents.
fn payment_of(minor: i64, source: PaymentSource) -> PaymentRequest {
    PaymentRequest {
        money: Money { minor, currency: "USD".parse().expect("a currency") },
        source,
        capture: true,
        return_url: None,
        description: None,
        customer_id: None,
        merchant_data: MerchantData::default(),
        idempotency_key: None,
    }
}

fn token() -> PaymentSource {
    PaymentSource::Token("tok_ok".into())
}

impl Shop {
    async fn open() -> Self {
        Self::of(Fixture::open().await).await
    }

    /// Another account in the same database.
    async fn another(&self) -> Self {
        Self::of(Fixture { db: self.db.clone(), _database: Arc::clone(&self._database) }).await
    }

    async fn of(fixture: Fixture) -> Self {
        let now = at("2020-01-01T00:00:00Z");
        let caller = fixture.account(now).await;
        let customer = fixture.customer(&caller, now).await;
        let Fixture { db, _database } = fixture;
        Self { db, caller, customer, _database }
    }

    /// Inserts the customer's first card directly.
    async fn saved_card(&self) {
        let card = "WITH card AS (
                        INSERT INTO payment_methods (id, account_id, customer_id, provider_account_id, status, provider_ref,
                                                     brand, last4, exp_month, exp_year, created_at)
                        SELECT gen_random_uuid(), c.account_id, c.id, p.id, 'active', 'card', 'visa', '4242', 12, 2030, now()
                        FROM customers c JOIN provider_accounts p USING (account_id) WHERE c.id = $1 RETURNING id)
                    UPDATE customers SET default_payment_method_id = card.id FROM card WHERE customers.id = $1";
        self.write(card, self.customer.uuid()).await;
    }

    async fn take_payment(&self, intents: &Intents, request: &PaymentRequest, now: Timestamp) -> Result<TakenPayment> {
        let key = KeyRing::new(EncryptionKey::from_hex(&"00".repeat(32)).expect("a key"), vec![]);
        take_payment(intents, &self.caller, request, &Origin::default(), &key, now).await
    }

    /// Begins a payment whose charge has not been sent.
    async fn begin_payment(&self, request: &PaymentRequest, now: Timestamp) -> (PaymentId, OperationId) {
        let taken = self.take_payment(&Intents::start((*self.db).clone()), request, now).await;
        let TakenPayment::New(payment, operation) = taken.expect("a payment") else { panic!("no key was sent") };
        (payment.id, operation)
    }

    /// Executes a statement with one id as its parameter.
    async fn write(&self, statement: &str, id: uuid::Uuid) {
        sqlx::query(AssertSqlSafe(statement.to_owned())).bind(id).execute(&*self.db).await.expect(statement);
    }
}
