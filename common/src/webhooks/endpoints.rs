//! Endpoints: where a merchant hears of events. The secret that signs is shown when it is made and never again.

use std::time::Duration;

use sqlx::{PgConnection, PgExecutor, PgPool};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::store::endpoints as store;
use super::{DisabledReason, EndpointStatus, EndpointView, START_WINDOW, secrets};
use crate::accounts::{self, Mode};
use crate::crypto::{KeyRing, Secret};
use crate::db::{self, Db};
use crate::egress::{Policy, Target};
use crate::error::{Error, Result};
use crate::events::{self, EventType};
use crate::id::{AccountId, WebhookEndpointId};
use crate::idempotency;
use crate::page::{Page, PageRequest, unknown_cursor};
use crate::time::Timestamp;

/// Endpoints of an account at most; deleted ones do not count.
pub const MAX_ENDPOINTS: i64 = 50;
/// How long the former secret signs too, after a rotation.
pub const FORMER_SECRET_SIGNS: Duration = Duration::from_secs(24 * 3600);
/// How often a deletion looks whether attempts are still on their way.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An endpoint as stored, without its secrets.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its id.
    pub id: WebhookEndpointId,
    /// Where deliveries go.
    pub url: String,
    /// The names of the events that it is told of; empty is every event, those of later versions included.
    pub enabled_events: Vec<String>,
    /// Whether it is told at all.
    pub status: EndpointStatus,
    /// Why not, of a disabled one.
    pub disabled_reason: Option<DisabledReason>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Where deliveries may go: a URL that has been checked.
#[derive(Debug)]
pub struct EndpointUrl(String);

impl EndpointUrl {
    /// Reads the URL of a request. Where its name leads is looked at when something is sent, each time.
    ///
    /// # Errors
    /// 422 `url`.
    pub fn parse(url: String, policy: Policy) -> Result<Self> {
        match Target::parse(&url, policy) {
            Ok(_) => Ok(Self(url)),
            Err(unfit) => Err(Error::invalid("url", format!("url {unfit}"))),
        }
    }
}

/// An endpoint to be made.
#[derive(Debug)]
pub struct NewEndpoint {
    /// Where deliveries are to go.
    pub url: EndpointUrl,
    /// What it is to be told of; empty is every event.
    pub enabled_events: Vec<EventType>,
}

/// What an update changes; `None` changes nothing.
#[derive(Debug, Default)]
pub struct EndpointChange {
    /// Where deliveries go.
    pub url: Option<EndpointUrl>,
    /// Replaces the whole list; empty is every event.
    pub enabled_events: Option<Vec<EventType>>,
    /// Enables or disables it.
    pub status: Option<EndpointStatus>,
}

/// An endpoint with a secret just made: the only time that it is shown.
#[derive(Clone, Debug)]
pub struct WithSecret {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// What its deliveries are signed with.
    pub secret: Secret<String>,
}

/// What addresses an account in this mode may be told at. `allow_loopback` is the operator's word for test accounts.
pub const fn policy(mode: Mode, allow_loopback: bool) -> Policy {
    match mode {
        Mode::Test => Policy { allow_http: true, allow_loopback },
        Mode::Live => Policy { allow_http: false, allow_loopback: false },
    }
}

/// Each name once, in the order sent.
fn distinct(events: &[EventType]) -> Vec<String> {
    let first = |(i, event): &(usize, &EventType)| !events[..*i].contains(event);
    events.iter().enumerate().filter(first).map(|(_, event)| event.name().to_owned()).collect()
}

impl NewEndpoint {
    /// The endpoint that it makes, with a secret; nothing is written yet.
    pub fn with_secret(self, now: Timestamp) -> WithSecret {
        let endpoint = Endpoint {
            id: WebhookEndpointId::new(now),
            enabled_events: distinct(&self.enabled_events),
            url: self.url.0,
            status: EndpointStatus::Enabled,
            disabled_reason: None,
            created_at: now,
        };
        WithSecret { endpoint, secret: secrets::make() }
    }
}

/// Writes an endpoint, its secret encrypted.
///
/// # Errors
/// [`Error::Conflict`] if the account has [`MAX_ENDPOINTS`]. Creations of one account wait for each other, so that no two
/// of them are the last one.
pub async fn insert(tx: &mut PgConnection, encryption: &KeyRing, account: AccountId, made: &WithSecret) -> Result<()> {
    accounts::lock(tx, account).await?;
    if store::count(tx, account).await? >= MAX_ENDPOINTS {
        return Err(Error::conflict(format!("the account has {MAX_ENDPOINTS} endpoints; delete one first")));
    }
    let sealed = secrets::seal(encryption, &made.secret, made.endpoint.id);
    store::insert(tx, account, &made.endpoint, &sealed).await
}

/// One endpoint.
///
/// # Errors
/// [`Error::NotFound`], for another account's and a deleted one too.
pub async fn retrieve(db: &PgPool, account: AccountId, id: WebhookEndpointId) -> Result<Endpoint> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("webhook endpoint", id))
}

/// Changes what is named, and nothing else. Enabling it, or another URL, is a fresh start: failures until then and a pause
/// that was asked for are forgotten.
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
    let fresh_start = apply(&mut endpoint, change);
    store::save(&mut tx, account, &endpoint, fresh_start).await?;
    db::commit(tx).await?;
    Ok(endpoint)
}

/// Whether the failures until now no longer count.
fn apply(endpoint: &mut Endpoint, change: EndpointChange) -> bool {
    let moved = change.url.as_ref().is_some_and(|url| url.0 != endpoint.url);
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
    moved || change.status == Some(EndpointStatus::Enabled)
}

/// Gives an endpoint a new secret. The present one signs too for [`FORMER_SECRET_SIGNS`]; one before that, none any more:
/// no more than two sign.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn rotate_secret(
    db: impl PgExecutor<'_>,
    encryption: &KeyRing,
    account: AccountId,
    id: WebhookEndpointId,
) -> Result<WithSecret> {
    let secret = secrets::make();
    let sealed = secrets::seal(encryption, &secret, id);
    let rotated = store::rotate(db, account, id, &sealed, FORMER_SECRET_SIGNS).await?;
    let endpoint = rotated.ok_or_else(|| Error::no_such("webhook endpoint", id))?;
    Ok(WithSecret { endpoint, secret })
}

/// Disables an endpoint for what its attempts have met, and tells the account's other endpoints. One that is disabled or
/// deleted already stays as it is.
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
    // After the change, so that it is not told of its own end.
    let (livemode, view) = (mode == Mode::Live, EndpointView::new(&endpoint, mode == Mode::Live));
    events::append(&mut tx, account, livemode, EventType::WebhookEndpointDisabled, &view, now).await?;
    tx.commit().await?;
    tracing::warn!(endpoint = %id, reason = reason.name(), "a webhook endpoint was disabled; its merchant's other endpoints are told");
    Ok(())
}

/// Deletes an endpoint. No attempt begins after this has returned: a claim holds the row's key, which this lock waits for,
/// and an attempt that was claimed before begins within [`START_WINDOW`].
///
/// # Errors
/// [`Error::NotFound`], for one that is deleted too.
pub async fn delete(db: &PgPool, account: AccountId, id: WebhookEndpointId, now: Timestamp) -> Result<()> {
    let mut tx = db::begin(db).await?;
    if !store::lock_against_claims(&mut tx, account, id).await? {
        return Err(Error::no_such("webhook endpoint", id));
    }
    store::delete(&mut tx, account, id, now).await?;
    idempotency::forget_endpoint(&mut tx, account, id).await?;
    db::commit(tx).await?;
    attempts_have_begun(db, account, id).await;
    Ok(())
}

/// Returns when no attempt on an endpoint that takes no more claims can begin any more. The deletion is a fact by now, so
/// nothing that goes wrong here may become an error: whoever cannot look waits to the end.
async fn attempts_have_begun(db: &PgPool, account: AccountId, id: WebhookEndpointId) {
    let until = Instant::now() + START_WINDOW;
    while let Ok(looked) = timeout_at(until, store::has_leases(db, account, id)).await {
        match looked {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => tracing::warn!(%error, endpoint = %id, "leases could not be read; waiting on"),
        }
        sleep_until(until.min(Instant::now() + LOOK_EVERY)).await;
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
    fn a_live_account_is_told_over_https_alone_whatever_the_operator_allows() {
        let fits =
            |url: &str, mode, allow_loopback| EndpointUrl::parse(url.into(), policy(mode, allow_loopback)).is_ok();
        assert!(fits("https://a.example/in", Mode::Live, false) && fits("http://a.example/in", Mode::Test, false));
        assert!(!fits("http://a.example/in", Mode::Live, true));
        assert!(!fits("https://127.0.0.1/in", Mode::Live, true) && !fits("http://127.0.0.1/in", Mode::Test, false));
        assert!(fits("http://127.0.0.1/in", Mode::Test, true));
        assert!(!fits("http://10.0.0.1/in", Mode::Test, true), "loopback's permission opens nothing else");
    }

    #[test]
    fn each_event_is_kept_once() {
        let sent = [EventType::PaymentSettled, EventType::PaymentCaptured, EventType::PaymentSettled];
        assert_eq!(distinct(&sent), ["payment.settled", "payment.captured"]);
        assert!(distinct(&[]).is_empty());
    }

    #[test]
    fn enabling_and_another_url_are_a_fresh_start() {
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
        assert_eq!(endpoint.disabled_reason, Some(DisabledReason::Failing), "a new URL alone enables nothing");
        assert!(apply(&mut endpoint, status(EndpointStatus::Enabled)));
        assert_eq!(endpoint.disabled_reason, None);
        assert!(!apply(&mut endpoint, status(EndpointStatus::Disabled)));
        assert_eq!(endpoint.disabled_reason, Some(DisabledReason::Merchant));
    }
}
