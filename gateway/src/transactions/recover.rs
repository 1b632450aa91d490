//! Recovery of abandoned transactions: those whose process was killed between entry and outcome, and challenges that
//! were never answered. The outcome is never guessed: the acquirer returns its response to the reference, or bars a
//! reference that it never received, so that a suspended request has no effect when it resumes.

use super::outcome::{self, Outcome};
use super::{State, reason, store};
use crate::app::App;

/// Rows claimed at once.
const BATCH: i64 = 50;

/// Finishes what is due. Processes may run it concurrently: each claims other rows.
///
/// # Errors
/// Database errors.
pub async fn recover(app: &App) -> Result<(), sqlx::Error> {
    loop {
        let due = store::claim_due(&app.db, BATCH).await?;
        let last = due.len() < BATCH as usize;
        for (id, state) in due {
            let status = match state {
                State::Challenged => {
                    outcome::finish_challenge(app, id, &Outcome::declined(reason::AUTHENTICATION_EXPIRED, None)).await
                }
                State::InProgress | State::Approved | State::Declined | State::Failed => {
                    match app.acquirer.find_or_bar(id.uuid()).await {
                        Ok(response) => outcome::finish(app, id, &Outcome::of(&response, None, None)).await,
                        Err(error) => {
                            tracing::error!(transaction = %id, %error, "the acquirer did not respond; recovery will retry");
                            continue;
                        }
                    }
                }
            };
            let status = status?;
            if state == State::InProgress {
                tracing::warn!(transaction = %id, state = ?status.state, "recovered an abandoned transaction");
                metrics::counter!("gateway_recovered_total").increment(1);
            }
        }
        if last {
            return Ok(());
        }
    }
}
