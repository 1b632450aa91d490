//! The simulated acquirer. It runs in this process but is treated as remote: it is called between two commits, with no
//! transaction open, and is idempotent by reference. Nothing else reads its books.

pub mod cards;

use std::time::{Duration, Instant};

use sqlx::PgPool;
use uuid::Uuid;

use crate::cards::CardNumber;
use cards::CardBehavior;

/// The response to a reference. Repeating the reference returns the same response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquirerResponse {
    pub decision: Decision,
    /// Two characters; `00` is approved.
    pub auth_code: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Decision {
    Approved,
    /// Declined by the issuer.
    Declined,
    /// The reference was blocked before the request arrived. A late request has no effect.
    #[sqlx(rename = "barred")]
    Blocked,
}

/// No response: whether the request took effect is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the acquirer did not respond")]
pub struct NoResponse(#[from] sqlx::Error);

/// Client of the acquirer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Acquirer {
    books: PgPool,
    delay: Duration,
}

impl Acquirer {
    /// Keeps its books in this database and takes `delay` to respond.
    pub const fn new(books: PgPool, delay: Duration) -> Self {
        Self { books, delay }
    }

    /// Charges a card, holds an amount on it, or credits it.
    ///
    /// # Errors
    /// [`NoResponse`]
    pub async fn charge(&self, reference: Uuid, number: &CardNumber) -> Result<AcquirerResponse, NoResponse> {
        let auth_code = CardBehavior::of(number).auth_code();
        let decision = if auth_code == cards::APPROVED { Decision::Approved } else { Decision::Declined };
        self.book(reference, decision, auth_code).await
    }

    /// Captures, voids or refunds an approved charge.
    ///
    /// # Errors
    /// [`NoResponse`]
    pub async fn follow_up(&self, reference: Uuid) -> Result<AcquirerResponse, NoResponse> {
        self.book(reference, Decision::Approved, cards::APPROVED).await
    }

    /// The result of a reference. A reference that never arrived is blocked, so that a late request has no effect.
    ///
    /// # Errors
    /// [`NoResponse`]
    pub async fn find_or_block(&self, reference: Uuid) -> Result<AcquirerResponse, NoResponse> {
        Ok(record(&self.books, reference, Decision::Blocked, cards::BLOCKED).await?)
    }

    async fn book(&self, reference: Uuid, decision: Decision, auth_code: &str) -> Result<AcquirerResponse, NoResponse> {
        let started = Instant::now();
        // Half the delay before the record and half after it, so that a kill can hit a request in either state.
        tokio::time::sleep(self.delay / 2).await;
        let response = record(&self.books, reference, decision, auth_code).await;
        tokio::time::sleep(self.delay / 2).await;
        metrics::histogram!("gateway_acquirer_seconds").record(started.elapsed().as_secs_f64());
        Ok(response?)
    }
}

/// Records the response to a reference, or returns the one recorded earlier.
async fn record(
    db: &PgPool,
    reference: Uuid,
    decision: Decision,
    auth_code: &str,
) -> Result<AcquirerResponse, sqlx::Error> {
    let booked = sqlx::query!(
        "INSERT INTO gateway.acquirer_books (reference, answer, auth_code) VALUES ($1, $2, $3)
         ON CONFLICT (reference) DO NOTHING",
        reference,
        decision as Decision,
        auth_code,
    )
    .execute(db)
    .await?;
    if booked.rows_affected() == 1 {
        return Ok(AcquirerResponse { decision, auth_code: auth_code.to_owned() });
    }
    // The first writer has committed, and rows of the books never change.
    sqlx::query_as!(
        AcquirerResponse,
        r#"SELECT answer AS "decision: Decision", auth_code FROM gateway.acquirer_books WHERE reference = $1"#,
        reference,
    )
    .fetch_one(db)
    .await
}
