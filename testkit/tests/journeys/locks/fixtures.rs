//! A customer with many rows of each kind, copied in SQL from rows that the API created. Their physical order in the
//! table is random, so a scan meets them in another order than that of their ids.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use testkit::{Client, Cluster, Response};
use uuid::Uuid;

use crate::support::{Merchant, api_id, copies_with_ids, created, id, uuid};

/// Waiting invoices for each subscription, and as many without a subscription.
const WAITING: i64 = 20;

/// One row of each kind, created by the API.
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
        let of_customer = |mut body: Value| {
            body["customerId"] = json!(customer);
            body
        };
        let approves = make("/v1/payment_methods", of_customer(json!({"paymentToken": "tok_ok"}))).await?;
        let is_lost = make("/v1/payment_methods", of_customer(json!({"paymentToken": "tok_lost"}))).await?;
        let plan = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "day"});
        let plan = api_id("plan_", make("/v1/plans", plan).await?);
        let rent = json!({"currency": "USD", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 700}]});
        let monthly = json!({"cadence": {"unit": "daily", "interval": 1}, "startDate": "2090-01-01", "template": rent});
        let subscribed = json!({"planId": plan, "startAt": "2090-01-01"});
        Ok(Self {
            customer: uuid(&customer)?,
            cards: [approves, is_lost],
            address: make("/v1/addresses", of_customer(json!({"line1": "1 Main St", "country": "US"}))).await?,
            subscription: make("/v1/subscriptions", of_customer(subscribed)).await?,
            invoice: make("/v1/invoices", of_customer(json!({"currency": "USD", "amount": 700}))).await?,
            recurring: make("/v1/recurring_invoices", of_customer(monthly)).await?,
            link: make("/v1/payment_links", json!({"amount": 700, "currency": "USD"})).await?,
        })
    }
}

/// The rows that a pair of commands works on.
pub(super) struct Fixtures<'a> {
    pub(super) merchant: &'a Merchant,
    pub(super) db: &'a PgPool,
    pub(super) customer: Uuid,
    pub(super) cards: [Uuid; 2],
    pub(super) addresses: Vec<Uuid>,
    pub(super) subscriptions: Vec<Uuid>,
    /// Scheduled invoices that wait for another card.
    pub(super) waiting: Vec<Uuid>,
    /// Those of them that are of a subscription.
    pub(super) subscribed: Vec<Uuid>,
    pub(super) open: Vec<Uuid>,
    pub(super) drafts: Vec<Uuid>,
    pub(super) recurring: Vec<Uuid>,
    pub(super) links: Vec<Uuid>,
    browser: Client,
}

impl<'a> Fixtures<'a> {
    pub(super) async fn make(
        cluster: &Cluster,
        merchant: &'a Merchant,
        db: &'a PgPool,
        templates: &Templates,
    ) -> Result<Self> {
        let customer = copy(db, "customers", templates.customer, 1, "'default_payment_method_id', null").await?[0];
        let owner = format!("'customer_id', '{customer}'");
        let mut cards = [Uuid::nil(); 2];
        for (card, template) in cards.iter_mut().zip(templates.cards) {
            *card = copy(db, "payment_methods", template, 1, &owner).await?[0];
        }
        let default = "UPDATE customers SET default_payment_method_id = $2 WHERE id = $1";
        sqlx::query(default).bind(customer).bind(cards[0]).execute(db).await?;
        let active = format!(
            "{owner}, 'status', 'active', 'anchor', current_date - 40, 'current_period_start', now() - interval '1 day',
             'current_period_end', now() + interval '1 day', 'next_billing_date', current_date + 1,
             'next_billing_at', now() + interval '1 day'"
        );
        let subscriptions = copy(db, "subscriptions", templates.subscription, 3, &active).await?;
        let invoice_fields = |more: &str| {
            format!(
                "{owner}, 'number', floor(random() * 9e15)::bigint + 1000000,
                 'page_token', replace(gen_random_uuid()::text, '-', '') {more}"
            )
        };
        let waits = ", 'status', 'scheduled', 'collect_at', now(), 'next_attempt_at', null";
        let mut waiting = copy(db, "invoices", templates.invoice, WAITING, &invoice_fields(waits)).await?;
        let mut subscribed = Vec::new();
        for subscription in &subscriptions {
            let more = format!("{waits}, 'subscription_id', '{subscription}', 'billing_period', 'copy ' || n");
            subscribed.extend(copy(db, "invoices", templates.invoice, WAITING, &invoice_fields(&more)).await?);
        }
        waiting.extend(&subscribed);
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
            addresses: copy(db, "addresses", templates.address, 2, &owner).await?,
            subscriptions,
            waiting,
            subscribed,
            open: copy(db, "invoices", templates.invoice, 6, &invoice_fields("")).await?,
            drafts: copy(db, "invoices", templates.invoice, 4, &invoice_fields(draft)).await?,
            recurring: copy(db, "recurring_invoices", templates.recurring, 3, &owner).await?,
            links: copy(db, "payment_links", templates.link, 6, token).await?,
            browser,
        })
    }

    /// Updates rows directly, and locks them in the order of their ids as all commands must.
    pub(super) async fn write(&self, table: &str, ids: &[Uuid], set: &str) -> Result<()> {
        let write = format!(
            "WITH held AS MATERIALIZED (SELECT id FROM {table} WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE)
             UPDATE {table} t SET {set} FROM held WHERE t.id = held.id"
        );
        sqlx::query(AssertSqlSafe(write)).bind(ids).execute(self.db).await?;
        Ok(())
    }

    pub(super) async fn ask(&self, path: &str) -> Result<Response> {
        self.merchant.api.send(Method::POST, path, None).await
    }

    /// Pays on the page of an invoice (`i`) or a link (`l`).
    pub(super) async fn pay(&self, table: &str, page: &str, id: Uuid, token: &str) -> Result<Response> {
        let query = AssertSqlSafe(format!("SELECT page_token FROM {table} WHERE id = $1"));
        let address: String = sqlx::query_scalar(query).bind(id).fetch_one(self.db).await?;
        let form = format!("token={token}").into_bytes();
        self.browser.send(Method::POST, &format!("/pay/{page}/{address}"), Some(form)).await
    }
}

/// Copies a row `count` times in random order, with the columns in `own` replaced.
async fn copy(db: &PgPool, table: &str, template: Uuid, count: i64, own: &str) -> Result<Vec<Uuid>> {
    let rows = format!(
        "(SELECT * FROM {table} WHERE id = $1) t, (SELECT n FROM generate_series(1, $2) n ORDER BY random()) numbers"
    );
    let own = format!("'id', new_ulid(now() + n * interval '1 millisecond'), {own}");
    let mut ids: Vec<Uuid> = sqlx::query_scalar(copies_with_ids(table, &rows, &own))
        .bind(template)
        .bind(count)
        .fetch_all(db)
        .await
        .with_context(|| table.to_owned())?;
    ids.sort_unstable();
    Ok(ids)
}
