//! Logs, metrics and the internal listener of a process: /metrics, /healthz, /readyz.

mod database;
mod help;
mod processes;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
pub use metrics_exporter_prometheus::PrometheusHandle as MetricsHandle;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

pub use processes::{RunningProcess, running_processes};

use self::processes::Process;
use crate::clock::Clock;
use crate::db;
use crate::server::{self, ListenerConfig};

/// Buckets of every `_seconds` histogram, from a queue hop to a provider timeout. Each bucket is one series per label
/// set.
const SECONDS_BUCKETS: &[f64] = &[0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0];
/// Buckets of the sizes of batches.
const ITEMS_BUCKETS: &[f64] = &[1.0, 4.0, 16.0, 64.0];
/// How long `/readyz` waits for Postgres.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Initializes logging: `LOG_FORMAT=json` (the default) or `text`, filtered by `RUST_LOG` (`info` by default). Lines do
/// not name the process, because the log collector knows it.
pub fn init_logs() {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("info,sqlx::query=warn,apalis=warn,apalis_core=warn"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    if std::env::var("LOG_FORMAT").is_ok_and(|format| format == "text") {
        builder.with_ansi(false).init();
    } else {
        builder.json().flatten_event(true).with_current_span(true).with_span_list(false).init();
    }
}

/// Initializes the metrics recorder.
///
/// # Errors
/// A recorder is already installed.
pub fn init_metrics() -> Result<MetricsHandle, metrics_exporter_prometheus::BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS_BUCKETS)?
        .set_buckets_for_metric(Matcher::Suffix("_items".to_owned()), ITEMS_BUCKETS)?
        .install_recorder()?;
    help::describe();
    let started = Clock::system().now().as_millisecond() as f64 / 1000.0;
    metrics::gauge!("process_start_time_seconds").set(started);
    Ok(handle)
}

/// The state of the internal listener.
#[derive(Clone)]
pub struct Internal {
    db: PgPool,
    process: Option<Process>,
    metrics: MetricsHandle,
    starting: Arc<AtomicBool>,
    draining: Arc<AtomicBool>,
}

impl Internal {
    pub fn new(db: PgPool, metrics: MetricsHandle) -> Self {
        Self { db, process: None, metrics, starting: Arc::default(), draining: Arc::default() }
    }

    /// Also reports the process under this kind in the table `processes`, for `ctl doctor`.
    #[must_use]
    pub fn reporting(mut self, kind: &'static str) -> Self {
        self.process = Some(Process::this(kind));
        self
    }

    /// `/readyz` returns 503 until [`Self::started`] is called.
    #[must_use]
    pub fn starting(self) -> Self {
        self.starting.store(true, Ordering::Relaxed);
        self
    }

    /// Opens the first connections; from then on `/readyz` depends on Postgres and the clock only.
    pub async fn started(&self) {
        db::open_connections(&self.db).await;
        self.starting.store(false, Ordering::Relaxed);
    }

    /// From now on `/readyz` returns 503, so that load balancers send no new requests.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Serves in the background until the process ends. Bind it to an internal address only.
    ///
    /// # Errors
    /// The address cannot be bound.
    #[expect(clippy::disallowed_methods, reason = "these tasks hold no work that could be lost")]
    pub async fn serve(self, bind: SocketAddr) -> std::io::Result<SocketAddr> {
        let listener = TcpListener::bind(bind).await?;
        let address = listener.local_addr()?;
        let upkeep = self.metrics.clone();
        tokio::spawn(database::monitor(self.db.clone(), self.process.clone(), move || upkeep.run_upkeep()));
        let options = self.db.connect_options();
        tokio::spawn(async move {
            db::wait_until_unresponsive(&options).await;
            tracing::error!(
                "Postgres has not responded on an existing connection for 30 s but responds on a new one, so earlier \
                 statements hang; exiting for a restart by the supervisor; other processes take over the work in progress"
            );
            std::process::exit(1);
        });
        let router = Router::new()
            .route("/metrics", get(async |State(internal): State<Self>| internal.metrics.render()))
            .route("/healthz", get(async || "ok\n"))
            .route("/readyz", get(async |State(internal): State<Self>| internal.ready().await))
            .with_state(self);
        tokio::spawn(server::serve(
            listener,
            router,
            ListenerConfig::internal(),
            std::future::pending(),
            Duration::ZERO,
        ));
        Ok(address)
    }

    /// Redis is not checked: without it reads continue, payments wait, and nothing is lost.
    async fn ready(&self) -> (StatusCode, Cow<'static, str>) {
        let unready = |reason: &'static str| (StatusCode::SERVICE_UNAVAILABLE, Cow::Borrowed(reason));
        if self.draining.load(Ordering::Relaxed) {
            return unready("draining\n");
        }
        let query = sqlx::query("SELECT 1").execute(&self.db);
        if !matches!(tokio::time::timeout(READY_TIMEOUT, query).await, Ok(Ok(_))) {
            return unready("no database\n");
        }
        if self.starting.load(Ordering::Relaxed) {
            return unready("starting\n");
        }
        match Clock::system().verify(&self.db).await {
            Ok(()) => (StatusCode::OK, Cow::Borrowed("ready\n")),
            Err(error) => (StatusCode::SERVICE_UNAVAILABLE, Cow::Owned(format!("{error}\n"))),
        }
    }
}

/// Resolves on SIGTERM or Ctrl-C. Signal handlers are installed by the call, so call it before the process reports
/// ready: a signal during startup would otherwise kill it.
pub fn shutdown_signal() -> impl Future<Output = ()> + Send {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).expect("a handler for SIGTERM can be installed");
    let mut interrupt = signal(SignalKind::interrupt()).expect("a handler for SIGINT can be installed");
    async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}
