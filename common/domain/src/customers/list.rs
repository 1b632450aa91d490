//! The list of customers.

use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

use super::{Customer, select_customers};
use foundation::db;
use foundation::error::Result;
use foundation::filter::{CaselessText, ExternalIdFilter, Filters as _};
use foundation::id::{AccountId, CustomerId};
use foundation::page::{Page, PageRequest, unknown_cursor};
use foundation::time::Timestamp;

foundation::filters! {
    /// Filters of the list of customers.
    pub struct Filter {
        /// Your own id, matched exactly.
        external_id("externalId"): Option<ExternalIdFilter>,
        /// Only customers with this e-mail address, compared without case.
        email("email"): Option<CaselessText>,
        /// Only customers whose name has, for each of these words, one that begins with it; compared without case.
        name("name"): Option<CaselessText>,
        /// Only customers created at this time or later.
        created_from("createdFrom"): Option<Timestamp>,
        /// Only customers created before this time.
        created_to("createdTo"): Option<Timestamp>,
    }
    ranges { created_from..created_to, }
}

/// Returns a page of customers, newest first.
///
/// # Errors
/// 422 if the cursor is not one of the account's customers.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    filter: &Filter,
    page: PageRequest<CustomerId>,
) -> Result<Page<Customer>> {
    if let Some(cursor) = page.starting_after
        && !exists(db, account, cursor).await?
    {
        return Err(unknown_cursor());
    }
    if filter.is_empty() {
        return Ok(page.page(newest(db, account, page).await?));
    }
    if let Some(words) = &filter.name {
        return Ok(page.page(named(db, account, &words.0, filter, page).await?));
    }
    let mut snapshot = db::filtered_snapshot(db).await?;
    let rows = filtered(&mut *snapshot, account, filter, page).await?;
    snapshot.rollback().await?;
    Ok(page.page(rows))
}

/// Whether a customer exists or is deleted: a list under way goes on from either.
async fn exists(db: &PgPool, account: AccountId, id: CustomerId) -> Result<bool> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM customers WHERE account_id = $1 AND id = $2) AS "found!""#,
        account.uuid(),
        id.uuid(),
    );
    Ok(found.fetch_one(db).await?)
}

async fn newest(db: impl PgExecutor<'_>, account: AccountId, page: PageRequest<CustomerId>) -> Result<Vec<Customer>> {
    let query = select_customers!(
        "(account_id, id) < ($1, $2) AND account_id >= $1
         ORDER BY account_id DESC, id DESC LIMIT $3",
        account.uuid(),
        page.starting_after.map_or(Uuid::max(), CustomerId::uuid),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}

async fn filtered(
    db: impl PgExecutor<'_>,
    account: AccountId,
    filter: &Filter,
    page: PageRequest<CustomerId>,
) -> Result<Vec<Customer>> {
    let (from, below) = page.ids(filter.created_from, filter.created_to);
    let query = select_customers!(
        "account_id = $1 AND id >= $2 AND id < $3
           AND ($4::text IS NULL OR external_id = $4)
           AND ($5::text IS NULL OR lower(email) = lower($5) AND email <> '')
         ORDER BY account_id DESC, id DESC LIMIT $6",
        account.uuid(),
        from,
        below,
        filter.external_id.as_deref(),
        filter.email.as_ref().map(|email| email.0.as_str()),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}

/// Those with such a name are found first, by an index that is not in the order of the list, and all of them: `OFFSET`
/// keeps the other conditions out of the choice of the index.
async fn named(
    db: &PgPool,
    account: AccountId,
    words: &str,
    filter: &Filter,
    page: PageRequest<CustomerId>,
) -> Result<Vec<Customer>> {
    let (from, below) = page.ids(filter.created_from, filter.created_to);
    let query = select_customers!(
        "id = ANY (ARRAY(
             SELECT found.id FROM (
                 SELECT * FROM customers WHERE deleted_at IS NULL
                     AND array_to_tsvector(customer_name_words(account_id, name)) @@ customer_name_query($1, $2)
                 OFFSET 0) found
             WHERE found.account_id = $1 AND found.id >= $3 AND found.id < $4
                 AND found.external_id IS NOT DISTINCT FROM coalesce($5, found.external_id)
                 AND lower(found.email) = lower(coalesce($6, found.email))
             ORDER BY found.id DESC LIMIT $7))
         ORDER BY id DESC",
        account.uuid(),
        words,
        from,
        below,
        filter.external_id.as_deref(),
        filter.email.as_ref().map(|email| email.0.as_str()),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}
