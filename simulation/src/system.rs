//! The deployment that is simulated: which processes run, at which addresses, and how they are restarted.

use std::collections::BTreeMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use foundation::telemetry::MetricsHandle;
use serde::{Deserialize, Serialize};
use testkit::stripe::Stripe;
use tokio::net::TcpListener;

use crate::clock;
use crate::servers::Servers;
use crate::world::{ProcessId, Service, World};

/// The addresses of the virtual network.
pub const POSTGRES: ([u8; 4], u16) = ([10, 0, 0, 1], 5432);
/// Redis.
pub const REDIS: ([u8; 4], u16) = ([10, 0, 0, 2], 6379);
/// The balancer in front of api.
pub const API: ([u8; 4], u16) = ([10, 0, 0, 3], 80);
const API_PORT: u16 = 8080;
/// The card gateway, for workers.
pub const GATEWAY: ([u8; 4], u16) = ([10, 0, 0, 4], 80);
/// The card gateway, for browsers.
pub const GATEWAY_PAGES: ([u8; 4], u16) = ([10, 0, 0, 5], 80);
const GATEWAY_PORT: u16 = 8090;
/// Stripe.
pub const STRIPE: ([u8; 4], u16) = ([10, 0, 0, 6], 80);
const STRIPE_PORT: u16 = 8091;

/// The key of stored secrets that every process can read with, besides the one that it writes with.
pub const NEXT_ENCRYPTION_KEY: &str = "5555555555555555555555555555555555555555555555555555555555555555";

/// A process of the deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Role {
    /// Takes requests.
    Api,
    /// Talks to providers.
    Worker,
    /// A second worker.
    SecondWorker,
    /// Finds due work.
    Scheduler,
    /// Takes cards. Runs in histories whose account is connected to it.
    Gateway,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Api, Self::Worker, Self::SecondWorker, Self::Scheduler, Self::Gateway];

    const fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
            Self::SecondWorker => "second worker",
            Self::Scheduler => "scheduler",
            Self::Gateway => "gateway",
        }
    }
}

fn url(address: ([u8; 4], u16)) -> String {
    format!("http://{}", SocketAddr::from(address))
}

/// The simulated deployment.
pub struct System {
    /// The processes and connections.
    pub world: World,
    /// What the address [`STRIPE`] serves.
    pub stripe: Arc<Stripe>,
    metrics: MetricsHandle,
    running: BTreeMap<Role, ProcessId>,
    wall_offsets: BTreeMap<Role, i64>,
}

/// Sets the environment variables that configure every process.
///
/// # Safety
/// No other thread may run.
#[allow(unsafe_code)]
pub unsafe fn configure(servers: &Servers) {
    let at = |url: &str, port: u16, (ip, to): ([u8; 4], u16)| {
        url.replace(&format!("127.0.0.1:{port}"), &SocketAddr::from((ip, to)).to_string())
    };
    let (postgres, redis) = servers.ports();
    let database = |url: &str| at(url, postgres, POSTGRES) + "?sslmode=disable";
    let gateway = url(GATEWAY);
    let variables: [(_, &str); 19] = [
        ("DATABASE_URL", &database(&servers.database_url())),
        ("GATEWAY_DATABASE_URL", &database(&servers.gateway_url())),
        ("CARD_GATEWAY_URL", &gateway),
        ("STRIPE_URL", &url(STRIPE)),
        ("GATEWAY_PUBLIC_URL", &gateway),
        ("GATEWAY_CARD_KEY", &"33".repeat(32)),
        ("GATEWAY_PEPPER", &"44".repeat(32)),
        ("GATEWAY_BIND", "127.0.0.1:8090"),
        // A process that is killed or paused meanwhile may have asked its acquirer or not.
        ("GATEWAY_ACQUIRER_DELAY_MS", "1000"),
        ("REDIS_URL", &at(&servers.redis_url(), redis, REDIS)),
        ("PUBLIC_URL", "http://127.0.0.1:8080"),
        ("KEY_PEPPER", &"11".repeat(32)),
        ("ENCRYPTION_KEY", &"22".repeat(32)),
        ("OLD_ENCRYPTION_KEYS", NEXT_ENCRYPTION_KEY),
        ("API_BIND", "127.0.0.1:8080"),
        ("METRICS_BIND", "127.0.0.1:9090"),
        ("WEBHOOK_ALLOW_LOOPBACK", "true"),
        ("DATABASE_POOL", "4"),
        // Part of what a process writes about itself, and so of the digest.
        ("HOSTNAME", "simulated"),
    ];
    for (name, value) in variables {
        // SAFETY: the caller's promise.
        unsafe { std::env::set_var(name, value) };
    }
}

impl System {
    /// A system without processes.
    ///
    /// # Errors
    /// If Postgres or Redis refuses the simulator's connections.
    pub fn new(seed: u64, servers: &mut Servers, metrics: MetricsHandle) -> Result<Self> {
        clock::reset(clock::BEGIN_US, seed);
        let (_, redis) = servers.ports();
        let services = BTreeMap::from([
            (SocketAddr::from(POSTGRES), Service::Postgres),
            (SocketAddr::from(REDIS), Service::Redis(redis)),
        ]);
        let (backends, observer) = servers.take_backends()?;
        let mut world = World::new(seed, services, backends, observer, servers.redis_connection()?);
        let double = Arc::new(Stripe::unserved(url(STRIPE)));
        let served = Arc::clone(&double);
        let process = world.start("stripe", 0, move || async move {
            let served = async { served.serve(TcpListener::bind(("127.0.0.1", STRIPE_PORT)).await?).await };
            if let Err(error) = served.await {
                tracing::error!(%error, "Stripe failed");
            }
        });
        world.publish(SocketAddr::from(STRIPE), Service::Process(process, STRIPE_PORT));
        Ok(Self { world, stripe: double, metrics, running: BTreeMap::new(), wall_offsets: BTreeMap::new() })
    }

    /// Starts a process, or does nothing if it runs.
    pub fn start(&mut self, role: Role) {
        if self.process(role).is_some() {
            return;
        }
        let metrics = self.metrics.clone();
        let offset = self.wall_offsets.get(&role).copied().unwrap_or(0);
        let id = self.world.start(role.name(), offset, move || async move {
            let ended = match role {
                Role::Api => api::run(metrics, pending()).await,
                Role::Worker | Role::SecondWorker => worker::run(metrics, pending()).await,
                Role::Scheduler => scheduler::run(metrics, pending()).await,
                Role::Gateway => gateway::commands::serve(metrics, pending()).await,
            };
            if let Err(error) = ended {
                tracing::error!(%error, "the process failed");
            }
        });
        self.running.insert(role, id);
        // As behind a balancer: the address stays, the process changes.
        let addresses: &[_] = match role {
            Role::Api => &[(API, API_PORT)],
            Role::Gateway => &[(GATEWAY, GATEWAY_PORT), (GATEWAY_PAGES, GATEWAY_PORT)],
            Role::Worker | Role::SecondWorker | Role::Scheduler => &[],
        };
        for (address, port) in addresses {
            self.world.publish(SocketAddr::from(*address), Service::Process(id, *port));
        }
    }

    /// The process in this role, if it runs.
    pub fn process(&self, role: Role) -> Option<ProcessId> {
        self.running.get(&role).copied().filter(|id| !self.world.has_ended(*id))
    }

    /// The role of a process.
    pub fn role(&self, process: ProcessId) -> Option<Role> {
        self.running.iter().find(|(_, id)| **id == process).map(|(role, _)| *role)
    }

    /// Sets how far the wall clock of a process is ahead, from its next start. Returns whether it was different.
    pub fn set_wall_offset(&mut self, role: Role, us: i64) -> bool {
        self.wall_offsets.insert(role, us).unwrap_or(0) != us
    }

    /// Changes settings of the mock provider, such as `latency_ms = 300`.
    ///
    /// # Errors
    /// If Postgres fails.
    pub fn configure_provider(&mut self, settings: &str) -> Result<()> {
        let observer = &mut self.world.observer;
        observer.query("INSERT INTO mock.accounts (id) SELECT id FROM provider_accounts ON CONFLICT DO NOTHING")?;
        observer.query(&format!("UPDATE mock.accounts SET {settings}"))?;
        Ok(())
    }

    /// Sets what the card gateway adds to each sale, in minor units. The account does not expect it.
    ///
    /// # Errors
    /// If Postgres fails.
    pub fn set_fee(&mut self, fixed: u32) -> Result<()> {
        self.world.observer.query(&format!("UPDATE gateway.accounts SET fee_fixed = {fixed}"))?;
        Ok(())
    }

    /// Runs a process to its end and returns its result.
    ///
    /// # Errors
    /// The errors of `main`.
    pub fn complete<T, M, F>(&mut self, name: &'static str, main: M) -> Result<T>
    where
        T: Send + 'static,
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<T>>,
    {
        // It may wait for a time.
        self.world.drift_us = 0;
        let completed = Arc::new(Mutex::new(None));
        let result = Arc::clone(&completed);
        let process = self.world.start(name, 0, move || async move {
            let output = main().await;
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
        });
        while !self.world.has_ended(process) {
            self.world.step(u64::MAX)?;
        }
        let output = completed.lock().unwrap_or_else(PoisonError::into_inner).take();
        output.context("the process ended early")?
    }
}
