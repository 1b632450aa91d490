//! The report: an account's transactions, newest first, 100 per page, with their number, all at one instant. Each
//! filter has its own statements, so that each is read along an index: by reference, by id, or by time.

use foundation::time::Timestamp;
use sqlx::types::Json;
use sqlx::{PgConnection, PgPool};

use crate::cards::Brand;
use crate::cards::funding::Source;
use crate::failure::{Code, Result};
use crate::id::{AccountId, TransactionId};
use crate::transactions::{Details, State, TransactionKind};

/// Transactions per page.
const PAGE_SIZE: i64 = 100;

/// The filter of a report request.
pub struct Filter {
    pub from: Timestamp,
    /// Exclusive.
    pub to: Timestamp,
    pub id: Option<TransactionId>,
    pub reference_id: Option<String>,
    pub kind: Option<TransactionKind>,
    /// Only successes, or only the others.
    pub success: Option<bool>,
    /// From 1.
    pub page: i64,
}

impl Filter {
    /// Whether it selects this transaction, which has its id.
    fn matches(&self, transaction: &ReportedTransaction) -> bool {
        let in_time = self.from <= transaction.created_at && transaction.created_at < self.to;
        let is_success = transaction.state == State::Approved;
        in_time
            && (self.reference_id.is_none() || self.reference_id == transaction.reference_id)
            && self.kind.is_none_or(|kind| kind == transaction.kind)
            && self.success.is_none_or(|success| success == is_success)
    }
}

/// A transaction in the report.
pub struct ReportedTransaction {
    pub id: TransactionId,
    pub parent_id: Option<TransactionId>,
    pub kind: TransactionKind,
    pub state: State,
    pub source: Source,
    pub amount: i64,
    pub fee: i64,
    pub currency: String,
    pub reference_id: Option<String>,
    pub child_reference_id: Option<String>,
    pub brand: Brand,
    pub masked: String,
    pub expiry: String,
    pub client_ip: Option<String>,
    pub details: Json<Details>,
    pub reason: Option<String>,
    pub auth_code: Option<String>,
    pub avs: Option<String>,
    pub cvv: Option<String>,
    pub three_ds: bool,
    pub created_at: Timestamp,
}

/// A page of the report.
pub struct Page {
    /// The number of matching transactions on all pages.
    pub count: i64,
    pub pages: i64,
    pub transactions: Vec<ReportedTransaction>,
}

/// Reads a page.
///
/// # Errors
/// P1 for a page after the last one.
pub async fn read(db: &PgPool, account: AccountId, filter: &Filter) -> Result<Page> {
    let mut snapshot = foundation::db::snapshot(db).await?;
    let (count, transactions) = read_page(&mut snapshot, account, filter).await?;
    snapshot.rollback().await?;
    let pages = (count + PAGE_SIZE - 1) / PAGE_SIZE;
    if filter.page > pages.max(1) {
        return Err(Code::Page.refuse());
    }
    Ok(Page { count, pages, transactions })
}

/// Transactions of the report. The column list is shared; `$rest` selects them along an index.
macro_rules! transactions {
    ($($rest:literal)+, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            ReportedTransaction,
            r#"SELECT id AS "id: TransactionId", parent_id AS "parent_id: TransactionId", kind AS "kind: TransactionKind",
                      state AS "state: State", source AS "source: Source", amount, fee, currency, reference_id,
                      (SELECT c.reference_id FROM gateway.child_references c
                       WHERE c.transaction_id = transactions.id) AS child_reference_id,
                      brand AS "brand: Brand", masked, expiry, client_ip, details AS "details: Json<Details>", reason,
                      auth_code, avs, cvv, challenge_hash IS NOT NULL AS "three_ds!", created_at
               FROM gateway.transactions WHERE account_id = $1 "# $(+ $rest)+,
            $($arg),*
        )
    };
}

/// One page of the report.
macro_rules! page {
    ($db:ident, $account:ident, $filter:ident, $rest:literal, $by:expr) => {
        transactions!(
            "AND created_at >= $2 AND created_at < $3 AND ($4::text IS NULL OR kind = $4)
             AND ($5::boolean IS NULL OR (state = 'approved') = $5) "
            $rest
            " ORDER BY created_at DESC, id DESC LIMIT $7 OFFSET $8",
            $account.uuid(),
            $filter.from,
            $filter.to,
            $filter.kind as Option<TransactionKind>,
            $filter.success,
            $by,
            PAGE_SIZE,
            ($filter.page - 1) * PAGE_SIZE,
        )
        .fetch_all(&mut *$db)
        .await?
    };
}

/// The number of matching transactions.
macro_rules! count {
    ($db:ident, $account:ident, $filter:ident, $rest:literal, $by:expr) => {
        sqlx::query_scalar!(
            r#"SELECT count(*) AS "count!" FROM gateway.transactions
               WHERE account_id = $1 AND created_at >= $2 AND created_at < $3 AND ($4::text IS NULL OR kind = $4)
                 AND ($5::boolean IS NULL OR (state = 'approved') = $5) "#
                + $rest,
            $account.uuid(),
            $filter.from,
            $filter.to,
            $filter.kind as Option<TransactionKind>,
            $filter.success,
            $by,
        )
        .fetch_one(&mut *$db)
        .await?
    };
}

/// The number of matching transactions and one page of them, newest first.
async fn read_page(
    db: &mut PgConnection,
    account: AccountId,
    filter: &Filter,
) -> Result<(i64, Vec<ReportedTransaction>), sqlx::Error> {
    let (id, reference) = (filter.id.map(TransactionId::uuid), filter.reference_id.as_deref());
    Ok(match (id, reference) {
        (None, None) => {
            // The other statements use the sixth parameter.
            let count = count!(db, account, filter, "AND $6::text IS NULL", None::<&str>);
            (count, page!(db, account, filter, "AND $6::text IS NULL", None::<&str>))
        }
        (None, Some(reference)) => {
            let count = count!(db, account, filter, "AND reference_id = $6", reference);
            (count, page!(db, account, filter, "AND reference_id = $6", reference))
        }
        // At most one row. The rest of the filter is no part of the statement, and the row is not ordered, so that every
        // plan reads it by its id.
        (Some(id), _) => {
            let row = transactions!("AND id = $2", account.uuid(), id).fetch_optional(&mut *db).await?;
            let found: Vec<_> = row.into_iter().filter(|row| filter.matches(row)).collect();
            (found.len() as i64, found)
        }
    })
}
