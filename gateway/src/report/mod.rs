//! The report: an account's transactions, newest first, 100 per page, with their number, all at one instant.

mod store;

use foundation::time::Timestamp;
use sqlx::PgPool;

use crate::failure::{Code, Result};
use crate::id::{AccountId, TransactionId};
use crate::transactions::{State, TransactionKind};

pub use store::ReportedTransaction;

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
    let (count, transactions) = store::read(&mut snapshot, account, filter).await?;
    snapshot.rollback().await?;
    let pages = (count + PAGE_SIZE - 1) / PAGE_SIZE;
    if filter.page > pages.max(1) {
        return Err(Code::Page.refuse());
    }
    Ok(Page { count, pages, transactions })
}
