//! Operations as reconciliation compares them with a provider's books.

use std::time::Duration;

use sqlx::PgPool;

use super::types::State;
use foundation::error::Result;
use foundation::id::{AccountId, OperationId, PaymentId, ProviderAccountId};
use foundation::money::{Currency, Money};
use foundation::time::Timestamp;
use providers::{Entry, OperationKind};

/// An operation as our books record it.
#[derive(Clone, Debug)]
pub struct RecordedOperation {
    pub id: OperationId,
    /// Our reference at the provider.
    pub reference: String,
    pub kind: OperationKind,
    pub state: State,
    /// The provider's reference for the transaction, if it succeeded.
    pub provider_ref: Option<String>,
    /// The provider's reference for the charge that this operation follows.
    pub target_ref: Option<String>,
    pub payment_id: Option<PaymentId>,
    /// For a charge, the approved amount; otherwise the requested amount.
    pub amount: Option<i64>,
    pub currency: Option<Currency>,
    /// When a request was first sent.
    pub first_sent_at: Option<Timestamp>,
    pub settled_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub age_seconds: f64,
    pub is_held: bool,
}

impl RecordedOperation {
    /// Whether its outcome may be about to be written: it is younger than `age`, or a worker holds its lease.
    pub fn is_under_way(&self, age: Duration) -> bool {
        !self.state.is_final() && (self.is_held || self.age_seconds < age.as_secs_f64())
    }

    /// The kind of statement line that the provider would show for it. `None` for a saved card.
    pub const fn entry(&self) -> Option<Entry> {
        match self.kind {
            OperationKind::Sale | OperationKind::Authorize => Some(Entry::Charge),
            OperationKind::Capture => Some(Entry::Capture),
            OperationKind::Void | OperationKind::Reverse => Some(Entry::Void),
            OperationKind::Refund | OperationKind::ReverseByRefund => Some(Entry::Refund),
            OperationKind::StoreCard => None,
        }
    }

    /// Whether it is this charge, or follows it.
    pub fn target_ref_is(&self, charge: &str) -> bool {
        let named =
            self.target_ref.as_deref().or(self.provider_ref.as_deref().filter(|_| self.entry() == Some(Entry::Charge)));
        named == Some(charge)
    }

    pub fn money(&self) -> Option<Money> {
        self.amount.zip(self.currency).map(|(minor, currency)| Money { minor, currency })
    }
}

/// The columns are shared by all queries. An approved charge has the amount of its payment.
macro_rules! recorded {
    ($from:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            RecordedOperation,
            r#"SELECT o.id AS "id!", o.reference AS "reference!", o.kind AS "kind!: OperationKind", o.state AS "state!: State",
                      o.provider_ref AS "provider_ref?", o.target_ref AS "target_ref?", o.payment_id AS "payment_id?: PaymentId",
                      CASE WHEN o.kind IN ('sale', 'authorize') AND o.state = 'succeeded' THEN p.amount ELSE o.amount END AS amount,
                      o.currency AS "currency?: Currency", o.first_sent_at AS "first_sent_at?",
                      greatest(o.last_sent_at, o.finished_at) AS settled_at, o.finished_at AS "finished_at?",
                      extract(epoch FROM clock_timestamp() - o.created_at)::float8 AS "age_seconds!",
                      coalesce(o.lease_until >= clock_timestamp(), false) AS "is_held!"
               FROM "# + $from,
            $($arg),*
        )
    };
}

/// Returns the operations with these references at a provider account.
///
/// # Errors
/// Database errors only.
pub async fn by_reference(db: &PgPool, at: ProviderAccountId, references: &[String]) -> Result<Vec<RecordedOperation>> {
    if references.is_empty() {
        return Ok(vec![]);
    }
    let query = recorded!(
        "operations o LEFT JOIN payments p ON p.id = o.payment_id
         WHERE o.provider_account_id = $1 AND o.reference = ANY ($2)",
        at.uuid(),
        references,
    );
    Ok(query.fetch_all(db).await?)
}

/// Returns all operations of these payments.
///
/// # Errors
/// Database errors only.
pub async fn of_payments(db: &PgPool, account: AccountId, payments: &[PaymentId]) -> Result<Vec<RecordedOperation>> {
    if payments.is_empty() {
        return Ok(vec![]);
    }
    let payments: Vec<_> = payments.iter().map(|payment| payment.uuid()).collect();
    let query = recorded!(
        "operations o LEFT JOIN payments p ON p.id = o.payment_id
         WHERE o.account_id = $1 AND o.payment_id = ANY ($2)",
        account.uuid(),
        &payments,
    );
    Ok(query.fetch_all(db).await?)
}

/// Returns up to `limit` operations that succeeded at a provider account within an interval, in the order in which
/// their outcomes were written. Saved cards are left out.
///
/// # Errors
/// Database errors only.
pub async fn succeeded(
    db: &PgPool,
    at: ProviderAccountId,
    from: Timestamp,
    to: Timestamp,
    limit: i64,
) -> Result<Vec<RecordedOperation>> {
    let query = recorded!(
        "(SELECT * FROM operations
          WHERE provider_account_id = $1 AND state = 'succeeded' AND finished_at >= $2 AND finished_at < $3
          ORDER BY provider_account_id, finished_at LIMIT $4) o
         LEFT JOIN payments p ON p.id = o.payment_id",
        at.uuid(),
        from,
        to,
        limit,
    );
    let mut rows = query.fetch_all(db).await?;
    rows.sort_by_key(|row| row.finished_at);
    Ok(rows)
}

/// Returns up to `limit` operations whose references lie between `after` and `before`, in order.
///
/// # Errors
/// Database errors only.
pub async fn page(
    db: &PgPool,
    at: ProviderAccountId,
    after: &str,
    before: &str,
    limit: i64,
) -> Result<Vec<RecordedOperation>> {
    let query = recorded!(
        "(SELECT * FROM operations WHERE provider_account_id = $1 AND reference > $2 AND reference < $3
          ORDER BY provider_account_id, reference LIMIT $4) o
         LEFT JOIN payments p ON p.id = o.payment_id",
        at.uuid(),
        after,
        before,
        limit,
    );
    let mut rows = query.fetch_all(db).await?;
    rows.sort_by(|a, b| a.reference.cmp(&b.reference));
    Ok(rows)
}

/// A payment's totals and operations, read in one snapshot.
#[derive(Clone, Debug)]
pub struct PaymentRecord {
    pub captured: i64,
    pub refunded: i64,
    /// Whether every operation had ended before the instant that the caller passed in.
    pub all_ended: bool,
    pub operations: Vec<RecordedOperation>,
}

/// Reads a payment with its operations. `ended_before` is an instant of the database's clock. `None` if the payment has
/// no operation.
///
/// # Errors
/// Database errors only.
pub async fn payment_record(
    db: &PgPool,
    account: AccountId,
    payment: PaymentId,
    ended_before: Timestamp,
) -> Result<Option<PaymentRecord>> {
    // Read the payment before its operations: every change of it that is visible by then has its outcome among them.
    let sums = sqlx::query!(
        r#"SELECT amount_captured, amount_refunded, amount_refund_pending = 0 AND pending_operation IS NULL AS "is_at_rest!"
           FROM payments WHERE account_id = $1 AND id = $2"#,
        account.uuid(),
        payment.uuid(),
    );
    let Some(sums) = sums.fetch_optional(db).await? else { return Ok(None) };
    let operations = of_payments(db, account, &[payment]).await?;
    let ended = |operation: &RecordedOperation| operation.finished_at.is_some_and(|at| at < ended_before);
    Ok(Some(PaymentRecord {
        captured: sums.amount_captured,
        refunded: sums.amount_refunded,
        all_ended: sums.is_at_rest && operations.iter().all(ended),
        operations,
    }))
}
