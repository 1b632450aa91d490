//! The cardholder's decision about a challenged charge.

use std::time::Duration;

use sqlx::PgPool;
use sqlx::types::Json;

use super::Processor;
use super::finish::{TransactionStatus, unresolved};
use super::outcome::Outcome;
use crate::acquirer::cards;
use crate::failure::Result;
use crate::id::TransactionId;
use crate::threeds;
use crate::transactions::{Details, State, reason};

/// With [`POLL_INTERVAL`], waits up to five seconds for an outcome.
const MAX_POLLS: u32 = 50;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Processor {
    /// Continues a charge that its cardholder has confirmed.
    ///
    /// # Errors
    /// [`crate::failure::Failure::Unknown`] if the acquirer does not respond.
    pub async fn confirm(&self, id: TransactionId) -> Result<TransactionStatus> {
        let Some(confirmed) = confirm_in_time(&self.db, id).await? else {
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

/// What a confirmed charge needs to continue.
struct ConfirmedCharge {
    number: Vec<u8>,
    zip_code: String,
}

/// Moves a challenged charge to `in_progress`, once and only in time, and removes the card number from the row.
async fn confirm_in_time(db: &PgPool, id: TransactionId) -> Result<Option<ConfirmedCharge>, sqlx::Error> {
    let mut tx = foundation::db::begin(db).await?;
    let charge = sqlx::query!(
        r#"SELECT number AS "number!", details AS "details: Json<Details>" FROM gateway.transactions
           WHERE id = $1 AND state = 'challenged' AND challenge_ends_at > clock_timestamp() FOR NO KEY UPDATE"#,
        id.uuid(),
    )
    .fetch_optional(&mut *tx)
    .await?;
    let Some(charge) = charge else { return Ok(None) };
    sqlx::query!(
        "UPDATE gateway.transactions
         SET state = 'in_progress', number = NULL, recover_at = clock_timestamp() + interval '15 seconds' WHERE id = $1",
        id.uuid(),
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Some(ConfirmedCharge { number: charge.number, zip_code: charge.details.0.billing.zip_code }))
}
