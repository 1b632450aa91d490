//! A merchant with an account of its own, and what it does at its server.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{
    Account, Answer, Client,
    browser::{Browser, Device, Secret, browse, eventually},
};

use super::cluster;

/// Who settles the shop's money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    Mock,
    Gateway,
}

impl Provider {
    /// What cardholders of such a shop have.
    fn device(self) -> Device {
        match self {
            Self::Mock => Device::Desktop,
            Self::Gateway => Device::Phone,
        }
    }
}

/// A shop.
pub(crate) struct Shop {
    pub(crate) account: Account,
    pub(crate) api: Client,
    provider: Provider,
}

impl Shop {
    /// A new shop.
    pub(crate) async fn new(provider: Provider) -> Result<Self> {
        let cluster = cluster().await?;
        let account = match provider {
            Provider::Mock => cluster.account().await?,
            Provider::Gateway => cluster.account_at_gateway(&[]).await?.0,
        };
        let shop = Self { api: cluster.client(&account)?, account, provider };
        shop.set(&["--name", "Ada's Tea"]).await?;
        Ok(shop)
    }

    /// Changes settings of the account, as the operator does.
    pub(crate) async fn set(&self, options: &[&str]) -> Result<()> {
        cluster().await?.ctl(&[&["accounts", "set", &self.account.id][..], options].concat()).await.map(drop)
    }

    /// A cardholder's browser, which may tell a card to this shop's provider and to nobody else.
    pub(crate) async fn visit(&self, visit: impl AsyncFnOnce(&Browser) -> Result<()>) -> Result<()> {
        let gateway = cluster().await?.gateway_url(0);
        browse(self.provider.device(), async |browser| {
            if self.provider == Provider::Gateway {
                browser.trust(&gateway);
            }
            visit(browser).await
        })
        .await
    }

    /// Where a card with this number was sent, as `METHOD origin/path`.
    pub(crate) fn told(&self, browser: &Browser, number: &str) -> Vec<String> {
        let secret = Secret::Number(number.to_owned());
        let requests = browser.requests().into_iter().filter(|request| request.part_with(&secret).is_some());
        requests.map(|request| format!("{} {}{}", request.method, request.origin(), request.path())).collect()
    }

    /// Where a card goes that is entered once: to the provider's door for cards, or nowhere.
    pub(crate) async fn may_be_told(&self) -> Result<Vec<String>> {
        Ok(match self.provider {
            Provider::Mock => Vec::new(),
            Provider::Gateway => vec![format!("POST {}/services/field_token", cluster().await?.gateway_url(0))],
        })
    }

    /// A link to pay this amount in dollars.
    pub(crate) async fn link(&self, amount: i64) -> Result<Value> {
        let body = json!({"amount": amount, "currency": "USD", "description": "Two tins of tea"});
        self.make("/v1/payment_links", body).await
    }

    /// An invoice of a new customer.
    pub(crate) async fn invoice(&self, mut body: Value) -> Result<Value> {
        let customer = self.make("/v1/customers", json!({"email": "ada@example.com", "name": "Ada Lovelace"})).await?;
        body["customerId"] = customer["id"].clone();
        body["currency"] = "USD".into();
        self.make("/v1/invoices", body).await
    }

    /// Makes an object.
    pub(crate) async fn make(&self, path: &str, body: Value) -> Result<Value> {
        answered(&self.api.post(path, body).await?)
    }

    /// Does something to an object: the last part of the path says what.
    pub(crate) async fn act(&self, path: &str) -> Result<Value> {
        answered(&self.api.send(Method::POST, path, None).await?)
    }

    /// An object as it stands.
    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        answered(&self.api.get(path).await?)
    }

    /// An invoice or link as it stands.
    pub(crate) async fn again(&self, object: &Value) -> Result<Value> {
        let list = if object["object"] == "invoice" { "invoices" } else { "payment_links" };
        self.get(&format!("/v1/{list}/{}", text(object, "id")?)).await
    }

    /// The payments of this shop, newest first, once the outcome of each is known.
    pub(crate) async fn payments(&self) -> Result<Vec<Value>> {
        eventually(async || {
            let list = self.get("/v1/payments").await?["data"].as_array().context("a list")?.clone();
            Ok(list.iter().all(|payment| payment["status"] != "processing").then_some(list))
        })
        .await
    }

    /// Something was paid by one payment of this amount, and every other one was declined.
    pub(crate) async fn was_paid(&self, object: &Value, amount: i64) -> Result<Value> {
        let (declined, mut paid): (Vec<_>, Vec<_>) =
            self.payments().await?.into_iter().partition(|payment| payment["status"] == "declined");
        ensure!(paid.len() == 1, "one payment, and not {paid:?} beside {declined:?}");
        let (payment, now) = (paid.remove(0), self.again(object).await?);
        ensure!(payment["status"] == "pending_settlement" && payment["amount"] == amount, "{payment}");
        ensure!(now["status"] == "paid" && now["paymentId"] == payment["id"], "{now}");
        Ok(payment)
    }
}

/// Where the page of an invoice or a link is.
pub(crate) fn address(object: &Value) -> Result<&str> {
    object["url"].as_str().with_context(|| format!("no url in {object}"))
}

fn answered(answer: &Answer) -> Result<Value> {
    ensure!((200..300).contains(&answer.status), "{} {}", answer.status, answer.body);
    Ok(answer.body.clone())
}

fn text<'a>(object: &'a Value, field: &str) -> Result<&'a str> {
    object[field].as_str().with_context(|| format!("no {field} in {object}"))
}
