//! Recovery of abandoned transactions: those whose process was killed between entry and outcome, and challenges that
//! never got a response. The outcome is never guessed: the acquirer returns its response to the reference, or blocks a
//! reference that it never received, so that a suspended request has no effect when it resumes.

use sqlx::PgPool;

use super::Processor;
use super::finish::TransactionStatus;
use super::outcome::Outcome;
use crate::acquirer::NoResponse;
use crate::id::TransactionId;
use crate::transactions::{State, reason};

/// Rows claimed at once.
const BATCH: i64 = 50;

/// Why a transaction was not recovered.
#[derive(Debug, thiserror::Error)]
enum Unrecovered {
    #[error(transparent)]
    NoResponse(#[from] NoResponse),
    #[error(transparent)]
    Database(sqlx::Error),
}

impl Processor {
    /// Finishes what is due. Processes may run it concurrently: each claims other rows. A transaction that cannot be
    /// finished is left for its next attempt, and stops no other.
    ///
    /// # Errors
    /// Database errors that concern every transaction.
    pub async fn recover(&self) -> Result<(), sqlx::Error> {
        loop {
            let due = claim_due(&self.db, BATCH).await?;
            let last = due.len() < BATCH as usize;
            for (id, state) in due {
                let recovered = self.recover_one(id, state).await;
                if recovered.is_err() {
                    metrics::counter!("gateway_recovery_failures_total").increment(1);
                }
                match recovered {
                    Err(Unrecovered::Database(error)) if foundation::db::lost_connection(&error) => return Err(error),
                    Err(error) => {
                        tracing::error!(transaction = %id, %error, "cannot recover a transaction; will retry");
                    }
                    Ok(status) if state == State::InProgress => {
                        tracing::warn!(transaction = %id, state = ?status.state, "recovered an abandoned transaction");
                        metrics::counter!("gateway_recovered_total").increment(1);
                    }
                    Ok(_) => {}
                }
            }
            if last {
                return Ok(());
            }
        }
    }

    async fn recover_one(&self, id: TransactionId, state: State) -> Result<TransactionStatus, Unrecovered> {
        let (from, outcome) = match state {
            State::Challenged => (state, Outcome::declined(reason::AUTHENTICATION_EXPIRED, None)),
            State::InProgress | State::Approved | State::Declined | State::Failed => {
                let response = self.acquirer.find_or_block(id.uuid()).await?;
                (State::InProgress, Outcome::of(&response, None, None))
            }
        };
        self.finish(id, from, &outcome).await.map_err(Unrecovered::Database)
    }
}

/// Claims due rows and postpones their next attempt, so that a row is retried after that interval if the process that
/// claimed it dies.
async fn claim_due(db: &PgPool, limit: i64) -> Result<Vec<(TransactionId, State)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"UPDATE gateway.transactions SET recover_at = clock_timestamp() + interval '15 seconds'
           WHERE id = ANY (ARRAY (SELECT id FROM gateway.transactions WHERE recover_at <= statement_timestamp()
                                  ORDER BY recover_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED))
           RETURNING id AS "id: TransactionId", state AS "state: State""#,
        limit,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.state)).collect())
}
