//! Receipts by e-mail. A receipt's row is written in the transaction that writes the success, and a separate loop sends
//! the e-mail, so no response waits for a mail server and no crash loses a receipt. A crash between sending and
//! recording it sends a second copy with the same `Message-ID`.

mod email;
mod outbox;

use std::sync::Arc;
use std::time::Duration;

use foundation::clock::Clock;
use mail::{Email, Mailer};
use queue::acquire_free;
use sqlx::{PgConnection, PgPool};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::id::TransactionId;
use crate::transactions::ReceiptRequest;

/// How often receipts are looked for when none was due.
const INTERVAL: Duration = Duration::from_secs(1);
/// E-mails sent concurrently.
const SLOTS: usize = 8;
const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;
/// Delays in seconds after each failed attempt, a little over a day in total. After the last attempt the receipt
/// has failed.
const RETRY_DELAYS: [u32; 7] = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR];

/// Receipts of captures, voids and refunds of one charge: it can be refunded in any number of parts.
pub const MAX_CHILD_RECEIPTS: i32 = 20;

/// Enqueues the receipts of a success, in the transaction that writes it.
///
/// # Errors
/// Database errors.
pub async fn enqueue(db: &mut PgConnection, id: TransactionId, request: ReceiptRequest) -> Result<(), sqlx::Error> {
    match request.cardholder || request.merchant {
        true => outbox::insert(db, id, request).await,
        false => Ok(()),
    }
}

/// Sends receipts.
#[derive(Debug)]
pub struct Sender {
    pub db: PgPool,
    pub clock: Clock,
    pub mailer: Mailer,
}

impl Sender {
    /// Runs until `stop`, then finishes what it has claimed.
    pub async fn run(self, stop: CancellationToken) {
        let sender = Arc::new(self);
        tokio::join!(Arc::clone(&sender).send_due(&stop), sender.measure_pending(&stop));
    }

    /// Claims as many receipts as there are free slots, whenever there is one, so that a slow mail server delays only the
    /// receipts that it has. A claim takes one receipt of an account, so there may be more as long as it takes any.
    async fn send_due(self: Arc<Self>, stop: &CancellationToken) {
        let (slots, sending, mut last) = (Arc::new(Semaphore::new(SLOTS)), TaskTracker::new(), None);
        while let Some(mut free) = stop.run_until_cancelled(acquire_free(&slots)).await {
            let from_first = last.is_none();
            let claimed = outbox::claim_due(&self.db, free.num_permits(), &mut last).await;
            let may_have_more = claimed.as_ref().is_ok_and(|due| !due.is_empty() || !from_first);
            let due = claimed.unwrap_or_else(|error| {
                tracing::error!(%error, "could not claim receipts; trying again");
                Vec::new()
            });
            for receipt in due {
                let slot = free.split(1).expect("no more receipts than slots");
                let sender = Arc::clone(&self);
                sending.spawn(async move {
                    sender.deliver(receipt).await;
                    drop(slot);
                });
            }
            drop(free);
            if !may_have_more && stop.run_until_cancelled(sleep(INTERVAL)).await.is_none() {
                break;
            }
        }
        sending.close();
        sending.wait().await;
    }

    async fn measure_pending(&self, stop: &CancellationToken) {
        loop {
            match outbox::pending(&self.db).await {
                Ok(pending) => metrics::gauge!("gateway_receipts_pending").set(pending as f64),
                Err(error) => tracing::error!(%error, "could not count pending receipts; trying again"),
            }
            if stop.run_until_cancelled(sleep(INTERVAL)).await.is_none() {
                return;
            }
        }
    }

    /// Sends a claimed receipt and records the result.
    async fn deliver(&self, receipt: outbox::DueReceipt) {
        if let Err(error) = self.attempt(&receipt).await {
            tracing::error!(receipt = %receipt.id, %error, "the result of a receipt was not recorded; it will be retried");
        }
    }

    async fn attempt(&self, receipt: &outbox::DueReceipt) -> Result<(), sqlx::Error> {
        let tries = usize::try_from(receipt.tries).unwrap_or(usize::MAX);
        if tries > RETRY_DELAYS.len() + 1 {
            // The last attempt ended with the process that made it.
            return self.fail(receipt.id, "all attempts were used").await;
        }
        let email = self.email(receipt).await?;
        match self.mailer.send(&email).await {
            Ok(()) => {
                outbox::sent(&self.db, receipt.id).await?;
                count_result("sent");
                Ok(())
            }
            Err(error) => match RETRY_DELAYS.get(tries - 1).filter(|_| !error.permanent) {
                Some(wait) => {
                    tracing::warn!(receipt = %receipt.id, %error, tries, "a receipt was not sent and will be retried");
                    outbox::reschedule(&self.db, receipt.id, receipt.tries, *wait).await?;
                    count_result("retried");
                    Ok(())
                }
                None => self.fail(receipt.id, &error.to_string()).await,
            },
        }
    }

    async fn email(&self, receipt: &outbox::DueReceipt) -> Result<Email, sqlx::Error> {
        let data = email::receipt_data(&self.db, receipt.transaction_id).await?;
        let (subject, text) = email::compose(receipt.transaction_id, &data);
        let id = format!("{}-{}", receipt.transaction_id, receipt.addressee.name());
        let (to, date) = (receipt.email.clone(), self.clock.now());
        Ok(Email { id, to, subject, text, date, from_name: None, reply_to: None, html: None, unsubscribe: None })
    }

    async fn fail(&self, id: Uuid, why: &str) -> Result<(), sqlx::Error> {
        tracing::error!(receipt = %id, why, "a receipt could not be sent");
        outbox::failed(&self.db, id).await?;
        count_result("failed");
        Ok(())
    }
}

/// Registers the metrics at 0, even if no receipts are sent.
pub fn register_metrics() {
    for result in ["sent", "retried", "failed"] {
        metrics::counter!("gateway_receipts_total", "result" => result).increment(0);
    }
    metrics::gauge!("gateway_receipts_pending").set(0.0);
}

fn count_result(result: &'static str) {
    metrics::counter!("gateway_receipts_total", "result" => result).increment(1);
}
