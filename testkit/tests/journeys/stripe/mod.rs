//! Merchants whose provider is Stripe, at a double of it. /v1 behaves as with any other provider.

mod amounts;
mod challenges;
mod connecting;
mod events;
mod payments;
mod recovery;

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::stripe::{CardBehavior, Stripe, StripeKeys};
use testkit::{Cluster, Response};
use tokio::sync::OnceCell;

use crate::support::{Browser, Merchant, ORIGIN, created, id};

struct Shared {
    stripe: Stripe,
    cluster: Cluster,
}

/// A cluster for merchants at Stripe, and the double.
async fn shared() -> Result<&'static Shared> {
    static SHARED: OnceCell<Shared> = OnceCell::const_new();
    let start = async || {
        let stripe = Stripe::start()?;
        let cluster = Cluster::builder().api(1).worker(1).scheduler(1).env("STRIPE_URL", stripe.url());
        anyhow::Ok(Shared { cluster: cluster.start().await?, stripe })
    };
    SHARED.get_or_try_init(start).await
}

/// A merchant connected to an account of its own at the double.
struct Shop<'a> {
    stripe: &'a Stripe,
    keys: StripeKeys,
    merchant: Merchant,
    browser: Browser,
    endpoint: String,
}

async fn shop() -> Result<Shop<'static>> {
    let Shared { stripe, cluster } = shared().await?;
    Shop::new(stripe, cluster).await
}

impl<'a> Shop<'a> {
    async fn new(stripe: &'a Stripe, cluster: &Cluster) -> Result<Self> {
        let no_limit = ["--rate-limit", "1000000", "--burst", "1000000"];
        let options = [&["--mode", "test", "--provider", "stripe", "--origin", ORIGIN][..], &no_limit].concat();
        let (account, keys) = (cluster.account_with(&options).await?, stripe.account());
        cluster.connect_stripe(&account, &keys).await?;
        let endpoint = format!("{}/hooks/stripe/{}", cluster.api_url(0), account.id);
        let browser = Browser::for_account(cluster, &account)?;
        Ok(Self { stripe, keys, merchant: Merchant::for_account(cluster, account)?, browser, endpoint })
    }

    /// A payment token for a card.
    async fn token(&self, card: CardBehavior) -> Result<String> {
        self.browser.token(&self.stripe.token(&self.keys, card)).await
    }

    /// Pays this amount of dollars, with these further fields.
    async fn pay(&self, card: CardBehavior, amount: i64, extra: Value) -> Result<Response> {
        let mut body = json!({"amount": amount, "currency": "USD", "paymentToken": self.token(card).await?});
        body.as_object_mut().context("an object")?.extend(extra.as_object().context("an object")?.clone());
        self.merchant.api.send(Method::POST, "/v1/payments", Some(body.to_string().into_bytes())).await
    }

    /// The id of an approved sale.
    async fn sale(&self, amount: i64) -> Result<String> {
        id(created(&self.pay(CardBehavior::Approve, amount, json!({})).await?))
    }

    /// The payment at Stripe with this amount.
    fn intent(&self, amount: i64) -> Result<Value> {
        let intents = self.stripe.objects(&self.keys, "payment_intent");
        intents.into_iter().find(|intent| intent["amount"] == amount).context("no payment at Stripe")
    }

    /// What Stripe has of the merchant, such as `1250 succeeded, refund 50 succeeded`.
    fn records(&self) -> String {
        let of = |kind: &str, name: &str| {
            let objects = self.stripe.objects(&self.keys, kind);
            objects.iter().map(|object| format!("{name}{} {}", object["amount"], object["status"])).collect::<Vec<_>>()
        };
        [of("payment_intent", ""), of("refund", "refund ")].concat().join(", ").replace('"', "")
    }

    /// Delivers the events that Stripe has not delivered yet.
    async fn deliver_events(&self) -> Result<()> {
        let events = self.stripe.take_events(&self.keys);
        let statuses = self.stripe.deliver(&self.keys, &self.endpoint, &events).await?;
        anyhow::ensure!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
        Ok(())
    }
}
