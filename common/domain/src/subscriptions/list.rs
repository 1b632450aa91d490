//! The list of subscriptions.

use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

use super::{Status, Subscription, find, select_subscriptions};
use foundation::db;
use foundation::error::Result;
use foundation::filter::{ExternalIdFilter, Filters as _};
use foundation::id::{AccountId, CustomerId, InvoiceId, PlanId, SubscriptionId};
use foundation::page::{Page, PageRequest, each, newest_first};

foundation::filter_by_name!(Status);

foundation::filters! {
    /// Filters of the list of subscriptions.
    pub struct Filter {
        /// Your own id, matched exactly.
        external_id("externalId"): Option<ExternalIdFilter>,
        /// Only subscriptions in one of these statuses.
        status("status"): Vec<Status>,
        /// Only subscriptions of this customer.
        customer_id("customerId"): Option<CustomerId>,
        /// Only subscriptions to this plan.
        plan_id("planId"): Option<PlanId>,
    }
}

/// Returns a page of subscriptions, newest first.
///
/// # Errors
/// 422 if the cursor is not one of the account's subscriptions.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    filter: &Filter,
    page: PageRequest<SubscriptionId>,
) -> Result<Page<Subscription>> {
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
    page: PageRequest<SubscriptionId>,
) -> Result<Vec<Subscription>> {
    let query = select_subscriptions!(
        "WHERE (s.account_id, s.id) < ($1, $2) AND s.account_id >= $1
         ORDER BY s.account_id DESC, s.id DESC LIMIT $3",
        account.uuid(),
        page.starting_after.map_or(Uuid::max(), SubscriptionId::uuid),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}

async fn filtered(
    db: impl PgExecutor<'_>,
    account: AccountId,
    filter: &Filter,
    status: Option<Status>,
    page: PageRequest<SubscriptionId>,
) -> Result<Vec<Subscription>> {
    let below = page.starting_after.map_or(Uuid::max(), SubscriptionId::uuid);
    let query = select_subscriptions!(
        "WHERE s.account_id = $1 AND s.id < $2
           AND ($3::subscription_status IS NULL OR s.status = $3)
           AND ($4::uuid IS NULL OR s.customer_id = $4)
           AND ($5::uuid IS NULL OR s.plan_id = $5)
           AND ($6::text IS NULL OR s.external_id = $6)
         ORDER BY s.account_id DESC, s.id DESC LIMIT $7",
        account.uuid(),
        below,
        status as Option<Status>,
        filter.customer_id.map(CustomerId::uuid),
        filter.plan_id.map(PlanId::uuid),
        filter.external_id.as_deref(),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}
