//! The cardholder's decision about a challenged charge.

use std::time::Duration;

use super::finish::{TransactionStatus, unresolved};
use super::outcome::Outcome;
use super::{Processor, store};
use crate::acquirer::cards;
use crate::failure::Result;
use crate::id::TransactionId;
use crate::threeds;
use crate::transactions::{State, reason};

/// With [`POLL_INTERVAL`], waits up to five seconds for an outcome.
const MAX_POLLS: u32 = 50;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Processor {
    /// Continues a charge that its cardholder has confirmed.
    ///
    /// # Errors
    /// [`crate::failure::Failure::Unknown`] if the acquirer does not respond.
    pub async fn confirm(&self, id: TransactionId) -> Result<TransactionStatus> {
        let Some(confirmed) = store::confirm(&self.db, id).await? else {
            // It was confirmed, refused or expired earlier.
            return Ok(self.status(id).await?);
        };
        let outcome = match threeds::open_number(&self.crypto.card_keys, id, &confirmed.number) {
            Some(number) => {
                let response =
                    self.acquirer.charge(id.uuid(), &number).await.map_err(|error| unresolved(id, &error))?;
                Outcome::of(&response, Some(cards::avs_response(&confirmed.zip_code)), None)
            }
            None => Outcome::failed(reason::NOT_PROCESSED),
        };
        self.finish(id, State::InProgress, &outcome).await.map_err(|error| unresolved(id, &error))
    }

    /// Declines a charge that its cardholder has refused.
    ///
    /// # Errors
    /// [`crate::failure::Failure::Unknown`] if it could not be declined; it then expires.
    pub async fn refuse(&self, id: TransactionId) -> Result<TransactionStatus> {
        let outcome = Outcome::declined(reason::AUTHENTICATION_REFUSED, None);
        self.finish(id, State::Challenged, &outcome).await.map_err(|error| unresolved(id, &error))
    }

    /// Waits for a while for the final status, so that a second click gets the result of the first.
    ///
    /// # Errors
    /// Database errors.
    pub async fn wait_for_end(&self, id: TransactionId) -> Result<TransactionStatus, sqlx::Error> {
        let mut status = self.status(id).await?;
        for _ in 0..MAX_POLLS {
            if status.state != State::InProgress {
                break;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
            status = self.status(id).await?;
        }
        Ok(status)
    }
}
