//! The worker process, the only one that calls providers and delivers webhooks. Any number may run: claims and leases
//! in Postgres decide which worker does what, and the queue only wakes them.

mod fallback;
mod mails;
mod webhooks;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use domain::webhooks::dispatch::ATTEMPT_TIMEOUT;
use egress::Egress;
use engine::Executor;
use foundation::clock::Clock;
use foundation::config;
use foundation::crypto::KeyRing;
use foundation::db;
use foundation::db::Db;
use foundation::error::Error;
use foundation::id::{AccountId, OperationId, PaymentId, ProviderAccountId, WebhookEndpointId};
use foundation::public_url;
use foundation::queues;
use foundation::telemetry::{self, MetricsHandle};
use futures_util::FutureExt as _;
use providers::{Providers, RETRY_LIMIT, card_gateway::CardGateway, mock::Mock, stripe::Stripe};
use queue::{Pool, Publisher, Queue, Redis, Wake};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// An operation mostly waits for its provider, and holds no database connection while it does.
const PAYMENT_CONCURRENCY: usize = 64;
/// Lower than for payments, because no request waits for a collection.
const COLLECTION_CONCURRENCY: usize = 32;
/// Concurrent queries of the provider for a charge's status.
const INQUIRY_CONCURRENCY: usize = 8;
/// Provider statements compared at the same time.
const RECONCILIATION_CONCURRENCY: usize = 2;
const CLOCK_CONCURRENCY: usize = 4;
/// Postgres connections for the system's own tables.
const DATABASE_POOL: u32 = 16;
/// Postgres connections of the mock provider, which represents an external system.
const MOCK_POOL: u32 = 8;
/// Webhook deliveries are claimed one statement at a time.
const CLAIM_POOL: u32 = 1;
/// Wake-ups passed to the dispatcher at the same time.
const WAKE_CONCURRENCY: usize = 64;
/// How often this host's clock is compared with the last known database time.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a stop waits for running handlers: enough for a provider's timeout and the commit of its outcome.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);
/// Where e-mails are sent.
const MAIL: mail::Variables =
    mail::Variables { server: "SMTP_URL", folder: "MAIL_FOLDER", from: "MAIL_FROM", bounces: "MAIL_BOUNCES" };

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
    queues::register_posts_metrics();
    engine::register_payments_metrics();
    engine::register_reconciliation_metrics();
    engine::register_billing_metrics();
    engine::report_accounts(config::metrics_accounts()?);
    webhooks::register_metrics();
    mails::register_metrics();
    public_url::set(config::public_url()?);
    let mailer = mail::mailer(&MAIL)?;
    // The portal offers e-mails by MAIL_FROM.
    ensure!(
        mailer.is_some() || config::optional(MAIL.from)?.is_none(),
        "MAIL_FROM is set without SMTP_URL or MAIL_FOLDER"
    );
    let redis = config::redis()?;
    let keys = engine::Keys { encryption: config::encryption_keys()?, peppers: None };
    let unchecked = config::keys_unchecked()?;
    let (state, dispatcher) = assemble(&redis, &keys.encryption)?;

    let internal = telemetry::Internal::new((*state.db).clone(), metrics).reporting("worker").starting();
    let metrics_address = internal.clone().serve(config::metrics_bind()?).await.context("METRICS_BIND")?;
    let payment_concurrency = config::payment_concurrency(PAYMENT_CONCURRENCY)?;
    let shutdown = stop.shared();
    // With the wrong keys it could not decrypt the secrets that sign webhooks.
    let starting = async {
        engine::require_matching_keys(&state.db, &keys, unchecked).await?;
        internal.started().await;
        anyhow::Ok(())
    };
    tokio::select! {
        started = starting => started?,
        () = shutdown.clone() => return Ok(()),
    }
    tracing::info!(metrics = %metrics_address, "worker is waiting for work");

    let stop = CancellationToken::new();
    let draining = async {
        shutdown.await;
        tracing::info!("worker is stopping: it takes no new work and finishes what is running");
        internal.drain();
        stop.cancel();
    };
    let mails = async {
        if let Some(mailer) = mailer {
            let (db, encryption, clock) = ((*state.db).clone(), keys.encryption.clone(), state.clock.clone());
            mails::Sender { db, encryption, clock, mailer }.run(&stop).await;
        }
    };
    let ((), unfinished, (), ()) = tokio::join!(
        draining,
        process_work(&state, &redis, payment_concurrency, &stop),
        dispatcher.run(stop.cancelled(), SHUTDOWN_TIMEOUT),
        mails,
    );
    state.publisher.flush().await;
    tracing::info!(unfinished, "worker has stopped; recovery continues unfinished operations");
    Ok(())
}

/// Processes work until `stop`, except while this host's clock is wrong: running handlers then finish, and other
/// workers do the rest. Returns how many handlers had not finished at the end.
async fn process_work(
    state: &Arc<WorkerState>,
    redis: &Redis,
    payment_concurrency: usize,
    stop: &CancellationToken,
) -> usize {
    let mut unfinished = 0;
    while stop.run_until_cancelled(state.wait_for_correct_clock()).await.is_some() {
        let pause = stop.child_token();
        let monitor = async {
            pause.run_until_cancelled(state.wait_for_clock_error()).await;
            pause.cancel();
        };
        let (stopped, (), ()) = tokio::join!(
            queue::run(redis, state.pools(payment_concurrency), pause.cancelled(), SHUTDOWN_TIMEOUT),
            fallback::run(state, payment_concurrency, pause.cancelled(), SHUTDOWN_TIMEOUT),
            monitor,
        );
        unfinished = stopped.unfinished;
    }
    unfinished
}

/// Builds the state that the handlers share, and the webhook dispatcher.
fn assemble(redis: &Redis, encryption: &KeyRing) -> Result<(Arc<WorkerState>, webhooks::Dispatcher)> {
    let database_url = config::database_url()?;
    let publisher = Publisher::connect(redis);
    let db = Db::new(db::pool(&database_url, config::database_pool(DATABASE_POOL)?, "worker")?, publisher.clone());
    let sender = webhooks::Sender {
        egress: Egress::new(ATTEMPT_TIMEOUT, Clock::system()),
        encryption: encryption.clone(),
        clock: Clock::system(),
        allow_loopback: config::webhook_loopback()?,
    };
    let claims = db::async_commit_pool(&database_url, CLAIM_POOL, "worker-claims")?;
    let (dispatcher, wakes) = webhooks::Dispatcher::new(db.clone(), claims, sender);
    let mock = Mock::new(db::pool(&database_url, MOCK_POOL, "mock-provider")?);
    let card_gateway = config::card_gateway_url()?.map(|url| CardGateway::new(url, (*db).clone(), encryption.clone()));
    let stripe = Stripe::new(config::stripe_url()?, (*db).clone(), encryption.clone());
    let providers =
        Providers::new(mock, card_gateway, Some(stripe)).with_retry_limit(config::provider_retry_limit(RETRY_LIMIT)?);
    let clock = Clock::system();
    let executor = Executor::start(db.clone(), providers.clone(), clock.clone());
    Ok((Arc::new(WorkerState { db, wakes, providers, clock, executor, publisher }), dispatcher))
}

/// State shared by the handlers of all queues.
struct WorkerState {
    db: Db,
    wakes: webhooks::Wakes,
    providers: Providers,
    clock: Clock,
    executor: Executor,
    publisher: Publisher,
}

impl WorkerState {
    fn pools(self: &Arc<Self>, payment_concurrency: usize) -> Vec<Pool> {
        vec![
            self.pool(queues::PAYMENTS, payment_concurrency, Self::perform),
            self.pool(queues::COLLECTIONS, COLLECTION_CONCURRENCY, Self::perform),
            self.pool(queues::INQUIRIES, INQUIRY_CONCURRENCY, Self::inquire),
            self.pool(queues::RECONCILIATIONS, RECONCILIATION_CONCURRENCY, Self::reconcile),
            self.pool(queues::CLOCKS, CLOCK_CONCURRENCY, Self::advance_clock),
            // The handler only forwards the id: the dispatcher limits its own concurrency.
            self.pool(queues::WEBHOOKS, WAKE_CONCURRENCY, Self::wake_endpoint),
        ]
    }

    fn pool<F>(self: &Arc<Self>, queue: Queue, concurrency: usize, handler: fn(Arc<Self>, Wake) -> F) -> Pool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let state = Arc::clone(self);
        Pool::new(queue, concurrency, move |wake| handler(Arc::clone(&state), wake))
    }

    async fn wait_for_correct_clock(&self) {
        while let Err(reason) = self.clock.verify(&self.db).await {
            tracing::warn!(%reason, "worker takes no work while its clock is wrong");
            sleep(CLOCK_CHECK_INTERVAL).await;
        }
    }

    async fn wait_for_clock_error(&self) {
        while self.clock.verify(&self.db).await.is_ok() {
            sleep(CLOCK_CHECK_INTERVAL).await;
        }
    }

    async fn wake_endpoint(self: Arc<Self>, wake: Wake) {
        self.wakes.wake(WebhookEndpointId::from_uuid(wake.id));
    }

    async fn perform(self: Arc<Self>, wake: Wake) {
        if self.clock.check().is_err() {
            return;
        }
        let id = OperationId::from_uuid(wake.id);
        let span = tracing::info_span!("operation", operation = %id, request_id = wake.request_id);
        async {
            match engine::perform(&self.executor, id).await {
                Ok(Some(done)) => {
                    tracing::info!("operation finished");
                    self.notify(done);
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, "the operation did not finish; recovery continues it when its lease expires")
                }
            }
        }
        .instrument(span)
        .await;
    }

    /// Notifies the waiting API process. If the notification is lost, that process polls Postgres.
    fn notify(&self, done: engine::Performed) {
        if let Some(channel) = done.reply_to {
            self.publisher.post_reply(channel, done.reply_id);
        }
    }

    async fn reconcile(self: Arc<Self>, wake: Wake) {
        let id = ProviderAccountId::from_uuid(wake.id);
        if let Err(error) = engine::reconcile(&self.db, &self.providers, &self.clock, id).await {
            tracing::error!(provider_account = %id, %error, "could not reconcile the statement; trying again in a minute");
        }
    }

    async fn advance_clock(self: Arc<Self>, wake: Wake) {
        let id = AccountId::from_uuid(wake.id);
        match engine::advance_clock(&self.db, &self.providers, &self.clock, id).await {
            Ok(()) => {}
            Err(Error::Conflict(_)) => {
                tracing::info!(account = %id, "another worker advances the test clock, or the advance has ended")
            }
            Err(error) => {
                tracing::error!(account = %id, %error, "could not advance the test clock; trying again when the lease expires");
            }
        }
    }

    async fn inquire(self: Arc<Self>, wake: Wake) {
        let id = PaymentId::from_uuid(wake.id);
        if let Err(error) = engine::inquire(&self.db, &self.providers, &self.clock, id).await {
            tracing::error!(payment = %id, %error, "could not update the charge's status; trying again in half a minute");
        }
    }
}
