//! What an operator sees of endpoints and does to them. Only the operator's command line calls these.

use serde::Serialize;
use sqlx::{PgConnection, PgPool};

use super::endpoints::{self, WithSecret};
use super::store::endpoints as store;
use super::{DisabledReason, EndpointStatus};
use crate::accounts::Mode;
use crate::crypto::KeyRing;
use crate::error::{Error, Result};
use crate::id::{AccountId, WebhookEndpointId};
use crate::time::Timestamp;

/// An endpoint as an operator sees it.
#[derive(Debug)]
pub struct EndpointRow {
    /// Its id.
    pub id: WebhookEndpointId,
    /// Whose it is.
    pub account_id: AccountId,
    /// Where deliveries go.
    pub url: String,
    /// What it is told of; empty is every event.
    pub enabled_events: Vec<String>,
    /// Whether it is told at all.
    pub status: EndpointStatus,
    /// Why not.
    pub disabled_reason: Option<DisabledReason>,
    /// Since when no attempt has succeeded.
    pub failing_since: Option<Timestamp>,
    /// Until when it asked to be left alone.
    pub paused_until: Option<Timestamp>,
    /// Since when deliveries to it cannot be signed.
    pub signing_failed_since: Option<Timestamp>,
    /// Until when its former secret signs too.
    pub previous_secret_until: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Every endpoint of an account, or of all accounts, newest first; deleted ones are not shown.
///
/// # Errors
/// Only the database's.
pub async fn list(db: &PgPool, account: Option<AccountId>) -> Result<Vec<EndpointRow>> {
    store::list_all(db, account).await
}

/// What is due at an endpoint.
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
    /// Deliveries that are due, counted up to 10,000.
    pub(super) due: i64,
    /// Those among them that a worker has.
    pub(super) under_way: i64,
    pub(super) oldest: Option<Timestamp>,
}

/// The endpoints with deliveries that are due, the most first.
///
/// # Errors
/// Only the database's.
pub async fn backlog(db: &PgPool, account: Option<AccountId>, limit: i64) -> Result<Vec<EndpointBacklog>> {
    store::backlog(db, account, limit).await
}

/// Gives an endpoint a new secret, as [`endpoints::rotate_secret`] does. Answers whose it is. While a former secret signs, its present
/// one may be known to nobody, and the former the one that the merchant has: it is ended at once if `again` says so, and otherwise not.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if a former secret still signs.
pub async fn rotate_secret(
    tx: &mut PgConnection,
    encryption: &KeyRing,
    id: WebhookEndpointId,
    again: bool,
) -> Result<(AccountId, WithSecret)> {
    let found = store::lock_to_rotate(&mut *tx, id).await?.ok_or_else(|| Error::no_such("webhook endpoint", id))?;
    if let Some(until) = found.former_signs_until.filter(|_| !again) {
        return Err(Error::conflict(format!(
            "the former secret signs until {until}, and may be the one that the merchant has: another rotation ends it at once"
        )));
    }
    Ok((found.account_id, endpoints::rotate_secret(tx, encryption, found.account_id, id).await?))
}
