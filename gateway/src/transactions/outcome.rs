//! The end of a transaction: its row, its parent's sums, the limits and guards, in one transaction. It is matched by the row and
//! by nobody's turn: who comes late finds the end that is there.

use common::time::Timestamp;

use super::{Kind, State, reason, store};
use crate::acquirer::{Answer, Verdict, cards};
use crate::app::App;
use crate::failure::Failure;
use crate::id::TransactionId;
use crate::limits;
use crate::receipts::{self, Wanted};

/// How a transaction is to end.
#[derive(Clone, Debug)]
pub struct Ending {
    pub(super) state: State,
    pub(super) reason: Option<String>,
    pub(super) auth_code: Option<String>,
    pub(super) avs: Option<&'static str>,
    pub(super) cvv: Option<&'static str>,
}

impl Ending {
    /// By the acquirer's word.
    pub fn of(answer: &Answer, avs: Option<&'static str>, cvv: Option<&'static str>) -> Self {
        let auth_code = Some(answer.auth_code.clone());
        match answer.verdict {
            Verdict::Approved => Self { state: State::Approved, reason: None, auth_code, avs, cvv },
            Verdict::Declined => {
                let reason = Some(cards::reason(&answer.auth_code).to_owned());
                Self { state: State::Declined, reason, auth_code, avs, cvv }
            }
            Verdict::Barred => Self::failed(reason::NOT_PROCESSED),
        }
    }

    /// Without the acquirer.
    pub fn declined(why: &str, auth_code: Option<&str>) -> Self {
        let (reason, auth_code) = (Some(why.to_owned()), auth_code.map(str::to_owned));
        Self { state: State::Declined, reason, auth_code, avs: None, cvv: None }
    }

    /// Never done.
    pub fn failed(why: &str) -> Self {
        Self { state: State::Failed, reason: Some(why.to_owned()), auth_code: None, avs: None, cvv: None }
    }
}

/// How a transaction has ended, or how it stands.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How far it is.
    pub state: State,
    /// Why it is no success; empty if it is one.
    pub reason: String,
}

/// Ends a transaction that the acquirer has answered, and says how it ended: another's word stands if it came first.
///
/// # Errors
/// Only the database's; then it is in progress still, and recovery ends it.
pub async fn end(app: &App, id: TransactionId, ending: &Ending) -> Result<Ended, sqlx::Error> {
    end_from(app, id, State::InProgress, ending).await
}

/// Ends a transaction whose cardholder was asked and did not confirm.
///
/// # Errors
/// Only the database's.
pub async fn end_challenge(app: &App, id: TransactionId, ending: &Ending) -> Result<Ended, sqlx::Error> {
    end_from(app, id, State::Challenged, ending).await
}

async fn end_from(app: &App, id: TransactionId, from: State, ending: &Ending) -> Result<Ended, sqlx::Error> {
    let now = app.clock.now();
    let mut tx = common::db::begin(&app.db).await?;
    let open = store::lock_open(&mut tx, id).await?;
    if open.state != from {
        return Ok(Ended { state: open.state, reason: reason_of(open.state, open.reason) });
    }
    let approved = ending.state == State::Approved;
    let settles_at = settles_at(&open, approved, now);
    store::end(&mut tx, id, ending, &open, settles_at, now).await?;
    if let Some(parent) = open.parent_id {
        store::end_child(&mut tx, parent, &open, approved, settles_at).await?;
    }
    if let Some(fingerprint) = &open.fingerprint {
        match approved {
            true => limits::keep_guard(&mut tx, open.account_id, fingerprint, id, now).await?,
            false => {
                let volume = open.month.map(|month| (month, open.currency.as_str(), open.amount));
                limits::give_back(&mut tx, open.account_id, id, volume, Some(fingerprint)).await?;
            }
        }
    }
    if approved && app.mailer.is_some() {
        let wanted = Wanted { cardholder: open.receipt_cardholder, merchant: open.receipt_merchant };
        receipts::note(&mut tx, id, wanted).await?;
    }
    tx.commit().await?;
    metrics::counter!("gateway_transactions_total", "type" => open.kind.name(), "state" => state_name(ending.state))
        .increment(1);
    Ok(Ended { state: ending.state, reason: ending.reason.clone().unwrap_or_default() })
}

/// How a transaction stands.
///
/// # Errors
/// Only the database's.
pub async fn read(app: &App, id: TransactionId) -> Result<Ended, sqlx::Error> {
    let (state, reason) = store::standing(&app.db, id).await?;
    Ok(Ended { state, reason: reason_of(state, reason) })
}

/// What a caller is told of a transaction that was entered and whose end cannot be told.
pub fn unknown(id: TransactionId, error: &dyn std::error::Error) -> Failure {
    tracing::error!(transaction = %id, %error, "a transaction has no end yet; recovery will give it one");
    Failure::Unknown
}

/// The reason of a transaction that is no success, in the words of the report.
pub fn reason_of(state: State, reason: Option<String>) -> String {
    match state {
        State::Challenged => reason::PENDING_AUTHENTICATION.to_owned(),
        State::InProgress => reason::IN_PROGRESS.to_owned(),
        State::Approved => String::new(),
        State::Declined | State::Failed => reason.unwrap_or_default(),
    }
}

/// What was taken settles when the account's day ends.
fn settles_at(open: &store::Open, approved: bool, now: Timestamp) -> Option<Timestamp> {
    let settles = match open.kind {
        Kind::Sale | Kind::Capture | Kind::Credit => approved,
        Kind::Authorize | Kind::Void | Kind::Refund => false,
    };
    let zone = &open.time_zone;
    settles.then(|| zone.date_at(now).plus_days(1).map_or(Timestamp::MAX, |day| zone.beginning_of(day)))
}

/// Counts ends from nought.
pub fn count_from_nought() {
    for kind in Kind::ALL {
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
