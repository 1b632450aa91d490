//! While the provider processes nothing, a charge waits. If its collection is stopped meanwhile, nothing is charged later.

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Cluster;

use super::{cancel, customer_with_card, plan, subscribe};
use crate::support::{Merchant, eventually, id, ok};

/// What stops the collection.
#[derive(Clone, Copy, Debug)]
enum Stop {
    CancelSubscription,
    /// The charge is being sent meanwhile, so it may complete. The provider does not process it.
    CancelSubscriptionWhileSending,
    DetachCard,
    VoidInvoice,
    CancelSchedule,
}

const STOPS: [Stop; 5] = [
    Stop::CancelSubscription,
    Stop::CancelSubscriptionWhileSending,
    Stop::DetachCard,
    Stop::VoidInvoice,
    Stop::CancelSchedule,
];

/// A merchant whose only charge, for the first invoice of a subscription, waits.
struct Waiting {
    stop: Stop,
    merchant: Merchant,
    subscription: Value,
}

impl Waiting {
    async fn new(cluster: &Cluster, stop: Stop) -> Result<Self> {
        let merchant = Merchant::new(cluster).await?;
        let (customer, plan) = (customer_with_card(&merchant).await?, plan(&merchant, "month").await?);
        merchant.mock(cluster, &["--refuse"]).await?;
        let subscription = subscribe(&merchant, json!({"customerId": customer, "planId": plan})).await?;
        Ok(Self { stop, merchant, subscription })
    }

    async fn waits(&self) -> Result<bool> {
        let waits =
            "SELECT count(*) = 1 FROM operations WHERE account_id = $1 AND kind = 'sale' AND finished_at IS NULL
                     AND state = 'ready' AND not_processed > 0";
        let waits = sqlx::query_scalar(waits).bind(self.merchant.books.account);
        Ok(waits.fetch_one(&self.merchant.books.db).await?)
    }

    async fn set_state(&self, from: &str, to: &str) -> Result<()> {
        let set =
            "UPDATE operations SET state = $3::operation_state WHERE account_id = $1 AND state = $2::operation_state";
        let set = sqlx::query(set).bind(self.merchant.books.account).bind(from).bind(to);
        ensure!(set.execute(&self.merchant.books.db).await?.rows_affected() == 1, "no operation is {from}");
        Ok(())
    }

    async fn cancel_subscription(&self) -> Result<()> {
        let cancelled = cancel(&self.merchant, &id(&self.subscription)?).await?;
        ensure!(ok(&cancelled)["status"] == "cancelled", "{}", cancelled.body);
        Ok(())
    }

    async fn act_on_invoice(&self, action: &str, status: &str) -> Result<()> {
        let path = format!("/v1/invoices/{}/{action}", self.invoice_id().await?);
        let stopped = self.merchant.api.send(Method::POST, &path, None).await?;
        ensure!(ok(&stopped)["status"] == status, "{}", stopped.body);
        Ok(())
    }

    async fn invoice_id(&self) -> Result<String> {
        id(&self.merchant.api.get("/v1/invoices").await?.body["data"][0])
    }

    async fn stop_collection(&self) -> Result<()> {
        match self.stop {
            Stop::CancelSubscription => self.cancel_subscription().await,
            Stop::CancelSubscriptionWhileSending => {
                self.set_state("ready", "sending").await?;
                self.cancel_subscription().await?;
                self.set_state("sending", "ready").await
            }
            Stop::DetachCard => {
                let customer = self.subscription["customerId"].as_str().context("a customer")?;
                let cards = self.merchant.api.get(&format!("/v1/payment_methods?customerId={customer}")).await?.body;
                let card = format!("/v1/payment_methods/{}", id(&cards["data"][0])?);
                ok(&self.merchant.api.delete(&card).await?);
                Ok(())
            }
            Stop::VoidInvoice => self.act_on_invoice("void", "voided").await,
            Stop::CancelSchedule => self.act_on_invoice("cancel_schedule", "open").await,
        }
    }

    /// Asserts that nothing was charged since the provider is back, and that the invoice is in this state.
    async fn check(&self) -> Result<()> {
        let Merchant { api, books, .. } = &self.merchant;
        // A later payment shows that the provider and the worker are back.
        eventually("another payment", async || {
            let payment = self.merchant.pay(100).await?.body;
            Ok((payment["status"] == "pending_settlement").then_some(()))
        })
        .await?;
        eventually("the end of all operations", async || {
            let ended = "SELECT bool_and(finished_at IS NOT NULL) FROM operations WHERE account_id = $1";
            let ended: bool = sqlx::query_scalar(ended).bind(books.account).fetch_one(&books.db).await?;
            Ok(ended.then_some(()))
        })
        .await?;
        let charged = "SELECT t.amount FROM mock.transactions t JOIN provider_accounts p ON p.id = t.account
                       WHERE p.account_id = $1";
        let charged: Vec<i64> = sqlx::query_scalar(charged).bind(books.account).fetch_all(&books.db).await?;
        ensure!(charged == [100], "{charged:?} was charged");
        let invoice = self.invoice_id().await?;
        let attempts = api.get(&format!("/v1/invoices/{invoice}/attempts")).await?.body;
        ensure!(attempts["data"][0]["status"] == "failed", "{attempts}");
        let payment = attempts["data"][0]["paymentId"].as_str().context("a payment")?;
        let payment = self.merchant.payment(payment).await?;
        ensure!(payment["status"] == "failed", "{payment}");
        let invoice = api.get(&format!("/v1/invoices/{invoice}")).await?.body;
        let (status, is_unplanned) = match self.stop {
            Stop::CancelSubscription | Stop::CancelSchedule => ("open", true),
            Stop::CancelSubscriptionWhileSending => ("open", invoice["nextAttemptAt"].is_null()),
            // It waits for a card.
            Stop::DetachCard => ("scheduled", invoice["nextAttemptAt"].is_null()),
            Stop::VoidInvoice => ("voided", true),
        };
        ensure!(invoice["status"] == status && is_unplanned, "{invoice} instead of {status}, without another attempt");
        Ok(())
    }
}

/// Stops the worker while all charges wait to be sent again.
async fn stop_worker(cluster: &mut Cluster, all: &[Waiting]) -> Result<()> {
    let all_wait =
        async || anyhow::Ok(try_join_all(all.iter().map(Waiting::waits)).await?.into_iter().all(|waits| waits));
    loop {
        eventually("charges that wait", async || Ok(all_wait().await?.then_some(()))).await?;
        cluster.worker(0).kill9()?;
        if all_wait().await? {
            return Ok(());
        }
        // One was about to be sent again.
        cluster.worker(0).restart().await?;
    }
}

#[tokio::test]
async fn a_charge_that_waits_is_not_sent_once_its_collection_was_stopped() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let all = try_join_all(STOPS.map(|stop| Waiting::new(&cluster, stop))).await?;
    stop_worker(&mut cluster, &all).await?;
    for waiting in &all {
        waiting.stop_collection().await.with_context(|| format!("{:?}", waiting.stop))?;
        waiting.merchant.mock(&cluster, &[]).await?;
    }
    cluster.worker(0).restart().await?;
    for waiting in &all {
        waiting.check().await.with_context(|| format!("{:?}", waiting.stop))?;
    }
    Ok(())
}
