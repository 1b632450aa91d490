//! A merchant whose provider is the card gateway, with the gateway's own records and a cardholder's browser.

use anyhow::{Context, Result, ensure};
use reqwest::redirect;
use serde_json::{Value, json};
use testkit::{Client, Cluster, GatewayAccount, Response, form};

use super::{Books, Browser, Merchant, ORIGIN, created};

/// A merchant whose provider is the card gateway.
pub(crate) struct Shop {
    pub(crate) merchant: Merchant,
    pub(crate) gateway_account: GatewayAccount,
    pub(crate) browser: Browser,
    gateway: Client,
}

impl Shop {
    /// Creates an account at the gateway with these options of `gateway account create`, and connects it.
    pub(crate) async fn new(cluster: &Cluster, options: &[&str]) -> Result<Self> {
        let (account, gateway_account) = cluster.account_at_gateway(options).await?;
        cluster.ctl(&["accounts", "set", &account.id, "--origin", ORIGIN]).await?;
        let browser = Browser::for_account(cluster, &account)?;
        let form = ("content-type", "application/x-www-form-urlencoded");
        let gateway = Client::new(&cluster.gateway_url(0))?.header(form.0, form.1)?;
        Ok(Self { merchant: Merchant::for_account(cluster, account)?, gateway_account, browser, gateway })
    }

    /// Tokenizes a card as the card field does.
    pub(crate) async fn upstream_token(&self, number: &str) -> Result<String> {
        self.upstream_token_for(&self.app_key().await?, number).await
    }

    /// Tokenizes a card on a page with this `app_key`.
    pub(crate) async fn upstream_token_for(&self, app_key: &str, number: &str) -> Result<String> {
        let card = [("app_key", app_key), ("creditcard_number", number), ("cvv", "123")];
        let rest = [("expire_month", "12"), ("expire_year", "2034"), ("name", "Ada Lovelace")];
        let address = [("zip_code", "10001"), ("country_code", "US")];
        let body = self.post("/services/field_token", form([&card[..], &rest, &address].concat())).await?;
        body["response"]["card_token"].as_str().map(str::to_owned).with_context(|| format!("no token: {body}"))
    }

    pub(crate) async fn app_key(&self) -> Result<String> {
        let Books { db, account } = &self.merchant.books;
        let query = "SELECT field_key FROM provider_accounts WHERE account_id = $1 AND field_key IS NOT NULL";
        Ok(sqlx::query_scalar(query).bind(account).fetch_one(db).await?)
    }

    async fn post(&self, path: &str, form: String) -> Result<Value> {
        Ok(self.gateway.send(reqwest::Method::POST, path, Some(form.into_bytes())).await?.body)
    }

    /// Sends a request straight to the gateway, bypassing /v1.
    pub(crate) async fn gateway_request(&self, script: &str, fields: &[(&str, &str)]) -> Result<Value> {
        let credentials =
            [("username", self.gateway_account.username.as_str()), ("api_key", &self.gateway_account.api_key)];
        self.post(&format!("/apis/{script}.php"), form([&credentials[..], fields].concat())).await
    }

    /// Charges a card straight at the gateway, under this reference.
    pub(crate) async fn sell_at_gateway(&self, number: &str, reference: &str) -> Result<()> {
        let token = self.upstream_token(number).await?;
        let card = [("card_token", token.as_str()), ("amount", "5.00"), ("currency", "USD")];
        let rest = [("email", "ada@example.com"), ("ship_address_as_bill_address", "Y"), ("reference_id", reference)];
        let sold = self.gateway_request("sale", &[&card[..], &rest].concat()).await?;
        ensure!(sold["response"]["code"] == "00", "{sold}");
        Ok(())
    }

    /// A new payment token for a card.
    pub(crate) async fn token(&self, number: &str) -> Result<String> {
        self.browser.token(&self.upstream_token(number).await?).await
    }

    /// Pays this amount of dollars with a card.
    pub(crate) async fn pay(&self, number: &str, amount: i64) -> Result<Response> {
        self.pay_with(json!({"paymentToken": self.token(number).await?, "amount": amount, "currency": "USD"})).await
    }

    pub(crate) async fn pay_with(&self, body: Value) -> Result<Response> {
        self.merchant.api.post("/v1/payments", body).await
    }

    /// The ids of a new customer and its saved card.
    pub(crate) async fn saved_card(&self, number: &str) -> Result<(String, String)> {
        let customer = self.merchant.customer().await?;
        let response = self.merchant.save_card(&customer, &self.token(number).await?).await?;
        Ok((customer, super::id(created(&response))?))
    }

    /// The merchant's transactions in the gateway's database, oldest first, such as
    /// `sale 500 approved, refund 100 approved`.
    pub(crate) async fn records(&self) -> Result<String> {
        let lines: Vec<String> = sqlx::query_scalar(
            "SELECT concat_ws(' ', t.kind, t.amount, t.state) FROM gateway.transactions t
             JOIN gateway.accounts a ON a.id = t.account_id WHERE a.username = $1 ORDER BY t.created_at, t.id",
        )
        .bind(&self.gateway_account.username)
        .fetch_all(&self.merchant.books.db)
        .await?;
        Ok(lines.join(", "))
    }

    /// The highest number of approved sales with one reference. More than one is a double charge.
    pub(crate) async fn max_sales_per_reference(&self) -> Result<i64> {
        Ok(sqlx::query_scalar(
            "SELECT coalesce(max(n), 0) FROM (
                 SELECT count(*) AS n FROM gateway.transactions t JOIN gateway.accounts a ON a.id = t.account_id
                 WHERE a.username = $1 AND t.state = 'approved' AND t.parent_id IS NULL GROUP BY t.reference_id) AS sales",
        )
        .bind(&self.gateway_account.username)
        .fetch_one(&self.merchant.books.db)
        .await?)
    }
}

/// A cardholder's browser during a challenge. It follows no redirect by itself.
pub(crate) struct Cardholder(reqwest::Client);

/// The response of a page.
pub(crate) struct PageResponse {
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    pub(crate) html: String,
}

impl Cardholder {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(reqwest::Client::builder().redirect(redirect::Policy::none()).build()?))
    }

    pub(crate) async fn open(&self, url: &str) -> Result<PageResponse> {
        read_page(self.0.get(url).send().await?).await
    }

    /// Opens the payment's `nextAction` and returns the address of the bank's page.
    pub(crate) async fn open_bank_page(&self, payment: &Value) -> Result<String> {
        let url = payment["nextAction"]["url"].as_str().with_context(|| format!("no nextAction in {payment}"))?;
        let page = self.open(url).await?;
        assert_eq!(page.status, 303, "{}", page.html);
        page.location.context("no Location")
    }

    /// Presses a button on the bank's page and returns where it redirects to.
    pub(crate) async fn decide(&self, bank: &str, decision: &str) -> Result<String> {
        self.press(bank, "decision", decision).await
    }

    /// Presses the button with this name and value, and returns where it redirects to.
    pub(crate) async fn press(&self, bank: &str, name: &str, value: &str) -> Result<String> {
        let form = format!("{name}={value}");
        let sent = self.0.post(bank).header("content-type", "application/x-www-form-urlencoded").body(form).send();
        let page = read_page(sent.await?).await?;
        assert_eq!(page.status, 303, "{}", page.html);
        page.location.context("no Location")
    }
}

async fn read_page(response: reqwest::Response) -> Result<PageResponse> {
    let location = response.headers().get("location").map(|to| to.to_str().map(str::to_owned)).transpose()?;
    Ok(PageResponse { status: response.status().as_u16(), location, html: response.text().await? })
}
