//! Differences between a provider's books and ours: recorded once, listed for operators, and resolved by an operator.

use serde_json::{Value, json};
use sqlx::PgPool;

use crate::actor::Actor;
use crate::audit::{AuditedTx, Entry as Record};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::flows::resolve::operator_text;
use crate::id::{AccountId, AuditId, DifferenceId, OperationId, PaymentId, ProviderAccountId};
use crate::operations::books::RecordedOperation;
use crate::providers::{Entry, ProviderKind, StatementLine};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The provider has it, and none of our operations requested it.
    MissingWithUs,
    /// Our books have it as succeeded, and the provider does not have it.
    MissingAtProvider,
    /// The amounts differ.
    Amount,
    /// The provider executed it, and our books have another outcome or none, another provider reference, or another
    /// request.
    Status,
    /// The captured or refunded totals of a charge differ.
    Totals,
}

impl Difference {
    pub const ALL: [Self; 5] = [Self::MissingWithUs, Self::MissingAtProvider, Self::Amount, Self::Status, Self::Totals];

    /// Name in output and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MissingWithUs => "missing_with_us",
            Self::MissingAtProvider => "missing_at_provider",
            Self::Amount => "amount",
            Self::Status => "status",
            Self::Totals => "totals",
        }
    }
}

/// A difference to record.
pub(in crate::flows) struct NewDifference<'a> {
    pub(in crate::flows) account: AccountId,
    pub(in crate::flows) provider_account: ProviderAccountId,
    pub(in crate::flows) provider: ProviderKind,
    pub(in crate::flows) difference: Difference,
    pub(in crate::flows) entry: Entry,
    pub(in crate::flows) line: Option<&'a StatementLine>,
    pub(in crate::flows) recorded: Option<&'a RecordedOperation>,
    pub(in crate::flows) payment: Option<PaymentId>,
    pub(in crate::flows) theirs: Value,
    pub(in crate::flows) ours: Value,
}

/// Records a difference, unless it was recorded before, resolved or not. Returns whether it is new.
pub(in crate::flows) async fn record_difference(db: &PgPool, new: &NewDifference<'_>) -> Result<bool> {
    let or_empty = |text: Option<&String>| text.cloned().unwrap_or_default();
    // Differences about the same line have the same reference and provider_ref, so the constraint finds duplicates.
    let reference = or_empty(new.line.map(|line| &line.reference).or(new.recorded.map(|recorded| &recorded.reference)));
    let provider_ref = or_empty(
        new.line.map(|line| &line.provider_ref).or_else(|| new.recorded.and_then(|recorded| recorded.provider_ref.as_ref())),
    );
    let payment = new.payment.or_else(|| new.recorded.and_then(|recorded| recorded.payment_id));
    let done = sqlx::query!(
        "INSERT INTO book_differences (id, account_id, provider_account_id, difference, entry, reference, provider_ref,
             payment_id, operation_id, ours, theirs)
         VALUES (new_ulid(clock_timestamp()), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (provider_account_id, difference, reference, provider_ref) DO NOTHING",
        new.account.uuid(),
        new.provider_account.uuid(),
        new.difference.name(),
        new.entry.name(),
        reference,
        provider_ref,
        payment.map(PaymentId::uuid),
        new.recorded.map(|recorded| recorded.id.uuid()),
        new.ours,
        new.theirs,
    )
    .execute(db)
    .await?;
    let is_new = done.rows_affected() == 1;
    if is_new {
        tracing::error!(
            provider_account = %new.provider_account, difference = new.difference.name(), kind = new.entry.name(), reference,
            provider_ref, payment = payment.map(|id| id.to_string()), ours = %new.ours, theirs = %new.theirs,
            "the provider's books and ours differ: an operator must determine which are right (ctl differences list)"
        );
        metrics::counter!("payments_book_differences_total",
            "provider" => new.provider.name(), "difference" => new.difference.name())
        .increment(1);
    }
    Ok(is_new)
}

/// A recorded difference.
#[derive(Debug)]
pub struct BookDifference {
    pub id: DifferenceId,
    pub account_id: AccountId,
    pub provider_account_id: ProviderAccountId,
    pub provider: ProviderKind,
    /// A [`Difference`] by name.
    pub difference: String,
    /// `charge`, `capture`, `void`, `refund` or `credit`.
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

/// Counts the unresolved differences by kind, up to 10,000 in total.
///
/// # Errors
/// Database errors only.
pub async fn open_differences(db: &PgPool) -> Result<Vec<(Difference, i64)>> {
    let rows = sqlx::query!(
        r#"SELECT difference, count(*) AS "count!"
           FROM (SELECT difference FROM book_differences WHERE resolved_at IS NULL LIMIT 10000) open GROUP BY difference"#
    );
    let rows = rows.fetch_all(db).await?;
    let count = |kind: Difference| rows.iter().find(|row| row.difference == kind.name()).map_or(0, |row| row.count);
    Ok(Difference::ALL.map(|kind| (kind, count(kind))).to_vec())
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
