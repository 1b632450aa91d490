//! The worker process: it alone talks to providers and to merchants' endpoints. Any number may run; what each does is decided by rows, claims and leases
//! in Postgres, and the queue only wakes it.

mod fallback;
mod webhooks;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use common::clock::Clock;
use common::crypto::KeyRing;
use common::db::Db;
use common::egress::Egress;
use common::error::Error;
use common::flows;
use common::id::{AccountId, OperationId, PaymentId, ProviderAccountId, WebhookEndpointId};
use common::providers::{Providers, RETRY_LIMIT, card_gateway::CardGateway, mock::Mock};
use common::webhooks::dispatch::ATTEMPT_TIMEOUT;
use common::{config, db, public_url, queues, telemetry};
use queue::{Pool, Publisher, Queue, Redis, Wake};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// Money operations at once: each waits for its provider most of the time, and holds no connection meanwhile.
const MONEY_CONCURRENCY: usize = 64;
/// Collections of invoices at once: fewer, for nobody waits for them.
const COLLECTION_CONCURRENCY: usize = 32;
/// Questions how a charge stands at once.
const INQUIRY_CONCURRENCY: usize = 8;
/// Statements compared at once.
const RECONCILIATION_CONCURRENCY: usize = 2;
/// Test clocks advanced at once.
const CLOCK_CONCURRENCY: usize = 4;
/// Connections to Postgres for our own rows.
const DATABASE_POOL: u32 = 16;
/// Connections to Postgres for the mock's books, which are none of ours.
const MOCK_POOL: u32 = 8;
/// Connections to Postgres for claims of webhooks: one is made at a time.
const CLAIM_POOL: u32 = 1;
/// Names of endpoints passed on at once.
const WAKE_CONCURRENCY: usize = 64;
/// How often the clock of this machine is compared with the database's time as it is known here.
const CLOCK_CHECK: Duration = Duration::from_secs(1);
/// How long a stop waits for what is in flight: a provider's time-out and the outcome's commit fit in.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> Result<()> {
    telemetry::init_logs();
    let metrics = telemetry::init_metrics()?;
    queues::count_posts_from_nought();
    flows::count_payments_from_nought();
    flows::count_billing_from_nought();
    flows::report_accounts(config::metrics_accounts()?);
    webhooks::count_from_nought();
    public_url::set(config::public_url()?);
    let redis = config::redis()?;
    let keys = flows::Keys { encryption: config::encryption_keys()?, peppers: None };
    let unchecked = config::keys_unchecked()?;
    let (work, dispatcher) = assemble(&redis, &keys.encryption)?;

    let internal = telemetry::Internal::new((*work.db).clone(), metrics).reporting("worker").starting();
    let metrics_address = internal.clone().serve(config::metrics_bind()?).await.context("METRICS_BIND")?;
    let money_concurrency = config::money_concurrency(MONEY_CONCURRENCY)?;
    if !unchecked {
        // What it would deliver with others would not be signed.
        tokio::select! {
            fit = flows::keys_fit(&work.db, &keys) => fit?,
            () = telemetry::shutdown_signal() => return Ok(()),
        }
    }
    internal.has_started();
    tracing::info!(metrics = %metrics_address, "worker is waiting for work");

    let stop = CancellationToken::new();
    let draining = async {
        telemetry::shutdown_signal().await;
        tracing::info!("worker is stopping: what is in flight is finished, nothing new is taken");
        internal.drain();
        stop.cancel();
    };
    let ((), unfinished, ()) = tokio::join!(
        draining,
        take_work(&work, &redis, money_concurrency, &stop),
        dispatcher.run(stop.cancelled(), SHUTDOWN_TIMEOUT),
    );
    tracing::info!(unfinished, "worker has stopped; recovery takes up what is unfinished");
    Ok(())
}

/// Takes work until `stop`, but none while the clock of this machine is wrong: what is in flight then is finished, the rest is left
/// to others. Answers how many handlers were left unfinished at the end.
async fn take_work(work: &Arc<Work>, redis: &Redis, money_concurrency: usize, stop: &CancellationToken) -> usize {
    let mut unfinished = 0;
    while stop.run_until_cancelled(work.clock_is_right()).await.is_some() {
        let pause = stop.child_token();
        let watching = async {
            pause.run_until_cancelled(work.clock_is_wrong()).await;
            pause.cancel();
        };
        let (stopped, (), ()) = tokio::join!(
            queue::run(redis, work.pools(money_concurrency), pause.cancelled(), SHUTDOWN_TIMEOUT),
            fallback::run(work, money_concurrency, pause.cancelled(), SHUTDOWN_TIMEOUT),
            watching,
        );
        unfinished = stopped.unfinished;
    }
    unfinished
}

/// What all handlers share, and what makes the attempts of webhooks.
fn assemble(redis: &Redis, encryption: &KeyRing) -> Result<(Arc<Work>, webhooks::Dispatcher)> {
    let database_url = config::database_url()?;
    let publisher = Publisher::connect(redis);
    let db = Db::new(db::pool(&database_url, config::database_pool(DATABASE_POOL)?, "worker")?, publisher.clone());
    let sender = webhooks::Sender {
        egress: Egress::new(ATTEMPT_TIMEOUT, Clock::system()),
        encryption: encryption.clone(),
        clock: Clock::system(),
        allow_loopback: config::webhook_loopback()?,
    };
    let claims = db::forgetful_pool(&database_url, CLAIM_POOL, "worker-claims")?;
    let (dispatcher, wakes) = webhooks::Dispatcher::new(db.clone(), claims, sender);
    let mock = Mock::new(db::pool(&database_url, MOCK_POOL, "mock-provider")?);
    let card_gateway = config::card_gateway_url()?.map(|url| CardGateway::new(url, (*db).clone(), encryption.clone()));
    let providers = Providers::new(mock, card_gateway).with_retry_limit(config::provider_retry_limit(RETRY_LIMIT)?);
    Ok((Arc::new(Work { db, wakes, providers, clock: Clock::system(), publisher }), dispatcher))
}

/// What the handlers of all queues share.
struct Work {
    db: Db,
    wakes: webhooks::Wakes,
    providers: Providers,
    clock: Clock,
    publisher: Publisher,
}

impl Work {
    /// Who takes which queue, and how many at once.
    fn pools(self: &Arc<Self>, money_concurrency: usize) -> Vec<Pool> {
        vec![
            self.pool(queues::MONEY, money_concurrency, Self::perform),
            self.pool(queues::COLLECTIONS, COLLECTION_CONCURRENCY, Self::perform),
            self.pool(queues::INQUIRIES, INQUIRY_CONCURRENCY, Self::inquire),
            self.pool(queues::RECONCILIATIONS, RECONCILIATION_CONCURRENCY, Self::reconcile),
            self.pool(queues::CLOCKS, CLOCK_CONCURRENCY, Self::advance_clock),
            // The name is only passed on: how much is done at once is for the dispatcher to say.
            self.pool(queues::WEBHOOKS, WAKE_CONCURRENCY, Self::wake_endpoint),
        ]
    }

    fn pool<F>(self: &Arc<Self>, queue: Queue, concurrency: usize, handler: fn(Arc<Self>, Wake) -> F) -> Pool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let work = Arc::clone(self);
        Pool::new(queue, concurrency, move |wake| handler(Arc::clone(&work), wake))
    }

    async fn clock_is_right(&self) {
        while let Err(reason) = self.clock.verify(&self.db).await {
            tracing::warn!(%reason, "worker takes no work");
            sleep(CLOCK_CHECK).await;
        }
    }

    async fn clock_is_wrong(&self) {
        while self.clock.verify(&self.db).await.is_ok() {
            sleep(CLOCK_CHECK).await;
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
            match flows::perform(&self.db, &self.providers, &self.clock, id).await {
                Ok(Some(done)) => {
                    tracing::info!("operation finished");
                    self.tell(done).await;
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, "the operation was left as it is; recovery takes it up when its lease ends")
                }
            }
        }
        .instrument(span)
        .await;
    }

    /// Tells the waiting API process. If it does not hear it, it reads Postgres by itself.
    async fn tell(&self, done: flows::Performed) {
        let Some(channel) = done.reply_to else { return };
        if let Err(error) = self.publisher.reply(&channel, done.reply_id).await {
            tracing::warn!(%error, "the waiting request was not told; it looks for itself");
        }
    }

    async fn reconcile(self: Arc<Self>, wake: Wake) {
        let id = ProviderAccountId::from_uuid(wake.id);
        if let Err(error) = flows::reconcile(&self.db, &self.providers, &self.clock, id).await {
            tracing::error!(provider_account = %id, %error, "the statement was not compared; it is read again in a minute");
        }
    }

    async fn advance_clock(self: Arc<Self>, wake: Wake) {
        let id = AccountId::from_uuid(wake.id);
        match flows::advance_clock(&self.db, &self.providers, &self.clock, id).await {
            Ok(()) => {}
            Err(Error::Conflict(_)) => tracing::info!(account = %id, "the advance is another's, or was ended"),
            Err(error) => {
                tracing::error!(account = %id, %error, "the test clock stands still; it goes on when its lease ends");
            }
        }
    }

    async fn inquire(self: Arc<Self>, wake: Wake) {
        let id = PaymentId::from_uuid(wake.id);
        if let Err(error) = flows::inquire(&self.db, &self.providers, &self.clock, id).await {
            tracing::error!(payment = %id, %error, "how the charge stands was not noted; asked for again in half a minute");
        }
    }
}
