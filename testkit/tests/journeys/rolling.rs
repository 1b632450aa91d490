//! Rolling restart under load: behind a load balancer that polls `/readyz`, no request fails.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::{join_all, try_join_all};
use serde_json::json;
use testkit::{Client, Cluster, ProcessKind};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Merchant, eventually};

pub(crate) const APIS: usize = 2;
const CLIENTS: usize = 8;
/// How long the result of a poll counts: far shorter than [`DRAIN_MS`], so that no request goes to a process that has
/// ended its drain, however slow the polls are.
const FRESH: Duration = Duration::from_secs(2);
/// A poll that takes longer finds the backend not ready.
const POLL_TIMEOUT: Duration = Duration::from_secs(1);
pub(crate) const DRAIN_MS: &str = "5000";
/// What a client pauses between requests. Without it, clients would take the processors from the processes that start; with
/// it, some requests are still in flight at any time.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// A backend of the load balancer.
struct Backend {
    api: Client,
    health: Client,
    /// The start of the last poll, if it found it ready, or why not.
    last_poll: Mutex<Result<Instant, String>>,
}

impl Backend {
    fn last_poll(&self) -> Result<Instant, String> {
        self.last_poll.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_ready(&self) -> bool {
        self.last_poll().is_ok_and(|at| at.elapsed() < FRESH)
    }

    async fn poll(&self) -> Result<Instant, String> {
        let began = Instant::now();
        match timeout(POLL_TIMEOUT, self.health.get("/readyz")).await {
            Ok(Ok(response)) if response.status == 200 => Ok(began),
            Ok(Ok(response)) => Err(String::from_utf8_lossy(&response.bytes).into_owned()),
            Ok(Err(error)) => Err(format!("{error:#}")),
            Err(_) => Err("no response in time".to_owned()),
        }
    }
}

/// Sends each request to the next ready backend, without retries.
pub(crate) struct Balancer {
    backends: Vec<Backend>,
    position: AtomicUsize,
    stopped: AtomicBool,
}

impl Balancer {
    /// In front of the first [`APIS`] api processes of a cluster, with this key.
    pub(crate) fn new(cluster: &Cluster, key: &str) -> Result<Self> {
        let backend = |index| {
            Ok(Backend {
                api: Client::new(&cluster.api_url(index))?.bearer(key)?,
                health: Client::new(&cluster.metrics_url(ProcessKind::Api, index).replace("/metrics", ""))?,
                last_poll: Mutex::new(Err("not polled".to_owned())),
            })
        };
        Ok(Self {
            backends: (0..APIS).map(backend).collect::<Result<_>>()?,
            position: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        })
    }

    /// The next ready backend.
    pub(crate) async fn next(&self) -> Result<&Client> {
        eventually("a ready backend", async || {
            for _ in 0..APIS {
                let backend = &self.backends[self.position.fetch_add(1, Ordering::Relaxed) % APIS];
                if backend.is_ready() {
                    return Ok(Some(&backend.api));
                }
            }
            bail!("{:?}", self.backends.iter().map(Backend::last_poll).collect::<Vec<_>>())
        })
        .await
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Stops the load and the polling.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn all_ready(&self) -> bool {
        self.backends.iter().all(Backend::is_ready)
    }

    /// Polls the readiness of each backend until stopped. One that does not respond delays no poll of another.
    pub(crate) async fn poll_readiness(&self) -> Result<()> {
        join_all(self.backends.iter().map(async |backend| {
            while !self.is_stopped() {
                let polled = backend.poll().await;
                *backend.last_poll.lock().unwrap_or_else(PoisonError::into_inner) = polled;
                sleep(Duration::from_millis(100)).await;
            }
        }))
        .await;
        Ok(())
    }

    /// Creates and reads payments until stopped; returns their number.
    async fn load(&self, client: usize) -> Result<usize> {
        let mut done = 0;
        while !self.is_stopped() {
            let amount = 1000 * (client + 1) + done % 1000;
            let body = json!({"amount": amount, "currency": "USD", "paymentToken": "tok_ok"});
            let paid = self.next().await?.post("/v1/payments", body).await.context("a payment")?;
            ensure!(paid.status == 201 && paid.body["status"] == "pending_settlement", "{}", paid.body);
            let id = paid.body["id"].as_str().context("an id")?.to_owned();
            let read = self.next().await?.get(&format!("/v1/payments/{id}")).await.context("a read")?;
            ensure!(read.status == 200 && read.body["id"] == id, "{}", read.body);
            done += 1;
            sleep(PAUSE).await;
        }
        Ok(done)
    }
}

/// Replaces the processes one after another, each after the previous one is ready.
async fn replace_all(cluster: &mut Cluster, balancer: &Balancer) -> Result<()> {
    for process in cluster.processes() {
        let status = process.terminate().await?;
        ensure!(status.code() == Some(0), "{} exits with 0", process.kind().name());
        process.restart().await?;
        eventually("the load balancer to see all backends ready", async || Ok(balancer.all_ready().then_some(())))
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn no_request_fails_during_a_rolling_restart() -> Result<()> {
    let builder = Cluster::builder().api(APIS).worker(2).scheduler(2);
    let mut cluster = builder.env("DRAIN_MS", DRAIN_MS).env("DATABASE_POOL", "16").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let balancer = Balancer::new(&cluster, &merchant.account.secret_key)?;
    let loads = try_join_all((0..CLIENTS).map(|client| balancer.load(client)));
    let replacing = async {
        replace_all(&mut cluster, &balancer).await?;
        balancer.stop();
        anyhow::Ok(())
    };
    let (done, (), ()) = tokio::try_join!(loads, replacing, balancer.poll_readiness())?;
    let done: usize = done.into_iter().sum();
    assert!(done > 6 * CLIENTS, "only {done} payments: too little load");
    eventually("all payments to finish", async || Ok((merchant.books.unfinished().await? == 0).then_some(()))).await?;
    merchant.books.audit().await
}
