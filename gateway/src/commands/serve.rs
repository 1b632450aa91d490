//! `gateway serve`.

use std::future::Future;
use std::sync::Arc;

use anyhow::{Context, Result};
use foundation::clock::Clock;
use foundation::db;
use foundation::server;
use foundation::telemetry::{self, MetricsHandle};
use mail::Mailer;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::keys::crypto_keys;
use crate::acquirer::Acquirer;
use crate::connections::ConnectionLimit;
use crate::http::app::App;
use crate::http::rate_limits::RateLimits;
use crate::http::stall_detector::StallDetector;
use crate::processing::{self, Processor};
use crate::{config, http, key_check, receipts, sweep};

/// Postgres connections per process. The acquirer's pool has a quarter of that.
const DATABASE_POOL: u32 = 16;

/// Serves requests until `stop`, configured by environment variables.
///
/// # Errors
/// The configuration is invalid, or an address cannot be bound.
pub async fn serve(metrics: MetricsHandle, stop: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    register_metrics();
    let (app, mailer) = configure()?;
    let (drain_delay, listening) = (foundation::config::drain_delay()?, foundation::config::listener()?);
    let unchecked = foundation::config::keys_unchecked()?;
    let mut stopped = Box::pin(stop);
    let internal = telemetry::Internal::new(app.db.clone(), metrics).starting();
    let (bind, metrics_bind) = (config::bind()?, foundation::config::metrics_bind()?);
    let metrics_address = internal.clone().serve(metrics_bind).await.context("METRICS_BIND")?;
    tokio::select! {
        fit = key_check::wait_for_matching_keys(&app.db, &app.crypto, unchecked) => fit?,
        () = &mut stopped => return Ok(()),
    }
    // Listen only now: with wrong keys every merchant would be rejected. Listen before the process reports itself
    // ready.
    let listener = TcpListener::bind(bind).await.context("GATEWAY_BIND")?;
    internal.started().await;
    tracing::info!(address = %listener.local_addr()?, metrics = %metrics_address, "gateway is listening");

    let background = Background::start(&app, mailer);
    let draining = async move {
        stopped.await;
        tracing::info!("gateway is stopping: requests in flight are completed, new ones are not accepted");
        internal.drain();
    };
    let (work, public_url) = (app.work.clone(), app.processor.public_url.clone());
    let router = server::with_security_headers(http::router(app), &public_url);
    server::serve(listener, router, listening, draining, drain_delay).await;
    // Requests whose clients have disconnected.
    work.close();
    work.wait().await;
    background.stop().await;
    tracing::info!("gateway has stopped");
    Ok(())
}

fn register_metrics() {
    http::register_metrics();
    receipts::register_metrics();
    processing::finish::register_metrics();
}

/// Builds the state of the process from its environment, and the mailer if receipts are sent.
fn configure() -> Result<(App, Option<Mailer>)> {
    let url = config::database_url()?;
    let db = db::pool(&url, foundation::config::database_pool(DATABASE_POOL)?, "gateway")?;
    // The acquirer counts as a remote system, so it shares no connections with its caller.
    let books = db::pool(&url, DATABASE_POOL / 4, "acquirer")?;
    let (crypto, redis) = (crypto_keys()?, foundation::config::redis_if_any()?);
    let timeout = foundation::config::rate_limit_timeout()?;
    let rate_limits = Arc::new(RateLimits::new(redis.as_ref(), timeout, config::rates()?, crypto.pepper.clone()));
    let clock = Clock::system();
    let acquirer = Acquirer::new(books, config::acquirer_delay()?);
    let public_url: Arc<str> = config::public_url()?.into();
    let mailer = config::mailer()?;
    let connections = Arc::new(ConnectionLimit::new(db.options().get_max_connections()));
    let processor = Processor {
        db: db.clone(),
        connections,
        acquirer,
        crypto: crypto.clone(),
        clock: clock.clone(),
        public_url,
        sends_receipts: mailer.is_some(),
    };
    let (work, stall_detector) = (TaskTracker::new(), StallDetector::default());
    Ok((App { db, crypto, clock, processor, rate_limits, work, stall_detector }, mailer))
}

/// The tasks of the process besides its requests.
struct Background {
    tasks: TaskTracker,
    stop: CancellationToken,
    stall_detector: AbortHandle,
}

impl Background {
    fn start(app: &App, mailer: Option<Mailer>) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(sweep::run(app.processor.clone(), stop.clone()));
        if let Some(mailer) = mailer {
            let sender = receipts::Sender { db: app.db.clone(), clock: app.clock.clone(), mailer };
            tasks.spawn(sender.run(stop.clone()));
        }
        let stall_detector = tasks.spawn(app.stall_detector.clone().run()).abort_handle();
        Self { tasks, stop, stall_detector }
    }

    async fn stop(self) {
        self.stop.cancel();
        // It holds nothing that could be lost.
        self.stall_detector.abort();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
