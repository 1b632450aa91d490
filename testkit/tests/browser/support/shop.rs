//! A merchant with its own account, and its calls to the API.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{
    Account, Client, Response,
    browser::{Browser, Device, Secret, browse},
    eventually,
};

use super::{cluster, stripe};

/// The payment provider of the shop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    Mock,
    Gateway,
    /// At a double, whose own card field the pages load.
    Stripe,
}

impl Provider {
    /// The device of its cardholders.
    fn device(self) -> Device {
        match self {
            Self::Mock | Self::Stripe => Device::Desktop,
            Self::Gateway => Device::Phone,
        }
    }
}

pub(crate) struct Shop {
    pub(crate) account: Account,
    pub(crate) api: Client,
    provider: Provider,
}

impl Shop {
    pub(crate) async fn new(provider: Provider) -> Result<Self> {
        let cluster = cluster().await?;
        let account = match provider {
            Provider::Mock => cluster.account().await?,
            Provider::Gateway => cluster.account_at_gateway(&[]).await?.0,
            Provider::Stripe => {
                let account = cluster.account_with(&["--mode", "test", "--provider", "stripe"]).await?;
                cluster.connect_stripe(&account, &stripe()?.account()).await?;
                account
            }
        };
        let shop = Self { api: cluster.client(&account)?, account, provider };
        shop.set(&["--name", "Ada's Tea"]).await?;
        Ok(shop)
    }

    /// Changes settings of the account with ctl.
    pub(crate) async fn set(&self, options: &[&str]) -> Result<()> {
        cluster().await?.ctl(&[&["accounts", "set", &self.account.id][..], options].concat()).await.map(drop)
    }

    /// Runs `visit` in a cardholder's browser, which may send a card only to this shop's provider.
    pub(crate) async fn visit(&self, visit: impl AsyncFnOnce(&Browser) -> Result<()>) -> Result<()> {
        let trusted = match self.provider {
            Provider::Mock => None,
            Provider::Gateway => Some(cluster().await?.gateway_url(0)),
            Provider::Stripe => Some(stripe()?.url().to_owned()),
        };
        browse(self.provider.device(), async |browser| {
            if let Some(origin) = &trusted {
                browser.trust(origin);
            }
            visit(browser).await
        })
        .await
    }

    /// The requests with this card number, as `METHOD origin/path`.
    pub(crate) fn card_recipients(&self, browser: &Browser, number: &str) -> Vec<String> {
        let secret = Secret::CardNumber(number.to_owned());
        let requests = browser.requests().into_iter().filter(|request| request.part_containing(&secret).is_some());
        requests.map(|request| format!("{} {}{}", request.method, request.origin(), request.path())).collect()
    }

    /// The requests that one entry of a card may cause: one to the card gateway, or none.
    pub(crate) async fn allowed_card_recipients(&self) -> Result<Vec<String>> {
        Ok(match self.provider {
            Provider::Mock => Vec::new(),
            Provider::Gateway => vec![format!("POST {}/services/field_token", cluster().await?.gateway_url(0))],
            Provider::Stripe => vec![format!("POST {}/v1/payment_methods", stripe()?.url())],
        })
    }

    /// Creates a payment link for this amount in USD cents.
    pub(crate) async fn link(&self, amount: i64) -> Result<Value> {
        let body = json!({"amount": amount, "currency": "USD", "description": "Two tins of tea"});
        self.create("/v1/payment_links", body).await
    }

    /// Creates an invoice for a new customer.
    pub(crate) async fn invoice(&self, mut body: Value) -> Result<Value> {
        let customer =
            self.create("/v1/customers", json!({"email": "ada@example.com", "name": "Ada Lovelace"})).await?;
        body["customerId"] = customer["id"].clone();
        body["currency"] = "USD".into();
        self.create("/v1/invoices", body).await
    }

    pub(crate) async fn create(&self, path: &str, body: Value) -> Result<Value> {
        successful(&self.api.post(path, body).await?)
    }

    /// Posts an action without a body.
    pub(crate) async fn post(&self, path: &str) -> Result<Value> {
        successful(&self.api.send(Method::POST, path, None).await?)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        successful(&self.api.get(path).await?)
    }

    /// The current state of an invoice or link.
    pub(crate) async fn current(&self, object: &Value) -> Result<Value> {
        let list = if object["object"] == "invoice" { "invoices" } else { "payment_links" };
        self.get(&format!("/v1/{list}/{}", text(object, "id")?)).await
    }

    /// The payments of this shop, newest first, once none is processing.
    pub(crate) async fn payments(&self) -> Result<Vec<Value>> {
        eventually("all payments to be decided", async || {
            let list = self.get("/v1/payments").await?["data"].as_array().context("a list")?.clone();
            Ok(list.iter().all(|payment| payment["status"] != "processing").then_some(list))
        })
        .await
    }

    /// Fails unless one payment of this amount paid the object and all others were declined. Returns the payment.
    pub(crate) async fn assert_paid(&self, object: &Value, amount: i64) -> Result<Value> {
        let (declined, mut paid): (Vec<_>, Vec<_>) =
            self.payments().await?.into_iter().partition(|payment| payment["status"] == "declined");
        ensure!(paid.len() == 1, "expected one payment, found {paid:?}, and declined {declined:?}");
        let (payment, current) = (paid.remove(0), self.current(object).await?);
        ensure!(payment["status"] == "pending_settlement" && payment["amount"] == amount, "{payment}");
        ensure!(current["status"] == "paid" && current["paymentId"] == payment["id"], "{current}");
        Ok(payment)
    }
}

/// The URL of the page of an invoice or link.
pub(crate) fn address(object: &Value) -> Result<&str> {
    object["url"].as_str().with_context(|| format!("no url in {object}"))
}

fn successful(response: &Response) -> Result<Value> {
    ensure!((200..300).contains(&response.status), "{} {}", response.status, response.body);
    Ok(response.body.clone())
}

fn text<'a>(object: &'a Value, field: &str) -> Result<&'a str> {
    object[field].as_str().with_context(|| format!("no {field} in {object}"))
}
