//! A double of Stripe: the part of its API that our adapter uses, with idempotency keys, lost responses, delays, rate
//! limits, restricted keys, a search that lags, challenges, disputes and signed events.
//!
//! It refuses parameters that Stripe does not have, and never returns a property that Stripe's published description
//! lacks (`testkit/data/stripe/api.json`). It knows no fees, no currency conversion, no payouts and no bank accounts, and
//! its cards behave as [`CardBehavior`] says. Nothing that passes against it has been run against Stripe itself:
//! `./dev stripe-check` does that.

mod api;
mod browser;
mod events;
mod ledger;
mod parameters;
mod remote;
mod server;
mod shapes;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot, watch};

use self::ledger::Ledger;
use self::remote::Remote;

pub use self::events::sign;
pub use self::ledger::CardBehavior;

/// The usual time from a capture until its money is available.
pub const AVAILABLE_AFTER: Duration = Duration::from_secs(2 * 24 * 3600);
/// How long idempotency keys are remembered.
pub const KEYS_ARE_KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long a new object is missing from search results.
pub const SEARCH_LAG: Duration = Duration::from_secs(60);

/// The keys of an account, as a merchant copies them from the dashboard.
#[derive(Clone, Debug)]
pub struct StripeKeys {
    pub secret_key: String,
    pub publishable_key: String,
    pub webhook_secret: String,
}

impl StripeKeys {
    /// As `ctl accounts connect` reads them.
    #[must_use]
    pub fn json(&self) -> String {
        let Self { secret_key, publishable_key, webhook_secret } = self;
        serde_json::json!({
            "secret_key": secret_key, "publishable_key": publishable_key, "webhook_secret": webhook_secret,
        })
        .to_string()
    }
}

/// Faults of the next requests.
#[derive(Default)]
struct Faults {
    /// Whether requests are held before they are executed.
    hold: watch::Sender<bool>,
    /// Notified by each request that is held.
    held: Notify,
    state: Mutex<FaultState>,
}

#[derive(Default)]
struct FaultState {
    /// The number of responses to POST requests that are lost after their execution.
    lose: usize,
    /// The number of POST requests whose response is an error after their execution, which their key then repeats.
    broken: usize,
    /// The status with which every POST request is refused unread.
    refuse: Option<u16>,
    delay: Duration,
}

/// The clock of the double.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    /// Seconds since 1970 at which it stands still.
    fixed: Option<i64>,
    /// Seconds added to that, or to the system's time.
    ahead: i64,
}

impl Time {
    /// Seconds since 1970.
    fn now(self) -> i64 {
        self.fixed.unwrap_or_else(|| system_ms() / 1000) + self.ahead
    }
}

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a provider has a clock of its own")]
fn system_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis().try_into().unwrap_or(0))
}

struct Double {
    url: String,
    /// The server that executes the requests instead of the double, with what it has created.
    remote: Option<Remote>,
    ledger: Mutex<Ledger>,
    faults: Faults,
}

impl Double {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> MutexGuard<'_, FaultState> {
        self.faults.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Stripe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stripe").field("url", &self.double.url).finish_non_exhaustive()
    }
}

/// The double, a server on loopback in a thread of its own, which tests of several runtimes can share. It stops when it is
/// dropped.
pub struct Stripe {
    double: Arc<Double>,
    _stop: Option<oneshot::Sender<()>>,
}

impl Stripe {
    /// Starts to serve, without accounts.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn start() -> Result<Self> {
        Self::start_with(None)
    }

    /// Starts to pass requests on to Stripe itself, or to another double, at this URL, with the same faults.
    ///
    /// # Errors
    /// As [`Stripe::start`].
    pub fn before(url: &str) -> Result<Self> {
        Self::start_with(Some(Remote::new(url)))
    }

    /// The double without a server, to be served at this base URL by [`Stripe::serve`].
    #[must_use]
    pub fn unserved(url: String) -> Self {
        let double = Double { url, remote: None, ledger: Mutex::default(), faults: Faults::default() };
        Self { double: Arc::new(double), _stop: None }
    }

    /// Serves what connects to `listener`.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn serve(&self, listener: TcpListener) -> std::io::Result<()> {
        axum::serve(listener, server::router(Arc::clone(&self.double))).await
    }

    fn start_with(remote: Option<Remote>) -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}", listener.local_addr()?);
        let double = Arc::new(Double { url, remote, ledger: Mutex::default(), faults: Faults::default() });
        let router = server::router(Arc::clone(&double));
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                tokio::select! {
                    _ = axum::serve(listener, router) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self { double, _stop: Some(stop) })
    }

    /// The base URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.double.url
    }

    /// The ids of the objects that were created at the other server.
    #[must_use]
    pub fn left(&self) -> Vec<String> {
        self.double.remote.as_ref().map(Remote::left).unwrap_or_default()
    }

    /// Opens an account whose key has all permissions.
    #[must_use]
    pub fn account(&self) -> StripeKeys {
        self.double.ledger().open_account(&self.double.url)
    }

    /// Takes a permission, such as `Refunds: write`, from the key of an account.
    pub fn forbid(&self, keys: &StripeKeys, permission: &'static str) {
        self.double.ledger().account(&keys.secret_key).forbidden.insert(permission);
    }

    /// Gives the permission back.
    pub fn permit(&self, keys: &StripeKeys, permission: &'static str) {
        self.double.ledger().account(&keys.secret_key).forbidden.remove(permission);
    }

    /// A new card of an account, as Stripe's card field returns it.
    #[must_use]
    pub fn token(&self, keys: &StripeKeys, behavior: CardBehavior) -> String {
        let mut ledger = self.double.ledger();
        ledger.account(&keys.secret_key).new_method(behavior)
    }

    /// From now on, captured money of an account is available after this time.
    pub fn make_available_after(&self, keys: &StripeKeys, time: Duration) {
        self.double.ledger().account(&keys.secret_key).available_after = time;
    }

    /// Stops the clock at this many seconds since 1970.
    pub fn stop_clock(&self, seconds: i64) {
        self.double.ledger().time = Time { fixed: Some(seconds), ahead: 0 };
    }

    /// Advances the clock.
    pub fn advance(&self, time: Duration) {
        self.double.ledger().time.ahead += i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    }

    /// Forgets all idempotency keys.
    pub fn forget_keys(&self) {
        self.double.ledger().forget_keys();
    }

    /// Loses this many responses to POST requests after their execution.
    pub fn lose_responses(&self, count: usize) {
        self.double.faults().lose = count;
    }

    /// Responds to this many POST requests with an error of the server after their execution.
    pub fn break_responses(&self, count: usize) {
        self.double.faults().broken = count;
    }

    /// Refuses POST requests unread with this status, or accepts them again.
    pub fn refuse(&self, status: Option<u16>) {
        self.double.faults().refuse = status;
    }

    /// Delays each response.
    pub fn delay(&self, time: Duration) {
        self.double.faults().delay = time;
    }

    /// Holds POST requests before they are executed, or executes those that are held.
    pub fn hold(&self, hold: bool) {
        self.double.faults.hold.send_replace(hold);
    }

    /// Waits until a request is held.
    pub async fn holds_a_request(&self) {
        self.double.faults.held.notified().await;
    }

    /// The objects of an account of this kind (`payment_intent`, `refund`, …), in the order of their creation.
    #[must_use]
    pub fn objects(&self, keys: &StripeKeys, kind: &str) -> Vec<Value> {
        self.double.ledger().account(&keys.secret_key).of_kind(kind).cloned().collect()
    }

    /// When an object was added, in milliseconds since 1970 by the system's clock: Stripe's times are whole seconds.
    #[must_use]
    pub fn added(&self, keys: &StripeKeys, id: &str) -> Option<i64> {
        self.double.ledger().account(&keys.secret_key).added(id)
    }

    /// The cardholder passes or fails the challenge of a payment.
    pub fn answer_challenge(&self, keys: &StripeKeys, intent: &str, passes: bool) {
        let mut ledger = self.double.ledger();
        let now = ledger.time.now();
        ledger.account(&keys.secret_key).answer_challenge(intent, passes, now);
    }

    /// The cardholder disputes a payment: its money is withdrawn. Returns the id of the dispute.
    #[must_use]
    pub fn dispute(&self, keys: &StripeKeys, intent: &str, reason: &str) -> String {
        let mut ledger = self.double.ledger();
        let now = ledger.time.now();
        ledger.account(&keys.secret_key).open_dispute(intent, reason, now)
    }

    /// The bank returns a refund: its money goes back to the merchant.
    pub fn fail_refund(&self, keys: &StripeKeys, refund: &str) {
        let mut ledger = self.double.ledger();
        let now = ledger.time.now();
        ledger.account(&keys.secret_key).fail_refund(refund, now);
    }

    /// The issuer decides a dispute. The money of a dispute that is won is given back.
    pub fn decide(&self, keys: &StripeKeys, dispute: &str, won: bool) {
        let mut ledger = self.double.ledger();
        let now = ledger.time.now();
        ledger.account(&keys.secret_key).decide_dispute(dispute, won, now);
    }

    /// Books what has moved the money of an account so much earlier, as if nobody had read its statement meanwhile.
    pub fn book_earlier(&self, keys: &StripeKeys, by: Duration) {
        let seconds = i64::try_from(by.as_secs()).unwrap_or(i64::MAX);
        self.double.ledger().account(&keys.secret_key).book_earlier(seconds);
    }

    /// Takes the events of an account that were not taken before, oldest first.
    #[must_use]
    pub fn take_events(&self, keys: &StripeKeys) -> Vec<Value> {
        std::mem::take(&mut self.double.ledger().account(&keys.secret_key).events)
    }

    /// Posts events to an endpoint as Stripe does, signed at this many seconds since 1970, and returns the statuses.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn deliver(&self, keys: &StripeKeys, endpoint: &str, events: &[Value]) -> Result<Vec<u16>> {
        let now = self.double.ledger().time.now();
        events::deliver(&keys.webhook_secret, endpoint, events, now).await
    }
}
