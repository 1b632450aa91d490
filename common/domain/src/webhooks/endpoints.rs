//! Endpoints: the URLs at which a merchant receives events. A signing secret is shown once, when it is generated.

use std::time::Duration;

use sqlx::{PgConnection, PgExecutor, PgPool};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::store::endpoints as store;
use super::{DisabledReason, EndpointStatus, EndpointView, START_WINDOW, secrets};
use crate::accounts::{self, Mode};
use crate::events::{self, EventType};
use crate::idempotency;
use egress::{Policy, Target};
use foundation::crypto::{KeyRing, Secret};
use foundation::db::{self, Db};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, WebhookEndpointId};
use foundation::page::{Page, PageRequest, unknown_cursor};
use foundation::time::Timestamp;

/// Endpoints of an account at most; deleted ones do not count.
pub const MAX_ENDPOINTS: i64 = 50;
/// How long the previous secret signs too after a rotation.
pub const PREVIOUS_SECRET_VALIDITY: Duration = Duration::from_secs(24 * 3600);
/// How often a deletion checks whether attempts are still under way.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An endpoint as stored, without its secrets.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub id: WebhookEndpointId,
    pub url: String,
    /// Subscribed event types; empty means all, including those that later versions add.
    pub enabled_events: Vec<String>,
    pub status: EndpointStatus,
    pub disabled_reason: Option<DisabledReason>,
    pub created_at: Timestamp,
}

/// A validated URL for deliveries.
#[derive(Debug)]
pub struct EndpointUrl(String);

impl EndpointUrl {
    /// Validates the URL of a request. The host is resolved and checked at each delivery, not here.
    ///
    /// # Errors
    /// 422 `url`.
    pub fn parse(url: String, policy: Policy) -> Result<Self> {
        match Target::parse(&url, policy) {
            Ok(_) => Ok(Self(url)),
            Err(error) => Err(Error::invalid("url", format!("url {error}"))),
        }
    }
}

/// The fields of an endpoint to create.
#[derive(Debug)]
pub struct NewEndpoint {
    pub url: EndpointUrl,
    /// Subscribed event types; empty means all.
    pub enabled_events: Vec<EventType>,
}

/// The fields of an update; `None` leaves a field unchanged.
#[derive(Debug, Default)]
pub struct EndpointChange {
    pub url: Option<EndpointUrl>,
    /// Replaces the whole list; empty means all.
    pub enabled_events: Option<Vec<EventType>>,
    pub status: Option<EndpointStatus>,
}

/// An endpoint with its newly generated secret, which is shown only this once.
#[derive(Clone, Debug)]
pub struct WithSecret {
    pub endpoint: Endpoint,
    pub secret: Secret<String>,
}

/// Which URLs an account in this mode may use. `allow_loopback` is the operator's setting for test accounts.
pub const fn policy(mode: Mode, allow_loopback: bool) -> Policy {
    match mode {
        Mode::Test => Policy { allow_http: true, allow_loopback },
        Mode::Live => Policy { allow_http: false, allow_loopback: false },
    }
}

/// Each name once, in request order.
fn distinct(events: &[EventType]) -> Vec<String> {
    let first = |(i, event): &(usize, &EventType)| !events[..*i].contains(event);
    events.iter().enumerate().filter(first).map(|(_, event)| event.name().to_owned()).collect()
}

impl NewEndpoint {
    /// The endpoint with a new secret. Writes nothing.
    pub fn with_secret(self, now: Timestamp) -> WithSecret {
        let endpoint = Endpoint {
            id: WebhookEndpointId::new(now),
            enabled_events: distinct(&self.enabled_events),
            url: self.url.0,
            status: EndpointStatus::Enabled,
            disabled_reason: None,
            created_at: now,
        };
        WithSecret { endpoint, secret: secrets::generate() }
    }
}

/// Writes an endpoint with its secret encrypted. Locks the account, so that concurrent creations cannot exceed
/// [`MAX_ENDPOINTS`].
///
/// # Errors
/// [`Error::Conflict`] if the account has [`MAX_ENDPOINTS`].
pub async fn insert(tx: &mut PgConnection, encryption: &KeyRing, account: AccountId, new: &WithSecret) -> Result<()> {
    accounts::lock(tx, account).await?;
    if store::count(tx, account).await? >= MAX_ENDPOINTS {
        return Err(Error::conflict(format!("the account already has {MAX_ENDPOINTS} endpoints; delete one first")));
    }
    let sealed = secrets::seal(encryption, &new.secret, new.endpoint.id);
    store::insert(tx, account, &new.endpoint, &sealed).await
}

/// One endpoint.
///
/// # Errors
/// [`Error::NotFound`], also for a deleted endpoint and one of another account.
pub async fn retrieve(db: &PgPool, account: AccountId, id: WebhookEndpointId) -> Result<Endpoint> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("webhook endpoint", id))
}

/// Applies an update. Enabling the endpoint or changing its URL clears its failure history and any pause it asked for.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn update(
    db: &PgPool,
    account: AccountId,
    id: WebhookEndpointId,
    change: EndpointChange,
) -> Result<Endpoint> {
    let mut tx = db::begin(db).await?;
    let mut endpoint =
        store::lock(&mut tx, account, id).await?.ok_or_else(|| Error::no_such("webhook endpoint", id))?;
    let resets_failures = apply(&mut endpoint, change);
    store::save(&mut tx, account, &endpoint, resets_failures).await?;
    db::commit(tx).await?;
    Ok(endpoint)
}

/// Applies the change; returns whether past failures no longer count.
fn apply(endpoint: &mut Endpoint, change: EndpointChange) -> bool {
    let new_url = change.url.as_ref().is_some_and(|url| url.0 != endpoint.url);
    if let Some(EndpointUrl(url)) = change.url {
        endpoint.url = url;
    }
    if let Some(events) = change.enabled_events {
        endpoint.enabled_events = distinct(&events);
    }
    if let Some(status) = change.status {
        endpoint.status = status;
        endpoint.disabled_reason = match status {
            EndpointStatus::Enabled => None,
            EndpointStatus::Disabled => Some(DisabledReason::Merchant),
        };
    }
    new_url || change.status == Some(EndpointStatus::Enabled)
}

/// Gives an endpoint a new secret. The one it replaces signs too for [`PREVIOUS_SECRET_VALIDITY`]; an older one stops
/// at once, so that at most two secrets sign.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn rotate_secret(
    db: impl PgExecutor<'_>,
    encryption: &KeyRing,
    account: AccountId,
    id: WebhookEndpointId,
) -> Result<WithSecret> {
    let secret = secrets::generate();
    let sealed = secrets::seal(encryption, &secret, id);
    let rotated = store::rotate(db, account, id, &sealed, PREVIOUS_SECRET_VALIDITY).await?;
    let endpoint = rotated.ok_or_else(|| Error::no_such("webhook endpoint", id))?;
    Ok(WithSecret { endpoint, secret })
}

/// Disables an endpoint because of the results of its attempts, and emits an event for the account's other endpoints.
/// Does nothing if the endpoint is already disabled or deleted.
pub(super) async fn disable(
    db: &Db,
    caller: (AccountId, Mode),
    id: WebhookEndpointId,
    reason: DisabledReason,
    now: Timestamp,
) -> Result<()> {
    let (account, mode) = caller;
    let mut tx = db.begin().await?;
    let Some(mut endpoint) = store::lock(&mut tx, account, id).await? else { return Ok(()) };
    if endpoint.status == EndpointStatus::Disabled {
        return Ok(());
    }
    endpoint.status = EndpointStatus::Disabled;
    endpoint.disabled_reason = Some(reason);
    store::save(&mut tx, account, &endpoint, false).await?;
    // After the change, so that the disabled endpoint gets no delivery of this event.
    let (livemode, view) = (mode == Mode::Live, EndpointView::new(&endpoint, mode == Mode::Live));
    events::append(&mut tx, account, livemode, EventType::WebhookEndpointDisabled, &view, now).await?;
    tx.commit().await?;
    tracing::warn!(
        endpoint = %id,
        reason = reason.name(),
        "webhook endpoint disabled; the account's other endpoints are notified"
    );
    Ok(())
}

/// Deletes an endpoint. No attempt begins after this returns: a claim takes a key-share lock on the row, which this
/// lock waits for, and an attempt claimed before that begins within [`START_WINDOW`].
///
/// # Errors
/// [`Error::NotFound`], also for a deleted endpoint.
pub async fn delete(db: &PgPool, account: AccountId, id: WebhookEndpointId, now: Timestamp) -> Result<()> {
    let mut tx = db::begin(db).await?;
    if !store::lock_against_claims(&mut tx, account, id).await? {
        return Err(Error::no_such("webhook endpoint", id));
    }
    store::delete(&mut tx, account, id, now).await?;
    idempotency::delete_for_endpoint(&mut tx, account, id).await?;
    db::commit(tx).await?;
    wait_for_claimed_attempts(db, account, id).await;
    Ok(())
}

/// Waits until no claimed attempt on a deleted endpoint can still begin. The deletion is already committed, so a
/// failure here must not become an error: if the leases cannot be read, this waits for the whole window.
async fn wait_for_claimed_attempts(db: &PgPool, account: AccountId, id: WebhookEndpointId) {
    let until = Instant::now() + START_WINDOW;
    while let Ok(leased) = timeout_at(until, store::has_leases(db, account, id)).await {
        match leased {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => tracing::warn!(%error, endpoint = %id, "leases could not be read; still waiting"),
        }
        sleep_until(until.min(Instant::now() + POLL_INTERVAL)).await;
    }
}

/// A page of endpoints, newest first.
///
/// # Errors
/// 422 for a cursor that names no endpoint of the account.
pub async fn list(db: &PgPool, account: AccountId, page: PageRequest<WebhookEndpointId>) -> Result<Page<Endpoint>> {
    if let Some(cursor) = page.starting_after
        && store::find(db, account, cursor).await?.is_none()
    {
        return Err(unknown_cursor());
    }
    Ok(page.page(store::list(db, account, page.starting_after, page.fetch()).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_accounts_require_https_even_where_loopback_is_allowed() {
        let is_valid =
            |url: &str, mode, allow_loopback| EndpointUrl::parse(url.into(), policy(mode, allow_loopback)).is_ok();
        assert!(
            is_valid("https://a.example/in", Mode::Live, false) && is_valid("http://a.example/in", Mode::Test, false)
        );
        assert!(!is_valid("http://a.example/in", Mode::Live, true));
        assert!(
            !is_valid("https://127.0.0.1/in", Mode::Live, true) && !is_valid("http://127.0.0.1/in", Mode::Test, false)
        );
        assert!(is_valid("http://127.0.0.1/in", Mode::Test, true));
        assert!(!is_valid("http://10.0.0.1/in", Mode::Test, true), "allowing loopback allows no other private address");
    }

    #[test]
    fn duplicate_event_types_are_removed() {
        let sent = [EventType::PaymentSettled, EventType::PaymentCaptured, EventType::PaymentSettled];
        assert_eq!(distinct(&sent), ["payment.settled", "payment.captured"]);
        assert!(distinct(&[]).is_empty());
    }

    #[test]
    fn enabling_and_a_new_url_reset_the_failure_history() {
        let now = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        let mut endpoint = Endpoint {
            id: WebhookEndpointId::new(now),
            url: "https://a.example".into(),
            enabled_events: vec![],
            status: EndpointStatus::Disabled,
            disabled_reason: Some(DisabledReason::Failing),
            created_at: now,
        };
        let url = |url: &str| EndpointChange { url: Some(EndpointUrl(url.into())), ..EndpointChange::default() };
        let status = |status| EndpointChange { status: Some(status), ..EndpointChange::default() };
        assert!(!apply(&mut endpoint, EndpointChange::default()));
        assert!(!apply(&mut endpoint, url("https://a.example")));
        assert!(apply(&mut endpoint, url("https://b.example")));
        assert_eq!(endpoint.disabled_reason, Some(DisabledReason::Failing), "a new URL does not enable the endpoint");
        assert!(apply(&mut endpoint, status(EndpointStatus::Enabled)));
        assert_eq!(endpoint.disabled_reason, None);
        assert!(!apply(&mut endpoint, status(EndpointStatus::Disabled)));
        assert_eq!(endpoint.disabled_reason, Some(DisabledReason::Merchant));
    }
}
