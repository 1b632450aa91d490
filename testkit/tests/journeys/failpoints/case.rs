//! A row of the table with an action: what is made beforehand, and what is done when somebody sound is there again.

use std::sync::Mutex;

use anyhow::{Context, Result};
use queue::{Publisher, Queue};
use serde_json::{Value, json};
use sqlx::{PgPool, postgres::PgPoolOptions};
use testkit::{Answer, Client, Cluster};
use uuid::Uuid;

use super::faulty::Action;
use super::table::{Bill, By, Class, End, Row, Story};
use crate::support::{Books, Merchant, Receiver, Reply, Shop, created, eventually, id, sale, uuid};

const MONEY: Queue = Queue::new("money");
const INQUIRIES: Queue = Queue::new("inquiries");
const RECONCILIATIONS: Queue = Queue::new("reconciliations");
/// A test card of the gateway whose cardholder is asked.
const CHALLENGED: &str = "4000002500003155";
/// Long past, so due at once.
pub(super) const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// What all cases of a cluster share.
pub(super) struct World {
    pub(super) db: PgPool,
    queue: Publisher,
    /// A sound api.
    pub(super) url: String,
}

impl World {
    pub(super) fn new(cluster: &Cluster) -> Result<Self> {
        let db = PgPoolOptions::new().max_connections(4).connect_lazy(cluster.database_url())?;
        Ok(Self { db, queue: Publisher::connect(&queue::Redis::new(&cluster.redis.url())?), url: cluster.api_url(0) })
    }

    /// Nothing falls due by itself, however long it takes; and charges settle at these provider accounts alone.
    pub(super) async fn stand_still(&self, settling: &[Uuid]) -> Result<()> {
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

    /// Returns when nobody has anything left to do, but a person perhaps.
    pub(super) async fn settles(&self) -> Result<()> {
        eventually("all to be settled", async || {
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
            anyhow::ensure!(left == 0, "{left} are left");
            Ok(Some(()))
        })
        .await
    }

    /// How many operations were claimed by more than one.
    pub(super) async fn taken_over(&self) -> Result<i64> {
        Ok(sqlx::query_scalar("SELECT count(*) FROM operations WHERE fence > 1").fetch_one(&self.db).await?)
    }

    async fn push(&self, queue: Queue, id: Uuid) -> Result<()> {
        Ok(self.queue.push(queue, &[id.into()]).await?)
    }
}

/// A story and what goes wrong with it.
pub(super) struct Case {
    pub(super) row: &'static Row,
    pub(super) action: Action,
    pub(super) merchant: Merchant,
    /// A sound api.
    pub(super) url: String,
    /// The id of what was made before, if something was.
    pub(super) subject: String,
    /// It as it was answered.
    pub(super) object: Value,
    pub(super) shop: Option<Shop>,
    pub(super) receiver: Option<Receiver>,
    /// What was answered to the request when it was repeated.
    pub(super) repeated: Mutex<Option<Answer>>,
}

impl Case {
    pub(super) fn label(&self) -> String {
        let Row { point, by, story, .. } = self.row;
        format!("{point} {:?} ({story:?} by {by:?}, {})", self.action, self.merchant.account.id)
    }

    /// Where it must end.
    pub(super) fn ends_with_a_person(&self) -> bool {
        match self.row.end {
            End::Done => false,
            End::Person => true,
            End::PersonUnlessLate => self.action != Action::Pause,
        }
    }

    /// Whether no other case can go wrong in the same process: it ends there, or holds up all that is like it.
    pub(super) fn needs_a_process(&self) -> bool {
        let one_at_a_time = matches!(self.row.story, Story::Late | Story::Webhook);
        match self.action {
            Action::Abort => true,
            Action::Pause => one_at_a_time || self.row.by == By::Scheduler,
            Action::Error => self.row.by == By::Scheduler,
        }
    }

    /// The merchant as a client of this api.
    pub(super) fn at(&self, url: &str) -> Result<Merchant> {
        let Merchant { account, books, .. } = &self.merchant;
        let api = Client::new(url)?.bearer(&account.secret_key)?;
        Ok(Merchant { account: account.clone(), api, books: books.clone() })
    }

    /// A merchant, and what must be there before, made while all are sound.
    pub(super) async fn prepare(cluster: &Cluster, world: &World, action: Action, row: &'static Row) -> Result<Self> {
        let shop = if row.story == Story::Challenge { Some(Shop::new(cluster, &[]).await?) } else { None };
        let mut merchant = match &shop {
            Some(Shop { merchant: Merchant { account, api, books }, .. }) => {
                Merchant { account: account.clone(), api: api.clone(), books: books.clone() }
            }
            None => Merchant::new(cluster).await?,
        };
        merchant.books = Books { db: world.db.clone(), account: merchant.books.account };
        let is_heard = row.story == Story::Webhook;
        let receiver = if is_heard { Some(Receiver::start(|_| Reply::ok()).await?) } else { None };
        let (subject, object, repeated) = (String::new(), Value::Null, Mutex::default());
        let url = world.url.clone();
        let mut case = Self { row, action, merchant, url, subject, object, shop, receiver, repeated };
        case.object = case.make(world).await.with_context(|| case.label())?;
        case.subject = if case.object.is_null() { String::new() } else { id(&case.object)? };
        Ok(case)
    }

    async fn make(&self, world: &World) -> Result<Value> {
        let merchant = &self.merchant;
        match self.row.story {
            Story::Sale(class) | Story::InDoubt(class) | Story::Charged(class) => self.set_class(class).await?,
            Story::SaleWithoutKey => {}
            Story::Challenge => {
                let shop = self.shop.as_ref().context("a shop")?;
                return Ok(json!({"id": shop.token(CHALLENGED).await?}));
            }
            Story::Refused => self.refuse(true).await?,
            Story::Late | Story::Reversal => return self.make_late(world).await,
            Story::Capture | Story::Void => return merchant.payment(&merchant.hold(1500).await?).await,
            Story::Refund(class) | Story::RefundInDoubt(class) => {
                self.set_class(class).await?;
                return merchant.payment(&merchant.sold(1500).await?).await;
            }
            Story::RefundAway(class) => {
                self.set_class(class).await?;
                let sold = merchant.sold(1500).await?;
                self.refuse(true).await?;
                return merchant.payment(&sold).await;
            }
            Story::Clock => {
                let sold = merchant.sold(1500).await?;
                // The clock is made, which takes a while.
                merchant.advance("30 seconds").await?;
                return merchant.payment(&sold).await;
            }
            Story::Settlement => return merchant.payment(&merchant.sold(1500).await?).await,
            Story::Card | Story::Create(_) => {
                let answer = merchant.api.post("/v1/customers", json!({"email": "ada@example.com"})).await?;
                return Ok(created(&answer).clone());
            }
            Story::Webhook => {
                let url = self.receiver.as_ref().context("a receiver")?.url("/in");
                let body = json!({"url": url, "enabledEvents": ["payment.captured"]});
                let endpoint = created(&merchant.api.post("/v1/webhook_endpoints", body).await?).clone();
                if self.row.by == By::Scheduler {
                    self.write("UPDATE webhook_endpoints SET paused_until = 'infinity' WHERE account_id = $1").await?;
                    merchant.sold(1500).await?;
                }
                return Ok(endpoint);
            }
            Story::Bill(bill) => return self.make_bill(bill).await,
        }
        Ok(Value::Null)
    }

    async fn set_class(&self, class: Class) -> Result<()> {
        self.set_mock("recovery_class", &format!("{class:?}")).await
    }

    pub(super) async fn refuse(&self, refuse: bool) -> Result<()> {
        self.set_mock("refuse", &refuse.to_string()).await
    }

    /// Orders a fault as `ctl mock set` does.
    pub(super) async fn set_mock(&self, column: &str, value: &str) -> Result<()> {
        let statement = format!(
            "INSERT INTO mock.accounts (id, {column}) SELECT id, '{value}' FROM provider_accounts WHERE account_id = $1
             ON CONFLICT (id) DO UPDATE SET {column} = '{value}'"
        );
        self.write(&statement).await
    }

    /// Changes rows as time or trouble would; `$1` is the account.
    pub(super) async fn write(&self, statement: &str) -> Result<()> {
        let Books { db, account } = &self.merchant.books;
        sqlx::query(sqlx::AssertSqlSafe(statement)).bind(account).execute(db).await?;
        Ok(())
    }

    /// Looks into the rows of the account, which is `$1`.
    pub(super) async fn count(&self, query: &str) -> Result<i64> {
        let Books { db, account } = &self.merchant.books;
        Ok(sqlx::query_scalar(sqlx::AssertSqlSafe(query)).bind(account).fetch_one(db).await?)
    }

    /// A payment that has failed, and an approved charge for it that the provider shows later.
    async fn make_late(&self, world: &World) -> Result<Value> {
        self.refuse(true).await?;
        let failed = self.merchant.pay_once("k", sale(1500)).await?;
        assert_eq!(created(&failed)["status"], "failed");
        self.refuse(false).await?;
        self.book_a_charge().await?;
        if self.row.story == Story::Reversal {
            // Nobody sweeps yet, so it waits.
            world.push(RECONCILIATIONS, self.provider_account().await?).await?;
            let reversals = "SELECT count(*) FROM operations WHERE account_id = $1 AND kind = 'reverse'";
            let written = async || Ok((self.count(reversals).await? == 1).then_some(()));
            eventually("the reversal", written).await?;
        }
        Ok(failed.body)
    }

    pub(super) async fn provider_account(&self) -> Result<Uuid> {
        let Books { db, account } = &self.merchant.books;
        let query = "SELECT id FROM provider_accounts WHERE account_id = $1";
        Ok(sqlx::query_scalar(query).bind(account).fetch_one(db).await?)
    }

    /// The operation that was written last.
    async fn operation(&self) -> Result<Uuid> {
        let Books { db, account } = &self.merchant.books;
        let query = "SELECT id FROM operations WHERE account_id = $1 ORDER BY id DESC LIMIT 1";
        Ok(sqlx::query_scalar(query).bind(account).fetch_one(db).await?)
    }

    /// The provider has charged for the last operation, and nobody here knows.
    async fn book_a_charge(&self) -> Result<()> {
        self.write(
            "INSERT INTO mock.transactions
                 (id, account, kind, reference, approved, amount, currency, nature, occurred_at, unique_reference)
             SELECT 'mock_' || reference, provider_account_id, 'sale', reference, true, amount, currency, 'tok_ok', now(), reference
             FROM operations WHERE account_id = $1 ORDER BY id DESC LIMIT 1",
        )
        .await
    }

    /// Makes what a worker leaves that dies on the way. No worker is there.
    pub(super) async fn leave(&self, world: &World) -> Result<()> {
        let before = self.merchant.books.operations().await?;
        if !matches!(self.row.story, Story::InDoubt(_) | Story::Charged(_) | Story::RefundInDoubt(_)) {
            return Ok(());
        }
        let refund = matches!(self.row.story, Story::RefundInDoubt(_));
        let asks = async {
            let asked =
                if refund { self.merchant.refund(&self.subject, Some(500)).await } else { self.pay(&world.url).await };
            asked.map(drop)
        };
        let written = async || Ok((self.merchant.books.operations().await? > before).then_some(()));
        // Whoever asked has gone before anything came of it.
        tokio::select! {
            written = eventually("the intent", written) => written?,
            Err(error) = asks => return Err(error),
        }
        if matches!(self.row.story, Story::Charged(_)) {
            self.book_a_charge().await?;
        }
        // Once it was not found before: the next look-up decides.
        self.write(
            "UPDATE operations SET state = 'sending', fence = fence + 1, not_found = 1, next_push_at = 'infinity',
                 first_sent_at = now() - interval '30 s', last_sent_at = now() - interval '30 s',
                 lease_until = now() - interval '1 s'
             WHERE account_id = $1 AND finished_at IS NULL",
        )
        .await
    }

    pub(super) async fn pay(&self, url: &str) -> Result<Answer> {
        self.at(url)?.pay_once("k", sale(1500)).await
    }

    /// Asks for it at this api, or makes it due. What is answered is a matter of [`Self::repeat`].
    pub(super) async fn drive(&self, world: &World, url: &str) -> Result<()> {
        let (there, subject, by) = (self.at(url)?, &self.subject, self.row.by);
        match self.row.story {
            Story::Sale(_) | Story::Refused => self.pay(url).await.map(drop),
            Story::SaleWithoutKey => there.pay(1500).await.map(drop),
            Story::InDoubt(_) | Story::Charged(_) | Story::RefundInDoubt(_) if by == By::Scheduler => {
                self.write("UPDATE operations SET next_push_at = now() WHERE account_id = $1 AND finished_at IS NULL")
                    .await
            }
            Story::InDoubt(_) | Story::Charged(_) | Story::RefundInDoubt(_) | Story::Reversal => {
                world.push(MONEY, self.operation().await?).await
            }
            Story::Late if by == By::Scheduler => self.compare().await,
            Story::Late => world.push(RECONCILIATIONS, self.provider_account().await?).await,
            Story::Challenge => self.ask_cardholder(url).await.map(drop),
            Story::Capture => there.capture(subject, None).await.map(drop),
            Story::Void => there.void(subject).await.map(drop),
            Story::Refund(_) | Story::RefundAway(_) => there.refund(subject, Some(500)).await.map(drop),
            Story::Card => there.save_card(subject, "tok_ok").await.map(drop),
            Story::Settlement => {
                self.merchant.time_passes("2 minutes").await?;
                if by == By::Worker { world.push(INQUIRIES, uuid(subject)?).await } else { Ok(()) }
            }
            Story::Clock if by == By::Scheduler => {
                self.write(
                    "UPDATE test_clocks SET frozen_at = greatest(reached, now() + ahead_us * interval '1 microsecond'),
                         target = now() + interval '2 days', next_push_at = now() WHERE account_id = $1",
                )
                .await
            }
            Story::Clock => {
                let to = there.later(&there.now().await?, "1 day").await?;
                there.ask_to_advance(&to).await.map(drop)
            }
            Story::Webhook if by == By::Scheduler => {
                self.write("UPDATE webhook_endpoints SET paused_until = NULL WHERE account_id = $1").await
            }
            Story::Webhook => there.pay(1500).await.map(drop),
            Story::Bill(Bill::PartBack) => {
                self.write("UPDATE payments SET inquiry_at = now() WHERE account_id = $1").await?;
                world.push(INQUIRIES, self.only_payment().await?).await
            }
            Story::Create(create) => self.create(create, url).await.map(drop),
            Story::Bill(bill) => self.drive_bill(bill, url).await,
        }
    }

    /// Its statement is due.
    async fn compare(&self) -> Result<()> {
        self.write("UPDATE provider_accounts SET reconcile_at = now() WHERE account_id = $1").await
    }

    async fn only_payment(&self) -> Result<Uuid> {
        let Books { db, account } = &self.merchant.books;
        Ok(sqlx::query_scalar("SELECT id FROM payments WHERE account_id = $1").bind(account).fetch_one(db).await?)
    }

    pub(super) async fn ask_cardholder(&self, url: &str) -> Result<Answer> {
        let body = json!({"amount": 800, "currency": "USD", "paymentToken": self.subject});
        self.at(url)?.pay_once("k", body).await
    }

    /// What was to go wrong beside the point is over, and what the code puts off for an hour is due.
    pub(super) async fn heal(&self) -> Result<()> {
        if matches!(self.row.story, Story::Refused | Story::RefundAway(_)) {
            self.refuse(false).await?;
        }
        if self.row.story == Story::Late {
            self.compare().await?;
        }
        if self.row.story == Story::Bill(Bill::Cycle) {
            self.write("UPDATE subscriptions SET retry_at = NULL WHERE account_id = $1").await?;
        }
        Ok(())
    }
}
