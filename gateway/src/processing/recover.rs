//! Recovery of abandoned transactions: those whose process was killed between entry and outcome, and challenges that
//! never got a response. The outcome is never guessed: the acquirer returns its response to the reference, or blocks a
//! reference that it never received, so that a suspended request has no effect when it resumes.

use super::outcome::Outcome;
use super::{Processor, store};
use crate::transactions::{State, reason};

/// Rows claimed at once.
const BATCH: i64 = 50;

impl Processor {
    /// Finishes what is due. Processes may run it concurrently: each claims other rows.
    ///
    /// # Errors
    /// Database errors.
    pub async fn recover(&self) -> Result<(), sqlx::Error> {
        loop {
            let due = store::claim_due(&self.db, BATCH).await?;
            let last = due.len() < BATCH as usize;
            for (id, state) in due {
                let (from, outcome) = match state {
                    State::Challenged => (state, Outcome::declined(reason::AUTHENTICATION_EXPIRED, None)),
                    State::InProgress | State::Approved | State::Declined | State::Failed => {
                        match self.acquirer.find_or_block(id.uuid()).await {
                            Ok(response) => (State::InProgress, Outcome::of(&response, None, None)),
                            Err(error) => {
                                tracing::error!(transaction = %id, %error, "cannot recover a transaction; will retry");
                                continue;
                            }
                        }
                    }
                };
                let status = self.finish(id, from, &outcome).await?;
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
}
