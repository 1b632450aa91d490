//! SQL of challenges.

use sqlx::PgPool;

use crate::cards::TokenHash;
use crate::id::TransactionId;

/// What the challenge page shows, and the return URL.
pub struct ChallengeView {
    pub id: TransactionId,
    pub merchant: String,
    pub amount: i64,
    pub currency: String,
    pub masked: String,
    pub return_url: String,
    /// Whether the cardholder can still decide.
    pub open: bool,
    /// Seconds left.
    pub seconds: i32,
}

/// The challenge of a page.
///
/// # Errors
/// Database errors.
pub async fn find(db: &PgPool, page: TokenHash) -> Result<Option<ChallengeView>, sqlx::Error> {
    sqlx::query_as!(
        ChallengeView,
        r#"SELECT id AS "id: TransactionId", amount, currency, masked, return_url AS "return_url!",
                  (SELECT name FROM gateway.accounts WHERE accounts.id = account_id) AS "merchant!",
                  state = 'challenged' AND challenge_ends_at > clock_timestamp() AS "open!",
                  greatest(0, ceil(extract(epoch FROM challenge_ends_at - clock_timestamp())))::int AS "seconds!"
           FROM gateway.transactions WHERE challenge_hash = $1"#,
        page.bytes(),
    )
    .fetch_optional(db)
    .await
}
