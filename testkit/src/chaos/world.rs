//! The environment of a run: private servers, processes behind proxies, and merchants with their endpoints.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sqlx::{PgPool, postgres::PgPoolOptions};
use uuid::Uuid;

use super::{
    config::{Size, SystemConfig},
    faults::{CLOCK_OFFSET_FILE, Clocks},
    journal::Journal,
    modifiers::Modifiers,
    proxy::Proxy,
    receiver::Receiver,
    schedule::Fault,
    time::Clock,
    upgrade,
};
use crate::{Account, Client, Cluster, GatewayAccount, ProcessKind, TempDir};

/// The origin of the cardholders' browsers.
pub(super) const ORIGIN: &str = "https://shop.example";
/// The size of the database's disk, small enough to be filled.
const DISK: &str = "size=1800m";
/// Options of gateway accounts, so that no amount of a run reaches a limit.
const NO_LIMITS: [&str; 4] = ["--hourly-per-address", "1000000", "--sale-limit", "999999999.99"];
/// The fee on each sale of a `Fee` shop. It makes totals odd, while requested amounts are even.
const FEE: [&str; 2] = ["--convenience-fee-fixed", "0.51"];

/// The provider of a merchant with its recovery class, and whether its test clock is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShopKind {
    Mock(char),
    Clock(char),
    Gateway,
    /// At the gateway, temporarily moved to the mock.
    Moved,
    /// At the gateway, with a fee on top of the requested amount.
    Fee,
}

impl ShopKind {
    /// The modifiers of its payment pages.
    pub(super) fn modifiers(self) -> Option<Modifiers> {
        match self {
            Self::Mock('B') | Self::Gateway => Some(Modifiers::FOR_A_RUN),
            Self::Mock(_) | Self::Clock(_) | Self::Moved | Self::Fee => None,
        }
    }

    /// The currencies of its payments. JPY has no minor unit, and KWD three decimals.
    pub(super) fn currencies(self) -> &'static [&'static str] {
        match self {
            Self::Mock(_) => &["USD", "USD", "EUR", "JPY", "KWD"],
            Self::Clock(_) => &["USD"],
            Self::Gateway | Self::Moved | Self::Fee => &["USD", "USD", "EUR", "GBP"],
        }
    }
}

/// A merchant.
#[derive(Debug)]
pub(super) struct Shop {
    pub(super) kind: ShopKind,
    pub(super) account: Account,
    /// Its account ids in the records of the gateway and of the mock.
    pub(super) gateway_account_id: Option<Uuid>,
    pub(super) mock_account_id: Option<Uuid>,
    /// Its gateway credentials, and the key used by its pages. Both change with key rotation.
    credentials: Mutex<(Option<GatewayAccount>, Option<String>)>,
}

impl Shop {
    /// Its gateway credentials, if it has a gateway account.
    pub(super) fn gateway_account(&self) -> Option<GatewayAccount> {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    pub(super) fn set_gateway_account(&self, gateway_account: GatewayAccount) {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(gateway_account);
    }

    /// The key that its pages send to the gateway.
    pub(super) fn app_key(&self) -> Option<String> {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    pub(super) fn set_app_key(&self, app_key: String) {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(app_key);
    }
}

/// The id and the `app_key` of a gateway account.
pub(super) async fn gateway_id_and_app_key(db: &PgPool, username: &str) -> Result<(Uuid, String)> {
    let query = sqlx::query_as("SELECT id, app_key FROM gateway.accounts WHERE username = $1");
    Ok(query.bind(username).fetch_one(db).await?)
}

/// The state shared by all clients.
#[derive(Debug)]
pub(super) struct World {
    pub(super) apis: Vec<String>,
    pub(super) gateways: Vec<String>,
    pub(super) shops: Vec<Shop>,
    pub(super) journal: Journal,
    pub(super) clock: Clock,
    pub(super) load_ended: AtomicBool,
    /// Whether a load balancer would use each api process.
    pub(super) ready: Vec<AtomicBool>,
    /// The same for each gateway.
    pub(super) ready_gateways: Vec<AtomicBool>,
    /// Clients do not time out early.
    pub(super) full_timeouts: AtomicBool,
    /// The number of clients that have created their customers and cards.
    pub(super) warmed_up_clients: AtomicUsize,
    secrets: Mutex<Vec<String>>,
    amounts: AtomicI64,
}

impl World {
    /// An amount that no other payment of this run has, even in part: it identifies the lines of a ledger.
    pub(super) fn amount(&self) -> i64 {
        self.amounts.fetch_add(2, Ordering::Relaxed)
    }

    /// Values that must not be stored or logged anywhere.
    pub(super) fn secrets(&self) -> Vec<String> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn add_secrets(&self, secrets: impl IntoIterator<Item = String>) {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).extend(secrets);
    }

    pub(super) fn load_has_ended(&self) -> bool {
        self.load_ended.load(Ordering::Relaxed)
    }
}

/// The proxies between the processes and their servers.
#[derive(Debug)]
pub(super) struct Proxies {
    pub(super) redis: Proxy,
    /// One for each worker, and a last one for all other processes.
    pub(super) postgres: Vec<Proxy>,
    /// One for each worker.
    pub(super) gateway: Vec<Proxy>,
}

/// The system under test, and what must outlive it. Fields are dropped in this order.
#[derive(Debug)]
pub(super) struct System {
    pub(super) cluster: Cluster,
    pub(super) proxies: Proxies,
    pub(super) db: PgPool,
    pub(super) receiver: Receiver,
    pub(super) disk: Option<Disk>,
    /// The data folder of Postgres.
    pub(super) data: PathBuf,
    pub(super) left_out: BTreeMap<Fault, String>,
    pub(super) config: SystemConfig,
    pub(super) clocks: Clocks,
    _directory: TempDir,
}

/// A separate file system for Postgres.
#[derive(Debug)]
pub(super) struct Disk(pub(super) PathBuf);

impl Disk {
    fn mount(at: &Path) -> Result<Self> {
        std::fs::create_dir_all(at)?;
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", DISK, "none"]).arg(at).output()?;
        ensure!(mount.status.success(), "{}", String::from_utf8_lossy(&mount.stderr).trim());
        Ok(Self(at.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazy unmount, because a server may still be running.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Starts everything, with the programs in `previous` instead of our own if it is set.
pub(super) async fn start(config: SystemConfig, previous: Option<&Path>, log: &Path) -> Result<(System, World)> {
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
    let size = config.size;
    let clocks = Clocks::new()?;
    // The first gateway starts here, because its migrations run here; the others follow, each with its own clock file.
    let first_clock = clocks.file(ProcessKind::Gateway, 0).display().to_string();
    let builder = Cluster::builder().durable().postgres_in(&data).gateway(1);
    let mut builder = builder.env(CLOCK_OFFSET_FILE, &first_clock);
    if let Some(previous) = previous {
        builder = builder.release(previous).env("DRAIN_MS", upgrade::DRAIN_MS);
    }
    let mut cluster = builder.env("RUST_LOG", "info").start().await?;
    let db = PgPoolOptions::new().max_connections(3).min_connections(2).connect(cluster.database_url()).await?;
    for statement in config.dropped_constraints {
        sqlx::query(*statement).execute(&db).await.with_context(|| (*statement).to_owned())?;
    }
    for (name, value) in config.environment {
        cluster.set_env(name, value);
    }
    let proxies = start_processes(&mut cluster, config, &clocks).await?;
    let now: i64 =
        sqlx::query_scalar("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").fetch_one(&db).await?;
    let clock = Clock::starting(now);
    let receiver = Receiver::start(clock).await?;
    let mut world = World {
        apis: (0..size.apis).map(|index| cluster.api_url(index)).collect(),
        gateways: (0..size.gateways).map(|index| cluster.gateway_url(index)).collect(),
        shops: Vec::new(),
        journal: Journal::create(log)?,
        clock,
        load_ended: AtomicBool::new(false),
        ready: (0..size.apis).map(|_| AtomicBool::new(true)).collect(),
        ready_gateways: (0..size.gateways).map(|_| AtomicBool::new(true)).collect(),
        full_timeouts: AtomicBool::new(false),
        warmed_up_clients: AtomicUsize::new(0),
        secrets: Mutex::default(),
        amounts: AtomicI64::new(1_000_000),
    };
    for kind in config.shops {
        create_shop(&cluster, &db, &receiver, &mut world, *kind, config.latency).await?;
    }
    let system = System { cluster, proxies, db, receiver, disk, data, left_out, config, clocks, _directory: directory };
    Ok((system, world))
}

/// Starts our processes, each behind its proxies.
async fn start_processes(cluster: &mut Cluster, config: SystemConfig, clocks: &Clocks) -> Result<Proxies> {
    let Size { apis, workers, schedulers, gateways } = config.size;
    let clock = |kind, index| clocks.file(kind, index).display().to_string();
    for index in 1..gateways {
        cluster.set_env(CLOCK_OFFSET_FILE, &clock(ProcessKind::Gateway, index));
        cluster.add(ProcessKind::Gateway).await?;
    }
    let redis_port = cluster.redis.port();
    let postgres_port = cluster.postgres.as_ref().context("the system has no Postgres of its own")?.port();
    let port_of = |url: &str| url.rsplit(':').next().and_then(|port| port.parse().ok()).context("the URL has no port");
    let gateways: Vec<u16> = (0..gateways).map(|i| port_of(&cluster.gateway_url(i))).collect::<Result<_>>()?;
    let redis = Proxy::start(&[redis_port]).await?;
    let mut proxies = Proxies { redis, postgres: Vec::new(), gateway: Vec::new() };
    let (redis_url, database_url) = (cluster.redis.url(), cluster.roles().programs.clone());
    let through = |url: &str, from: u16, to: u16| url.replace(&format!(":{from}/"), &format!(":{to}/"));
    cluster.set_env("REDIS_URL", &through(&redis_url, redis_port, proxies.redis.port()));
    // Workers start last: they need the address of the first api.
    let others = Proxy::start(&[postgres_port]).await?;
    cluster.set_env("DATABASE_URL", &through(&database_url, postgres_port, others.port()));
    for (kind, count) in [(ProcessKind::Api, apis), (ProcessKind::Scheduler, schedulers)] {
        for index in 0..count {
            cluster.set_env(CLOCK_OFFSET_FILE, &clock(kind, index));
            cluster.add(kind).await?;
        }
    }
    for worker in 0..workers {
        let (postgres, gateway) = (Proxy::start(&[postgres_port]).await?, Proxy::start(&gateways).await?);
        cluster.set_env("DATABASE_URL", &through(&database_url, postgres_port, postgres.port()));
        cluster.set_env("CARD_GATEWAY_URL", &format!("http://127.0.0.1:{}", gateway.port()));
        cluster.set_env("FAILPOINTS", if worker == 0 { config.failpoints } else { "" });
        cluster.set_env(CLOCK_OFFSET_FILE, &clock(ProcessKind::Worker, worker));
        cluster.add(ProcessKind::Worker).await?;
        proxies.postgres.push(postgres);
        proxies.gateway.push(gateway);
    }
    proxies.postgres.push(others);
    // `ctl` connects directly, with the right clock.
    cluster.set_env(CLOCK_OFFSET_FILE, "");
    cluster.set_env("DATABASE_URL", &database_url);
    cluster.set_env("REDIS_URL", &redis_url);
    Ok(proxies)
}

/// Creates an account with two webhook endpoints.
async fn create_shop(
    cluster: &Cluster,
    db: &PgPool,
    receiver: &Receiver,
    world: &mut World,
    kind: ShopKind,
    latency: &str,
) -> Result<()> {
    let mut shop = match kind {
        ShopKind::Gateway | ShopKind::Moved | ShopKind::Fee => {
            let (account, gateway_account) = cluster.account_at_gateway(&NO_LIMITS).await?;
            if kind == ShopKind::Fee {
                // Set after connecting, because an account with a fee might be rejected.
                let set = [&["account", "set", "--username", &gateway_account.username][..], &FEE].concat();
                cluster.run_gateway(&set).await?;
            }
            world.add_secrets([gateway_account.api_key.clone(), gateway_account.secret_key.clone()]);
            let (id, app_key) = gateway_id_and_app_key(db, &gateway_account.username).await?;
            let credentials = Mutex::new((Some(gateway_account), Some(app_key)));
            Shop { kind, account, gateway_account_id: Some(id), mock_account_id: None, credentials }
        }
        ShopKind::Mock(class) | ShopKind::Clock(class) => {
            let account = cluster.account().await?;
            let latency = if matches!(kind, ShopKind::Mock(_)) { latency } else { "60" };
            let class = class.to_string();
            cluster.ctl(&["mock", "set", &account.id, "--class", &class, "--latency-ms", latency]).await?;
            let mock_account_id = Some(newest_provider_account(db).await?);
            Shop { kind, account, gateway_account_id: None, mock_account_id, credentials: Mutex::default() }
        }
    };
    let account = &shop.account;
    if kind == ShopKind::Moved {
        cluster.ctl(&["accounts", "set", &account.id, "--provider", "mock"]).await?;
        shop.mock_account_id = Some(newest_provider_account(db).await?);
        cluster.ctl(&["accounts", "set", &account.id, "--provider", "card_gateway"]).await?;
    }
    cluster.ctl(&["accounts", "set", &account.id, "--origin", ORIGIN]).await?;
    if let Some(modifiers) = kind.modifiers() {
        cluster.ctl(&["accounts", "set", &account.id, "--modifiers", &modifiers.json().to_string()]).await?;
    }
    world.add_secrets([account.secret_key.clone()]);
    let api = Client::new(&world.apis[0])?.bearer(&account.secret_key)?;
    for endpoint in 0..2 {
        let url = format!("{}{}", receiver.url, world.shops.len() * 2 + endpoint);
        let response = api.post("/v1/webhook_endpoints", json!({"url": url})).await?;
        ensure!(response.status == 201, "cannot create an endpoint: {}", response.body);
        world.add_secrets(response.body["secret"].as_str().map(str::to_owned));
    }
    world.shops.push(shop);
    Ok(())
}

async fn newest_provider_account(db: &PgPool) -> Result<Uuid> {
    Ok(sqlx::query_scalar("SELECT id FROM provider_accounts ORDER BY created_at DESC LIMIT 1").fetch_one(db).await?)
}

/// The provider of a shop, as printed in the report.
pub(super) fn provider_description(kind: ShopKind) -> Value {
    match kind {
        ShopKind::Mock(class) => json!(format!("mock, class {class}")),
        ShopKind::Clock(class) => json!(format!("mock, class {class}, with a clock")),
        ShopKind::Gateway => json!("card gateway"),
        ShopKind::Moved => json!("card gateway, moved to the mock and back"),
        ShopKind::Fee => json!("card gateway, with a convenience fee"),
    }
}
