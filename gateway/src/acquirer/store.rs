//! SQL of the acquirer's books.

use sqlx::PgPool;
use uuid::Uuid;

use super::{AcquirerResponse, Decision};

/// Records the response to a reference, or returns the one recorded earlier.
pub(super) async fn book(
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
