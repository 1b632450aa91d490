//! The list of disputes.

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use super::{Dispute, find, select_disputes};
use foundation::db;
use foundation::error::Result;
use foundation::filter::Filters as _;
use foundation::id::{AccountId, DisputeId, PaymentId};
use foundation::page::{Page, PageRequest, each, newest_first};
use foundation::time::Timestamp;
use providers::DisputeStatus;

foundation::filters! {
    /// Filters of the list of disputes.
    pub struct Filter {
        /// Only disputes of this payment.
        payment_id("paymentId"): Option<PaymentId>,
        /// Only disputes in one of these statuses.
        status("status"): Vec<DisputeStatus>,
        /// Only disputes created at this time or later.
        created_from("createdFrom"): Option<Timestamp>,
        /// Only disputes created before this time.
        created_to("createdTo"): Option<Timestamp>,
    }
    ranges { created_from..created_to, }
}

/// Returns a page of disputes, newest first.
///
/// # Errors
/// 422 if the cursor is not a dispute of the account.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    filter: &Filter,
    page: PageRequest<DisputeId>,
) -> Result<Page<Dispute>> {
    page.check_cursor(|cursor| find(db, account, cursor)).await?;
    if filter.is_empty() {
        return Ok(page.page(newest(db, account, page).await?));
    }
    let mut snapshot = db::filtered_snapshot(db).await?;
    let mut rows = Vec::new();
    for status in each(&filter.status) {
        rows.extend(filtered(&mut snapshot, account, filter, status, page).await?);
    }
    snapshot.rollback().await?;
    Ok(page.page(newest_first(rows, |dispute| dispute.id.uuid())))
}

async fn newest(db: impl PgExecutor<'_>, account: AccountId, page: PageRequest<DisputeId>) -> Result<Vec<Dispute>> {
    let query = select_disputes!(
        "WHERE (d.account_id, d.id) < ($1, $2) AND d.account_id >= $1 ORDER BY d.account_id DESC, d.id DESC LIMIT $3",
        account.uuid(),
        page.starting_after.map_or(Uuid::max(), DisputeId::uuid),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}

async fn filtered(
    db: &mut PgConnection,
    account: AccountId,
    filter: &Filter,
    status: Option<DisputeStatus>,
    page: PageRequest<DisputeId>,
) -> Result<Vec<Dispute>> {
    let (from, below) = page.ids(filter.created_from, filter.created_to);
    let query = select_disputes!(
        "WHERE d.account_id = $1 AND d.id >= $2 AND d.id < $3
           AND ($4::uuid IS NULL OR d.payment_id = $4)
           AND ($5::dispute_status IS NULL OR d.status = $5)
         ORDER BY d.account_id DESC, d.id DESC LIMIT $6",
        account.uuid(),
        from,
        below,
        filter.payment_id.map(PaymentId::uuid),
        status as Option<DisputeStatus>,
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}
