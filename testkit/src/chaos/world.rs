//! What a run happens in: private servers, processes behind proxies, and merchants with their endpoints.

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
    faults::{CLOCK_OFFSET_FILE, Clocks},
    journal::Journal,
    modifiers::Modifiers,
    proxy::Proxy,
    receiver::Receiver,
    schedule::Fault,
    setting::{Setting, Size},
    time::Clock,
    upgrade,
};
use crate::{Account, Client, Cluster, GatewayAccount, Kind, TempDir};

/// Where the cardholders' browsers say that they are.
pub(super) const ORIGIN: &str = "https://shop.example";
/// Room for the database, so small that it can be filled.
const DISK: &str = "size=1800m";
/// Of accounts at the gateway: no amount of a run meets a limit.
const NO_LIMITS: [&str; 4] = ["--hourly-per-address", "1000000", "--sale-limit", "999999999.99"];
/// What is charged on top of each sale of `Line::Fee`. It makes totals odd, and amounts are even.
const FEE: [&str; 2] = ["--convenience-fee-fixed", "0.51"];

/// Which provider and recovery class, and whether time is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Mock(char),
    Clock(char),
    Gateway,
    /// At the gateway, with accounts on the mock meanwhile.
    Moved,
    /// At the gateway, which charges more than it is asked for.
    Fee,
}

impl Line {
    /// What the pages of such a shop add to an amount.
    pub(super) fn modifiers(self) -> Option<Modifiers> {
        match self {
            Self::Mock('B') | Self::Gateway => Some(Modifiers::OF_A_RUN),
            Self::Mock(_) | Self::Clock(_) | Self::Moved | Self::Fee => None,
        }
    }

    /// What its clients pay in. Yen have no minor unit, and dinars three decimals.
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
    pub(super) line: Line,
    pub(super) account: Account,
    /// By what the records of the gateway and of the mock name it.
    pub(super) at_gateway: Option<Uuid>,
    pub(super) at_mock: Option<Uuid>,
    /// By what the gateway knows it, and which key its pages name; both change when keys are rotated.
    keys: Mutex<(Option<GatewayAccount>, Option<String>)>,
}

impl Shop {
    /// The keys of its account at the gateway, if it has one.
    pub(super) fn known(&self) -> Option<GatewayAccount> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    pub(super) fn knows(&self, known: GatewayAccount) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(known);
    }

    /// What its pages name to the gateway.
    pub(super) fn app_key(&self) -> Option<String> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    pub(super) fn publishes(&self, app_key: String) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(app_key);
    }
}

/// The id and the `app_key` of an account at the gateway.
pub(super) async fn newest_app_key(db: &PgPool, username: &str) -> Result<(Uuid, String)> {
    let found = sqlx::query_as("SELECT id, app_key FROM gateway.accounts WHERE username = $1");
    Ok(found.bind(username).fetch_one(db).await?)
}

/// What the clients share.
#[derive(Debug)]
pub(super) struct World {
    pub(super) apis: Vec<String>,
    pub(super) gateways: Vec<String>,
    pub(super) shops: Vec<Shop>,
    pub(super) journal: Journal,
    pub(super) clock: Clock,
    pub(super) over: AtomicBool,
    /// Which of the apis a balancer leads to.
    pub(super) ready: Vec<AtomicBool>,
    /// Which of the gateways.
    pub(super) ready_gateways: Vec<AtomicBool>,
    /// Nobody hangs up early.
    pub(super) calm: AtomicBool,
    /// How many clients have their customers and cards.
    pub(super) warm: AtomicUsize,
    secrets: Mutex<Vec<String>>,
    amounts: AtomicI64,
}

impl World {
    /// An amount that no other payment of this run has, nor its half: by it the ledgers' lines are told apart.
    pub(super) fn amount(&self) -> i64 {
        self.amounts.fetch_add(2, Ordering::Relaxed)
    }

    /// What may be found nowhere.
    pub(super) fn secrets(&self) -> Vec<String> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn keep_secret(&self, secrets: impl IntoIterator<Item = String>) {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).extend(secrets);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// The proxies on all wires.
#[derive(Debug)]
pub(super) struct Wires {
    pub(super) redis: Proxy,
    /// The last is that of all that are no workers.
    pub(super) postgres: Vec<Proxy>,
    /// One for each worker.
    pub(super) gateway: Vec<Proxy>,
}

/// All that is broken, and what must outlive it. Fields are dropped in this order.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) cluster: Cluster,
    pub(super) wires: Wires,
    pub(super) db: PgPool,
    pub(super) receiver: Receiver,
    pub(super) disk: Option<Disk>,
    /// Where Postgres lives.
    pub(super) data: PathBuf,
    pub(super) left_out: BTreeMap<Fault, String>,
    pub(super) setting: Setting,
    pub(super) clocks: Clocks,
    _directory: TempDir,
}

/// A file system of its own for Postgres.
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
        // Lazily: a server may not have ended yet.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Starts everything; with the programs in `former` instead of those built with this one.
pub(super) async fn raise(setting: Setting, former: Option<&Path>, log: &Path) -> Result<(Stage, World)> {
    let directory = TempDir::new()?;
    let mut left_out = BTreeMap::new();
    let place = directory.path().join("disk");
    let disk = match setting.disk.then(|| Disk::mount(&place)).transpose() {
        Ok(disk) => disk,
        Err(error) => {
            left_out.insert(Fault::PostgresFull, format!("{error:#}"));
            None
        }
    };
    let data = place.join("postgres");
    let size = setting.size;
    let clocks = Clocks::new()?;
    // The first gateway is there from the start, since its schema is; the others follow, each with a clock of its own.
    let first_clock = clocks.file(Kind::Gateway, 0).display().to_string();
    let builder = Cluster::builder().durable().postgres_in(&data).gateway(1);
    let mut builder = builder.env(CLOCK_OFFSET_FILE, &first_clock);
    if let Some(former) = former {
        builder = builder.release(former).env("DRAIN_MS", upgrade::DRAIN_MS);
    }
    let mut cluster = builder.env("RUST_LOG", "info").start().await?;
    let db = PgPoolOptions::new().max_connections(3).min_connections(2).connect(cluster.database_url()).await?;
    for statement in setting.without {
        sqlx::query(*statement).execute(&db).await.with_context(|| (*statement).to_owned())?;
    }
    for (name, value) in setting.environment {
        cluster.set_env(name, value);
    }
    let wires = wire(&mut cluster, setting, &clocks).await?;
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
        over: AtomicBool::new(false),
        ready: (0..size.apis).map(|_| AtomicBool::new(true)).collect(),
        ready_gateways: (0..size.gateways).map(|_| AtomicBool::new(true)).collect(),
        calm: AtomicBool::new(false),
        warm: AtomicUsize::new(0),
        secrets: Mutex::default(),
        amounts: AtomicI64::new(1_000_000),
    };
    for line in setting.lines {
        open(&cluster, &db, &receiver, &mut world, *line, setting.latency).await?;
    }
    let stage = Stage { cluster, wires, db, receiver, disk, data, left_out, setting, clocks, _directory: directory };
    Ok((stage, world))
}

/// Starts the processes of ours, each behind its proxies.
async fn wire(cluster: &mut Cluster, setting: Setting, clocks: &Clocks) -> Result<Wires> {
    let Size { apis, workers, schedulers, gateways } = setting.size;
    let clock = |kind, place| clocks.file(kind, place).display().to_string();
    for place in 1..gateways {
        cluster.set_env(CLOCK_OFFSET_FILE, &clock(Kind::Gateway, place));
        cluster.add(Kind::Gateway).await?;
    }
    let redis_port = cluster.redis.port();
    let postgres_port = cluster.postgres.as_ref().context("its own Postgres")?.port();
    let port_of = |url: &str| url.rsplit(':').next().and_then(|port| port.parse().ok()).context("a port");
    let gateways: Vec<u16> = (0..gateways).map(|i| port_of(&cluster.gateway_url(i))).collect::<Result<_>>()?;
    let redis = Proxy::start(&[redis_port]).await?;
    let mut wires = Wires { redis, postgres: Vec::new(), gateway: Vec::new() };
    let (redis_url, database_url) = (cluster.redis.url(), cluster.roles().programs.clone());
    let through = |url: &str, from: u16, to: u16| url.replace(&format!(":{from}/"), &format!(":{to}/"));
    cluster.set_env("REDIS_URL", &through(&redis_url, redis_port, wires.redis.port()));
    // The workers come last: they are told the address of the first api.
    let others = Proxy::start(&[postgres_port]).await?;
    cluster.set_env("DATABASE_URL", &through(&database_url, postgres_port, others.port()));
    for (kind, count) in [(Kind::Api, apis), (Kind::Scheduler, schedulers)] {
        for place in 0..count {
            cluster.set_env(CLOCK_OFFSET_FILE, &clock(kind, place));
            cluster.add(kind).await?;
        }
    }
    for worker in 0..workers {
        let (postgres, gateway) = (Proxy::start(&[postgres_port]).await?, Proxy::start(&gateways).await?);
        cluster.set_env("DATABASE_URL", &through(&database_url, postgres_port, postgres.port()));
        cluster.set_env("CARD_GATEWAY_URL", &format!("http://127.0.0.1:{}", gateway.port()));
        cluster.set_env("FAILPOINTS", if worker == 0 { setting.failpoints } else { "" });
        cluster.set_env(CLOCK_OFFSET_FILE, &clock(Kind::Worker, worker));
        cluster.add(Kind::Worker).await?;
        wires.postgres.push(postgres);
        wires.gateway.push(gateway);
    }
    wires.postgres.push(others);
    // The operator's tool goes to the database itself, and its clock is right.
    cluster.set_env(CLOCK_OFFSET_FILE, "");
    cluster.set_env("DATABASE_URL", &database_url);
    cluster.set_env("REDIS_URL", &redis_url);
    Ok(wires)
}

/// Opens an account with two endpoints.
async fn open(
    cluster: &Cluster,
    db: &PgPool,
    receiver: &Receiver,
    world: &mut World,
    line: Line,
    latency: &str,
) -> Result<()> {
    let mut shop = match line {
        Line::Gateway | Line::Moved | Line::Fee => {
            let (account, known) = cluster.account_at_gateway(&NO_LIMITS).await?;
            if line == Line::Fee {
                // Afterwards: an account with a fee might not be connected.
                let set = [&["account", "set", "--username", &known.username][..], &FEE].concat();
                cluster.run_gateway(&set).await?;
            }
            world.keep_secret([known.api_key.clone(), known.secret_key.clone()]);
            let (id, app_key) = newest_app_key(db, &known.username).await?;
            let keys = Mutex::new((Some(known), Some(app_key)));
            Shop { line, account, at_gateway: Some(id), at_mock: None, keys }
        }
        Line::Mock(class) | Line::Clock(class) => {
            let account = cluster.account().await?;
            let latency = if matches!(line, Line::Mock(_)) { latency } else { "60" };
            let class = class.to_string();
            cluster.ctl(&["mock", "set", &account.id, "--class", &class, "--latency-ms", latency]).await?;
            let at_mock = Some(newest_provider_account(db).await?);
            Shop { line, account, at_gateway: None, at_mock, keys: Mutex::default() }
        }
    };
    let account = &shop.account;
    if line == Line::Moved {
        cluster.ctl(&["accounts", "set", &account.id, "--provider", "mock"]).await?;
        shop.at_mock = Some(newest_provider_account(db).await?);
        cluster.ctl(&["accounts", "set", &account.id, "--provider", "card_gateway"]).await?;
    }
    cluster.ctl(&["accounts", "set", &account.id, "--origin", ORIGIN]).await?;
    if let Some(modifiers) = line.modifiers() {
        cluster.ctl(&["accounts", "set", &account.id, "--modifiers", &modifiers.json().to_string()]).await?;
    }
    world.keep_secret([account.secret_key.clone()]);
    let api = Client::new(&world.apis[0])?.bearer(&account.secret_key)?;
    for endpoint in 0..2 {
        let url = format!("{}{}", receiver.url, world.shops.len() * 2 + endpoint);
        let made = api.post("/v1/webhook_endpoints", json!({"url": url})).await?;
        ensure!(made.status == 201, "an endpoint is made: {}", made.body);
        world.keep_secret(made.body["secret"].as_str().map(str::to_owned));
    }
    world.shops.push(shop);
    Ok(())
}

async fn newest_provider_account(db: &PgPool) -> Result<Uuid> {
    Ok(sqlx::query_scalar("SELECT id FROM provider_accounts ORDER BY created_at DESC LIMIT 1").fetch_one(db).await?)
}

/// The shop's lines as the report names them.
pub(super) fn described(line: Line) -> Value {
    match line {
        Line::Mock(class) => json!(format!("mock, class {class}")),
        Line::Clock(class) => json!(format!("mock, class {class}, with a clock")),
        Line::Gateway => json!("card gateway"),
        Line::Moved => json!("card gateway, moved to the mock and back"),
        Line::Fee => json!("card gateway, with a convenience fee"),
    }
}
