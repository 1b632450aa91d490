//! Endpoint administration for operators. Only `ctl` calls these functions.

use serde::Serialize;
use sqlx::{PgConnection, PgPool};

use super::endpoints::{self, WithSecret};
use super::store::endpoints as store;
use super::{DisabledReason, EndpointStatus};
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
/// Only the database's.
pub async fn list(db: &PgPool, account: Option<AccountId>) -> Result<Vec<EndpointRow>> {
    store::list_all(db, account).await
}

/// The due deliveries of an endpoint.
#[derive(Debug, Serialize)]
pub struct EndpointBacklog {
    pub(super) id: WebhookEndpointId,
    pub(super) account: AccountId,
    pub(super) account_name: String,
    pub(super) mode: Mode,
    pub(super) url: String,
    pub(super) status: EndpointStatus,
    pub(super) failing_since: Option<Timestamp>,
    pub(super) paused_until: Option<Timestamp>,
    pub(super) signing_failed_since: Option<Timestamp>,
    /// Due deliveries, counted up to 10,000.
    pub(super) due: i64,
    /// Due deliveries that a worker has claimed.
    pub(super) under_way: i64,
    pub(super) oldest: Option<Timestamp>,
}

/// The endpoints with due deliveries, largest backlog first.
///
/// # Errors
/// Only the database's.
pub async fn backlog(db: &PgPool, account: Option<AccountId>, limit: i64) -> Result<Vec<EndpointBacklog>> {
    store::backlog(db, account, limit).await
}

/// Gives an endpoint a new secret, as [`endpoints::rotate_secret`] does, and returns its account. While the previous
/// secret still signs, it may be the only one that the merchant has, because the answer with the current one may have
/// been lost. Another rotation would end it at once, so that requires `again`.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if the previous secret still signs and `again` is not set.
pub async fn rotate_secret(
    tx: &mut PgConnection,
    encryption: &KeyRing,
    id: WebhookEndpointId,
    again: bool,
) -> Result<(AccountId, WithSecret)> {
    let endpoint = store::lock_to_rotate(&mut *tx, id).await?.ok_or_else(|| Error::no_such("webhook endpoint", id))?;
    if let Some(until) = endpoint.former_signs_until.filter(|_| !again) {
        return Err(Error::conflict(format!(
            "the previous secret signs until {until} and may be the only one that the merchant has; \
             another rotation ends it at once"
        )));
    }
    Ok((endpoint.account_id, endpoints::rotate_secret(tx, encryption, endpoint.account_id, id).await?))
}
