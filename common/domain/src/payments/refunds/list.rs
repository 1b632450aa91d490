//! Refunds as objects of their own.

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use super::{Refund, RefundStatus};
use foundation::db;
use foundation::error::{Error, Result};
use foundation::filter::{ExternalIdFilter, Filters as _};
use foundation::id::{AccountId, KeyId, PaymentId, RefundId};
use foundation::merchant_data::{ExternalId, Metadata};
use foundation::money::Currency;
use foundation::page::{Page, PageRequest, each, newest_first};
use foundation::time::Timestamp;
use providers::FailureCode;

foundation::filter_by_name!(RefundStatus);

foundation::filters! {
    /// Filters of the list of refunds.
    pub struct Filter {
        /// Your own id, matched exactly. It is unique within a payment.
        external_id("externalId"): Option<ExternalIdFilter>,
        /// Only refunds of this payment.
        payment_id("paymentId"): Option<PaymentId>,
        /// Only refunds in one of these statuses.
        status("status"): Vec<RefundStatus>,
        /// Only refunds created at this time or later.
        created_from("createdFrom"): Option<Timestamp>,
        /// Only refunds created before this time.
        created_to("createdTo"): Option<Timestamp>,
    }
    ranges { created_from..created_to, }
}

/// A refund with what its payment knows.
#[derive(Debug)]
pub struct Listed {
    pub refund: Refund,
    pub currency: Currency,
}

struct Row {
    id: RefundId,
    payment_id: PaymentId,
    amount: i64,
    amount_asked: Option<i64>,
    external_id: Option<ExternalId>,
    metadata: Option<Metadata>,
    version: i64,
    status: RefundStatus,
    created_at: Timestamp,
    failure_code: Option<FailureCode>,
    requested_by: Option<KeyId>,
    currency: Currency,
}

impl From<Row> for Listed {
    fn from(row: Row) -> Self {
        Self {
            refund: Refund {
                id: row.id,
                payment_id: row.payment_id,
                amount: row.amount,
                amount_asked: row.amount_asked,
                external_id: row.external_id,
                metadata: row.metadata,
                version: row.version,
                status: row.status,
                created_at: row.created_at,
                failure_code: row.failure_code,
                requested_by: row.requested_by,
            },
            currency: row.currency,
        }
    }
}

macro_rules! select_refunds {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Row,
            r#"SELECT r.id, r.payment_id, r.amount, r.amount_asked, r.external_id, r.metadata, r.version, r.status, r.created_at, r.failure_code,
                      r.requested_by_key AS "requested_by: KeyId",
                      (SELECT p.currency FROM payments p WHERE p.account_id = r.account_id AND p.id = r.payment_id)
                          AS "currency!: Currency"
               FROM refunds r "# + $rest,
            $($arg),*
        )
    };
}

/// Returns a refund.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: &PgPool, account: AccountId, id: RefundId) -> Result<Listed> {
    find(db, account, id).await?.ok_or_else(|| Error::no_such("refund", id))
}

async fn find(db: &PgPool, account: AccountId, id: RefundId) -> Result<Option<Listed>> {
    let query = select_refunds!("WHERE r.account_id = $1 AND r.id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?.map(Listed::from))
}

/// Returns a page of refunds, newest first.
///
/// # Errors
/// 422 if the cursor is not a refund of the account.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    filter: &Filter,
    page: PageRequest<RefundId>,
) -> Result<Page<Listed>> {
    page.check_cursor(|cursor| find(db, account, cursor)).await?;
    let rows = if filter.is_empty() {
        newest(db, account, page).await?
    } else {
        let mut snapshot = db::filtered_snapshot(db).await?;
        let mut rows = Vec::new();
        for status in each(&filter.status) {
            rows.extend(filtered(&mut snapshot, account, filter, status, page).await?);
        }
        snapshot.rollback().await?;
        newest_first(rows, |row| row.id.uuid())
    };
    Ok(page.page(rows).map(Listed::from))
}

async fn newest(db: impl PgExecutor<'_>, account: AccountId, page: PageRequest<RefundId>) -> Result<Vec<Row>> {
    let query = select_refunds!(
        "WHERE (r.account_id, r.id) < ($1, $2) AND r.account_id >= $1 ORDER BY r.account_id DESC, r.id DESC LIMIT $3",
        account.uuid(),
        page.starting_after.map_or(Uuid::max(), RefundId::uuid),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}

async fn filtered(
    db: &mut PgConnection,
    account: AccountId,
    filter: &Filter,
    status: Option<RefundStatus>,
    page: PageRequest<RefundId>,
) -> Result<Vec<Row>> {
    let (from, below) = page.ids(filter.created_from, filter.created_to);
    let query = select_refunds!(
        "WHERE r.account_id = $1 AND r.id >= $2 AND r.id < $3
           AND ($4::text IS NULL OR r.external_id = $4)
           AND ($5::uuid IS NULL OR r.payment_id = $5)
           AND ($6::refund_status IS NULL OR r.status = $6)
         ORDER BY r.account_id DESC, r.id DESC LIMIT $7",
        account.uuid(),
        from,
        below,
        filter.external_id.as_deref(),
        filter.payment_id.map(PaymentId::uuid),
        status as Option<RefundStatus>,
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}
