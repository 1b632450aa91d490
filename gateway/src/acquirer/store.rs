//! The SQL of the acquirer's books.

use sqlx::PgPool;
use uuid::Uuid;

use super::{Answer, Verdict};

/// Books an answer to a reference, or finds the one that it was given before.
pub(super) async fn book(
    db: &PgPool,
    reference: Uuid,
    verdict: Verdict,
    auth_code: &str,
) -> Result<Answer, sqlx::Error> {
    let booked = sqlx::query!(
        "INSERT INTO gateway.acquirer_books (reference, answer, auth_code) VALUES ($1, $2, $3)
         ON CONFLICT (reference) DO NOTHING",
        reference,
        verdict as Verdict,
        auth_code,
    )
    .execute(db)
    .await?;
    if booked.rows_affected() == 1 {
        return Ok(Answer { verdict, auth_code: auth_code.to_owned() });
    }
    // Whoever was first has committed, and a line of the books never changes.
    sqlx::query_as!(
        Answer,
        r#"SELECT answer AS "verdict: Verdict", auth_code FROM gateway.acquirer_books WHERE reference = $1"#,
        reference,
    )
    .fetch_one(db)
    .await
}
