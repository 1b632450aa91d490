//! `gateway serve`.

use std::sync::Arc;

use anyhow::{Context, Result};
use common::clock::Clock;
use common::{db, server, telemetry};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::vaulting;
use crate::acquirer::Acquirer;
use crate::app::App;
use crate::http::pulse::Pulse;
use crate::http::rate_limits::RateLimits;
use crate::{config, http, key_check, receipts, sweep, transactions};

/// Connections to Postgres per process. One more is kept for the acquirer's books for every four.
const DATABASE_POOL: u32 = 16;

/// Answers until told to stop.
pub(super) async fn serve() -> Result<()> {
    telemetry::init_logs();
    let metrics = telemetry::init_metrics()?;
    http::count_from_nought();
    receipts::count_from_nought();
    transactions::outcome::count_from_nought();
    let url = config::database_url()?;
    let pool = db::pool(&url, common::config::database_pool(DATABASE_POOL)?, "gateway")?;
    // The acquirer is elsewhere: it shares no connection with what asks it.
    let books = db::pool(&url, DATABASE_POOL / 4, "acquirer")?;
    let (vaulting, redis) = (vaulting()?, common::config::redis_if_any()?);
    let app = App {
        rate_limits: Arc::new(RateLimits::new(redis.as_ref(), config::rates()?, vaulting.pepper.clone())),
        db: pool.clone(),
        acquirer: Acquirer::new(books, config::acquirer_delay()?),
        vaulting,
        clock: Clock::system(),
        public_url: config::public_url()?.into(),
        mailer: config::mailer()?,
        work: TaskTracker::new(),
        pulse: Pulse::default(),
    };

    let (farewell, listening) = (common::config::farewell()?, common::config::listening()?);
    let unchecked = common::config::keys_unchecked()?;
    let mut stopped = Box::pin(telemetry::shutdown_signal());
    let internal = telemetry::Internal::new(pool.clone(), metrics).starting();
    let (bind, metrics_bind) = (config::bind()?, common::config::metrics_bind()?);
    let metrics_address = internal.clone().serve(metrics_bind).await.context("METRICS_BIND")?;
    if !unchecked {
        tokio::select! {
            fit = key_check::keys_fit(&pool, &app.vaulting) => fit?,
            () = &mut stopped => return Ok(()),
        }
    }
    // Whoever is told that it is ready finds it listening. Before, with other keys, it would refuse every merchant.
    let listener = TcpListener::bind(bind).await.context("GATEWAY_BIND")?;
    internal.has_started();
    tracing::info!(address = %listener.local_addr()?, metrics = %metrics_address, "gateway is listening");

    let stop = CancellationToken::new();
    let housekeeping = TaskTracker::new();
    housekeeping.spawn(sweep::run(app.clone(), stop.clone()));
    if let Some(mailer) = app.mailer.clone() {
        housekeeping.spawn(receipts::run(app.clone(), mailer, stop.clone()));
    }
    // Ends with the process: it holds nothing.
    let pulse = housekeeping.spawn(app.pulse.clone().run());
    let draining = async move {
        stopped.await;
        tracing::info!("gateway is stopping: requests in flight are answered, new ones are not taken");
        internal.drain();
    };
    let work = app.work.clone();
    let router = server::hardened(http::router(app.clone()), &app.public_url);
    server::serve(listener, router, listening, draining, farewell).await;
    // Those whose callers have hung up.
    work.close();
    work.wait().await;
    stop.cancel();
    pulse.abort();
    housekeeping.close();
    housekeeping.wait().await;
    tracing::info!("gateway has stopped");
    Ok(())
}
