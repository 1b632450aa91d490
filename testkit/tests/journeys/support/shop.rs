//! A merchant whose money the card gateway settles, and the gateway's own records of it.

use anyhow::{Context, Result};
use reqwest::redirect;
use serde_json::{Value, json};
use testkit::{Answer, Client, Cluster, GatewayAccount, form};

use super::{Books, Browser, Merchant, ORIGIN, created};

/// A merchant at the card gateway.
pub(crate) struct Shop {
    pub(crate) merchant: Merchant,
    pub(crate) known: GatewayAccount,
    pub(crate) browser: Browser,
    gateway: Client,
}

impl Shop {
    /// With an account of its own at the gateway, made with these options of `gateway account create`.
    pub(crate) async fn new(cluster: &Cluster, options: &[&str]) -> Result<Self> {
        let (account, known) = cluster.account_at_gateway(options).await?;
        cluster.ctl(&["accounts", "set", &account.id, "--origin", ORIGIN]).await?;
        let browser = Browser::of(cluster, &account)?;
        let form = ("content-type", "application/x-www-form-urlencoded");
        let gateway = Client::new(&cluster.gateway_url(0))?.header(form.0, form.1)?;
        Ok(Self { merchant: Merchant::of(cluster, account)?, known, browser, gateway })
    }

    /// What a capture field gets for a card.
    pub(crate) async fn upstream(&self, number: &str) -> Result<String> {
        self.upstream_under(&self.app_key().await?, number).await
    }

    /// The same on a page that names this `app_key`.
    pub(crate) async fn upstream_under(&self, app_key: &str, number: &str) -> Result<String> {
        let card = [("app_key", app_key), ("creditcard_number", number), ("cvv", "123")];
        let rest = [("expire_month", "12"), ("expire_year", "2034"), ("name", "Ada Lovelace")];
        let place = [("zip_code", "10001"), ("country_code", "US")];
        let said = self.post("/services/field_token", form([&card[..], &rest, &place].concat())).await?;
        said["response"]["card_token"].as_str().map(str::to_owned).with_context(|| format!("no token: {said}"))
    }

    pub(crate) async fn app_key(&self) -> Result<String> {
        let Books { db, account } = &self.merchant.books;
        let query = "SELECT field_key FROM provider_accounts WHERE account_id = $1 AND field_key IS NOT NULL";
        Ok(sqlx::query_scalar(query).bind(account).fetch_one(db).await?)
    }

    async fn post(&self, path: &str, form: String) -> Result<Value> {
        Ok(self.gateway.send(reqwest::Method::POST, path, Some(form.into_bytes())).await?.body)
    }

    /// Does something at the gateway itself, past /v1.
    pub(crate) async fn at_gateway(&self, script: &str, fields: &[(&str, &str)]) -> Result<Value> {
        let known = [("username", self.known.username.as_str()), ("api_key", &self.known.api_key)];
        self.post(&format!("/apis/{script}.php"), form([&known[..], fields].concat())).await
    }

    /// A fresh payment token for a card.
    pub(crate) async fn token(&self, number: &str) -> Result<String> {
        self.browser.token(&self.upstream(number).await?).await
    }

    /// A payment in dollars by a card.
    pub(crate) async fn pay(&self, number: &str, amount: i64) -> Result<Answer> {
        self.pay_with(json!({"paymentToken": self.token(number).await?, "amount": amount, "currency": "USD"})).await
    }

    /// A payment.
    pub(crate) async fn pay_with(&self, body: Value) -> Result<Answer> {
        self.merchant.api.post("/v1/payments", body).await
    }

    /// A saved card of a new customer.
    pub(crate) async fn saved(&self, number: &str) -> Result<(String, String)> {
        let customer = self.merchant.customer().await?;
        let answer = self.merchant.save_card(&customer, &self.token(number).await?).await?;
        Ok((customer, super::id(created(&answer))?))
    }

    /// What the gateway's own records show of this merchant, oldest first, such as `sale 500 approved, refund 100 approved`.
    pub(crate) async fn records(&self) -> Result<String> {
        let lines: Vec<String> = sqlx::query_scalar(
            "SELECT concat_ws(' ', t.kind, t.amount, t.state) FROM gateway.transactions t
             JOIN gateway.accounts a ON a.id = t.account_id WHERE a.username = $1 ORDER BY t.created_at, t.id",
        )
        .bind(&self.known.username)
        .fetch_all(&self.merchant.books.db)
        .await?;
        Ok(lines.join(", "))
    }

    /// Sales that the gateway approved, by the reference that they came with: more than one of any is a double charge.
    pub(crate) async fn most_sales_of_a_reference(&self) -> Result<i64> {
        Ok(sqlx::query_scalar(
            "SELECT coalesce(max(n), 0) FROM (
                 SELECT count(*) AS n FROM gateway.transactions t JOIN gateway.accounts a ON a.id = t.account_id
                 WHERE a.username = $1 AND t.state = 'approved' AND t.parent_id IS NULL GROUP BY t.reference_id) AS sales",
        )
        .bind(&self.known.username)
        .fetch_one(&self.merchant.books.db)
        .await?)
    }
}

/// A cardholder's browser on its way through a challenge. It follows nothing by itself.
pub(crate) struct Cardholder(reqwest::Client);

/// What a page answered.
pub(crate) struct Stop {
    pub(crate) status: u16,
    /// Where it sends the browser.
    pub(crate) to: Option<String>,
    pub(crate) html: String,
}

impl Cardholder {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(reqwest::Client::builder().redirect(redirect::Policy::none()).build()?))
    }

    pub(crate) async fn open(&self, url: &str) -> Result<Stop> {
        stop(self.0.get(url).send().await?).await
    }

    /// Goes to where a payment sends its cardholder, and on to the bank's page: its address.
    pub(crate) async fn reach_the_bank(&self, payment: &Value) -> Result<String> {
        let url = payment["nextAction"]["url"].as_str().with_context(|| format!("no nextAction in {payment}"))?;
        let stop = self.open(url).await?;
        assert_eq!(stop.status, 303, "{}", stop.html);
        stop.to.context("no Location")
    }

    /// Presses a button on the bank's page: where it sends the browser.
    pub(crate) async fn decide(&self, bank: &str, decision: &str) -> Result<String> {
        let form = format!("decision={decision}");
        let sent = self.0.post(bank).header("content-type", "application/x-www-form-urlencoded").body(form).send();
        let stop = stop(sent.await?).await?;
        assert_eq!(stop.status, 303, "{}", stop.html);
        stop.to.context("no Location")
    }
}

async fn stop(response: reqwest::Response) -> Result<Stop> {
    let to = response.headers().get("location").map(|to| to.to_str().map(str::to_owned)).transpose()?;
    Ok(Stop { status: response.status().as_u16(), to, html: response.text().await? })
}
