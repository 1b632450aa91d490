//! A COMMIT whose answer was lost: the intent may exist or not, and nobody may be told either before it is known.

use std::time::Duration;

use crate::db;
use crate::error::{Error, Result};

/// How long an intent that certainly does not exist is tried again before its caller is told so.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);

/// What is known of an intent that is being written under ids made beforehand.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    /// This try has sent a COMMIT.
    committing: bool,
    /// An earlier try has sent one that was never answered. It may live on in its backend and take effect at any time: behind
    /// a standby that is away, for one.
    in_doubt: bool,
    paused: Duration,
}

impl Doubt {
    /// Sends a COMMIT, or a statement that commits by itself, and remembers it if no answer comes.
    pub(super) async fn send<T, E: Into<Error>>(&mut self, commit: impl Future<Output = Result<T, E>>) -> Result<T> {
        self.committing = true;
        let answer = commit.await.map_err(Into::into);
        match &answer {
            Err(Error::Database(error)) if db::is_conflict(error) => {}
            Ok(_) | Err(_) => db::note_commit(&Ok(())),
        }
        answer
    }

    /// What `find` sees of the intent, if a COMMIT may have taken effect: then even a refusal may be the doing of an earlier try.
    ///
    /// # Errors
    /// What kept it from looking.
    pub(super) async fn found<T>(&self, find: impl Future<Output = Result<T>>) -> Result<Option<T>> {
        if !self.committing && !self.in_doubt {
            return Ok(None);
        }
        match find.await {
            Ok(written) => Ok(Some(written)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(unread) => Err(unread),
        }
    }

    /// After a try to write something new: what was written, after a failure too, or none when it is time to run the whole again
    /// with the same ids. Told by mistake that nothing was done, the merchant would make a second one.
    ///
    /// # Errors
    /// The failure, if it is known that nothing is there and trying again has not helped.
    pub(super) async fn end<T>(
        &mut self,
        tried: Result<T>,
        find: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        let failure = match tried {
            Ok(written) => return Ok(Some(written)),
            Err(failure) => failure,
        };
        match self.found(find).await {
            Ok(Some(written)) => return Ok(Some(written)),
            Ok(None) => self.again(failure).await?,
            Err(unread) => self.again_unread(unread).await?,
        }
        Ok(None)
    }

    /// After a failure, with nothing found: returns when it is time to run the whole again with the same ids, or hands the error
    /// on if the intent is known not to exist and trying again has not helped.
    pub(super) async fn again(&mut self, error: Error) -> Result<()> {
        let (is_lost, is_passing) = kind(&error);
        // What the server says is an answer to what this try has sent. An earlier one that hangs makes this one wait for its
        // locks in vain, which says nothing of how it will end.
        self.in_doubt = (self.committing && is_lost) || (self.in_doubt && (is_lost || is_passing));
        self.committing = false;
        if !self.in_doubt && (!is_lost || self.paused >= GIVE_UP_AFTER) {
            return Err(error);
        }
        self.pause(&error).await;
        Ok(())
    }

    /// The same where it could not be looked for: the doubt remains.
    pub(super) async fn again_unread(&mut self, error: Error) -> Result<()> {
        self.in_doubt = true;
        self.committing = false;
        let (is_lost, is_passing) = kind(&error);
        if !is_lost && !is_passing {
            return Err(error);
        }
        self.pause(&error).await;
        Ok(())
    }

    async fn pause(&mut self, error: &Error) {
        tracing::warn!(%error, in_doubt = self.in_doubt, "database lost while an intent was written; trying again with the same ids");
        tokio::time::sleep(PAUSE).await;
        self.paused += PAUSE;
    }
}

/// Whether the connection was lost, and whether the same may go well a little later.
fn kind(error: &Error) -> (bool, bool) {
    let Error::Database(cause) = error else { return (false, false) };
    (db::lost_connection(cause), db::worth_repeating(cause) || db::is_read_only(cause))
}
