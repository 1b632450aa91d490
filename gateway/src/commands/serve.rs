//! `gateway serve`.

use std::sync::Arc;

use anyhow::{Context, Result};
use foundation::clock::Clock;
use foundation::db;
use foundation::server;
use foundation::telemetry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::keys::crypto_keys;
use crate::acquirer::Acquirer;
use crate::http::app::App;
use crate::http::rate_limits::RateLimits;
use crate::http::stall_detector::StallDetector;
use crate::processing::{self, Processor};
use crate::{config, http, key_check, receipts, sweep};

/// Postgres connections per process. The acquirer's pool has a quarter of that.
const DATABASE_POOL: u32 = 16;

/// Serves requests until terminated.
pub(super) async fn serve() -> Result<()> {
    telemetry::init_logs();
    let metrics = telemetry::init_metrics()?;
    http::register_metrics();
    receipts::register_metrics();
    processing::finish::register_metrics();
    let url = config::database_url()?;
    let pool = db::pool(&url, foundation::config::database_pool(DATABASE_POOL)?, "gateway")?;
    // The acquirer counts as a remote system, so it shares no connections with its caller.
    let books = db::pool(&url, DATABASE_POOL / 4, "acquirer")?;
    let (crypto, redis) = (crypto_keys()?, foundation::config::redis_if_any()?);
    let rate_limits = Arc::new(RateLimits::new(redis.as_ref(), config::rates()?, crypto.pepper.clone()));
    let clock = Clock::system();
    let acquirer = Acquirer::new(books, config::acquirer_delay()?);
    let public_url: Arc<str> = config::public_url()?.into();
    let mailer = config::mailer()?;
    let processor = Processor {
        db: pool.clone(),
        acquirer,
        crypto: crypto.clone(),
        clock: clock.clone(),
        public_url: public_url.clone(),
        sends_receipts: mailer.is_some(),
    };
    let app = App {
        db: pool.clone(),
        crypto,
        clock: clock.clone(),
        processor,
        rate_limits,
        work: TaskTracker::new(),
        stall_detector: StallDetector::default(),
    };

    let (drain_delay, listening) = (foundation::config::drain_delay()?, foundation::config::listener()?);
    let unchecked = foundation::config::keys_unchecked()?;
    let mut stopped = Box::pin(telemetry::shutdown_signal());
    let internal = telemetry::Internal::new(pool.clone(), metrics).starting();
    let (bind, metrics_bind) = (config::bind()?, foundation::config::metrics_bind()?);
    let metrics_address = internal.clone().serve(metrics_bind).await.context("METRICS_BIND")?;
    if !unchecked {
        tokio::select! {
            fit = key_check::wait_for_matching_keys(&pool, &app.crypto) => fit?,
            () = &mut stopped => return Ok(()),
        }
    }
    // Listen only now: with wrong keys every merchant would be rejected. Listen before the process reports itself
    // ready.
    let listener = TcpListener::bind(bind).await.context("GATEWAY_BIND")?;
    internal.mark_started();
    tracing::info!(address = %listener.local_addr()?, metrics = %metrics_address, "gateway is listening");

    let stop = CancellationToken::new();
    let housekeeping = TaskTracker::new();
    housekeeping.spawn(sweep::run(app.processor.clone(), stop.clone()));
    if let Some(mailer) = mailer {
        housekeeping.spawn(receipts::Sender { db: pool, clock, mailer }.run(stop.clone()));
    }
    // Aborted at shutdown; it holds nothing.
    let stall_detector = housekeeping.spawn(app.stall_detector.clone().run());
    let draining = async move {
        stopped.await;
        tracing::info!("gateway is stopping: requests in flight are completed, new ones are not accepted");
        internal.drain();
    };
    let work = app.work.clone();
    let router = server::with_security_headers(http::router(app), &public_url);
    server::serve(listener, router, listening, draining, drain_delay).await;
    // Requests whose clients have disconnected.
    work.close();
    work.wait().await;
    stop.cancel();
    stall_detector.abort();
    housekeeping.close();
    housekeeping.wait().await;
    tracing::info!("gateway has stopped");
    Ok(())
}
