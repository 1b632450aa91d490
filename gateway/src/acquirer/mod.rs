//! The simulated acquirer. It runs in this process and is treated as if it were far away: it is asked after a commit and before
//! another, with no transaction open, by a reference that it answers once. Its books are its own.

pub mod cards;
mod store;

use std::time::{Duration, Instant};

use sqlx::PgPool;
use uuid::Uuid;

use crate::cards::Number;
use cards::Nature;

/// What the acquirer said to a reference. Repeated, it is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Yes, no, or never.
    pub verdict: Verdict,
    /// Two characters; `00` is approved.
    pub auth_code: String,
}

/// The gist of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Verdict {
    /// Done.
    Approved,
    /// The issuer said no.
    Declined,
    /// The reference was given up before it arrived, and does nothing when it does.
    Barred,
}

/// No answer: whether anything was done is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the acquirer gave no answer")]
pub struct NoAnswer(#[from] sqlx::Error);

/// How to reach the acquirer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Acquirer {
    books: PgPool,
    delay: Duration,
}

impl Acquirer {
    /// One that keeps its books there and takes so long to answer.
    pub const fn new(books: PgPool, delay: Duration) -> Self {
        Self { books, delay }
    }

    /// Takes or holds money of a card, or gives it some.
    ///
    /// # Errors
    /// [`NoAnswer`]
    pub async fn charge(&self, reference: Uuid, number: &Number) -> Result<Answer, NoAnswer> {
        let auth_code = Nature::of(number).auth_code();
        let verdict = if auth_code == cards::APPROVED { Verdict::Approved } else { Verdict::Declined };
        self.book(reference, verdict, auth_code).await
    }

    /// Captures, voids or refunds what was approved.
    ///
    /// # Errors
    /// [`NoAnswer`]
    pub async fn follow(&self, reference: Uuid) -> Result<Answer, NoAnswer> {
        self.book(reference, Verdict::Approved, cards::APPROVED).await
    }

    /// What became of a reference; one that never arrived is barred, so that it does nothing should it still arrive.
    ///
    /// # Errors
    /// [`NoAnswer`]
    pub async fn answer_or_bar(&self, reference: Uuid) -> Result<Answer, NoAnswer> {
        Ok(store::book(&self.books, reference, Verdict::Barred, cards::BARRED).await?)
    }

    async fn book(&self, reference: Uuid, verdict: Verdict, auth_code: &str) -> Result<Answer, NoAnswer> {
        let began = Instant::now();
        // Half the way there, half the way back, so that a kill in the middle meets both kinds of request.
        tokio::time::sleep(self.delay / 2).await;
        let answer = store::book(&self.books, reference, verdict, auth_code).await;
        tokio::time::sleep(self.delay / 2).await;
        metrics::histogram!("gateway_acquirer_seconds").record(began.elapsed().as_secs_f64());
        Ok(answer?)
    }
}
