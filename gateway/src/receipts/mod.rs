//! Receipts by e-mail. The row of a receipt is written in the transaction that writes the success, and letters leave later, on
//! a loop of their own: no answer waits for a mail server, and no crash loses a letter. A crash between the sending and the note
//! of it sends a second copy, under the same name.

mod letter;
mod store;

use std::time::Duration;

use futures_util::future::join_all;
use sqlx::PgConnection;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::App;
use crate::id::TransactionId;
use crate::mail::{Letter, Mailer, NotSent};

const EVERY: Duration = Duration::from_secs(1);
/// Letters that leave at once.
const BATCH: i64 = 8;
const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;
/// How long after each try that fails comes the next, in seconds: a bit more than a day together. After the last it is given up.
const WAITS: [u32; 7] = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR];

/// Who is to have a receipt of a success.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The cardholder, at the form's `email`.
    pub cardholder: bool,
    /// The merchant, at the account's contact address.
    pub merchant: bool,
}

/// Who a receipt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
enum Addressee {
    Cardholder,
    Merchant,
}

impl Addressee {
    const fn name(self) -> &'static str {
        match self {
            Self::Cardholder => "cardholder",
            Self::Merchant => "merchant",
        }
    }
}

/// Notes which receipts of a success are to be sent, in the transaction that writes it.
///
/// # Errors
/// Only the database's.
pub async fn note(db: &mut PgConnection, id: TransactionId, wanted: Wanted) -> Result<(), sqlx::Error> {
    match wanted.cardholder || wanted.merchant {
        true => store::insert(db, id, wanted).await,
        false => Ok(()),
    }
}

/// Goes on until told to stop. What fails is logged, and the next round tries again.
pub async fn run(app: App, mailer: Mailer, stop: CancellationToken) {
    loop {
        if let Err(error) = round(&app, &mailer, &stop).await {
            tracing::error!(%error, "a round of receipts failed; the next one tries again");
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn round(app: &App, mailer: &Mailer, stop: &CancellationToken) -> Result<(), sqlx::Error> {
    while !stop.is_cancelled() {
        let due = store::take_due(&app.db, BATCH).await?;
        let last = due.len() < BATCH as usize;
        for done in join_all(due.into_iter().map(|receipt| deliver(app, mailer, receipt))).await {
            done?;
        }
        if last {
            break;
        }
    }
    let pending = store::pending(&app.db).await?;
    metrics::gauge!("gateway_receipts_pending").set(pending as f64);
    Ok(())
}

/// Sends a receipt that was taken, and notes what came of it.
async fn deliver(app: &App, mailer: &Mailer, receipt: store::Due) -> Result<(), sqlx::Error> {
    let tries = usize::try_from(receipt.tries).unwrap_or(usize::MAX);
    let sent = match tries > WAITS.len() + 1 {
        // Who tried it last died of it, or with it.
        true => return give_up(app, receipt.id, "it was tried often enough").await,
        false => send(app, mailer, &receipt).await?,
    };
    match sent {
        Ok(()) => {
            store::sent(&app.db, receipt.id).await?;
            count("sent");
            Ok(())
        }
        Err(error) => match WAITS.get(tries - 1).filter(|_| !error.for_good) {
            Some(wait) => {
                tracing::warn!(receipt = %receipt.id, %error, tries, "a receipt was not sent; it is tried again");
                store::put_off(&app.db, receipt.id, receipt.tries, *wait).await?;
                count("put_off");
                Ok(())
            }
            None => give_up(app, receipt.id, &error.to_string()).await,
        },
    }
}

async fn send(app: &App, mailer: &Mailer, receipt: &store::Due) -> Result<Result<(), NotSent>, sqlx::Error> {
    let facts = store::facts(&app.db, receipt.transaction_id).await?;
    let (subject, text) = letter::compose(receipt.transaction_id, &facts);
    let id = format!("{}-{}", receipt.transaction_id, receipt.addressee.name());
    let letter = Letter { id, to: receipt.email.clone(), subject, text, date: app.clock.now() };
    Ok(mailer.send(&letter).await)
}

async fn give_up(app: &App, id: Uuid, why: &str) -> Result<(), sqlx::Error> {
    tracing::error!(receipt = %id, why, "a receipt is given up");
    store::given_up(&app.db, id).await?;
    count("given_up");
    Ok(())
}

/// Counts receipts from nought, where none are made too.
pub fn count_from_nought() {
    for result in ["sent", "put_off", "given_up"] {
        metrics::counter!("gateway_receipts_total", "result" => result).increment(0);
    }
    metrics::gauge!("gateway_receipts_pending").set(0.0);
}

fn count(result: &'static str) {
    metrics::counter!("gateway_receipts_total", "result" => result).increment(1);
}
