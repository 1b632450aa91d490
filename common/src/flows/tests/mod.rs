//! Stories that need another time than now, on a database of their own.

mod clocks;
mod subscriptions;
mod told;

use sqlx::AssertSqlSafe;

use crate::accounts::{self, AccountSettings, AccountTime, Caller, KeyKind, Mode, Rate};
use crate::capabilities::Grants;
use crate::crypto::Secret;
use crate::customers::{self, CustomFields, NewCustomer};
use crate::db::{self, Db};
use crate::id::{CustomerId, KeyId, ProviderAccountId};
use crate::providers::ProviderKind;
use crate::time::Timestamp;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("an instant")
}

/// A test account with a customer, and nobody who bills by themselves.
struct Shop {
    db: Db,
    caller: Caller,
    customer: CustomerId,
    _database: testkit::Database,
}

impl Shop {
    async fn open() -> Self {
        let database = testkit::Database::create().await.expect("a database");
        let pool = db::pool(&Secret::new(database.url().to_owned()), 20, "subscriptions").expect("its address");
        let redis = testkit::shared().await.expect("a Redis").redis.url();
        let db = Db::new(pool, queue::Publisher::connect(&queue::Redis::new(&redis).expect("its address")));
        let now = at("2020-01-01T00:00:00Z");
        let settings = AccountSettings {
            name: Some("Shop".into()),
            provider: Some(ProviderKind::Mock),
            ..AccountSettings::default()
        };
        let account_id = accounts::create(&*db, now, None, Mode::Test, &settings).await.expect("an account");
        let provider_account = "SELECT id FROM provider_accounts WHERE account_id = $1";
        let provider_account = sqlx::query_scalar(provider_account).bind(account_id.uuid());
        let provider_account = provider_account.fetch_one(&*db).await.expect("where it is paid");
        let caller = Caller {
            key_id: KeyId::new(now),
            key_kind: KeyKind::Secret,
            account_id,
            mode: Mode::Test,
            provider_account_id: ProviderAccountId::from_uuid(provider_account),
            provider: ProviderKind::Mock,
            grants: Grants { entitlements: None, unsupported: vec![], forbidden: vec![] },
            allowed_origins: vec![],
            rate: Rate::default_of(Mode::Test),
            signing_secret: None,
            modifiers: serde_json::Value::Null,
            time: AccountTime::new(account_id, false),
        };
        let new = NewCustomer {
            email: "ada@example.com".into(),
            name: None,
            phone: None,
            external_id: None,
            custom_fields: CustomFields::default(),
        };
        let customer = customers::create(&db, &caller, new, now).await.expect("a customer").id;
        Self { db, caller, customer, _database: database }
    }

    /// The customer's first card, by hand.
    async fn saved_card(&self) {
        let card = "WITH card AS (
                        INSERT INTO payment_methods (id, account_id, customer_id, provider_account_id, status, provider_ref,
                                                     brand, last4, exp_month, exp_year, created_at)
                        SELECT gen_random_uuid(), c.account_id, c.id, p.id, 'active', 'card', 'visa', '4242', 12, 2030, now()
                        FROM customers c JOIN provider_accounts p USING (account_id) WHERE c.id = $1 RETURNING id)
                    UPDATE customers SET default_payment_method_id = card.id FROM card WHERE customers.id = $1";
        self.write(card, self.customer.uuid()).await;
    }

    /// Runs a statement about one row by hand.
    async fn write(&self, statement: &str, id: uuid::Uuid) {
        sqlx::query(AssertSqlSafe(statement.to_owned())).bind(id).execute(&*self.db).await.expect(statement);
    }
}
