//! What was left behind: a transaction whose process was killed between entering it and ending it, and a challenge that nobody
//! answered. Each is brought to an end. No answer is guessed: the acquirer says what it did, and bars what it never got, so
//! that a request which was only paused does nothing when it goes on.

use super::outcome::{self, Ending};
use super::{State, reason, store};
use crate::app::App;

/// Rows taken at once.
const BATCH: i64 = 50;

/// Ends what is due. Any number of processes may do it at once: each takes other rows.
///
/// # Errors
/// Only the database's.
pub async fn recover(app: &App) -> Result<(), sqlx::Error> {
    loop {
        let due = store::take_due(&app.db, BATCH).await?;
        let last = due.len() < BATCH as usize;
        for (id, state) in due {
            let ended = match state {
                State::Challenged => {
                    outcome::end_challenge(app, id, &Ending::declined(reason::AUTHENTICATION_EXPIRED, None)).await
                }
                State::InProgress | State::Approved | State::Declined | State::Failed => {
                    match app.acquirer.answer_or_bar(id.uuid()).await {
                        Ok(answer) => outcome::end(app, id, &Ending::of(&answer, None, None)).await,
                        Err(error) => {
                            tracing::error!(transaction = %id, %error, "the acquirer cannot be asked; tried again");
                            continue;
                        }
                    }
                }
            };
            let ended = ended?;
            if state == State::InProgress {
                tracing::warn!(transaction = %id, state = ?ended.state, "recovered a transaction that was left behind");
                metrics::counter!("gateway_recovered_total").increment(1);
            }
        }
        if last {
            return Ok(());
        }
    }
}
