//! Differences between a provider's books and ours: listed, and marked as resolved with a reason.

use serde_json::{Value, json};
use sqlx::PgPool;

use domain::audit::{AuditedTx, Entry as Record};
use foundation::actor::Actor;
use foundation::db::Db;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, AuditId, DifferenceId, OperationId, PaymentId, ProviderAccountId};
use foundation::time::Timestamp;
use providers::ProviderKind;

use crate::resolve::operator_text;

/// A recorded difference.
#[derive(Debug)]
pub struct BookDifference {
    pub id: DifferenceId,
    pub account_id: AccountId,
    pub provider_account_id: ProviderAccountId,
    pub provider: ProviderKind,
    /// A [`Difference`] by name.
    pub difference: String,
    /// An [`Entry`](providers::Entry) by name.
    pub entry: String,
    /// Empty if it has none.
    pub reference: String,
    /// Empty if it has none.
    pub provider_ref: String,
    pub payment_id: Option<PaymentId>,
    pub operation_id: Option<OperationId>,
    pub ours: Value,
    pub theirs: Value,
    pub found_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
    /// The operator's reason.
    pub resolution: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct DifferenceFilter {
    /// Include resolved ones.
    pub all: bool,
    /// Only of this account.
    pub account: Option<AccountId>,
    pub limit: i64,
}

/// The columns that every query reads.
macro_rules! differences {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            BookDifference,
            r#"SELECT d.id, d.account_id, d.provider_account_id, p.provider, d.difference, d.entry, d.reference, d.provider_ref,
                      d.payment_id, d.operation_id, d.ours, d.theirs, d.found_at, d.resolved_at, d.resolution
               FROM book_differences d JOIN provider_accounts p ON p.id = d.provider_account_id "# + $rest,
            $($arg),*
        )
    };
}

/// Lists differences, newest first.
///
/// # Errors
/// Database errors only.
pub async fn list_differences(db: &PgPool, filter: DifferenceFilter) -> Result<Vec<BookDifference>> {
    let rows = match (filter.account, filter.all) {
        (Some(account), all) => {
            let query = differences!(
                "WHERE d.account_id = $1 AND ($2 OR d.resolved_at IS NULL) ORDER BY d.account_id DESC, d.id DESC LIMIT $3",
                account.uuid(),
                all,
                filter.limit,
            );
            query.fetch_all(db).await?
        }
        (None, true) => differences!("ORDER BY d.id DESC LIMIT $1", filter.limit).fetch_all(db).await?,
        (None, false) => {
            let query = differences!("WHERE d.resolved_at IS NULL ORDER BY d.found_at DESC LIMIT $1", filter.limit);
            query.fetch_all(db).await?
        }
    };
    Ok(rows)
}

/// Marks a difference as resolved, with a reason that is recorded in the audit log. Resolving it again changes nothing
/// and returns no audit id.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Invalid`] for a reason that [`operator_text`] rejects.
pub async fn resolve_difference(
    db: &Db,
    actor: &Actor,
    id: DifferenceId,
    reason: &str,
) -> Result<(BookDifference, Option<AuditId>)> {
    let reason = operator_text("reason", reason)?;
    let mut act = AuditedTx::begin(db, actor).await?;
    let updated = sqlx::query!(
        "UPDATE book_differences SET resolved_at = clock_timestamp(), resolution = $2
         WHERE id = $1 AND resolved_at IS NULL",
        id.uuid(),
        reason,
    )
    .execute(&mut **act)
    .await?;
    let row = differences!("WHERE d.id = $1", id.uuid()).fetch_optional(&mut **act).await?;
    let row = row.ok_or_else(|| Error::no_such("difference", id))?;
    if updated.rows_affected() == 0 {
        act.rollback().await?;
        return Ok((row, None));
    }
    let entry = Record {
        action: "differences.resolve",
        account: Some(row.account_id),
        object: Some(id.to_string()),
        detail: json!({
            "reason": reason, "difference": row.difference, "kind": row.entry, "reference": row.reference,
            "provider_ref": row.provider_ref, "payment": row.payment_id,
        }),
    };
    let record = act.commit(&entry).await?;
    Ok((row, Some(record)))
}
