//! The list of recurring invoices.

use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

use super::{RecurringInvoice, Row, Status, find, select_recurring_invoices};
use foundation::db;
use foundation::error::Result;
use foundation::filter::{ExternalIdFilter, Filters as _};
use foundation::id::{AccountId, CustomerId, RecurringInvoiceId};
use foundation::page::{Page, PageRequest, each, newest_first};

foundation::filter_by_name!(Status);

foundation::filters! {
    /// Filters of the list of recurring invoices.
    pub struct Filter {
        /// Your own id, matched exactly.
        external_id("externalId"): Option<ExternalIdFilter>,
        /// Only recurring invoices in one of these statuses.
        status("status"): Vec<Status>,
        /// Only recurring invoices of this customer.
        customer_id("customerId"): Option<CustomerId>,
    }
}

/// Returns a page of recurring invoices, newest first.
///
/// # Errors
/// 422 if the cursor is not one of the account's recurring invoices.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    filter: &Filter,
    page: PageRequest<RecurringInvoiceId>,
) -> Result<Page<RecurringInvoice>> {
    page.check_cursor(|cursor| find(db, account, cursor)).await?;
    if filter.is_empty() {
        return Ok(page.page(newest(db, account, page).await?));
    }
    let mut snapshot = db::filtered_snapshot(db).await?;
    let mut rows = Vec::new();
    for status in each(&filter.status) {
        rows.extend(filtered(&mut *snapshot, account, filter, status, page).await?);
    }
    snapshot.rollback().await?;
    Ok(page.page(newest_first(rows, |row| row.id.uuid())))
}

async fn newest(
    db: impl PgExecutor<'_>,
    account: AccountId,
    page: PageRequest<RecurringInvoiceId>,
) -> Result<Vec<RecurringInvoice>> {
    let query = select_recurring_invoices!(
        "WHERE (r.account_id, r.id) < ($1, $2) AND r.account_id >= $1
         ORDER BY r.account_id DESC, r.id DESC LIMIT $3",
        account.uuid(),
        page.starting_after.map_or(Uuid::max(), RecurringInvoiceId::uuid),
        page.fetch(),
    );
    query.fetch_all(db).await?.into_iter().map(Row::parse).collect()
}

async fn filtered(
    db: impl PgExecutor<'_>,
    account: AccountId,
    filter: &Filter,
    status: Option<Status>,
    page: PageRequest<RecurringInvoiceId>,
) -> Result<Vec<RecurringInvoice>> {
    let below = page.starting_after.map_or(Uuid::max(), RecurringInvoiceId::uuid);
    let query = select_recurring_invoices!(
        "WHERE r.account_id = $1 AND r.id < $2
           AND ($3::recurring_invoice_status IS NULL OR r.status = $3)
           AND ($4::uuid IS NULL OR r.customer_id = $4)
           AND ($5::text IS NULL OR r.external_id = $5)
         ORDER BY r.account_id DESC, r.id DESC LIMIT $6",
        account.uuid(),
        below,
        status as Option<Status>,
        filter.customer_id.map(CustomerId::uuid),
        filter.external_id.as_deref(),
        page.fetch(),
    );
    query.fetch_all(db).await?.into_iter().map(Row::parse).collect()
}
