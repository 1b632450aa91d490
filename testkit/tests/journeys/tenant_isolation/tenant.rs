//! An account with objects of every kind, and a snapshot of all its rows.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use testkit::{Cluster, Response};

use crate::{
    signing::Signed,
    support::{Browser, Merchant, Receiver, Reply, accepted, created, eventually, id, ids, ok},
};

/// An account with objects of every kind, by id prefix; some kinds have several objects in different states.
pub(super) struct Tenant {
    pub(super) merchant: Merchant,
    pub(super) browser: Browser,
    pub(super) owned: BTreeMap<&'static str, Vec<String>>,
    _receiver: Receiver,
}

/// An id that does not exist.
pub(super) fn unknown(kind: &str) -> String {
    match kind {
        "externalId" => "unknown".to_owned(),
        "cs" => format!("cs_{}", "0".repeat(40)),
        "token" => format!("mtok_{}", "0".repeat(40)),
        prefix => format!("{prefix}_01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    }
}

impl Tenant {
    pub(super) async fn new(cluster: &Cluster) -> Result<Self> {
        let (merchant, receiver) = (Merchant::new(cluster).await?, Receiver::start(|_| Reply::ok()).await?);
        let browser = Browser::for_account(cluster, &merchant.account)?;
        let mut tenant = Self { merchant, browser, owned: BTreeMap::new(), _receiver: receiver };
        let hook = json!({"url": tenant._receiver.url("/hook")});
        tenant.make("we", "/v1/webhook_endpoints", hook).await?;
        let external = format!("external-{}", tenant.merchant.books.account);
        let customer = json!({"email": "ada@example.com", "externalId": external});
        let customer = tenant.make("cus", "/v1/customers", customer).await?;
        tenant.add("externalId", external);
        let card = json!({"customerId": customer, "paymentToken": "tok_ok"});
        let card = tenant.make("pm", "/v1/payment_methods", card).await?;
        tenant
            .make("adr", "/v1/addresses", json!({"customerId": customer, "line1": "1 Main St", "country": "US"}))
            .await?;
        let price = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
        let plan = tenant.make("plan", "/v1/plans", price).await?;
        let subscription =
            json!({"customerId": customer, "planId": plan, "startAt": "2090-01-01", "paymentMethodId": card});
        tenant.make("sub", "/v1/subscriptions", subscription).await?;
        tenant.recurring(&customer).await?;
        tenant.make("plink", "/v1/payment_links", json!({"amount": 500, "currency": "USD"})).await?;
        let (authorized, captured) = (tenant.merchant.hold(100).await?, tenant.merchant.charge(200).await?);
        let refund = id(accepted(&tenant.merchant.refund(&captured, Some(50)).await?))?;
        tenant.add("ref", refund);
        let dispute = tenant.merchant.dispute(&captured).await?;
        tenant.add("dp", dispute);
        tenant.add("pay", authorized);
        tenant.add("pay", captured);
        tenant.invoices(&customer).await?;
        let (session, token) = (tenant.browser.session().await?, tenant.browser.token("tok_ok").await?);
        tenant.add("cs", session);
        tenant.add("token", token);
        tenant.wait_until_idle().await?;
        Ok(tenant)
    }

    fn add(&mut self, kind: &'static str, id: String) {
        self.owned.entry(kind).or_default().push(id);
    }

    async fn make(&mut self, kind: &'static str, path: &str, body: Value) -> Result<String> {
        let made = id(created(&self.merchant.api.post(path, body).await?))?;
        self.add(kind, made.clone());
        Ok(made)
    }

    async fn recurring(&mut self, customer: &str) -> Result<()> {
        let template = json!({"currency": "USD", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 500}]});
        let rule = json!({"customerId": customer, "cadence": {"unit": "monthly"}, "startDate": "2090-01-15", "template": template});
        self.make("rinv", "/v1/recurring_invoices", rule).await.map(drop)
    }

    /// Creates an invoice with an attempt, a due one that is not collected, and an open one.
    async fn invoices(&mut self, customer: &str) -> Result<()> {
        let body = json!({"customerId": customer, "currency": "USD", "amount": 700});
        let mut made = Vec::new();
        for _ in 0..3 {
            made.push(self.make("inv", "/v1/invoices", body.clone()).await?);
        }
        let due = json!({"collectAt": "2026-01-01T00:00:00Z"});
        let api = &self.merchant.api;
        ok(&api.post(&format!("/v1/invoices/{}/schedule", made[0]), due.clone()).await?);
        ok(&api.post("/v1/invoices/scheduler/run", json!({})).await?);
        let attempts = format!("/v1/invoices/{}/attempts", made[0]);
        let attempted = eventually("an attempt", async || Ok(ids(&api.get(&attempts).await?).pop())).await?;
        ok(&api.post(&format!("/v1/invoices/{}/schedule", made[1]), due).await?);
        self.add("att", attempted);
        Ok(())
    }

    /// Waits until no operation or delivery is in progress, so that only requests change data.
    async fn wait_until_idle(&mut self) -> Result<()> {
        let books = &self.merchant.books;
        eventually("no operation or delivery in progress", async || {
            let query = "SELECT (SELECT count(*) FROM webhook_pending WHERE account_id = $1)
                + (SELECT count(*) FROM operations WHERE account_id = $1 AND finished_at IS NULL)";
            let in_progress: i64 = sqlx::query_scalar(query).bind(books.account).fetch_one(&books.db).await?;
            Ok((in_progress == 0).then_some(()))
        })
        .await?;
        let page = ids(&self.merchant.api.get("/v1/webhook_deliveries").await?);
        self.add("whd", page.into_iter().next().context("a delivery")?);
        let page = ids(&self.merchant.api.get("/v1/events").await?);
        self.add("evt", page.into_iter().nth(1).context("two events")?);
        Ok(())
    }

    /// The first id of a kind.
    pub(super) fn own(&self, kind: &str) -> String {
        self.owned.get(kind).and_then(|all| all.first()).unwrap_or_else(|| panic!("the tenant has no {kind}")).clone()
    }

    /// Turns it into the live account of the same merchant as `test`; its requests are signed from now on.
    pub(super) async fn go_live(&mut self, cluster: &Cluster, test: &Self) -> Result<()> {
        let query = "UPDATE accounts SET mode = 'live', merchant_id = (SELECT merchant_id FROM accounts WHERE id = $2) WHERE id = $1";
        sqlx::query(query)
            .bind(self.merchant.books.account)
            .bind(test.merchant.books.account)
            .execute(&self.merchant.books.db)
            .await?;
        let issue = ["keys", "create", "--account", &self.merchant.account.id, "--kind"];
        let secret = cluster.ctl(&[&issue[..], &["secret"]].concat()).await?;
        let publishable = cluster.ctl(&[&issue[..], &["publishable"]].concat()).await?;
        let text = |made: &Value, field: &str| {
            made[field].as_str().map(str::to_owned).with_context(|| format!("{field} in {made}"))
        };
        let account = &mut self.merchant.account;
        account.secret_key = text(&secret, "key")?;
        account.secret_key_id = text(&secret, "id")?;
        account.signing_secret = Some(text(&secret, "signing_secret")?);
        account.publishable_key = text(&publishable, "key")?;
        (self.merchant.api, self.browser) = (cluster.client(account)?, Browser::for_account(cluster, account)?);
        Ok(())
    }

    /// Sends a request with the secret key, signed if the account is live.
    pub(super) async fn send(&self, method: reqwest::Method, target: &str, body: Option<&str>) -> Result<Response> {
        if self.merchant.account.signing_secret.is_some() {
            return Signed::new(&self.merchant, method, target, body)?.sign().send(&self.merchant.api).await;
        }
        self.merchant.api.send(method, target, body.map(|body| body.as_bytes().to_vec())).await
    }

    /// All rows of the account in every table, and its transactions at the mock; without the log of its own requests,
    /// which is written with a delay.
    pub(super) async fn books(&self) -> Result<BTreeMap<String, String>> {
        let books = &self.merchant.books;
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT c.oid::regclass::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
             WHERE a.attname = 'account_id' AND c.relkind IN ('r', 'p') AND NOT c.relispartition
               AND c.relnamespace = 'public'::regnamespace AND c.relname <> 'requests' ORDER BY 1",
        )
        .fetch_all(&books.db)
        .await?;
        assert!(tables.len() >= 24, "{tables:?}");
        let mut rows = BTreeMap::new();
        for table in tables {
            let query = format!(
                "SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM {table} t WHERE account_id = $1"
            );
            let all: String = sqlx::query_scalar(AssertSqlSafe(query)).bind(books.account).fetch_one(&books.db).await?;
            rows.insert(table, all);
        }
        let query = "SELECT a::text FROM accounts a WHERE id = $1";
        rows.insert("accounts".to_owned(), sqlx::query_scalar(query).bind(books.account).fetch_one(&books.db).await?);
        let query = "SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM mock.transactions t
            JOIN provider_accounts p ON p.id = t.account WHERE p.account_id = $1";
        rows.insert("the mock".to_owned(), sqlx::query_scalar(query).bind(books.account).fetch_one(&books.db).await?);
        Ok(rows)
    }

    /// Asserts that the rows are the same as in the snapshot.
    pub(super) async fn assert_unchanged(&self, before: &BTreeMap<String, String>, what: &str) -> Result<()> {
        let now = self.books().await?;
        for (table, rows) in before {
            assert_eq!(now.get(table), Some(rows), "{what} changed {table}");
        }
        assert_eq!(now.len(), before.len());
        Ok(())
    }
}
