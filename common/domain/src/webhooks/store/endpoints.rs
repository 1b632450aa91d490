//! Queries for endpoints. They ignore deleted endpoints unless stated otherwise.

use std::time::Duration;

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use crate::webhooks::EndpointStatus;
use crate::webhooks::admin::{EndpointBacklog, EndpointRow};
use crate::webhooks::endpoints::Endpoint;
use foundation::error::Result;
use foundation::id::{AccountId, WebhookEndpointId};
use foundation::time::Timestamp;

pub(in crate::webhooks) async fn count(tx: &mut PgConnection, account: AccountId) -> Result<i64> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM webhook_endpoints WHERE account_id = $1 AND deleted_at IS NULL"#,
        account.uuid()
    )
    .fetch_one(tx)
    .await?;
    Ok(count)
}

pub(in crate::webhooks) async fn insert(
    tx: &mut PgConnection,
    account: AccountId,
    new: &Endpoint,
    sealed: &[u8],
) -> Result<()> {
    sqlx::query!(
        "INSERT INTO webhook_endpoints (id, account_id, url, enabled_events, secret, created_at)
         VALUES ($1, $2, $3, $4, $5, $6)",
        new.id.uuid(),
        account.uuid(),
        new.url,
        &new.enabled_events,
        sealed,
        new.created_at,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// The common columns of endpoints that are not deleted.
macro_rules! select_endpoints {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Endpoint,
            "SELECT id, url, enabled_events, status, disabled_reason, created_at FROM webhook_endpoints
             WHERE deleted_at IS NULL AND " + $rest,
            $($arg),*
        )
    };
}

pub(in crate::webhooks) async fn find(
    db: &PgPool,
    account: AccountId,
    id: WebhookEndpointId,
) -> Result<Option<Endpoint>> {
    let query = select_endpoints!("account_id = $1 AND id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

/// Whether the endpoint belongs to the account, even if it is deleted.
pub(in crate::webhooks) async fn has_existed(db: &PgPool, account: AccountId, id: WebhookEndpointId) -> Result<bool> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM webhook_endpoints WHERE account_id = $1 AND id = $2) AS "found!""#,
        account.uuid(),
        id.uuid()
    )
    .fetch_one(db)
    .await?;
    Ok(found)
}

pub(in crate::webhooks) async fn lock(
    tx: &mut PgConnection,
    account: AccountId,
    id: WebhookEndpointId,
) -> Result<Option<Endpoint>> {
    let query = select_endpoints!("account_id = $1 AND id = $2 FOR NO KEY UPDATE", account.uuid(), id.uuid());
    Ok(query.fetch_optional(tx).await?)
}

/// Locks an endpoint against being disabled or deleted, and returns its status; `None` if it is deleted.
pub(in crate::webhooks) async fn lock_shared(
    tx: &mut PgConnection,
    account: AccountId,
    id: WebhookEndpointId,
) -> Result<Option<EndpointStatus>> {
    let status = sqlx::query_scalar!(
        "SELECT status FROM webhook_endpoints WHERE account_id = $1 AND id = $2 AND deleted_at IS NULL FOR SHARE",
        account.uuid(),
        id.uuid()
    )
    .fetch_optional(tx)
    .await?;
    Ok(status)
}

/// Writes the fields that an update may change. `resets_failures` clears the failure history and the pause.
pub(in crate::webhooks) async fn save(
    tx: &mut PgConnection,
    account: AccountId,
    endpoint: &Endpoint,
    resets_failures: bool,
) -> Result<()> {
    sqlx::query!(
        "UPDATE webhook_endpoints SET url = $3, enabled_events = $4, status = $5, disabled_reason = $6,
                failing_since = CASE WHEN NOT $7 THEN failing_since END,
                paused_until = CASE WHEN NOT $7 THEN paused_until END,
                fresh_since = CASE WHEN $7 THEN clock_timestamp() ELSE fresh_since END
         WHERE account_id = $1 AND id = $2",
        account.uuid(),
        endpoint.id.uuid(),
        endpoint.url,
        &endpoint.enabled_events,
        endpoint.status as EndpointStatus,
        endpoint.disabled_reason.map(|reason| reason.name()),
        resets_failures,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Stores a new secret. The one it replaces stays valid for `previous_validity`.
pub(in crate::webhooks) async fn rotate(
    db: impl PgExecutor<'_>,
    account: AccountId,
    id: WebhookEndpointId,
    sealed: &[u8],
    previous_validity: Duration,
) -> Result<Option<Endpoint>> {
    let row = sqlx::query_as!(
        Endpoint,
        "UPDATE webhook_endpoints SET previous_secret = secret, secret = $3,
                previous_secret_until = clock_timestamp() + make_interval(secs => $4)
         WHERE account_id = $1 AND id = $2 AND deleted_at IS NULL
         RETURNING id, url, enabled_events, status, disabled_reason, created_at",
        account.uuid(),
        id.uuid(),
        sealed,
        previous_validity.as_secs_f64(),
    )
    .fetch_optional(db)
    .await?;
    Ok(row)
}

/// Locks an endpoint `FOR UPDATE`. A weaker lock would not conflict with claims, which lock `FOR KEY SHARE`.
pub(in crate::webhooks) async fn lock_against_claims(
    tx: &mut PgConnection,
    account: AccountId,
    id: WebhookEndpointId,
) -> Result<bool> {
    let found = sqlx::query_scalar!(
        "SELECT id FROM webhook_endpoints WHERE account_id = $1 AND id = $2 AND deleted_at IS NULL FOR UPDATE",
        account.uuid(),
        id.uuid()
    )
    .fetch_optional(tx)
    .await?;
    Ok(found.is_some())
}

pub(in crate::webhooks) async fn delete(
    tx: &mut PgConnection,
    account: AccountId,
    id: WebhookEndpointId,
    now: Timestamp,
) -> Result<()> {
    sqlx::query!(
        "UPDATE webhook_endpoints SET deleted_at = $3 WHERE account_id = $1 AND id = $2",
        account.uuid(),
        id.uuid(),
        now
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Whether attempts on an endpoint are claimed. Only due deliveries are read, because only those are claimed.
pub(in crate::webhooks) async fn has_leases(db: &PgPool, account: AccountId, id: WebhookEndpointId) -> Result<bool> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM webhook_pending WHERE account_id = $1 AND endpoint_id = $2
                          AND due_at <= (SELECT clock_timestamp()) AND lease_until > clock_timestamp()) AS "found!""#,
        account.uuid(),
        id.uuid()
    )
    .fetch_one(db)
    .await?;
    Ok(found)
}

pub(in crate::webhooks) async fn list(
    db: &PgPool,
    account: AccountId,
    after: Option<WebhookEndpointId>,
    limit: i64,
) -> Result<Vec<Endpoint>> {
    let query = select_endpoints!(
        "(account_id, id) < ($1, $2) AND account_id >= $1 ORDER BY account_id DESC, id DESC LIMIT $3",
        account.uuid(),
        after.map_or(Uuid::max(), WebhookEndpointId::uuid),
        limit,
    );
    Ok(query.fetch_all(db).await?)
}

pub(in crate::webhooks) async fn list_all(db: &PgPool, account: Option<AccountId>) -> Result<Vec<EndpointRow>> {
    let rows = sqlx::query_as!(
        EndpointRow,
        "SELECT id, account_id, url, enabled_events, status, disabled_reason, failing_since, paused_until,
                signing_failed_since, previous_secret_until, created_at
         FROM webhook_endpoints WHERE deleted_at IS NULL AND ($1::uuid IS NULL OR account_id = $1) ORDER BY id DESC",
        account.map(AccountId::uuid),
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

/// Reads each endpoint's deliveries through the index by endpoint and due time.
pub(in crate::webhooks) async fn backlog(
    db: &PgPool,
    account: Option<AccountId>,
    limit: i64,
) -> Result<Vec<EndpointBacklog>> {
    let rows = sqlx::query_as!(
        EndpointBacklog,
        r#"SELECT e.id, e.account_id AS account, a.name AS account_name, a.mode, e.url, e.status, e.failing_since, e.paused_until,
                  e.signing_failed_since, d.due AS "due!", d.under_way AS "under_way!", d.oldest
           FROM webhook_endpoints e JOIN accounts a ON a.id = e.account_id,
           LATERAL (SELECT count(*) AS due, count(*) FILTER (WHERE lease_until > clock_timestamp()) AS under_way,
                           min(due_at) AS oldest
                    FROM (SELECT due_at, lease_until FROM webhook_pending p
                          WHERE p.endpoint_id = e.id AND p.due_at <= (SELECT clock_timestamp())
                          ORDER BY p.due_at LIMIT 10000) of_endpoint) d
           WHERE e.deleted_at IS NULL AND ($1::uuid IS NULL OR e.account_id = $1) AND d.due > 0
           ORDER BY d.due DESC LIMIT $2"#,
        account.map(AccountId::uuid),
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}

/// The account of an endpoint, for operators.
pub(in crate::webhooks) async fn owner(db: impl PgExecutor<'_>, id: WebhookEndpointId) -> Result<Option<AccountId>> {
    let owner =
        sqlx::query_scalar!("SELECT account_id FROM webhook_endpoints WHERE id = $1 AND deleted_at IS NULL", id.uuid())
            .fetch_optional(db)
            .await?;
    Ok(owner)
}

/// The account of an endpoint, and until when its previous secret signs.
pub(in crate::webhooks) struct Rotatable {
    pub(in crate::webhooks) account_id: AccountId,
    pub(in crate::webhooks) former_signs_until: Option<Timestamp>,
}

/// Locks an endpoint, so that concurrent rotations see each other's result.
pub(in crate::webhooks) async fn lock_to_rotate(
    tx: &mut PgConnection,
    id: WebhookEndpointId,
) -> Result<Option<Rotatable>> {
    let row = sqlx::query_as!(
        Rotatable,
        "SELECT account_id, CASE WHEN previous_secret_until > clock_timestamp() THEN previous_secret_until END AS former_signs_until
         FROM webhook_endpoints WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE",
        id.uuid()
    )
    .fetch_optional(tx)
    .await?;
    Ok(row)
}
