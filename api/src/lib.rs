//! The API process: stateless, so any number can run behind a load balancer. It writes intents to Postgres, pushes
//! their ids to Redis and waits, up to a timeout, for a worker's reply.

mod app;
mod body;
mod elements;
mod endpoint;
mod error;
mod guard;
mod hooks;
mod html;
mod in_process;
mod large_responses;
mod limits;
mod listing;
mod logos;
mod openapi;
mod pages;
mod path;
mod quotas;
mod recorder;
mod replays;
mod request_id;
mod request_layer;
mod retry;
mod routes;
mod signing;
mod trusted;
mod unknown_fields;
mod used_key;
mod waiting;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use domain::accounts::{self, Keys};
use domain::payments;
use foundation::clock::Clock;
use foundation::config;
use foundation::crypto::Peppers;
use foundation::db;
use foundation::db::Db;
use foundation::public_url;
use foundation::queues;
use foundation::server;
use foundation::telemetry::{self, MetricsHandle};
use queue::{Publisher, Replies};
use sqlx::PgPool;
use tokio::net::TcpListener;

pub use in_process::InProcess;
pub use trusted::ExpectedVersion;

use crate::app::App;
use crate::elements::StripeOrigins;
use crate::large_responses::LargeResponses;
use crate::limits::Limits;
use crate::recorder::Recorder;

/// Postgres connections per process. A request holds one only briefly, and none while it waits for a worker.
const DATABASE_POOL: u32 = 16;

/// The shared state of a process, connected to Postgres and Redis.
struct Connected {
    app: App,
    pool: PgPool,
    /// The keys of the configuration, which those of the database must match, unless they are not to be checked.
    secrets: engine::Keys,
    peppers: Peppers,
    unchecked: bool,
}

/// Connects as configured by environment variables. `process` is the name of its connections and of its channel for
/// replies.
fn connect(process: &'static str) -> Result<Connected> {
    queues::register_posts_metrics();
    engine::register_billing_metrics();
    routes::register_failures_metrics();
    let redis = config::redis()?;
    let pool = db::pool(&config::database_url()?, config::database_pool(DATABASE_POOL)?, process)?;
    let publisher = Publisher::connect(&redis);
    let base = config::public_url()?;
    public_url::set(base.clone());
    let reply_channel = format!("{process}-{}", foundation::crypto::random_hex(8));
    let (peppers, encryption) = (config::peppers()?, config::encryption_keys()?);
    let secrets = engine::Keys { encryption: encryption.clone(), peppers: Some(peppers.clone()) };
    let of_new_keys = peppers.clone();
    let app = App {
        db: Db::new(pool.clone(), publisher.clone()),
        intents: Arc::new(engine::Intents::start(pool.clone())),
        payments: Arc::new(payments::reader(pool.clone())),
        clock: Clock::system(),
        keys: Arc::new(Keys::new(pool.clone(), peppers, config::key_cache()?)),
        requests: Arc::new(Recorder::start(pool.clone())),
        encryption,
        limits: Limits::new(&redis, config::rate_limit_timeout()?, config::api_limits()?),
        public_url: base.into(),
        card_gateway_url: config::card_gateway_public_url()?.map(Into::into),
        stripe_origins: Arc::new(StripeOrigins::new(config::stripe_url()?.as_deref())),
        documents: Arc::new(pages::Documents::new(config::fonts_dirs()?)),
        large_responses: Arc::new(LargeResponses::new()),
        webhook_loopback: config::webhook_loopback()?,
        publisher,
        replies: Replies::start(&redis, &reply_channel),
        reply_channel: reply_channel.into(),
    };
    Ok(Connected { app, pool, secrets, peppers: of_new_keys, unchecked: config::keys_unchecked()? })
}

/// The program.
///
/// # Errors
/// As [`run`].
#[tokio::main]
pub async fn start() -> Result<()> {
    telemetry::init_logs();
    run(telemetry::init_metrics()?, telemetry::shutdown_signal()).await
}

/// Runs the process until `stop`, configured by environment variables.
///
/// # Errors
/// The configuration is invalid, or an address cannot be bound.
pub async fn run(metrics: MetricsHandle, stop: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    let connected = connect("api")?;
    let listener = Listener { process: "api", bind: config::api_bind()?, url: config::public_url()? };
    let router = routes::router(connected.app.clone());
    serve(&connected, listener, router, metrics, stop).await
}

/// Where a process serves.
pub struct Listener {
    /// The name of the process in logs and metrics.
    pub process: &'static str,
    /// The address.
    pub bind: SocketAddr,
    /// The URL at which browsers reach it.
    pub url: String,
}

async fn serve(
    connected: &Connected,
    Listener { process, bind, url }: Listener,
    router: Router,
    metrics: MetricsHandle,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let Connected { app, pool, secrets, unchecked, .. } = connected;
    let (drain_delay, listening) = (config::drain_delay()?, config::listener()?);
    let internal = telemetry::Internal::new(pool.clone(), metrics).reporting(process).starting();
    // Bound before the health endpoint is served: a process that reports ready already accepts connections.
    let listener = TcpListener::bind(bind).await.with_context(|| format!("cannot listen at {bind}"))?;
    let metrics_address = internal.clone().serve(config::metrics_bind()?).await.context("METRICS_BIND")?;
    tracing::info!(address = %listener.local_addr()?, metrics = %metrics_address, "{process} is listening");

    let ready = internal.clone();
    let startup_checks = async {
        engine::require_matching_keys(pool, secrets, *unchecked).await?;
        accounts::check_public_url(pool, &app.public_url).await?;
        ready.started().await;
        anyhow::Ok(())
    };
    let draining = async move {
        stop.await;
        tracing::info!(
            "{process} is stopping: not ready; refuses new requests after the drain delay and finishes those in flight"
        );
        internal.drain();
    };
    let router = server::with_security_headers(router, &url);
    let mut serving = pin!(server::serve(listener, router, listening, draining, drain_delay));
    tokio::select! {
        // Requests are served while the startup checks run.
        checked = startup_checks => { checked?; serving.await }
        () = &mut serving => {}
    }
    app.publisher.flush().await;
    app.requests.flush().await;
    tracing::info!("{process} has stopped");
    Ok(())
}
