//! Receipts by e-mail. A receipt's row is written in the transaction that writes the success, and a separate loop sends
//! the e-mail, so no response waits for a mail server and no crash loses a receipt. A crash between sending and
//! recording it sends a second copy with the same `Message-ID`.

mod email;
mod store;

use std::time::Duration;

use foundation::clock::Clock;
use futures_util::future::join_all;
use mail::{Email, Mailer, SendError};
use sqlx::{PgConnection, PgPool};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::id::TransactionId;
use crate::transactions::ReceiptRequest;

const INTERVAL: Duration = Duration::from_secs(1);
/// E-mails sent concurrently.
const BATCH: i64 = 8;
const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;
/// Delays in seconds after each failed attempt, a little over a day in total. After the last attempt the receipt is
/// given up.
const RETRY_DELAYS: [u32; 7] = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR];

/// Enqueues the receipts of a success, in the transaction that writes it.
///
/// # Errors
/// Database errors.
pub async fn enqueue(db: &mut PgConnection, id: TransactionId, request: ReceiptRequest) -> Result<(), sqlx::Error> {
    match request.cardholder || request.merchant {
        true => store::insert(db, id, request).await,
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
    /// Runs until `stop`. An error is logged, and the next round retries.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            if let Err(error) = self.round(&stop).await {
                tracing::error!(%error, "a round of receipts failed; the next one will retry");
            }
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    async fn round(&self, stop: &CancellationToken) -> Result<(), sqlx::Error> {
        while !stop.is_cancelled() {
            let due = store::claim_due(&self.db, BATCH).await?;
            let last = due.len() < BATCH as usize;
            for done in join_all(due.into_iter().map(|receipt| self.deliver(receipt))).await {
                done?;
            }
            if last {
                break;
            }
        }
        let pending = store::pending(&self.db).await?;
        metrics::gauge!("gateway_receipts_pending").set(pending as f64);
        Ok(())
    }

    /// Sends a claimed receipt and records the result.
    async fn deliver(&self, receipt: store::DueReceipt) -> Result<(), sqlx::Error> {
        let tries = usize::try_from(receipt.tries).unwrap_or(usize::MAX);
        let sent = match tries > RETRY_DELAYS.len() + 1 {
            // The last attempt ended with the process that made it.
            true => return self.give_up(receipt.id, "all attempts were used").await,
            false => self.send(&receipt).await?,
        };
        match sent {
            Ok(()) => {
                store::sent(&self.db, receipt.id).await?;
                count_result("sent");
                Ok(())
            }
            Err(error) => match RETRY_DELAYS.get(tries - 1).filter(|_| !error.permanent) {
                Some(wait) => {
                    tracing::warn!(receipt = %receipt.id, %error, tries, "a receipt was not sent and will be retried");
                    store::reschedule(&self.db, receipt.id, receipt.tries, *wait).await?;
                    count_result("put_off");
                    Ok(())
                }
                None => self.give_up(receipt.id, &error.to_string()).await,
            },
        }
    }

    async fn send(&self, receipt: &store::DueReceipt) -> Result<Result<(), SendError>, sqlx::Error> {
        let data = store::receipt_data(&self.db, receipt.transaction_id).await?;
        let (subject, text) = email::compose(receipt.transaction_id, &data);
        let id = format!("{}-{}", receipt.transaction_id, receipt.addressee.name());
        let (to, date) = (receipt.email.clone(), self.clock.now());
        let email =
            Email { id, to, subject, text, date, from_name: None, reply_to: None, html: None, unsubscribe: None };
        Ok(self.mailer.send(&email).await)
    }

    async fn give_up(&self, id: Uuid, why: &str) -> Result<(), sqlx::Error> {
        tracing::error!(receipt = %id, why, "gave up on a receipt");
        store::given_up(&self.db, id).await?;
        count_result("given_up");
        Ok(())
    }
}

/// Registers the metrics at 0, even if no receipts are sent.
pub fn register_metrics() {
    for result in ["sent", "put_off", "given_up"] {
        metrics::counter!("gateway_receipts_total", "result" => result).increment(0);
    }
    metrics::gauge!("gateway_receipts_pending").set(0.0);
}

fn count_result(result: &'static str) {
    metrics::counter!("gateway_receipts_total", "result" => result).increment(1);
}
