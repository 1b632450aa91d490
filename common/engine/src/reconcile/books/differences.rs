//! Differences between a provider's books and ours: recorded once, listed for operators, and resolved by an operator.
//! Those about a dispute that is recorded late are resolved by the next reading.

use serde_json::Value;
use sqlx::PgPool;

use super::{Difference, OurEntry};
use domain::accounts::Mode;
use foundation::error::Result;
use foundation::id::{AccountId, OperationId, PaymentId, ProviderAccountId};
use providers::{Entry, ProviderKind, StatementLine};

/// A difference to record.
pub struct NewDifference<'a> {
    pub account: AccountId,
    pub provider_account: ProviderAccountId,
    pub provider: ProviderKind,
    pub difference: Difference,
    pub entry: Entry,
    pub line: Option<&'a StatementLine>,
    pub recorded: Option<OurEntry<'a>>,
    pub payment: Option<PaymentId>,
    pub theirs: Value,
    pub ours: Value,
}

/// Records a difference, unless it was recorded before, resolved or not. Returns whether it is new.
pub async fn record_difference(db: &PgPool, new: &NewDifference<'_>) -> Result<bool> {
    // Differences about the same line have the same reference and provider_ref, so the constraint finds duplicates.
    let reference = new.line.map(|line| line.reference.as_str()).or(new.recorded.map(OurEntry::reference));
    let reference = reference.unwrap_or_default();
    let provider_ref = new.line.map(|line| line.provider_ref.as_str());
    let provider_ref = provider_ref.or(new.recorded.and_then(OurEntry::provider_ref)).unwrap_or_default();
    let payment = new.payment.or(new.recorded.and_then(OurEntry::payment));
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
        new.recorded.and_then(OurEntry::operation).map(OperationId::uuid),
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

/// Resolves the differences about disputed money whose dispute has been recorded since, with the same amount. Each
/// reading does so at its end: an inquiry may record a dispute while a reading records that it is missing.
///
/// # Errors
/// Database errors only.
pub async fn end_recorded_differences(db: &PgPool, account: AccountId, at: ProviderAccountId) -> Result<()> {
    let ended = sqlx::query!(
        "UPDATE book_differences SET resolved_at = clock_timestamp(), resolution = 'The dispute was recorded later.'
         WHERE id = ANY (ARRAY(
             SELECT f.id FROM book_differences f
             WHERE f.account_id = $1 AND f.provider_account_id = $2 AND f.resolved_at IS NULL
               AND f.difference = 'missing_with_us' AND f.entry IN ('dispute_withdrawn', 'dispute_reinstated')
               AND EXISTS (SELECT FROM disputes d WHERE d.account_id = f.account_id AND d.payment_id = f.payment_id
                   AND f.provider_ref IN (d.provider_ref, d.reinstatement_ref)
                   AND (f.theirs->>'amount', f.theirs->>'currency') = (d.amount::text, d.currency))
             FOR NO KEY UPDATE SKIP LOCKED))",
        account.uuid(),
        at.uuid(),
    )
    .execute(db)
    .await?;
    if ended.rows_affected() > 0 {
        tracing::info!(
            provider_account = %at, differences = ended.rows_affected(),
            "differences about disputed money are resolved: the disputes have been recorded"
        );
    }
    Ok(())
}

/// Counts the unresolved differences by mode and kind, up to 10,000 in total.
///
/// # Errors
/// Database errors only.
pub async fn open_differences(db: &PgPool) -> Result<Vec<(Mode, Difference, i64)>> {
    let rows = sqlx::query!(
        r#"SELECT a.mode AS "mode: Mode", difference, count(*) AS "count!"
           FROM (SELECT account_id, difference FROM book_differences WHERE resolved_at IS NULL LIMIT 10000) open
               JOIN accounts a ON a.id = open.account_id GROUP BY a.mode, difference"#
    );
    let rows = rows.fetch_all(db).await?;
    let count = |mode: Mode, kind: Difference| {
        rows.iter().find(|row| row.mode == mode && row.difference == kind.name()).map_or(0, |row| row.count)
    };
    let kinds = |mode| Difference::ALL.map(|kind| (mode, kind, count(mode, kind)));
    Ok(Mode::ALL.into_iter().flat_map(kinds).collect())
}
