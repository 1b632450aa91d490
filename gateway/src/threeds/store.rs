//! SQL of challenges.

use sqlx::PgPool;

use crate::cards::TokenHash;
use crate::id::TransactionId;

/// What the challenge page shows, and the return URL.
pub(super) struct ChallengeView {
    pub(super) id: TransactionId,
    pub(super) merchant: String,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) masked: String,
    pub(super) return_url: String,
    /// Whether the cardholder can still decide.
    pub(super) open: bool,
    /// Seconds left.
    pub(super) seconds: i32,
}

pub(super) async fn find(db: &PgPool, page: TokenHash) -> Result<Option<ChallengeView>, sqlx::Error> {
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
