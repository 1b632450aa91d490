//! Finishing a transaction: its row, the parent's sums, limits, guards and receipts, in one database transaction. The
//! row's state decides: only the first caller finishes it, a later one gets the stored outcome.

use foundation::time::Timestamp;

use super::{State, TransactionKind, reason, store};
use crate::acquirer::{AcquirerResponse, Verdict, cards};
use crate::app::App;
use crate::failure::Failure;
use crate::id::TransactionId;
use crate::limits;
use crate::receipts::{self, ReceiptRequest};

/// The outcome to be written.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub(super) state: State,
    pub(super) reason: Option<String>,
    pub(super) auth_code: Option<String>,
    pub(super) avs: Option<&'static str>,
    pub(super) cvv: Option<&'static str>,
}

impl Outcome {
    /// From the acquirer's response.
    pub fn of(response: &AcquirerResponse, avs: Option<&'static str>, cvv: Option<&'static str>) -> Self {
        let auth_code = Some(response.auth_code.clone());
        match response.verdict {
            Verdict::Approved => Self { state: State::Approved, reason: None, auth_code, avs, cvv },
            Verdict::Declined => {
                let reason = Some(cards::reason(&response.auth_code).to_owned());
                Self { state: State::Declined, reason, auth_code, avs, cvv }
            }
            Verdict::Barred => Self::failed(reason::NOT_PROCESSED),
        }
    }

    /// Declined without asking the acquirer.
    pub fn declined(why: &str, auth_code: Option<&str>) -> Self {
        let (reason, auth_code) = (Some(why.to_owned()), auth_code.map(str::to_owned));
        Self { state: State::Declined, reason, auth_code, avs: None, cvv: None }
    }

    /// It never took effect.
    pub fn failed(why: &str) -> Self {
        Self { state: State::Failed, reason: Some(why.to_owned()), auth_code: None, avs: None, cvv: None }
    }
}

/// The current state of a transaction.
#[derive(Clone, Debug)]
pub struct TransactionStatus {
    pub state: State,
    /// Empty for a success.
    pub reason: String,
}

/// Finishes a transaction with the acquirer's response and returns its status. If another caller has finished it
/// already, that outcome stands.
///
/// # Errors
/// Database errors. The transaction then stays in progress, and recovery finishes it.
pub async fn finish(app: &App, id: TransactionId, outcome: &Outcome) -> Result<TransactionStatus, sqlx::Error> {
    finish_from(app, id, State::InProgress, outcome).await
}

/// Finishes a challenge that the cardholder did not confirm.
///
/// # Errors
/// Database errors.
pub async fn finish_challenge(
    app: &App,
    id: TransactionId,
    outcome: &Outcome,
) -> Result<TransactionStatus, sqlx::Error> {
    finish_from(app, id, State::Challenged, outcome).await
}

async fn finish_from(
    app: &App,
    id: TransactionId,
    from: State,
    outcome: &Outcome,
) -> Result<TransactionStatus, sqlx::Error> {
    let now = app.clock.now();
    let mut tx = foundation::db::begin(&app.db).await?;
    let transaction = store::lock_transaction(&mut tx, id).await?;
    if transaction.state != from {
        return Ok(TransactionStatus {
            state: transaction.state,
            reason: reason_of(transaction.state, transaction.reason),
        });
    }
    let approved = outcome.state == State::Approved;
    let settles_at = settles_at(&transaction, approved, now);
    store::finish(&mut tx, id, outcome, &transaction, settles_at, now).await?;
    if let Some(parent) = transaction.parent_id {
        store::finish_child(&mut tx, parent, &transaction, approved, settles_at).await?;
    }
    if let Some(fingerprint) = &transaction.fingerprint {
        match approved {
            true => limits::extend_guard(&mut tx, transaction.account_id, fingerprint, id, now).await?,
            false => {
                let volume = transaction.month.map(|month| (month, transaction.currency.as_str(), transaction.amount));
                limits::release(&mut tx, transaction.account_id, id, volume, Some(fingerprint)).await?;
            }
        }
    }
    if approved && app.mailer.is_some() {
        let request =
            ReceiptRequest { cardholder: transaction.receipt_cardholder, merchant: transaction.receipt_merchant };
        receipts::enqueue(&mut tx, id, request).await?;
    }
    tx.commit().await?;
    metrics::counter!("gateway_transactions_total", "type" => transaction.kind.name(), "state" => state_name(outcome.state))
        .increment(1);
    Ok(TransactionStatus { state: outcome.state, reason: outcome.reason.clone().unwrap_or_default() })
}

/// The current status of a transaction.
///
/// # Errors
/// Database errors.
pub async fn status(app: &App, id: TransactionId) -> Result<TransactionStatus, sqlx::Error> {
    let (state, reason) = store::status(&app.db, id).await?;
    Ok(TransactionStatus { state, reason: reason_of(state, reason) })
}

/// The response for a transaction that was entered and whose outcome is unknown.
pub fn unresolved(id: TransactionId, error: &dyn std::error::Error) -> Failure {
    tracing::error!(transaction = %id, %error, "the outcome of a transaction is unknown; recovery will resolve it");
    Failure::Unknown
}

/// The `decline_reason` of a transaction in this state.
pub fn reason_of(state: State, reason: Option<String>) -> String {
    match state {
        State::Challenged => reason::PENDING_AUTHENTICATION.to_owned(),
        State::InProgress => reason::IN_PROGRESS.to_owned(),
        State::Approved => String::new(),
        State::Declined | State::Failed => reason.unwrap_or_default(),
    }
}

/// Captured amounts settle at the end of the account's day.
fn settles_at(transaction: &store::LockedTransaction, approved: bool, now: Timestamp) -> Option<Timestamp> {
    let settles = match transaction.kind {
        TransactionKind::Sale | TransactionKind::Capture | TransactionKind::Credit => approved,
        TransactionKind::Authorize | TransactionKind::Void | TransactionKind::Refund => false,
    };
    let zone = &transaction.time_zone;
    settles.then(|| zone.date_at(now).plus_days(1).map_or(Timestamp::MAX, |day| zone.beginning_of(day)))
}

/// Registers the counters at 0, so that the first increment shows as a rise.
pub fn register_metrics() {
    for kind in TransactionKind::ALL {
        for state in [State::Approved, State::Declined, State::Failed] {
            metrics::counter!("gateway_transactions_total", "type" => kind.name(), "state" => state_name(state))
                .increment(0);
        }
    }
    metrics::counter!("gateway_recovered_total").increment(0);
    let _ = metrics::histogram!("gateway_acquirer_seconds");
}

const fn state_name(state: State) -> &'static str {
    match state {
        State::Challenged => "challenged",
        State::InProgress => "in_progress",
        State::Approved => "approved",
        State::Declined => "declined",
        State::Failed => "failed",
    }
}
