//! A merchant: an account, a client with its secret key, and its books.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Account, Answer, Client, Cluster};

use super::{Books, ORIGIN, created, eventually, ok, sale, with};

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
        Self::of(cluster, cluster.account_with(&options).await?)
    }

    /// Whose account this is.
    pub(crate) fn of(cluster: &Cluster, account: Account) -> Result<Self> {
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

    /// The id of a payment of this amount that is held and not captured.
    pub(crate) async fn hold(&self, amount: i64) -> Result<String> {
        id(created(&self.api.post("/v1/payments", with(sale(amount), "capture", false)).await?))
    }

    /// The id of a payment of this amount whose money was taken.
    pub(crate) async fn sold(&self, amount: i64) -> Result<String> {
        id(created(&self.pay(amount).await?))
    }

    /// Asks for a capture, of all if no amount is given.
    pub(crate) async fn capture(&self, payment: &str, amount: Option<i64>) -> Result<Answer> {
        self.api.post(&format!("/v1/payments/{payment}/capture"), amount_of(amount)).await
    }

    /// Asks for a void.
    pub(crate) async fn void(&self, payment: &str) -> Result<Answer> {
        self.api.send(reqwest::Method::POST, &format!("/v1/payments/{payment}/void"), None).await
    }

    /// Asks for a refund, of all that is left if no amount is given.
    pub(crate) async fn refund(&self, payment: &str, amount: Option<i64>) -> Result<Answer> {
        self.api.post(&format!("/v1/payments/{payment}/refund"), amount_of(amount)).await
    }

    /// The payment as it stands.
    pub(crate) async fn payment(&self, payment: &str) -> Result<Value> {
        Ok(ok(&self.api.get(&format!("/v1/payments/{payment}")).await?).clone())
    }

    /// The payment once it is in this status.
    pub(crate) async fn becomes(&self, payment: &str, status: &str) -> Result<Value> {
        eventually(status, async || {
            let payment = self.payment(payment).await?;
            Ok((payment["status"] == status).then_some(payment))
        })
        .await
    }

    /// Time passes for every charge so far: at the mock, and here, where it is time to ask how each stands.
    pub(crate) async fn time_passes(&self, how_long: &str) -> Result<()> {
        let Books { db, account } = &self.books;
        sqlx::query(
            "UPDATE mock.transactions t SET occurred_at = occurred_at - $2::text::interval
             FROM provider_accounts p WHERE p.id = t.account AND p.account_id = $1",
        )
        .bind(account)
        .bind(how_long)
        .execute(db)
        .await?;
        sqlx::query("UPDATE payments SET inquiry_at = now() WHERE account_id = $1 AND inquiry_at IS NOT NULL")
            .bind(account)
            .execute(db)
            .await?;
        Ok(())
    }

    /// The provider's ledger shows this and no more of a payment, these events were written about it, and the last of them
    /// shows it as it stands.
    pub(crate) async fn all_agree(&self, payment: &str, ledger: &str, events: &[&str]) -> Result<Value> {
        self.all_agree_but_for(&[], payment, ledger, events).await
    }

    /// The same of a payment of which these events too may have been written, any number of times.
    pub(crate) async fn all_agree_but_for(
        &self,
        others: &[&str],
        payment: &str,
        ledger: &str,
        events: &[&str],
    ) -> Result<Value> {
        let shown = self.payment(payment).await?;
        assert_eq!(self.books.ledger(payment).await?, ledger, "{shown}");
        let mut told = self.books.events(payment).await?;
        assert_eq!(
            told.last().map(|(_, object)| object),
            Some(&shown),
            "the last event shows the payment as it stands"
        );
        told.retain(|(kind, _)| !others.contains(&kind.as_str()));
        assert_eq!(told.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(), events, "{shown}");
        Ok(shown)
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

fn amount_of(amount: Option<i64>) -> Value {
    amount.map_or_else(|| json!({}), |amount| json!({"amount": amount}))
}

/// The id of an object.
pub(crate) fn id(object: &Value) -> Result<String> {
    object["id"].as_str().map(str::to_owned).context("an object without an id")
}
