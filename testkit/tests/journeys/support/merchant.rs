//! A merchant: an account, a client with its secret key, and direct access to its rows and the mock's ledger.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Account, Client, Cluster, Response};

use super::{Books, ORIGIN, copies, created, eventually, ok, sale, uuid, with};

/// A PNG of 40 × 20 pixels.
const LOGO: &str = "iVBORw0KGgoAAAANSUhEUgAAACgAAAAUCAIAAABwJOjsAAAAJ0lEQVR42mM4oOBANvpPAWAYtXjU4lGLRy0etXjU4lGLRy0eORYDAOjZbasLyhSVAAAAAElFTkSuQmCC";

/// An account that belongs to one test.
pub(crate) struct Merchant {
    pub(crate) account: Account,
    pub(crate) api: Client,
    pub(crate) books: Books,
}

impl Merchant {
    /// A test account at the mock provider, with the allowed origin [`ORIGIN`].
    pub(crate) async fn new(cluster: &Cluster) -> Result<Self> {
        Self::with(cluster, &["--mode", "test", "--provider", "mock", "--origin", ORIGIN]).await
    }

    /// An account with these options of `ctl accounts create`, and a rate limit that no test reaches by accident.
    pub(crate) async fn with(cluster: &Cluster, options: &[&str]) -> Result<Self> {
        let options = [options, &["--rate-limit", "100000", "--burst", "100000"]].concat();
        Self::for_account(cluster, cluster.account_with(&options).await?)
    }

    /// The merchant of an existing account.
    pub(crate) fn for_account(cluster: &Cluster, account: Account) -> Result<Self> {
        let (api, books) = (cluster.client(&account)?, Books::open(cluster.database_url(), &account)?);
        Ok(Self { account, api, books })
    }

    /// Gives the account a logo.
    pub(crate) async fn set_logo(&self) -> Result<()> {
        let set = "INSERT INTO logos (id, account_id, png, width, height, created_at)
                   VALUES (gen_random_uuid(), $1, decode($2, 'base64'), 40, 20, now())";
        sqlx::query(set).bind(self.books.account).bind(LOGO).execute(&self.books.db).await?;
        Ok(())
    }

    /// Configures the mock's faults for this account.
    pub(crate) async fn mock(&self, cluster: &Cluster, faults: &[&str]) -> Result<()> {
        cluster.ctl(&[&["mock", "set", &self.account.id], faults].concat()).await.map(drop)
    }

    /// Pays with a card that is approved.
    pub(crate) async fn pay(&self, amount: i64) -> Result<Response> {
        self.api.post("/v1/payments", sale(amount)).await
    }

    /// Creates a payment with an Idempotency-Key.
    pub(crate) async fn pay_with_key(&self, key: &str, body: Value) -> Result<Response> {
        self.api.header("idempotency-key", key)?.post("/v1/payments", body).await
    }

    /// The id of a new payment of this amount that is authorized and not captured.
    pub(crate) async fn hold(&self, amount: i64) -> Result<String> {
        id(created(&self.api.post("/v1/payments", with(sale(amount), "capture", false)).await?))
    }

    /// The id of a new payment of this amount that is captured.
    pub(crate) async fn charge(&self, amount: i64) -> Result<String> {
        id(created(&self.pay(amount).await?))
    }

    /// The number of this account's payment tokens with which a token of the provider is stored.
    pub(crate) async fn stored_upstream_tokens(&self) -> Result<i64> {
        let query = "SELECT count(*) FROM payment_tokens WHERE upstream_token <> '' AND account_id = $1";
        Ok(sqlx::query_scalar(query).bind(uuid(&self.account.id)?).fetch_one(&self.books.db).await?)
    }

    /// Requests a capture, of the full amount by default.
    pub(crate) async fn capture(&self, payment: &str, amount: Option<i64>) -> Result<Response> {
        self.api.post(&format!("/v1/payments/{payment}/capture"), amount_of(amount)).await
    }

    /// Requests a void.
    pub(crate) async fn void(&self, payment: &str) -> Result<Response> {
        self.api.send(reqwest::Method::POST, &format!("/v1/payments/{payment}/void"), None).await
    }

    /// Requests a refund, of the remaining amount by default.
    pub(crate) async fn refund(&self, payment: &str, amount: Option<i64>) -> Result<Response> {
        self.api.post(&format!("/v1/payments/{payment}/refund"), amount_of(amount)).await
    }

    /// The payment as the API returns it now.
    pub(crate) async fn payment(&self, payment: &str) -> Result<Value> {
        Ok(ok(&self.api.get(&format!("/v1/payments/{payment}")).await?).clone())
    }

    /// Waits until the payment has this status.
    pub(crate) async fn wait_for_status(&self, payment: &str, status: &str) -> Result<Value> {
        eventually(status, async || {
            let payment = self.payment(payment).await?;
            Ok((payment["status"] == status).then_some(payment))
        })
        .await
    }

    /// Writes an open dispute of a payment, as if the provider had reported it, and returns its id. Reconciliation does
    /// not look it up.
    pub(crate) async fn dispute(&self, payment: &str) -> Result<String> {
        let insert = "INSERT INTO disputes (id, account_id, payment_id, provider_account_id, provider_ref, amount, currency,
                          reason, status, created_at, written_at)
                      SELECT new_ulid(now()), account_id, id, provider_account_id, 'mockdp_' || id, 1, currency, 'fraudulent',
                          'needs_response', now(), NULL FROM payments WHERE id = $1 RETURNING id";
        let id: uuid::Uuid = sqlx::query_scalar(insert).bind(uuid(payment)?).fetch_one(&self.books.db).await?;
        Ok(super::api_id("dp_", id))
    }

    /// Adds copies of a payment to the database, each a second older than the one before.
    pub(crate) async fn copy_payment(&self, payment: &str, count: i32) -> Result<()> {
        let own = "'id', new_ulid(t.created_at - n * interval '1 second'),
                   'created_at', t.created_at - n * interval '1 second',
                   'provider_ref', 'copy ' || n || ' of ' || t.id";
        let rows = "(SELECT * FROM payments WHERE id = $1) t, generate_series(1, $2) n";
        sqlx::query(copies("payments", rows, own)).bind(uuid(payment)?).bind(count).execute(&self.books.db).await?;
        Ok(())
    }

    /// Makes every charge older at the mock, and every pending inquiry due.
    pub(crate) async fn age_charges(&self, interval: &str) -> Result<()> {
        let Books { db, account } = &self.books;
        sqlx::query(
            "UPDATE mock.transactions t SET occurred_at = occurred_at - $2::text::interval
             FROM provider_accounts p WHERE p.id = t.account AND p.account_id = $1",
        )
        .bind(account)
        .bind(interval)
        .execute(db)
        .await?;
        sqlx::query("UPDATE payments SET inquiry_at = now() WHERE account_id = $1 AND inquiry_at IS NOT NULL")
            .bind(account)
            .execute(db)
            .await?;
        Ok(())
    }

    /// Asserts that the provider's ledger of a payment is exactly this, that exactly these events were written about
    /// it, and that the last event shows its current state.
    pub(crate) async fn assert_consistent(&self, payment: &str, ledger: &str, events: &[&str]) -> Result<Value> {
        self.assert_consistent_ignoring(&[], payment, ledger, events).await
    }

    /// The same, where events of the types in `others` may have been written any number of times.
    pub(crate) async fn assert_consistent_ignoring(
        &self,
        others: &[&str],
        payment: &str,
        ledger: &str,
        events: &[&str],
    ) -> Result<Value> {
        let current = self.payment(payment).await?;
        assert_eq!(self.books.ledger(payment).await?, ledger, "{current}");
        let mut events_written = self.books.events(payment).await?;
        let last = events_written.last().map(|(_, object)| object.clone());
        events_written.retain(|(kind, _)| !others.contains(&kind.as_str()));
        // Event ids are generated before the row is locked, so an event in `others` that raced may have the last id.
        let last_expected = events_written.last().map(|(_, object)| object);
        let is_shown = last.as_ref() == Some(&current) || (!others.is_empty() && last_expected == Some(&current));
        assert!(is_shown, "the last event must show the current payment: {current}, not {last:?}");
        assert_eq!(events_written.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(), events, "{current}");
        Ok(current)
    }

    /// The id of a new customer.
    pub(crate) async fn customer(&self) -> Result<String> {
        let response = self.api.post("/v1/customers", json!({"email": "ada@example.com"})).await?;
        id(created(&response))
    }

    /// Saves a card for a customer.
    pub(crate) async fn save_card(&self, customer: &str, token: &str) -> Result<Response> {
        self.api.post("/v1/payment_methods", json!({"customerId": customer, "paymentToken": token})).await
    }

    /// Waits until the payment has left `processing`.
    pub(crate) async fn wait_until_finished(&self, payment: &str) -> Result<Value> {
        eventually("an outcome", async || {
            let response = self.api.get(&format!("/v1/payments/{payment}")).await?;
            Ok((response.status == 200 && response.body["status"] != "processing").then_some(response.body))
        })
        .await
    }

    /// Waits until the only payment of this account has left `processing`.
    pub(crate) async fn only_payment(&self) -> Result<Value> {
        let page = self.api.get("/v1/payments").await?;
        let ids = super::ids(&page);
        assert_eq!(ids.len(), 1, "the account must have exactly one payment");
        self.wait_until_finished(&ids[0]).await
    }
}

fn amount_of(amount: Option<i64>) -> Value {
    amount.map_or_else(|| json!({}), |amount| json!({"amount": amount}))
}

/// The id of an object.
pub(crate) fn id(object: &Value) -> Result<String> {
    object["id"].as_str().map(str::to_owned).context("an object without an id")
}
