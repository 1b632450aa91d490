//! A COMMIT whose answer was lost: the intent may exist or not, and nobody may be told either before it is known.

use std::time::Duration;

use sqlx::{Postgres, Transaction};

use crate::db;
use crate::error::{Error, Result};

/// How long an intent that certainly does not exist is tried again before its caller is told so.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);

/// What is known of an intent that is being written under ids made beforehand.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    committing: bool,
    paused: Duration,
}

impl Doubt {
    /// Whether a COMMIT was sent and never answered.
    pub(super) fn is_open(&self) -> bool {
        self.committing
    }

    /// A statement that commits by itself is about to be sent.
    pub(super) fn sent(&mut self) {
        self.committing = true;
    }

    /// Commits, and remembers it if no answer comes.
    pub(super) async fn commit(&mut self, tx: Transaction<'_, Postgres>) -> Result<()> {
        self.committing = true;
        match tx.commit().await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// After a failure to write something new: what `find` has found of it if a COMMIT had no answer, since then even a refusal
    /// may be the doing of the first try; none when it is time to run the whole again with the same ids. Told by mistake that
    /// nothing was done, the merchant would make a second one.
    ///
    /// # Errors
    /// That failure, if it is known that nothing is there and trying again has not helped.
    pub(super) async fn look<T>(&mut self, failure: Error, find: impl Future<Output = Result<T>>) -> Result<Option<T>> {
        let mut error = failure;
        if self.is_open() {
            match find.await {
                Ok(written) => return Ok(Some(written)),
                Err(Error::NotFound(_)) => {}
                Err(unread) => error = unread,
            }
        }
        self.again(error).await.map(|()| None)
    }

    /// After a failure: returns when it is time to run the whole again with the same ids, or hands the error on if the
    /// intent is known not to exist and trying again has not helped.
    pub(super) async fn again(&mut self, error: Error) -> Result<()> {
        let lost = matches!(&error, Error::Database(cause) if db::lost_connection(cause));
        // An error that the server has told of is an answer: what was sent is not in effect.
        self.committing &= lost;
        if !lost || (!self.committing && self.paused >= GIVE_UP_AFTER) {
            return Err(error);
        }
        tracing::warn!(%error, in_doubt = self.committing, "database lost while an intent was written; trying again with the same ids");
        tokio::time::sleep(PAUSE).await;
        self.paused += PAUSE;
        Ok(())
    }
}
