//! The list of payment links.

use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

use super::{PaymentLink, Status, find, select_links};
use foundation::db;
use foundation::error::Result;
use foundation::filter::{ExternalIdFilter, Filters as _};
use foundation::id::{AccountId, PaymentLinkId};
use foundation::page::{Page, PageRequest, each, newest_first};
use foundation::time::Timestamp;

foundation::filter_by_name!(Status);

foundation::filters! {
    /// Filters of the list of payment links.
    pub struct Filter {
        /// Your own id, matched exactly.
        external_id("externalId"): Option<ExternalIdFilter>,
        /// Only links in one of these statuses.
        status("status"): Vec<Status>,
    }
}

/// Stored statuses, with whether the link's time has passed.
#[derive(Clone, Copy)]
struct Stored {
    status: Option<Status>,
    is_overdue: Option<bool>,
}

impl Stored {
    /// What is shown in this status, or in any: an open link has expired as soon as its time has passed.
    fn of(status: Option<Status>) -> Vec<Self> {
        let stored = |status, is_overdue| Self { status, is_overdue };
        match status {
            Some(Status::Open) => vec![stored(status, Some(false))],
            Some(Status::Paid | Status::Cancelled) | None => vec![stored(status, None)],
            Some(Status::Expired) => vec![stored(status, None), stored(Some(Status::Open), Some(true))],
        }
    }
}

/// Returns a page of links, newest first.
///
/// # Errors
/// 422 if the cursor is not a link of the account.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    filter: &Filter,
    page: PageRequest<PaymentLinkId>,
    now: Timestamp,
) -> Result<Page<PaymentLink>> {
    page.check_cursor(|cursor| find(db, account, cursor, now)).await?;
    if filter.is_empty() {
        return Ok(page.page(newest(db, account, page, now).await?));
    }
    let mut snapshot = db::filtered_snapshot(db).await?;
    let mut rows = Vec::new();
    for stored in each(&filter.status).into_iter().flat_map(Stored::of) {
        rows.extend(filtered(&mut *snapshot, account, filter, stored, page, now).await?);
    }
    snapshot.rollback().await?;
    Ok(page.page(newest_first(rows, |link| link.id.uuid())))
}

async fn newest(
    db: impl PgExecutor<'_>,
    account: AccountId,
    page: PageRequest<PaymentLinkId>,
    now: Timestamp,
) -> Result<Vec<PaymentLink>> {
    let query = select_links!(
        "$1::timestamptz",
        "WHERE (l.account_id, l.id) < ($2, $3) AND l.account_id >= $2
         ORDER BY l.account_id DESC, l.id DESC LIMIT $4",
        now,
        account.uuid(),
        page.starting_after.map_or(Uuid::max(), PaymentLinkId::uuid),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}

async fn filtered(
    db: impl PgExecutor<'_>,
    account: AccountId,
    filter: &Filter,
    stored: Stored,
    page: PageRequest<PaymentLinkId>,
    now: Timestamp,
) -> Result<Vec<PaymentLink>> {
    let query = select_links!(
        "$1::timestamptz",
        "WHERE l.account_id = $2 AND l.id < $3
           AND ($4::payment_link_status IS NULL OR l.status = $4)
           AND ($5::boolean IS NOT TRUE OR l.expiry_due_at <= $1)
           AND ($5::boolean IS NOT FALSE OR l.expiry_due_at IS NULL OR l.expiry_due_at > $1)
           AND ($6::text IS NULL OR l.external_id = $6)
         ORDER BY l.account_id DESC, l.id DESC LIMIT $7",
        now,
        account.uuid(),
        page.starting_after.map_or(Uuid::max(), PaymentLinkId::uuid),
        stored.status as Option<Status>,
        stored.is_overdue,
        filter.external_id.as_deref(),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}
