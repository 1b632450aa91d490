//! The system under test: private servers, processes behind proxies, and merchants with their endpoints.

mod disk;
mod processes;
mod shops;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result};
use sqlx::{PgPool, postgres::PgPoolOptions};

use self::{disk::Disk, processes::Proxies};
use super::{
    access::{Access, Traces},
    clock_files::{CLOCK_OFFSET_FILE, ClockFiles},
    endpoints::Endpoints,
    fault::Fault,
    leaks,
    shop::Shop,
    system_config::SystemConfig,
    time::Clock,
};
use crate::{Cluster, ProcessKind, TempDir, postgres, stripe::Stripe};

/// `DRAIN_MS` of every process in an upgrade: long enough for many polls of the load balancer.
const UPGRADE_DRAIN_MS: &str = "2000";

/// The system, and what must outlive it. Fields are dropped in this order.
#[derive(Debug)]
pub(super) struct System {
    pub(super) cluster: Cluster,
    pub(super) proxies: Proxies,
    pub(super) db: PgPool,
    pub(super) endpoints: Endpoints,
    pub(super) disk: Option<Disk>,
    /// The data folder of Postgres.
    pub(super) data: PathBuf,
    pub(super) left_out: BTreeMap<Fault, String>,
    pub(super) config: SystemConfig,
    pub(super) clock_files: ClockFiles,
    pub(super) clock: Clock,
    pub(super) shops: Arc<[Shop]>,
    pub(super) stripe: Stripe,
    _directory: TempDir,
}

impl System {
    /// Starts everything, with the programs in `previous` instead of our own if it is set.
    pub(super) async fn start(config: SystemConfig, previous: Option<&Path>) -> Result<Self> {
        let directory = TempDir::new()?;
        let mut left_out = BTreeMap::new();
        let disk_folder = directory.path().join("disk");
        let disk = match config.disk.then(|| Disk::mount(&disk_folder)).transpose() {
            Ok(disk) => disk,
            Err(error) => {
                left_out.insert(Fault::PostgresFull, format!("{error:#}"));
                None
            }
        };
        let data = disk_folder.join("postgres");
        let clock_files = ClockFiles::new()?;
        // The first gateway starts here, because its migrations run here; the others follow, each with its own clock
        // file.
        let first_clock = clock_files.file(ProcessKind::Gateway, 0).display().to_string();
        let builder = Cluster::builder().durable().postgres_in(&data).gateway(1);
        let mut builder = builder.env(CLOCK_OFFSET_FILE, &first_clock);
        if let Some(previous) = previous {
            builder = builder.release(previous).env("DRAIN_MS", UPGRADE_DRAIN_MS);
        }
        let stripe = Stripe::start()?;
        let mut cluster = builder.env("RUST_LOG", "info").env("STRIPE_URL", stripe.url()).start().await?;
        let db = PgPoolOptions::new().max_connections(3).min_connections(2).connect(cluster.database_url()).await?;
        for statement in config.dropped_constraints {
            sqlx::query(*statement).execute(&db).await.with_context(|| (*statement).to_owned())?;
        }
        for (name, value) in config.environment {
            cluster.set_env(name, value);
        }
        let proxies = processes::start(&mut cluster, config, &clock_files, stripe.url()).await?;
        let clock = Clock::of(&db).await?;
        let endpoints = Endpoints::start("127.0.0.1", clock).await?;
        let shops = shops::create_all(&cluster, &db, &endpoints, config, &stripe).await?.into();
        Ok(Self {
            cluster,
            proxies,
            db,
            endpoints,
            disk,
            data,
            left_out,
            config,
            clock_files,
            clock,
            shops,
            stripe,
            _directory: directory,
        })
    }

    /// What the clients and the checker use of it.
    pub(super) fn access(&self) -> Access<'_> {
        let size = self.config.size;
        Access {
            db: &self.db,
            endpoints: &self.endpoints,
            shops: &self.shops,
            clock: self.clock,
            stripe: Some(&self.stripe),
            apis: (0..size.apis).map(|index| self.cluster.api_url(index)).collect(),
            gateways: (0..size.gateways).map(|index| self.cluster.gateway_url(index)).collect(),
        }
    }

    /// The texts that it has left.
    pub(super) async fn traces(&self) -> Result<Traces> {
        let path = postgres::home(&self.data)?.join("postgres.log");
        let log = fs::read(&path).with_context(|| path.display().to_string())?;
        Ok(Traces {
            logs: self.cluster.logs().to_owned(),
            redis: leaks::redis(&self.cluster.redis.url()).await?,
            postgres_log: String::from_utf8_lossy(&log).into_owned(),
        })
    }
}
