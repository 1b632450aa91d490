//! A row of the table with an action: its preparation, the request that hits the failpoint, and the recovery.

use std::sync::Mutex;

use anyhow::{Context, Result};
use queue::{Publisher, Queue};
use serde_json::{Value, json};
use sqlx::{PgPool, postgres::PgPoolOptions};
use testkit::{Client, Cluster, Response};
use uuid::Uuid;

use super::faulty::Action;
use super::table::{Bill, By, Class, End, Row, Scenario};
use crate::support::{Books, Merchant, Receiver, Reply, Shop, created, eventually, id, sale, uuid};

const PAYMENTS: Queue = Queue::new("money");
const INQUIRIES: Queue = Queue::new("inquiries");
const RECONCILIATIONS: Queue = Queue::new("reconciliations");
/// A test card of the gateway that requires a challenge.
const CHALLENGED: &str = "4000002500003155";
/// A time in the past, so due at once.
pub(super) const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// State shared by all cases of a cluster.
pub(super) struct World {
    pub(super) db: PgPool,
    queue: Publisher,
    /// The URL of a healthy api.
    pub(super) url: String,
}

impl World {
    pub(super) fn new(cluster: &Cluster) -> Result<Self> {
        let db = PgPoolOptions::new().max_connections(4).connect_lazy(cluster.database_url())?;
        Ok(Self { db, queue: Publisher::connect(&queue::Redis::new(&cluster.redis.url())?), url: cluster.api_url(0) })
    }

    /// Prevents anything from falling due by itself. Charges settle only at these provider accounts.
    pub(super) async fn freeze(&self, settling: &[Uuid]) -> Result<()> {
        let settling: Vec<_> = settling.iter().map(|account| format!("'{account}'")).collect();
        let others = match &settling[..] {
            [] => "true".to_owned(),
            some => format!("NEW.account NOT IN ({})", some.join(", ")),
        };
        for statement in [
            "UPDATE provider_accounts SET reconcile_at = 'infinity'".to_owned(),
            "CREATE FUNCTION stand_still() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN NEW.occurred_at := greatest(NEW.occurred_at, now() + interval '1 day'); RETURN NEW; END $$"
                .to_owned(),
            format!(
                "CREATE TRIGGER stand_still BEFORE INSERT OR UPDATE ON mock.transactions FOR EACH ROW
                 WHEN ({others}) EXECUTE FUNCTION stand_still()"
            ),
            "UPDATE mock.transactions SET occurred_at = occurred_at".to_owned(),
        ] {
            sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&self.db).await?;
        }
        Ok(())
    }

    /// Waits until no work is left except manual reviews.
    pub(super) async fn wait_until_settled(&self) -> Result<()> {
        eventually("all work to be done", async || {
            let left: i64 = sqlx::query_scalar(
                "SELECT (SELECT count(*) FROM operations WHERE finished_at IS NULL AND next_push_at IS NOT NULL)
                      + (SELECT count(*) FROM webhook_pending)
                      + (SELECT count(*) FROM test_clocks WHERE target IS NOT NULL)
                      + (SELECT count(*) FROM invoices WHERE next_attempt_at <= now())
                      + (SELECT count(*) FROM recurring_invoices WHERE next_run_at <= now())
                      + (SELECT count(*) FROM subscriptions WHERE next_billing_at <= now())",
            )
            .fetch_one(&self.db)
            .await?;
            anyhow::ensure!(left == 0, "{left} items of work are left");
            Ok(Some(()))
        })
        .await
    }

    /// The number of operations that were claimed more than once.
    pub(super) async fn taken_over(&self) -> Result<i64> {
        Ok(sqlx::query_scalar("SELECT count(*) FROM operations WHERE fence > 1").fetch_one(&self.db).await?)
    }

    async fn push(&self, queue: Queue, id: Uuid) -> Result<()> {
        Ok(self.queue.push(queue, &[id.into()]).await?)
    }
}

/// A scenario and the failure injected into it.
pub(super) struct Case {
    pub(super) row: &'static Row,
    pub(super) action: Action,
    pub(super) merchant: Merchant,
    /// The URL of a healthy api.
    pub(super) url: String,
    /// The id of the object that the scenario starts from, or empty.
    pub(super) subject: String,
    /// That object as the API returned it.
    pub(super) object: Value,
    pub(super) shop: Option<Shop>,
    pub(super) receiver: Option<Receiver>,
    /// The response to the repeated request.
    pub(super) repeated: Mutex<Option<Response>>,
}

impl Case {
    pub(super) fn label(&self) -> String {
        let Row { point, by, scenario, .. } = self.row;
        format!("{point} {:?} ({scenario:?} by {by:?}, {})", self.action, self.merchant.account.id)
    }

    /// Whether the case must end in manual review.
    pub(super) fn ends_in_manual_review(&self) -> bool {
        match self.row.end {
            End::Done => false,
            End::ManualReview => true,
            End::ManualReviewUnlessPaused => self.action != Action::Pause,
        }
    }

    /// Whether the case cannot share its process: the process ends, or the case blocks others of its kind.
    pub(super) fn needs_a_process(&self) -> bool {
        let one_at_a_time = matches!(self.row.scenario, Scenario::LateCharge | Scenario::Webhook);
        match self.action {
            Action::Abort => true,
            Action::Pause => one_at_a_time || self.row.by == By::Scheduler,
            Action::Error => self.row.by == By::Scheduler,
        }
    }

    /// The merchant with a client for this api.
    pub(super) fn at(&self, url: &str) -> Result<Merchant> {
        let Merchant { account, books, .. } = &self.merchant;
        let api = Client::new(url)?.bearer(&account.secret_key)?;
        Ok(Merchant { account: account.clone(), api, books: books.clone() })
    }

    /// Creates the merchant and the objects that the scenario starts from, while all processes are healthy.
    pub(super) async fn prepare(cluster: &Cluster, world: &World, action: Action, row: &'static Row) -> Result<Self> {
        let shop = if row.scenario == Scenario::Challenge { Some(Shop::new(cluster, &[]).await?) } else { None };
        let mut merchant = match &shop {
            Some(Shop { merchant: Merchant { account, api, books }, .. }) => {
                Merchant { account: account.clone(), api: api.clone(), books: books.clone() }
            }
            None => Merchant::new(cluster).await?,
        };
        merchant.books = Books { db: world.db.clone(), account: merchant.books.account };
        let has_receiver = row.scenario == Scenario::Webhook;
        let receiver = if has_receiver { Some(Receiver::start(|_| Reply::ok()).await?) } else { None };
        let (subject, object, repeated) = (String::new(), Value::Null, Mutex::default());
        let url = world.url.clone();
        let mut case = Self { row, action, merchant, url, subject, object, shop, receiver, repeated };
        case.object = case.make(world).await.with_context(|| case.label())?;
        case.subject = if case.object.is_null() { String::new() } else { id(&case.object)? };
        Ok(case)
    }

    async fn make(&self, world: &World) -> Result<Value> {
        let merchant = &self.merchant;
        match self.row.scenario {
            Scenario::Sale(class) | Scenario::Unsent(class) | Scenario::Charged(class) => self.set_class(class).await?,
            Scenario::SaleWithoutKey => {}
            Scenario::Challenge => {
                let shop = self.shop.as_ref().context("a shop")?;
                return Ok(json!({"id": shop.token(CHALLENGED).await?}));
            }
            Scenario::Refused => self.refuse(true).await?,
            Scenario::LateCharge | Scenario::Reversal => return self.make_late_charge(world).await,
            Scenario::Capture | Scenario::Void => return merchant.payment(&merchant.hold(1500).await?).await,
            Scenario::Refund(class) | Scenario::RefundUnsent(class) => {
                self.set_class(class).await?;
                return merchant.payment(&merchant.charge(1500).await?).await;
            }
            Scenario::RefundNotProcessed(class) => {
                self.set_class(class).await?;
                let sold = merchant.charge(1500).await?;
                self.refuse(true).await?;
                return merchant.payment(&sold).await;
            }
            Scenario::Clock => {
                let sold = merchant.charge(1500).await?;
                // The first advance creates the clock, which takes a while.
                merchant.advance("30 seconds").await?;
                return merchant.payment(&sold).await;
            }
            Scenario::Settlement => return merchant.payment(&merchant.charge(1500).await?).await,
            Scenario::Card | Scenario::Create(_) => {
                let response = merchant.api.post("/v1/customers", json!({"email": "ada@example.com"})).await?;
                return Ok(created(&response).clone());
            }
            Scenario::Webhook => {
                let url = self.receiver.as_ref().context("a receiver")?.url("/in");
                let body = json!({"url": url, "enabledEvents": ["payment.captured"]});
                let endpoint = created(&merchant.api.post("/v1/webhook_endpoints", body).await?).clone();
                if self.row.by == By::Scheduler {
                    self.write("UPDATE webhook_endpoints SET paused_until = 'infinity' WHERE account_id = $1").await?;
                    merchant.charge(1500).await?;
                }
                return Ok(endpoint);
            }
            Scenario::Bill(bill) => return self.make_bill(bill).await,
        }
        Ok(Value::Null)
    }

    async fn set_class(&self, class: Class) -> Result<()> {
        self.set_mock("recovery_class", &format!("{class:?}")).await
    }

    pub(super) async fn refuse(&self, refuse: bool) -> Result<()> {
        self.set_mock("refuse", &refuse.to_string()).await
    }

    /// Configures a fault of the mock as `ctl mock set` does.
    pub(super) async fn set_mock(&self, column: &str, value: &str) -> Result<()> {
        let statement = format!(
            "INSERT INTO mock.accounts (id, {column}) SELECT id, '{value}' FROM provider_accounts WHERE account_id = $1
             ON CONFLICT (id) DO UPDATE SET {column} = '{value}'"
        );
        self.write(&statement).await
    }

    /// Changes rows directly; `$1` is the account.
    pub(super) async fn write(&self, statement: &str) -> Result<()> {
        let Books { db, account } = &self.merchant.books;
        sqlx::query(sqlx::AssertSqlSafe(statement)).bind(account).execute(db).await?;
        Ok(())
    }

    /// Counts rows; `$1` is the account.
    pub(super) async fn count(&self, query: &str) -> Result<i64> {
        let Books { db, account } = &self.merchant.books;
        Ok(sqlx::query_scalar(sqlx::AssertSqlSafe(query)).bind(account).fetch_one(db).await?)
    }

    /// Creates a failed payment, and an approved charge for it that the provider reports later.
    async fn make_late_charge(&self, world: &World) -> Result<Value> {
        self.refuse(true).await?;
        let failed = self.merchant.pay_with_key("k", sale(1500)).await?;
        assert_eq!(created(&failed)["status"], "failed");
        self.refuse(false).await?;
        self.book_a_charge().await?;
        if self.row.scenario == Scenario::Reversal {
            // There is no scheduler yet, so the reversal waits.
            world.push(RECONCILIATIONS, self.provider_account().await?).await?;
            let reversals = "SELECT count(*) FROM operations WHERE account_id = $1 AND kind = 'reverse'";
            let has_reversal = async || Ok((self.count(reversals).await? == 1).then_some(()));
            eventually("the reversal", has_reversal).await?;
        }
        Ok(failed.body)
    }

    pub(super) async fn provider_account(&self) -> Result<Uuid> {
        let Books { db, account } = &self.merchant.books;
        let query = "SELECT id FROM provider_accounts WHERE account_id = $1";
        Ok(sqlx::query_scalar(query).bind(account).fetch_one(db).await?)
    }

    /// The latest operation.
    async fn operation(&self) -> Result<Uuid> {
        let Books { db, account } = &self.merchant.books;
        let query = "SELECT id FROM operations WHERE account_id = $1 ORDER BY id DESC LIMIT 1";
        Ok(sqlx::query_scalar(query).bind(account).fetch_one(db).await?)
    }

    /// Books a charge for the latest operation at the mock, unknown to our rows.
    async fn book_a_charge(&self) -> Result<()> {
        self.write(
            "INSERT INTO mock.transactions
                 (id, account, kind, reference, approved, amount, currency, nature, occurred_at, unique_reference)
             SELECT 'mock_' || reference, provider_account_id, 'sale', reference, true, amount, currency, 'tok_ok', now(), reference
             FROM operations WHERE account_id = $1 ORDER BY id DESC LIMIT 1",
        )
        .await
    }

    /// Leaves an operation as a worker does that dies while sending. No worker is running.
    pub(super) async fn interrupt(&self, world: &World) -> Result<()> {
        let before = self.merchant.books.operations().await?;
        if !matches!(self.row.scenario, Scenario::Unsent(_) | Scenario::Charged(_) | Scenario::RefundUnsent(_)) {
            return Ok(());
        }
        let refund = matches!(self.row.scenario, Scenario::RefundUnsent(_));
        let request = async {
            let response =
                if refund { self.merchant.refund(&self.subject, Some(500)).await } else { self.pay(&world.url).await };
            response.map(drop)
        };
        let written = async || Ok((self.merchant.books.operations().await? > before).then_some(()));
        // The client disconnects as soon as the operation is written.
        tokio::select! {
            written = eventually("the operation", written) => written?,
            Err(error) = request => return Err(error),
        }
        if matches!(self.row.scenario, Scenario::Charged(_)) {
            self.book_a_charge().await?;
        }
        // One lookup has already found nothing, so the next one decides.
        self.write(
            "UPDATE operations SET state = 'sending', fence = fence + 1, not_found = 1, next_push_at = 'infinity',
                 first_sent_at = now() - interval '30 s', last_sent_at = now() - interval '30 s',
                 lease_until = now() - interval '1 s'
             WHERE account_id = $1 AND finished_at IS NULL",
        )
        .await
    }

    pub(super) async fn pay(&self, url: &str) -> Result<Response> {
        self.at(url)?.pay_with_key("k", sale(1500)).await
    }

    /// Sends the request of the scenario to this api, or makes its work due. The response is checked in
    /// [`Self::repeat`].
    pub(super) async fn drive(&self, world: &World, url: &str) -> Result<()> {
        let (client, subject, by) = (self.at(url)?, &self.subject, self.row.by);
        match self.row.scenario {
            Scenario::Sale(_) | Scenario::Refused => self.pay(url).await.map(drop),
            Scenario::SaleWithoutKey => client.pay(1500).await.map(drop),
            Scenario::Unsent(_) | Scenario::Charged(_) | Scenario::RefundUnsent(_) if by == By::Scheduler => {
                self.write("UPDATE operations SET next_push_at = now() WHERE account_id = $1 AND finished_at IS NULL")
                    .await
            }
            Scenario::Unsent(_) | Scenario::Charged(_) | Scenario::RefundUnsent(_) | Scenario::Reversal => {
                world.push(PAYMENTS, self.operation().await?).await
            }
            Scenario::LateCharge if by == By::Scheduler => self.make_statement_due().await,
            Scenario::LateCharge => world.push(RECONCILIATIONS, self.provider_account().await?).await,
            Scenario::Challenge => self.pay_with_challenge(url).await.map(drop),
            Scenario::Capture => client.capture(subject, None).await.map(drop),
            Scenario::Void => client.void(subject).await.map(drop),
            Scenario::Refund(_) | Scenario::RefundNotProcessed(_) => client.refund(subject, Some(500)).await.map(drop),
            Scenario::Card => client.save_card(subject, "tok_ok").await.map(drop),
            Scenario::Settlement => {
                self.merchant.age_charges("2 minutes").await?;
                if by == By::Worker { world.push(INQUIRIES, uuid(subject)?).await } else { Ok(()) }
            }
            Scenario::Clock if by == By::Scheduler => {
                self.write(
                    "UPDATE test_clocks SET frozen_at = greatest(reached, now() + ahead_us * interval '1 microsecond'),
                         target = now() + interval '2 days', next_push_at = now() WHERE account_id = $1",
                )
                .await
            }
            Scenario::Clock => {
                let to = client.later(&client.now().await?, "1 day").await?;
                client.request_advance(&to).await.map(drop)
            }
            Scenario::Webhook if by == By::Scheduler => {
                self.write("UPDATE webhook_endpoints SET paused_until = NULL WHERE account_id = $1").await
            }
            Scenario::Webhook => client.pay(1500).await.map(drop),
            Scenario::Bill(Bill::PartialApprovalVoidRefused) => {
                self.write("UPDATE payments SET inquiry_at = now() WHERE account_id = $1").await?;
                world.push(INQUIRIES, self.only_payment().await?).await
            }
            Scenario::Create(create) => self.create(create, url).await.map(drop),
            Scenario::Bill(bill) => self.drive_bill(bill, url).await,
        }
    }

    /// Makes the next reading of the provider's statement due.
    async fn make_statement_due(&self) -> Result<()> {
        self.write("UPDATE provider_accounts SET reconcile_at = now() WHERE account_id = $1").await
    }

    async fn only_payment(&self) -> Result<Uuid> {
        let Books { db, account } = &self.merchant.books;
        Ok(sqlx::query_scalar("SELECT id FROM payments WHERE account_id = $1").bind(account).fetch_one(db).await?)
    }

    pub(super) async fn pay_with_challenge(&self, url: &str) -> Result<Response> {
        let body = json!({"amount": 800, "currency": "USD", "paymentToken": self.subject});
        self.at(url)?.pay_with_key("k", body).await
    }

    /// Ends the scenario's other faults, and makes work due that the code defers for an hour.
    pub(super) async fn heal(&self) -> Result<()> {
        if matches!(self.row.scenario, Scenario::Refused | Scenario::RefundNotProcessed(_)) {
            self.refuse(false).await?;
        }
        if self.row.scenario == Scenario::LateCharge {
            self.make_statement_due().await?;
        }
        if self.row.scenario == Scenario::Bill(Bill::Cycle) {
            self.write("UPDATE subscriptions SET retry_at = NULL WHERE account_id = $1").await?;
        }
        Ok(())
    }
}
