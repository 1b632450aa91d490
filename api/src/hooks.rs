//! Events that providers send. An event makes a look-up due, and is acknowledged when that is committed. So events may be
//! repeated, lost or in any order.

use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::routing::post;
use domain::{accounts, charges, payments};
use foundation::body::Reading;
use foundation::concurrency::{ConcurrencyLimit, FairConcurrencyLimit};
use foundation::error::Error;
use foundation::id::{AccountId, ProviderAccountId};
use providers::stripe;

use crate::app::App;
use crate::body::{self, MAX_BODY};
use crate::error::{ApiError, ApiResult};
use crate::path::Path;
use crate::quotas::Owner;
use crate::request_layer::client_address;
use crate::retry;

/// Stripe's largest events are smaller.
const MAX_EVENT: usize = 512 * 1024;
/// Events read at once that are longer than the bodies of other requests: they need more memory than is planned for a
/// connection.
static LONG_EVENTS: LazyLock<FairConcurrencyLimit<Owner>> =
    LazyLock::new(|| FairConcurrencyLimit::new(ConcurrencyLimit::new(AT_ONCE, PERMIT_TIMEOUT, BUSY), quota));
const AT_ONCE: usize = 32;
/// How long a request waits for its permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);
const BUSY: &str = "too many long events are being read; nothing was done, and it is safe to retry";
const SIGNATURE: &str = "Stripe-Signature";

const OF_NETWORK: usize = 2;
const OF_SITE: usize = 4;
const OF_ACCOUNT: usize = 4;

const fn quota(owner: &Owner) -> usize {
    match owner {
        Owner::Network(_) => OF_NETWORK,
        Owner::Site(_) => OF_SITE,
        Owner::Account(_) => OF_ACCOUNT,
    }
}

pub(crate) fn router() -> Router<App> {
    let events =
        post(async |State(app): State<App>, Path(id): Path<String>, request: Request| stripe(&app, &id, request).await);
    Router::new()
        .route("/hooks/stripe/{account}", events.fallback(async || ApiError::method_not_allowed()))
        .layer(from_fn(retry::run))
}

/// Receives an event of an account at Stripe. Until its signature is verified, the request is charged to its address.
async fn stripe(app: &App, account: &str, request: Request) -> ApiResult<StatusCode> {
    let address = client_address(&request);
    let decision = app.limits.acquire_unverified(address).await;
    if !decision.allowed {
        return Err(ApiError::rate_limited(decision));
    }
    let verified = verified(app, account, request, address).await;
    if !is_charged(&verified) {
        app.limits.refund_unverified(address).await;
    }
    let (account, at_stripe, event) = verified?;
    let decision = app.limits.acquire_event(account).await;
    if !decision.allowed {
        return Err(ApiError::rate_limited(decision));
    }
    look_up_soon(app, at_stripe, &event).await?;
    Ok(StatusCode::OK)
}

/// Whether the address is charged: not for an event that could not be verified at the time.
fn is_charged<T>(verified: &ApiResult<T>) -> bool {
    verified.as_ref().is_err_and(|error| error.status().is_client_error())
}

/// The event in a request, once its signature is verified, of an account and its account at Stripe.
async fn verified(
    app: &App,
    account: &str,
    request: Request,
    client: IpAddr,
) -> ApiResult<(AccountId, ProviderAccountId, stripe::Event)> {
    let (head, body) = request.into_parts();
    // One error for all. Only who sends no body, and has guessed an id, can tell that the account takes events.
    let rejected =
        || Error::invalid(SIGNATURE, "no recent signature of this body with the endpoint's secret of this account");
    let signature = head.headers.get(SIGNATURE).and_then(|value| value.to_str().ok());
    let signature = signature.and_then(|header| stripe::Signature::recent(header, app.clock.now()));
    let signature = signature.ok_or_else(rejected)?;
    let account: AccountId = account.parse().map_err(|_| rejected())?;
    let connected = accounts::at_stripe(&app.db, &app.encryption, account).await?;
    let (at_stripe, credentials) = connected.ok_or_else(rejected)?;
    let secret = credentials.webhook_secret.ok_or_else(rejected)?;
    let body = retry::read_body(&head.extensions, read(body, client, account)).await?;
    let event = stripe::Event::read(&signature, &body, &secret).ok_or_else(rejected)?;
    Ok((account, at_stripe, event))
}

/// Reads the body of an event. The permit of a long one is acquired when more than [`MAX_BODY`] has arrived, because a length
/// can be announced without sending anything.
async fn read(body: Body, client: IpAddr, account: AccountId) -> ApiResult<Bytes> {
    let unread = |error| body::unread(error, MAX_EVENT);
    let mut reading = Reading::begin(body, MAX_EVENT, body::TIMEOUT).map_err(unread)?;
    let permit = match reading.exceeds(MAX_BODY).await.map_err(unread)? {
        true => Some(LONG_EVENTS.acquire(Owner::of(client, account)).await?),
        false => None,
    };
    let bytes = reading.finish().await.map_err(unread)?;
    Ok(match permit {
        Some(permit) => permit.hold(bytes),
        None => bytes.into(),
    })
}

async fn look_up_soon(app: &App, at_stripe: ProviderAccountId, event: &stripe::Event) -> Result<(), Error> {
    if let Some(payment) = &event.payment {
        payments::inquire_soon(&app.db, at_stripe, payment, app.clock.now()).await?;
    }
    if let Some(reference) = &event.reference {
        charges::push_soon(&app.db, at_stripe, reference).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::Ipv6Addr;

    use foundation::time::Timestamp;
    use futures_util::stream::{self, StreamExt};
    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;

    /// A body of which this many bytes arrive, and no end.
    fn unfinished(length: usize) -> Body {
        let sent = stream::iter([Ok::<_, io::Error>(Bytes::from(vec![b'x'; length]))]);
        Body::from_stream(sent.chain(stream::pending()))
    }

    fn account(number: i64) -> AccountId {
        AccountId::new(Timestamp::from_millisecond(number).expect("in range"))
    }

    /// The address of a client in a site of its own.
    fn client(site: usize) -> IpAddr {
        Ipv6Addr::from_bits((site as u128) << 80).into()
    }

    /// How many of these events had a permit.
    async fn read_late(mut events: JoinSet<ApiResult<Bytes>>) -> usize {
        let mut read_late = 0;
        while let Some(read) = events.join_next().await {
            let status = read.expect("no panic").expect_err("no end").status();
            read_late += usize::from(status == StatusCode::REQUEST_TIMEOUT);
        }
        read_late
    }

    #[test]
    fn an_address_is_charged_for_what_is_wrong_only() {
        let refused = |error: Error| is_charged::<()>(&Err(error.into()));
        assert!(refused(Error::invalid(SIGNATURE, "wrong")));
        assert!(!refused(Error::Busy(BUSY)) && !refused(Error::internal("down")) && !is_charged(&Ok(())));
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_events_of_a_client_leave_permits_to_the_account() {
        let (one, mut unfinished_events) = (account(300), JoinSet::new());
        for _ in 0..20 {
            unfinished_events.spawn(read(unfinished(MAX_BODY + 1), client(300), one));
        }
        sleep(Duration::from_secs(1)).await;
        let long = || read(Body::from(vec![b'x'; MAX_EVENT]), client(301), one);
        assert_eq!(long().await.expect("a permit").len(), MAX_EVENT);
        assert_eq!(read_late(unfinished_events).await, OF_NETWORK);
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_events_of_eight_networks_of_a_site_have_the_permits_of_one_site() {
        let mut unfinished_events = JoinSet::new();
        for number in 0..20 {
            let client = Ipv6Addr::from_bits((310_u128 << 80) | ((number % 8) << 64)).into();
            unfinished_events.spawn(read(unfinished(MAX_BODY + 1), client, account(310 + (number % 8) as i64)));
        }
        assert_eq!(read_late(unfinished_events).await, OF_SITE);
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_events_of_some_accounts_keep_no_other_waiting() {
        let (accounts, mut unfinished_events) = ([1, 2, 3, 4].map(account), JoinSet::new());
        // Four accounts use up their quotas, and wait for more; other tests use the same permits. Half the events are too short
        // to need one.
        for number in 0..70 {
            unfinished_events.spawn(read(unfinished(MAX_BODY + 1), client(number), accounts[number % accounts.len()]));
            unfinished_events.spawn(read(unfinished(MAX_BODY), client(0), accounts[0]));
        }
        sleep(Duration::from_secs(1)).await;
        let long = read(Body::from(vec![b'x'; MAX_EVENT]), client(100), account(100)).await.expect("a permit");
        assert_eq!(long.len(), MAX_EVENT);
        let mut statuses = Vec::new();
        while let Some(read) = unfinished_events.join_next().await {
            statuses.push(read.expect("no panic").expect_err("no end").status());
        }
        let count = |wanted: StatusCode| statuses.iter().filter(|status| **status == wanted).count();
        assert_eq!(count(StatusCode::REQUEST_TIMEOUT), accounts.len() * OF_ACCOUNT + 70, "{statuses:?}");
        assert_eq!(count(StatusCode::SERVICE_UNAVAILABLE), 70 - accounts.len() * OF_ACCOUNT, "{statuses:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_permit_of_a_long_event_is_released_with_its_body() {
        let one = account(200);
        let mut events = Vec::new();
        for number in 0..OF_ACCOUNT {
            events.push(read(Body::from(vec![b'x'; MAX_EVENT]), client(200 + number), one).await.expect("a permit"));
        }
        let (copy, long) = (events[0].clone(), || read(Body::from(vec![b'x'; MAX_BODY + 1]), client(210), one));
        assert_eq!(long().await.expect_err("no permit").status(), StatusCode::SERVICE_UNAVAILABLE);
        events.clear();
        drop(copy);
        assert_eq!(long().await.expect("a permit").len(), MAX_BODY + 1);
        assert!(read(Body::from(vec![b'x'; MAX_EVENT + 1]), client(210), one).await.is_err());
    }
}
