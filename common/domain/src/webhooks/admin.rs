//! Endpoint administration for operators. Only `ctl` calls these functions.

use serde::Serialize;
use sqlx::{PgConnection, PgPool};

use super::endpoints::{self, WithSecret};
use super::status::{DisabledReason, EndpointStatus};
use crate::accounts::Mode;
use foundation::crypto::KeyRing;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, WebhookEndpointId};
use foundation::time::Timestamp;

/// An endpoint with its delivery state.
#[derive(Debug)]
pub struct EndpointRow {
    pub id: WebhookEndpointId,
    pub account_id: AccountId,
    pub url: String,
    /// Subscribed event types; empty means all.
    pub enabled_events: Vec<String>,
    pub status: EndpointStatus,
    pub disabled_reason: Option<DisabledReason>,
    /// The start of the current run of failed attempts.
    pub failing_since: Option<Timestamp>,
    /// No attempt is made before this time, because the endpoint sent `Retry-After`.
    pub paused_until: Option<Timestamp>,
    /// Since when deliveries to the endpoint cannot be signed.
    pub signing_failed_since: Option<Timestamp>,
    /// Until when the previous secret signs too.
    pub previous_secret_until: Option<Timestamp>,
    pub created_at: Timestamp,
}

/// The endpoints of one account, or of all accounts, newest first. Deleted endpoints are left out.
///
/// # Errors
/// Database errors only.
pub async fn list(db: &PgPool, account: Option<AccountId>) -> Result<Vec<EndpointRow>> {
    Ok(sqlx::query_as!(
        EndpointRow,
        "SELECT id, account_id, url, enabled_events, status, disabled_reason, failing_since, paused_until,
                signing_failed_since, previous_secret_until, created_at
         FROM webhook_endpoints WHERE deleted_at IS NULL AND ($1::uuid IS NULL OR account_id = $1) ORDER BY id DESC",
        account.map(AccountId::uuid),
    )
    .fetch_all(db)
    .await?)
}

/// The due deliveries of an endpoint.
#[derive(Debug, Serialize)]
pub struct EndpointBacklog {
    id: WebhookEndpointId,
    account: AccountId,
    account_name: String,
    mode: Mode,
    url: String,
    status: EndpointStatus,
    failing_since: Option<Timestamp>,
    paused_until: Option<Timestamp>,
    signing_failed_since: Option<Timestamp>,
    /// Due deliveries, counted up to 10,000.
    due: i64,
    /// Due deliveries that a worker has claimed.
    under_way: i64,
    oldest: Option<Timestamp>,
}

/// The endpoints with due deliveries, largest backlog first. Reads each endpoint's deliveries through the index by
/// endpoint and due time.
///
/// # Errors
/// Database errors only.
pub async fn backlog(db: &PgPool, account: Option<AccountId>, limit: i64) -> Result<Vec<EndpointBacklog>> {
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

/// The account of an endpoint, and until when its previous secret signs.
struct Rotatable {
    account_id: AccountId,
    former_signs_until: Option<Timestamp>,
}

/// Gives an endpoint a new secret, as [`endpoints::rotate_secret`] does, and returns its account. While the previous
/// secret still signs, it may be the only one that the merchant has, because the response with the current one may have
/// been lost. Another rotation would end it at once, so that requires `again`. Locks the endpoint, so
/// that concurrent rotations see each other's result.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if the previous secret still signs and `again` is not set.
pub async fn rotate_secret(
    tx: &mut PgConnection,
    encryption: &KeyRing,
    id: WebhookEndpointId,
    again: bool,
) -> Result<(AccountId, WithSecret)> {
    let found = sqlx::query_as!(
        Rotatable,
        "SELECT account_id, CASE WHEN previous_secret_until > clock_timestamp() THEN previous_secret_until END AS former_signs_until
         FROM webhook_endpoints WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE",
        id.uuid()
    )
    .fetch_optional(&mut *tx)
    .await?;
    let endpoint = found.ok_or_else(|| Error::no_such("webhook endpoint", id))?;
    if let Some(until) = endpoint.former_signs_until.filter(|_| !again) {
        return Err(Error::conflict(format!(
            "the previous secret signs until {until} and may be the only one that the merchant has; \
             another rotation ends it at once"
        )));
    }
    Ok((endpoint.account_id, endpoints::rotate_secret_in(tx, encryption, endpoint.account_id, id).await?))
}
