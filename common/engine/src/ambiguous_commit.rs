//! A COMMIT whose response was lost: the intent may or may not exist, and the client must get neither success nor an
//! error before that is known.

use std::time::Duration;

use foundation::db;
use foundation::error::{Error, Result};

/// How long writing an intent that is known not to exist is retried before its client gets the error.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);

/// Tracks whether an intent, written under ids generated beforehand, may exist.
#[derive(Debug, Default)]
pub struct AmbiguousCommit {
    /// The current attempt has sent a COMMIT.
    committing: bool,
    /// An earlier attempt sent a COMMIT that got no response. It may still be pending in its backend and take effect
    /// at any time, for example while a standby is unreachable.
    in_doubt: bool,
    paused: Duration,
}

impl AmbiguousCommit {
    /// Sends a COMMIT, and records that it was sent.
    pub async fn send(&mut self, commit: impl Future<Output = sqlx::Result<()>>) -> Result<()> {
        self.committing = true;
        Ok(commit.await?)
    }

    /// Sends an item of a batch, which commits by itself, and records that it was sent. Returns whether it was written.
    pub async fn send_in_batch(&mut self, item: impl Future<Output = sqlx::Result<bool>>) -> Result<bool> {
        let result = item.await;
        self.committing = !matches!(result, Ok(false) | Err(sqlx::Error::PoolTimedOut));
        if self.committing {
            db::note_commit(&result);
        }
        Ok(result?)
    }

    /// Looks the intent up with `lookup` if a COMMIT may have taken effect: even a refusal may then be caused by an
    /// earlier attempt.
    async fn find_written<T>(&self, lookup: impl Future<Output = Result<T>>) -> Result<Option<T>> {
        if !self.committing && !self.in_doubt {
            return Ok(None);
        }
        match lookup.await {
            Ok(written) => Ok(Some(written)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Handles the result of an attempt. Returns what was written, even after a failed attempt; `None` if the attempt
    /// must be repeated with the same ids. A wrong error would make the merchant create a second one. A success that
    /// `is_final` rejects may be caused by an earlier attempt, like an error.
    ///
    /// # Errors
    /// The attempt's error, if the intent is known not to exist and retrying has not helped.
    pub async fn resolve<T>(
        &mut self,
        result: Result<T>,
        is_final: fn(&T) -> bool,
        lookup: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        if result.as_ref().is_ok_and(is_final) {
            return result.map(Some);
        }
        match (self.find_written(lookup).await, result) {
            (Ok(Some(written)), _) => return Ok(Some(written)),
            (Ok(None), Ok(unwritten)) => return Ok(Some(unwritten)),
            (Ok(None), Err(error)) => self.retry_or_fail(error).await?,
            (Err(error), _) => self.retry_unverified(error).await?,
        }
        Ok(None)
    }

    /// Handles a failed attempt whose intent was not found: returns when the attempt should be repeated with the same
    /// ids, or returns the error if the intent is known not to exist and retrying has not helped.
    pub async fn retry_or_fail(&mut self, error: Error) -> Result<()> {
        let (is_lost, is_transient) = classify(&error);
        // An error reported by the server settles this attempt. A pending COMMIT of an earlier attempt can make this
        // one time out on its locks, which does not show how the earlier one ends.
        self.in_doubt = (self.committing && is_lost) || (self.in_doubt && (is_lost || is_transient));
        self.committing = false;
        if !self.in_doubt && (!is_lost || self.paused >= GIVE_UP_AFTER) {
            return Err(error);
        }
        self.pause(&error).await;
        Ok(())
    }

    /// Same as [`retry_or_fail`](Self::retry_or_fail) if the look-up itself failed: the intent remains in doubt.
    async fn retry_unverified(&mut self, error: Error) -> Result<()> {
        self.in_doubt = true;
        self.committing = false;
        let (is_lost, is_transient) = classify(&error);
        if !is_lost && !is_transient {
            return Err(error);
        }
        self.pause(&error).await;
        Ok(())
    }

    async fn pause(&mut self, error: &Error) {
        tracing::warn!(%error, in_doubt = self.in_doubt, "database connection lost while writing an intent; trying again with the same ids");
        tokio::time::sleep(PAUSE).await;
        self.paused += PAUSE;
    }
}

/// Whether the connection was lost, and whether the error is transient.
fn classify(error: &Error) -> (bool, bool) {
    let Error::Database(cause) = error else { return (false, false) };
    (db::lost_connection(cause), db::is_retryable(cause) || db::is_read_only(cause))
}
