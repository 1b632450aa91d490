//! The list of invoices.

use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

use super::{Invoice, Number, Status, find, select_invoices};
use foundation::db;
use foundation::error::Result;
use foundation::filter::{ExternalIdFilter, Filters as _};
use foundation::id::{AccountId, CustomerId, InvoiceId, RecurringInvoiceId, SubscriptionId};
use foundation::page::{Page, PageRequest, each, newest_first};
use foundation::time::Timestamp;

foundation::filter_by_name!(Status);

foundation::filters! {
    /// Filters of the list of invoices.
    pub struct Filter {
        /// Your own id, matched exactly.
        external_id("externalId"): Option<ExternalIdFilter>,
        /// The number on the invoice, such as `INV-000001`.
        number("number"): Option<Number>,
        /// Only invoices in one of these statuses.
        status("status"): Vec<Status>,
        /// Only invoices of this customer.
        customer_id("customerId"): Option<CustomerId>,
        /// Only invoices of this subscription.
        subscription_id("subscriptionId"): Option<SubscriptionId>,
        /// Only invoices of this recurring invoice.
        recurring_invoice_id("recurringInvoiceId"): Option<RecurringInvoiceId>,
        /// Only invoices created at this time or later.
        created_from("createdFrom"): Option<Timestamp>,
        /// Only invoices created before this time.
        created_to("createdTo"): Option<Timestamp>,
        /// Only invoices due at this time or later.
        due_from("dueFrom"): Option<Timestamp>,
        /// Only invoices due before this time.
        due_to("dueTo"): Option<Timestamp>,
    }
    ranges { created_from..created_to, due_from..due_to, }
}

/// Returns a page of invoices, newest first.
///
/// # Errors
/// 422 if the cursor is not one of the account's invoices.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    filter: &Filter,
    page: PageRequest<InvoiceId>,
) -> Result<Page<Invoice>> {
    page.check_cursor(|cursor| find(db, account, cursor)).await?;
    if filter.is_empty() {
        return Ok(page.page(newest(db, account, page).await?));
    }
    let mut snapshot = db::filtered_snapshot(db).await?;
    let mut rows = Vec::new();
    let by_due_date = filter.due_from.or(filter.due_to).is_some();
    // The index by due date begins with the status.
    let statuses: &[Status] = if by_due_date && filter.status.is_empty() { &Status::ALL } else { &filter.status };
    for status in each(statuses) {
        rows.extend(filtered(&mut *snapshot, account, filter, status, page).await?);
    }
    snapshot.rollback().await?;
    Ok(page.page(newest_first(rows, |row| row.id.uuid())))
}

async fn newest(db: impl PgExecutor<'_>, account: AccountId, page: PageRequest<InvoiceId>) -> Result<Vec<Invoice>> {
    let query = select_invoices!(
        "WHERE (i.account_id, i.id) < ($1, $2) AND i.account_id >= $1
         ORDER BY i.account_id DESC, i.id DESC LIMIT $3",
        account.uuid(),
        page.starting_after.map_or(Uuid::max(), InvoiceId::uuid),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}

async fn filtered(
    db: impl PgExecutor<'_>,
    account: AccountId,
    filter: &Filter,
    status: Option<Status>,
    page: PageRequest<InvoiceId>,
) -> Result<Vec<Invoice>> {
    let (from, below) = page.ids(filter.created_from, filter.created_to);
    let query = select_invoices!(
        "WHERE i.account_id = $1 AND i.id >= $2 AND i.id < $3
           AND ($4::invoice_status IS NULL OR i.status = $4)
           AND ($5::uuid IS NULL OR i.customer_id = $5)
           AND ($6::uuid IS NULL OR i.subscription_id = $6)
           AND ($7::uuid IS NULL OR i.recurring_invoice_id = $7)
           AND ($8::text IS NULL OR i.external_id = $8)
           AND ($9::bigint IS NULL OR i.number = $9)
           AND ($10::timestamptz IS NULL OR i.due_at >= $10)
           AND ($11::timestamptz IS NULL OR i.due_at < $11)
         ORDER BY i.account_id DESC, i.id DESC LIMIT $12",
        account.uuid(),
        from,
        below,
        status as Option<Status>,
        filter.customer_id.map(CustomerId::uuid),
        filter.subscription_id.map(SubscriptionId::uuid),
        filter.recurring_invoice_id.map(RecurringInvoiceId::uuid),
        filter.external_id.as_deref(),
        filter.number as Option<Number>,
        filter.due_from,
        filter.due_to,
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}
