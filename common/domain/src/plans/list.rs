//! The list of plans.

use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

use super::{Plan, find, select_plans};
use foundation::db;
use foundation::error::Result;
use foundation::filter::{ExternalIdFilter, Filters as _};
use foundation::id::{AccountId, PlanId};
use foundation::page::{Page, PageRequest};

foundation::filters! {
    /// Filters of the list of plans.
    pub struct Filter {
        /// Your own id, matched exactly.
        external_id("externalId"): Option<ExternalIdFilter>,
    }
}

/// Returns a page of plans, newest first.
///
/// # Errors
/// 422 if the cursor is not one of the account's plans.
pub async fn list(db: &PgPool, account: AccountId, filter: &Filter, page: PageRequest<PlanId>) -> Result<Page<Plan>> {
    page.check_cursor(|cursor| find(db, account, cursor)).await?;
    if filter.is_empty() {
        return Ok(page.page(newest(db, account, page).await?));
    }
    let mut snapshot = db::filtered_snapshot(db).await?;
    let rows = filtered(&mut *snapshot, account, filter, page).await?;
    snapshot.rollback().await?;
    Ok(page.page(rows))
}

async fn newest(db: impl PgExecutor<'_>, account: AccountId, page: PageRequest<PlanId>) -> Result<Vec<Plan>> {
    let query = select_plans!(
        "WHERE (account_id, id) < ($1, $2) AND account_id >= $1 ORDER BY account_id DESC, id DESC LIMIT $3",
        account.uuid(),
        page.starting_after.map_or(Uuid::max(), PlanId::uuid),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}

async fn filtered(
    db: impl PgExecutor<'_>,
    account: AccountId,
    filter: &Filter,
    page: PageRequest<PlanId>,
) -> Result<Vec<Plan>> {
    let query = select_plans!(
        "WHERE account_id = $1 AND id < $2
           AND ($3::text IS NULL OR external_id = $3)
         ORDER BY account_id DESC, id DESC LIMIT $4",
        account.uuid(),
        page.starting_after.map_or(Uuid::max(), PlanId::uuid),
        filter.external_id.as_deref(),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}
