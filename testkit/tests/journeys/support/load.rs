//! Payments by several concurrent clients while a test injects faults.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

use super::{Merchant, concurrently, created, eventually, id, sale};

/// How long a client retries the same request.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

/// A number of clients that each make a number of payments.
pub(crate) struct Load<'a> {
    merchant: &'a Merchant,
    clients: usize,
    each: usize,
    done: AtomicUsize,
    server_errors: AtomicUsize,
}

/// The result of one request; `payment` is `None` after a 5xx.
struct RequestResult {
    amount: i64,
    payment: Option<String>,
}

impl<'a> Load<'a> {
    /// Each of `clients` makes `each` payments in sequence.
    pub(crate) fn new(merchant: &'a Merchant, clients: usize, each: usize) -> Self {
        Self { merchant, clients, each, done: AtomicUsize::new(0), server_errors: AtomicUsize::new(0) }
    }

    /// Waits until `done` requests have finished.
    pub(crate) async fn wait_for(&self, done: usize) -> Result<()> {
        eventually("the load to make progress", async || Ok((self.done.load(Ordering::Relaxed) >= done).then_some(())))
            .await
    }

    /// Makes all payments and compares the responses with the rows: a response with a payment has exactly that payment,
    /// and a 5xx has none.
    pub(crate) async fn run(&self) -> Result<()> {
        let results = concurrently(self.clients, async |client| self.client(client).await).await?;
        for result in results.into_iter().flatten() {
            match result.payment {
                Some(payment) => {
                    let payment = self.merchant.wait_until_finished(&payment).await?;
                    assert_eq!(payment["status"], "pending_settlement", "{payment}");
                    assert_eq!(payment["amount"], result.amount);
                    assert_eq!(self.merchant.books.payments_with_amount(result.amount).await?, 1);
                }
                None => {
                    let payments = self.merchant.books.payments_with_amount(result.amount).await?;
                    assert_eq!(payments, 0, "after a 5xx there must be no payment");
                }
            }
        }
        self.merchant.books.audit().await
    }

    /// Whether any response was a 5xx.
    pub(crate) fn had_server_errors(&self) -> bool {
        self.server_errors.load(Ordering::Relaxed) > 0
    }

    async fn client(&self, client: usize) -> Result<Vec<RequestResult>> {
        let mut all = Vec::new();
        for i in 0..self.each {
            // Each request has its own amount, by which its payment is found even if the response was a 5xx.
            let amount = i64::try_from(1_000 + client * self.each + i)?;
            let result = if amount % 2 == 0 { self.with_key(amount).await? } else { self.without_key(amount).await? };
            all.push(result);
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(all)
    }

    /// Counts a 5xx and waits before the next request.
    async fn back_off(&self) {
        self.server_errors.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(250)).await;
    }

    async fn without_key(&self, amount: i64) -> Result<RequestResult> {
        let response = self.merchant.pay(amount).await?;
        if response.status >= 500 {
            self.back_off().await;
            return Ok(RequestResult { amount, payment: None });
        }
        Ok(RequestResult { amount, payment: Some(id(created(&response))?) })
    }

    async fn with_key(&self, amount: i64) -> Result<RequestResult> {
        let until = Instant::now() + CLIENT_TIMEOUT;
        while Instant::now() < until {
            let response = self.merchant.pay_with_key(&format!("amount-{amount}"), sale(amount)).await?;
            if response.status < 500 {
                return Ok(RequestResult { amount, payment: Some(id(created(&response))?) });
            }
            self.back_off().await;
        }
        bail!("every response for {amount} was a 5xx")
    }
}
