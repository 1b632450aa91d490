//! Every process is replaced, one after another, under load: behind a balancer that asks `/readyz`, no request fails.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::{join_all, try_join_all};
use serde_json::json;
use testkit::{Client, Cluster, Kind};
use tokio::time::sleep;

use crate::support::{Merchant, eventually};

pub(crate) const APIS: usize = 2;
const CLIENTS: usize = 8;

/// A backend as a balancer knows it.
struct Backend {
    api: Client,
    health: Client,
    ready: AtomicBool,
}

/// It sends each request to the next backend that said that it is ready, once, and repeats none.
pub(crate) struct Balancer {
    backends: Vec<Backend>,
    turn: AtomicUsize,
    over: AtomicBool,
}

impl Balancer {
    /// In front of the first [`APIS`] of a cluster, for a holder of this key.
    pub(crate) fn new(cluster: &Cluster, key: &str) -> Result<Self> {
        let backend = |index| {
            Ok(Backend {
                api: Client::new(&cluster.api_url(index))?.bearer(key)?,
                health: Client::new(&cluster.metrics_url(Kind::Api, index).replace("/metrics", ""))?,
                ready: AtomicBool::new(true),
            })
        };
        Ok(Self {
            backends: (0..APIS).map(backend).collect::<Result<_>>()?,
            turn: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        })
    }

    /// The next one that is ready.
    pub(crate) fn next(&self) -> Result<&Client> {
        for _ in 0..APIS {
            let backend = &self.backends[self.turn.fetch_add(1, Ordering::Relaxed) % APIS];
            if backend.ready.load(Ordering::Relaxed) {
                return Ok(&backend.api);
            }
        }
        anyhow::bail!("no backend is ready")
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Ends the load.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn all_ready(&self) -> bool {
        self.backends.iter().all(|backend| backend.ready.load(Ordering::Relaxed))
    }

    /// Asks who is ready, until it is over.
    pub(crate) async fn look_after(&self) -> Result<()> {
        while !self.is_over() {
            join_all(self.backends.iter().map(async |backend| {
                let answer = backend.health.get("/readyz").await;
                backend.ready.store(answer.is_ok_and(|answer| answer.status == 200), Ordering::Relaxed);
            }))
            .await;
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Payments and reads, until it is over; answers how many.
    async fn load(&self, client: usize) -> Result<usize> {
        let mut done = 0;
        while !self.is_over() {
            let amount = 1000 * (client + 1) + done % 1000;
            let body = json!({"amount": amount, "currency": "USD", "paymentToken": "tok_ok"});
            let paid = self.next()?.post("/v1/payments", body).await.context("a payment")?;
            ensure!(paid.status == 201 && paid.body["status"] == "pending_settlement", "{}", paid.body);
            let id = paid.body["id"].as_str().context("an id")?.to_owned();
            let read = self.next()?.get(&format!("/v1/payments/{id}")).await.context("a read")?;
            ensure!(read.status == 200 && read.body["id"] == id, "{}", read.body);
            done += 1;
        }
        Ok(done)
    }
}

/// One after another; each is ready before the next one goes.
async fn replace(cluster: &mut Cluster, balancer: &Balancer) -> Result<()> {
    for process in cluster.processes() {
        let status = process.terminate().await?;
        ensure!(status.code() == Some(0), "{} ends well", process.kind().name());
        process.restart().await?;
        eventually("the balancer to see that it is back", async || Ok(balancer.all_ready().then_some(()))).await?;
    }
    Ok(())
}

#[tokio::test]
async fn no_request_fails_while_every_process_is_replaced() -> Result<()> {
    let builder = Cluster::builder().api(APIS).worker(2).scheduler(2);
    let mut cluster = builder.env("DRAIN_MS", "4000").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let balancer = Balancer::new(&cluster, &merchant.account.secret_key)?;
    let loads = try_join_all((0..CLIENTS).map(|client| balancer.load(client)));
    let replacing = async {
        replace(&mut cluster, &balancer).await?;
        balancer.end();
        anyhow::Ok(())
    };
    let (done, (), ()) = tokio::try_join!(loads, replacing, balancer.look_after())?;
    let done: usize = done.into_iter().sum();
    assert!(done > 6 * CLIENTS, "{done} payments: it was no load");
    eventually("all is done", async || Ok((merchant.books.unfinished().await? == 0).then_some(()))).await?;
    merchant.books.audit().await
}
