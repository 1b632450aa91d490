//! Payments from several clients at once, while something else goes on.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

use super::{Merchant, created, eventually, id, sale, together};

/// How long a client tries the same request again.
const CLIENT_PATIENCE: Duration = Duration::from_secs(60);

/// How a load is made up.
pub(crate) struct Load<'a> {
    merchant: &'a Merchant,
    clients: usize,
    each: usize,
    done: AtomicUsize,
    refusals: AtomicUsize,
}

/// What one request came to.
struct Made {
    amount: i64,
    payment: Option<String>,
}

impl<'a> Load<'a> {
    /// Each of `clients` makes `each` payments, one after another.
    pub(crate) fn new(merchant: &'a Merchant, clients: usize, each: usize) -> Self {
        Self { merchant, clients, each, done: AtomicUsize::new(0), refusals: AtomicUsize::new(0) }
    }

    /// Waits until so many requests have come to something.
    pub(crate) async fn at(&self, done: usize) -> Result<()> {
        eventually("the load to go on", async || Ok((self.done.load(Ordering::Relaxed) >= done).then_some(()))).await
    }

    /// Makes all payments and holds the answers against the rows: who was told of a payment has exactly that one, and who was
    /// told that nothing was done has none.
    pub(crate) async fn run(&self) -> Result<()> {
        let made = together(self.clients, async |client| self.client(client).await).await?;
        for made in made.into_iter().flatten() {
            match made.payment {
                Some(payment) => {
                    let payment = self.merchant.finished(&payment).await?;
                    assert_eq!(payment["status"], "pending_settlement", "{payment}");
                    assert_eq!(payment["amount"], made.amount);
                    assert_eq!(self.merchant.books.payments_of(made.amount).await?, 1);
                }
                None => {
                    let found = self.merchant.books.payments_of(made.amount).await?;
                    assert_eq!(found, 0, "a 5xx says that nothing was done");
                }
            }
        }
        self.merchant.books.audit().await
    }

    /// Whether any request was answered 5xx.
    pub(crate) fn was_refused(&self) -> bool {
        self.refusals.load(Ordering::Relaxed) > 0
    }

    async fn client(&self, client: usize) -> Result<Vec<Made>> {
        let mut all = Vec::new();
        for i in 0..self.each {
            // The amount is the request's name: by it we find what came of a request that was told nothing.
            let amount = i64::try_from(1_000 + client * self.each + i)?;
            let made = if amount % 2 == 0 { self.with_key(amount).await? } else { self.without_key(amount).await? };
            all.push(made);
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(all)
    }

    /// Who is told to try again later does so later.
    async fn refused(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(250)).await;
    }

    async fn without_key(&self, amount: i64) -> Result<Made> {
        let answer = self.merchant.pay(amount).await?;
        if answer.status >= 500 {
            self.refused().await;
            return Ok(Made { amount, payment: None });
        }
        Ok(Made { amount, payment: Some(id(created(&answer))?) })
    }

    async fn with_key(&self, amount: i64) -> Result<Made> {
        let until = Instant::now() + CLIENT_PATIENCE;
        while Instant::now() < until {
            let answer = self.merchant.pay_once(&format!("amount-{amount}"), sale(amount)).await?;
            if answer.status < 500 {
                return Ok(Made { amount, payment: Some(id(created(&answer))?) });
            }
            self.refused().await;
        }
        bail!("no answer but 5xx for {amount}")
    }
}
