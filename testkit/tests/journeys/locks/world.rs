//! A customer with many rows of each kind, made by hand: copies of rows that the API has made, in an order on the pages of the
//! table that has nothing to do with their ids.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use testkit::{Answer, Client, Cluster};
use uuid::Uuid;

use crate::support::{Merchant, created, id, printed, uuid};

/// Invoices that wait for another card, of each subscription and of none.
const WAITING: i64 = 20;

/// One row of each kind, as the API makes it.
pub(super) struct Templates {
    customer: Uuid,
    cards: [Uuid; 2],
    address: Uuid,
    subscription: Uuid,
    invoice: Uuid,
    recurring: Uuid,
    link: Uuid,
}

impl Templates {
    pub(super) async fn of(merchant: &Merchant) -> Result<Self> {
        let make = async |path: &str, body: Value| uuid(&id(created(&merchant.api.post(path, body).await?))?);
        let customer = merchant.customer().await?;
        let ours = |mut body: Value| {
            body["customerId"] = json!(customer);
            body
        };
        let approves = make("/v1/payment_methods", ours(json!({"paymentToken": "tok_ok"}))).await?;
        let is_lost = make("/v1/payment_methods", ours(json!({"paymentToken": "tok_lost"}))).await?;
        let plan = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "day"});
        let plan = printed("plan_", make("/v1/plans", plan).await?);
        let rent = json!({"currency": "USD", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 700}]});
        let monthly = json!({"cadence": {"unit": "daily", "interval": 1}, "startDate": "2090-01-01", "template": rent});
        let subscribed = json!({"planId": plan, "startAt": "2090-01-01"});
        Ok(Self {
            customer: uuid(&customer)?,
            cards: [approves, is_lost],
            address: make("/v1/addresses", ours(json!({"line1": "1 Main St", "country": "US"}))).await?,
            subscription: make("/v1/subscriptions", ours(subscribed)).await?,
            invoice: make("/v1/invoices", ours(json!({"currency": "USD", "amount": 700}))).await?,
            recurring: make("/v1/recurring_invoices", ours(monthly)).await?,
            link: make("/v1/payment_links", json!({"amount": 700, "currency": "USD"})).await?,
        })
    }
}

/// What two commands meet on.
pub(super) struct World<'a> {
    pub(super) merchant: &'a Merchant,
    pub(super) db: &'a PgPool,
    pub(super) customer: Uuid,
    pub(super) cards: [Uuid; 2],
    pub(super) addresses: Vec<Uuid>,
    pub(super) subscriptions: Vec<Uuid>,
    /// Scheduled, and waiting for another card.
    pub(super) waiting: Vec<Uuid>,
    pub(super) open: Vec<Uuid>,
    pub(super) drafts: Vec<Uuid>,
    pub(super) recurring: Vec<Uuid>,
    pub(super) links: Vec<Uuid>,
    browser: Client,
}

impl<'a> World<'a> {
    pub(super) async fn make(
        cluster: &Cluster,
        merchant: &'a Merchant,
        db: &'a PgPool,
        of: &Templates,
    ) -> Result<Self> {
        let customer = copy(db, "customers", of.customer, 1, "'default_payment_method_id', null").await?[0];
        let owner = format!("'customer_id', '{customer}'");
        let mut cards = [Uuid::nil(); 2];
        for (card, template) in cards.iter_mut().zip(of.cards) {
            *card = copy(db, "payment_methods", template, 1, &owner).await?[0];
        }
        let default = "UPDATE customers SET default_payment_method_id = $2 WHERE id = $1";
        sqlx::query(default).bind(customer).bind(cards[0]).execute(db).await?;
        let begun = format!(
            "{owner}, 'status', 'active', 'anchor', current_date - 40, 'current_period_start', now() - interval '1 day',
             'current_period_end', now() + interval '1 day', 'next_billing_date', current_date + 1,
             'next_billing_at', now() + interval '1 day'"
        );
        let subscriptions = copy(db, "subscriptions", of.subscription, 3, &begun).await?;
        let of_customer = |more: &str| {
            format!(
                "{owner}, 'number', floor(random() * 9e15)::bigint + 1000000,
                 'page_token', replace(gen_random_uuid()::text, '-', '') {more}"
            )
        };
        let waits = ", 'status', 'scheduled', 'collect_at', now(), 'next_attempt_at', null";
        let mut waiting = copy(db, "invoices", of.invoice, WAITING, &of_customer(waits)).await?;
        for subscription in &subscriptions {
            let more = format!("{waits}, 'subscription_id', '{subscription}', 'billing_period', 'copy ' || n");
            waiting.extend(copy(db, "invoices", of.invoice, WAITING, &of_customer(&more)).await?);
        }
        waiting.sort_unstable();
        let draft = ", 'status', 'draft', 'number', null, 'issued_at', null, 'due_at', null,
                     'payment_terms', 'due_on_receipt'";
        let token = "'page_token', replace(gen_random_uuid()::text, '-', '')";
        let browser = Client::new(&cluster.api_url(0))?.header("content-type", "application/x-www-form-urlencoded")?;
        Ok(Self {
            merchant,
            db,
            customer,
            cards,
            addresses: copy(db, "addresses", of.address, 2, &owner).await?,
            subscriptions,
            waiting,
            open: copy(db, "invoices", of.invoice, 6, &of_customer("")).await?,
            drafts: copy(db, "invoices", of.invoice, 4, &of_customer(draft)).await?,
            recurring: copy(db, "recurring_invoices", of.recurring, 3, &owner).await?,
            links: copy(db, "payment_links", of.link, 6, token).await?,
            browser,
        })
    }

    /// Writes rows of a table by hand. They are locked in the order of their ids, as everybody must.
    pub(super) async fn write(&self, table: &str, ids: &[Uuid], set: &str) -> Result<()> {
        let write = format!(
            "WITH held AS MATERIALIZED (SELECT id FROM {table} WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE)
             UPDATE {table} t SET {set} FROM held WHERE t.id = held.id"
        );
        sqlx::query(AssertSqlSafe(write)).bind(ids).execute(self.db).await?;
        Ok(())
    }

    pub(super) async fn ask(&self, path: &str) -> Result<Answer> {
        self.merchant.api.send(Method::POST, path, None).await
    }

    /// Pays on the page of an invoice (`i`) or a link (`l`).
    pub(super) async fn pay(&self, table: &str, page: &str, id: Uuid, token: &str) -> Result<Answer> {
        let query = AssertSqlSafe(format!("SELECT page_token FROM {table} WHERE id = $1"));
        let address: String = sqlx::query_scalar(query).bind(id).fetch_one(self.db).await?;
        let form = format!("token={token}").into_bytes();
        self.browser.send(Method::POST, &format!("/pay/{page}/{address}"), Some(form)).await
    }
}

/// Copies of a row, with what is their own: written in no order.
async fn copy(db: &PgPool, table: &str, template: Uuid, count: i64, own: &str) -> Result<Vec<Uuid>> {
    let copy = format!(
        "INSERT INTO {table}
         SELECT (jsonb_populate_record(NULL::{table}, to_jsonb(t) || jsonb_build_object(
             'id', new_ulid(now() + n * interval '1 millisecond'), {own}))).*
         FROM {table} t, (SELECT n FROM generate_series(1, $2) n ORDER BY random()) numbers WHERE t.id = $1
         RETURNING id"
    );
    let mut ids: Vec<Uuid> = sqlx::query_scalar(AssertSqlSafe(copy))
        .bind(template)
        .bind(count)
        .fetch_all(db)
        .await
        .with_context(|| table.to_owned())?;
    ids.sort_unstable();
    Ok(ids)
}
