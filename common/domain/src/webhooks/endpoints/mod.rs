//! Endpoints: the URLs at which a merchant receives events. A signing secret is shown once, when it is generated.

mod deletion;

use std::time::Duration;

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

pub use deletion::{START_WINDOW, delete};

use super::secrets::{self, previous_secret_place, secret_place};
use super::status::{DisabledReason, EndpointStatus};
use crate::accounts::{self, Mode};
use crate::events::EventType;
use egress::{Policy, Target};
use foundation::crypto::{KeyRing, Secret};
use foundation::db::{self};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, WebhookEndpointId};
use foundation::merchant_data::{Metadata, MetadataChange};
use foundation::page::{Page, PageRequest};
use foundation::time::Timestamp;

/// Endpoints of an account at most; deleted ones do not count.
pub const MAX_ENDPOINTS: i64 = 50;

/// How long the previous secret signs too after a rotation.
pub const PREVIOUS_SECRET_VALIDITY: Duration = Duration::from_secs(24 * 3600);

/// An endpoint as stored, without its secrets.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub id: WebhookEndpointId,
    pub url: String,
    /// Subscribed event types; empty means all, including those that later versions add.
    pub enabled_events: Vec<String>,
    pub status: EndpointStatus,
    pub disabled_reason: Option<DisabledReason>,
    pub metadata: Option<Metadata>,
    /// Rises with each change, also of the secret.
    pub version: i64,
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
    pub metadata: Option<Metadata>,
}

/// The fields of an update; `None` leaves a field unchanged.
#[derive(Debug, Default)]
pub struct EndpointChange {
    pub url: Option<EndpointUrl>,
    /// Replaces the whole list; empty means all.
    pub enabled_events: Option<Vec<EventType>>,
    pub status: Option<EndpointStatus>,
    pub metadata: Option<MetadataChange>,
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
            metadata: self.metadata,
            version: 1,
            created_at: now,
        };
        WithSecret { endpoint, secret: secrets::generate() }
    }
}

/// The common columns of endpoints that are not deleted.
macro_rules! select_endpoints {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Endpoint,
            "SELECT id, url, enabled_events, status, disabled_reason, metadata, version, created_at FROM webhook_endpoints
             WHERE deleted_at IS NULL AND " + $rest,
            $($arg),*
        )
    };
}

/// Writes an endpoint with its secret encrypted. Locks the account, so that concurrent creations cannot exceed
/// [`MAX_ENDPOINTS`].
///
/// # Errors
/// [`Error::Conflict`] if the account has [`MAX_ENDPOINTS`].
pub async fn insert(tx: &mut PgConnection, encryption: &KeyRing, account: AccountId, new: &WithSecret) -> Result<()> {
    accounts::lock(tx, account).await?;
    if count(tx, account).await? >= MAX_ENDPOINTS {
        return Err(Error::conflict(format!("the account already has {MAX_ENDPOINTS} endpoints; delete one first")));
    }
    let sealed = encryption.seal(new.secret.expose(), &secret_place(account, new.endpoint.id));
    sqlx::query!(
        "INSERT INTO webhook_endpoints (id, account_id, url, enabled_events, secret, created_at, metadata)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        new.endpoint.id.uuid(),
        account.uuid(),
        new.endpoint.url,
        &new.endpoint.enabled_events,
        &sealed,
        new.endpoint.created_at,
        new.endpoint.metadata.as_ref() as Option<&Metadata>,
    )
    .execute(tx)
    .await?;
    Ok(())
}

async fn count(tx: &mut PgConnection, account: AccountId) -> Result<i64> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM webhook_endpoints WHERE account_id = $1 AND deleted_at IS NULL"#,
        account.uuid()
    )
    .fetch_one(tx)
    .await?;
    Ok(count)
}

/// One endpoint.
///
/// # Errors
/// [`Error::NotFound`], also for a deleted endpoint and one of another account.
pub async fn retrieve(db: &PgPool, account: AccountId, id: WebhookEndpointId) -> Result<Endpoint> {
    find(db, account, id).await?.ok_or_else(|| Error::no_such("webhook endpoint", id))
}

pub(super) async fn find(
    db: impl PgExecutor<'_>,
    account: AccountId,
    id: WebhookEndpointId,
) -> Result<Option<Endpoint>> {
    let query = select_endpoints!("account_id = $1 AND id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

/// Whether the endpoint belongs to the account, even if it is deleted.
pub(super) async fn has_existed(db: &PgPool, account: AccountId, id: WebhookEndpointId) -> Result<bool> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM webhook_endpoints WHERE account_id = $1 AND id = $2) AS "found!""#,
        account.uuid(),
        id.uuid()
    )
    .fetch_one(db)
    .await?;
    Ok(found)
}

/// Applies an update. Enabling the endpoint or changing its URL clears its failure history and any pause it requested.
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
    let mut endpoint = lock(&mut tx, account, id).await?.ok_or_else(|| Error::no_such("webhook endpoint", id))?;
    let resets_failures = apply(&mut endpoint, change)?;
    save(&mut tx, account, &mut endpoint, resets_failures).await?;
    tx.commit().await?;
    Ok(endpoint)
}

pub(super) async fn lock(tx: &mut PgConnection, account: AccountId, id: WebhookEndpointId) -> Result<Option<Endpoint>> {
    let query = select_endpoints!("account_id = $1 AND id = $2 FOR NO KEY UPDATE", account.uuid(), id.uuid());
    Ok(query.fetch_optional(tx).await?)
}

/// Locks an endpoint against being disabled or deleted, and returns its status; `None` if it is deleted.
pub(super) async fn lock_shared(
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
pub(super) async fn save(
    tx: &mut PgConnection,
    account: AccountId,
    endpoint: &mut Endpoint,
    resets_failures: bool,
) -> Result<()> {
    endpoint.version = sqlx::query_scalar!(
        "UPDATE webhook_endpoints SET url = $3, enabled_events = $4, status = $5, disabled_reason = $6,
                failing_since = CASE WHEN NOT $7 THEN failing_since END,
                paused_until = CASE WHEN NOT $7 THEN paused_until END,
                fresh_since = CASE WHEN $7 THEN clock_timestamp() ELSE fresh_since END, metadata = $8
         WHERE account_id = $1 AND id = $2 RETURNING version",
        account.uuid(),
        endpoint.id.uuid(),
        endpoint.url,
        &endpoint.enabled_events,
        endpoint.status as EndpointStatus,
        endpoint.disabled_reason.map(|reason| reason.name()),
        resets_failures,
        endpoint.metadata.as_ref() as Option<&Metadata>,
    )
    .fetch_one(tx)
    .await?;
    Ok(())
}

/// Applies the change; returns whether past failures no longer count.
///
/// # Errors
/// 422 `metadata` if it is too large.
fn apply(endpoint: &mut Endpoint, change: EndpointChange) -> Result<bool> {
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
    if let Some(metadata) = change.metadata {
        endpoint.metadata = metadata.apply(endpoint.metadata.take())?;
    }
    Ok(new_url || change.status == Some(EndpointStatus::Enabled))
}

/// Gives an endpoint a new secret. The one it replaces signs too for [`PREVIOUS_SECRET_VALIDITY`]; an older one stops
/// at once, so that at most two secrets sign.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn rotate_secret(
    pool: &PgPool,
    encryption: &KeyRing,
    account: AccountId,
    id: WebhookEndpointId,
) -> Result<WithSecret> {
    let mut tx = db::begin(pool).await?;
    let rotated = rotate_secret_in(&mut tx, encryption, account, id).await?;
    tx.commit().await?;
    Ok(rotated)
}

/// As [`rotate_secret`], in a transaction.
///
/// # Errors
/// [`Error::NotFound`].
pub(super) async fn rotate_secret_in(
    tx: &mut PgConnection,
    encryption: &KeyRing,
    account: AccountId,
    id: WebhookEndpointId,
) -> Result<WithSecret> {
    let former = sqlx::query_scalar!(
        "SELECT secret FROM webhook_endpoints WHERE account_id = $1 AND id = $2 AND deleted_at IS NULL FOR NO KEY UPDATE",
        account.uuid(),
        id.uuid(),
    );
    let former = former.fetch_optional(&mut *tx).await?.ok_or_else(|| Error::no_such("webhook endpoint", id))?;
    // One that no configured key opens stays as it is, so that adding the key makes it sign again.
    let opened = encryption.open(&former, &secret_place(account, id));
    let previous = opened.map(|secret| encryption.seal(secret.expose(), &previous_secret_place(account, id)));
    let secret = secrets::generate();
    let rotated = sqlx::query_as!(
        Endpoint,
        "UPDATE webhook_endpoints SET previous_secret = $5, secret = $3, version = version + 1,
                previous_secret_until = clock_timestamp() + make_interval(secs => $4)
         WHERE account_id = $1 AND id = $2 AND deleted_at IS NULL
         RETURNING id, url, enabled_events, status, disabled_reason, metadata, version, created_at",
        account.uuid(),
        id.uuid(),
        encryption.seal(secret.expose(), &secret_place(account, id)),
        PREVIOUS_SECRET_VALIDITY.as_secs_f64(),
        previous.unwrap_or(former),
    )
    .fetch_one(tx)
    .await?;
    Ok(WithSecret { endpoint: rotated, secret })
}

/// A page of endpoints, newest first.
///
/// # Errors
/// 422 for a cursor that names no endpoint of the account.
pub async fn list(db: &PgPool, account: AccountId, page: PageRequest<WebhookEndpointId>) -> Result<Page<Endpoint>> {
    page.check_cursor(|cursor| find(db, account, cursor)).await?;
    let query = select_endpoints!(
        "(account_id, id) < ($1, $2) AND account_id >= $1 ORDER BY account_id DESC, id DESC LIMIT $3",
        account.uuid(),
        page.starting_after.map_or(Uuid::max(), WebhookEndpointId::uuid),
        page.fetch(),
    );
    Ok(page.page(query.fetch_all(db).await?))
}

/// An endpoint whose deliveries fail.
#[derive(Clone, Debug)]
pub struct Failing {
    pub id: WebhookEndpointId,
    pub url: String,
    /// Since when none has succeeded, if that is known.
    pub since: Option<Timestamp>,
}

/// The endpoints whose deliveries fail at present, and those that were disabled because they failed, oldest first.
///
/// # Errors
/// Database errors only.
pub async fn failing(db: &PgPool, account: AccountId) -> Result<Vec<Failing>> {
    let query = sqlx::query_as!(
        Failing,
        "SELECT id, url, failing_since AS since FROM webhook_endpoints WHERE account_id = $1 AND deleted_at IS NULL
             AND CASE status WHEN 'enabled' THEN failing_since IS NOT NULL ELSE disabled_reason <> 'merchant' END",
        account.uuid(),
    );
    let mut failing = query.fetch_all(db).await?;
    // Here, because for the order Postgres would read the endpoints of all accounts. An account has few.
    failing.sort_unstable_by_key(|endpoint| endpoint.id);
    Ok(failing)
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
            metadata: None,
            version: 1,
            created_at: now,
        };
        let url = |url: &str| EndpointChange { url: Some(EndpointUrl(url.into())), ..EndpointChange::default() };
        let status = |status| EndpointChange { status: Some(status), ..EndpointChange::default() };
        assert!(!apply(&mut endpoint, EndpointChange::default()).expect("valid"));
        assert!(!apply(&mut endpoint, url("https://a.example")).expect("valid"));
        assert!(apply(&mut endpoint, url("https://b.example")).expect("valid"));
        assert_eq!(endpoint.disabled_reason, Some(DisabledReason::Failing), "a new URL does not enable the endpoint");
        assert!(apply(&mut endpoint, status(EndpointStatus::Enabled)).expect("valid"));
        assert_eq!(endpoint.disabled_reason, None);
        assert!(!apply(&mut endpoint, status(EndpointStatus::Disabled)).expect("valid"));
        assert_eq!(endpoint.disabled_reason, Some(DisabledReason::Merchant));
    }
}
