//! A merchant: an account, a client with its secret key, and its books.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Account, Answer, Client, Cluster};

use super::{Books, ORIGIN, created, eventually, sale};

/// An account of its own for one test.
pub(crate) struct Merchant {
    pub(crate) account: Account,
    pub(crate) api: Client,
    pub(crate) books: Books,
}

impl Merchant {
    /// A test account on the mock whose pages live at [`ORIGIN`].
    pub(crate) async fn new(cluster: &Cluster) -> Result<Self> {
        Self::with(cluster, &["--mode", "test", "--provider", "mock", "--origin", ORIGIN]).await
    }

    /// An account with these options of `ctl accounts create`, and a rate limit that no test meets by accident.
    pub(crate) async fn with(cluster: &Cluster, options: &[&str]) -> Result<Self> {
        let options = [options, &["--rate-limit", "100000", "--burst", "100000"]].concat();
        let account = cluster.account_with(&options).await?;
        let (api, books) = (cluster.client(&account)?, Books::open(cluster.database_url(), &account)?);
        Ok(Self { account, api, books })
    }

    /// Orders faults of the mock for this account.
    pub(crate) async fn mock(&self, cluster: &Cluster, faults: &[&str]) -> Result<()> {
        cluster.ctl(&[&["mock", "set", &self.account.id], faults].concat()).await.map(drop)
    }

    /// A payment with a card that approves.
    pub(crate) async fn pay(&self, amount: i64) -> Result<Answer> {
        self.api.post("/v1/payments", sale(amount)).await
    }

    /// A payment under an Idempotency-Key.
    pub(crate) async fn pay_once(&self, key: &str, body: Value) -> Result<Answer> {
        self.api.header("idempotency-key", key)?.post("/v1/payments", body).await
    }

    /// The id of a new customer.
    pub(crate) async fn customer(&self) -> Result<String> {
        let answer = self.api.post("/v1/customers", json!({"email": "ada@example.com"})).await?;
        id(created(&answer))
    }

    /// Saves a card with a customer.
    pub(crate) async fn save_card(&self, customer: &str, token: &str) -> Result<Answer> {
        self.api.post("/v1/payment_methods", json!({"customerId": customer, "paymentToken": token})).await
    }

    /// The payment when it has left `processing`.
    pub(crate) async fn finished(&self, payment: &str) -> Result<Value> {
        eventually("an outcome", async || {
            let answer = self.api.get(&format!("/v1/payments/{payment}")).await?;
            Ok((answer.status == 200 && answer.body["status"] != "processing").then_some(answer.body))
        })
        .await
    }

    /// The only payment of this account, when it has left `processing`.
    pub(crate) async fn only_payment(&self) -> Result<Value> {
        let page = self.api.get("/v1/payments").await?;
        let ids = super::ids(&page);
        assert_eq!(ids.len(), 1, "exactly one payment");
        self.finished(&ids[0]).await
    }
}

/// The id of an object.
pub(crate) fn id(object: &Value) -> Result<String> {
    object["id"].as_str().map(str::to_owned).context("an object without an id")
}
