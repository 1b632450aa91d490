//! Differences between a provider's books and ours: recorded once, shown to operators, and marked as resolved by one of them.

use serde_json::{Value, json};
use sqlx::PgPool;

use crate::actor::Actor;
use crate::audit::{Act, Entry as Record};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::flows::resolve::typed;
use crate::id::{AccountId, AuditId, DifferenceId, OperationId, PaymentId, ProviderAccountId};
use crate::operations::books::Known;
use crate::providers::{Entry, ProviderKind, StatementLine};
use crate::time::Timestamp;

/// How the two sides differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The provider has it, and no operation of ours asked for it.
    MissingWithUs,
    /// We have it as done, and the provider has not.
    MissingAtProvider,
    /// Both have it, with different amounts.
    Amount,
    /// The provider has done it, and we have another end of it or none, or under another name, or asked for something else.
    Status,
    /// What was captured or refunded of a charge in all is another sum with the provider.
    Totals,
}

impl Difference {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::MissingWithUs, Self::MissingAtProvider, Self::Amount, Self::Status, Self::Totals];

    /// As it is printed and counted.
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

/// A difference about to be recorded.
pub(in crate::flows) struct NewDifference<'a> {
    pub(in crate::flows) account: AccountId,
    pub(in crate::flows) provider_account: ProviderAccountId,
    pub(in crate::flows) provider: ProviderKind,
    pub(in crate::flows) difference: Difference,
    pub(in crate::flows) entry: Entry,
    pub(in crate::flows) line: Option<&'a StatementLine>,
    pub(in crate::flows) known: Option<&'a Known>,
    pub(in crate::flows) payment: Option<PaymentId>,
    pub(in crate::flows) theirs: Value,
    pub(in crate::flows) ours: Value,
}

/// Records a difference unless it is recorded, resolved or not; whether it was not.
pub(in crate::flows) async fn note(db: &PgPool, new: &NewDifference<'_>) -> Result<bool> {
    let named = |text: Option<&String>| text.cloned().unwrap_or_default();
    // Of two differences about one line the reference and the name are the same.
    let reference = named(new.line.map(|line| &line.reference).or(new.known.map(|known| &known.reference)));
    let provider_ref = named(
        new.line.map(|line| &line.provider_ref).or_else(|| new.known.and_then(|known| known.provider_ref.as_ref())),
    );
    let payment = new.payment.or_else(|| new.known.and_then(|known| known.payment_id));
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
        new.known.map(|known| known.id.uuid()),
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
            "the provider's books and ours differ: a person must find out which are right (ctl differences list)"
        );
        metrics::counter!("payments_book_differences_total",
            "provider" => new.provider.name(), "difference" => new.difference.name())
        .increment(1);
    }
    Ok(is_new)
}

/// A difference as an operator sees it.
#[derive(Debug)]
pub struct BookDifference {
    /// Its id.
    pub id: DifferenceId,
    /// Whose it is.
    pub account_id: AccountId,
    /// Where.
    pub provider_account_id: ProviderAccountId,
    /// Who is there.
    pub provider: ProviderKind,
    /// How they differ.
    pub difference: String,
    /// About what: `charge`, `capture`, `void`, `refund` or `credit`.
    pub entry: String,
    /// The reference that it has; empty if it has none.
    pub reference: String,
    /// The provider's name for it; empty if it has none.
    pub provider_ref: String,
    /// The payment, where it is known.
    pub payment_id: Option<PaymentId>,
    /// The operation, where there is one.
    pub operation_id: Option<OperationId>,
    /// What our books say.
    pub ours: Value,
    /// What the provider says.
    pub theirs: Value,
    /// When it was found.
    pub found_at: Timestamp,
    /// When an operator marked it as resolved.
    pub resolved_at: Option<Timestamp>,
    /// What that operator said.
    pub resolution: Option<String>,
}

/// Which differences are wanted.
#[derive(Clone, Copy, Debug)]
pub struct DifferenceFilter {
    /// Those that are resolved too.
    pub all: bool,
    /// Of this account alone.
    pub account: Option<AccountId>,
    /// So many at most.
    pub limit: i64,
}

/// Every reader reads all of a difference, so the columns stand once.
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

/// Differences, newest first.
///
/// # Errors
/// Only the database's.
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

/// How many differences of each kind are not resolved; counted up to 10,000 in all.
///
/// # Errors
/// Only the database's.
pub async fn open_differences(db: &PgPool) -> Result<Vec<(Difference, i64)>> {
    let rows = sqlx::query!(
        r#"SELECT difference, count(*) AS "count!"
           FROM (SELECT difference FROM book_differences WHERE resolved_at IS NULL LIMIT 10000) open GROUP BY difference"#
    );
    let rows = rows.fetch_all(db).await?;
    let count = |kind: Difference| rows.iter().find(|row| row.difference == kind.name()).map_or(0, |row| row.count);
    Ok(Difference::ALL.map(|kind| (kind, count(kind))).to_vec())
}

/// Marks a difference as resolved, for a reason that is kept with the record. Marking it again changes nothing; none then.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Invalid`] for a reason that cannot be kept.
pub async fn resolve_difference(
    db: &Db,
    actor: &Actor,
    id: DifferenceId,
    reason: &str,
) -> Result<(BookDifference, Option<AuditId>)> {
    let reason = typed("reason", reason)?;
    let mut act = Act::begin(db, actor).await?;
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
