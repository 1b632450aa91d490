//! Logs, metrics and the internal listener of a process: /metrics, /healthz, /readyz.

mod help;
mod look;
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
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

pub use processes::{RunningProcess, running_processes};

use self::processes::Process;
use crate::clock::Clock;
use crate::db;
use crate::server::{self, Listening};

/// Buckets of every `_seconds` histogram: from the queue hop to a provider's time-out. Each is a series for every set of labels.
const SECONDS_BUCKETS: &[f64] = &[0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0];
/// How long /readyz waits for Postgres.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts logging: `LOG_FORMAT=json` (the default) or `text`, filtered by `RUST_LOG` (`info` by default). A line does
/// not name its process: what collects the lines knows it.
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

/// Starts collecting metrics.
///
/// # Errors
/// A recorder was installed before.
pub fn init_metrics() -> Result<PrometheusHandle, metrics_exporter_prometheus::BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS_BUCKETS)?
        .install_recorder()?;
    help::describe();
    let started = Clock::system().now().as_millisecond() as f64 / 1000.0;
    metrics::gauge!("process_start_time_seconds").set(started);
    Ok(handle)
}

/// What the internal listener answers from.
#[derive(Clone)]
pub struct Internal {
    db: PgPool,
    process: Option<Process>,
    metrics: PrometheusHandle,
    starting: Arc<AtomicBool>,
    draining: Arc<AtomicBool>,
}

impl Internal {
    /// For a process that needs this database.
    pub fn new(db: PgPool, metrics: PrometheusHandle) -> Self {
        Self { db, process: None, metrics, starting: Arc::default(), draining: Arc::default() }
    }

    /// The same, and the process reports itself under this kind, for `ctl doctor`.
    #[must_use]
    pub fn reporting(mut self, kind: &'static str) -> Self {
        self.process = Some(Process::this(kind));
        self
    }

    /// The same, but /readyz says no until [`Self::has_started`].
    #[must_use]
    pub fn starting(self) -> Self {
        self.starting.store(true, Ordering::Relaxed);
        self
    }

    /// From now on /readyz says yes if Postgres answers.
    pub fn has_started(&self) {
        self.starting.store(false, Ordering::Relaxed);
    }

    /// From now on /readyz says no, so that a balancer sends nothing new.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Serves for as long as the process lives. Not for the public: bind it to an internal address.
    ///
    /// # Errors
    /// The address cannot be bound.
    #[expect(clippy::disallowed_methods, reason = "may be lost with the process: it holds no work")]
    pub async fn serve(self, bind: SocketAddr) -> std::io::Result<SocketAddr> {
        let listener = TcpListener::bind(bind).await?;
        let address = listener.local_addr()?;
        let upkeep = self.metrics.clone();
        tokio::spawn(look::look_at(self.db.clone(), self.process.clone(), move || upkeep.run_upkeep()));
        let options = self.db.connect_options();
        tokio::spawn(async move {
            db::gone_silent(&options).await;
            tracing::error!(
                "Postgres has said nothing on a connection for half a minute, and answers on a new one: statements sent before hang, \
                 so this process ends; its supervisor is to start it again, and what it had begun is taken up by others"
            );
            std::process::exit(1);
        });
        let router = Router::new()
            .route("/metrics", get(async |State(internal): State<Self>| internal.metrics.render()))
            .route("/healthz", get(async || "ok\n"))
            .route("/readyz", get(async |State(internal): State<Self>| internal.ready().await))
            .with_state(self);
        tokio::spawn(server::serve(listener, router, Listening::internal(), std::future::pending(), Duration::ZERO));
        Ok(address)
    }

    /// Redis is not asked: without it reads go on, payments wait, and nothing is lost.
    async fn ready(&self) -> (StatusCode, Cow<'static, str>) {
        let unready = |reason: &'static str| (StatusCode::SERVICE_UNAVAILABLE, Cow::Borrowed(reason));
        if self.draining.load(Ordering::Relaxed) {
            return unready("draining\n");
        }
        let answered = sqlx::query("SELECT 1").execute(&self.db);
        if !matches!(tokio::time::timeout(READY_TIMEOUT, answered).await, Ok(Ok(_))) {
            return unready("no database\n");
        }
        if self.starting.load(Ordering::Relaxed) {
            return unready("starting\n");
        }
        match Clock::system().verify(&self.db).await {
            Ok(()) => (StatusCode::OK, Cow::Borrowed("ready\n")),
            Err(wrong) => (StatusCode::SERVICE_UNAVAILABLE, Cow::Owned(format!("{wrong}\n"))),
        }
    }
}

/// Resolves on SIGTERM or Ctrl-C. It listens from the call on: whoever says that it is ready has called it before, or is killed
/// by a signal that comes while it still starts.
pub fn shutdown_signal() -> impl Future<Output = ()> + Send {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).expect("SIGTERM can be listened to");
    let mut interrupt = signal(SignalKind::interrupt()).expect("SIGINT can be listened to");
    async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}
