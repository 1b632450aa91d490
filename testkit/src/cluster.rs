//! A complete system for one test: a database, a Redis, and any number of processes.

mod accounts;
mod commands;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
};

use anyhow::{Context, Result};

use crate::{
    Account, Client, Database, Postgres, Process, ProcessKind, Redis, TempDir,
    account::run,
    database::{migrate_gateway, postgres_with_database},
    files::random_hex,
    ports,
    process::{Environment, Programs, named_url, operator},
    redis,
    roles::Roles,
    template::ROLES_PASSWORD,
    test_logs,
};

/// What to start; see [`Cluster::builder`].
#[derive(Clone, Debug, Default)]
pub struct Builder {
    counts: [usize; 5],
    environment: Environment,
    own_postgres: bool,
    durable: bool,
    postgres_in: Option<PathBuf>,
    release: Option<PathBuf>,
}

impl Builder {
    /// The number of api processes.
    #[must_use]
    pub fn api(self, count: usize) -> Self {
        self.with(ProcessKind::Api, count)
    }

    /// The number of workers.
    #[must_use]
    pub fn worker(self, count: usize) -> Self {
        self.with(ProcessKind::Worker, count)
    }

    /// The number of schedulers.
    #[must_use]
    pub fn scheduler(self, count: usize) -> Self {
        self.with(ProcessKind::Scheduler, count)
    }

    /// The number of card gateways.
    #[must_use]
    pub fn gateway(self, count: usize) -> Self {
        self.with(ProcessKind::Gateway, count)
    }

    /// The number of portals. Browsers reach only the first at its own address, because the others accept its forms only.
    #[must_use]
    pub fn portal(self, count: usize) -> Self {
        self.with(ProcessKind::Portal, count)
    }

    /// Starts a separate Postgres instead of using a database of the shared one, so that the test may crash it.
    #[must_use]
    pub fn own_postgres(mut self) -> Self {
        self.own_postgres = true;
        self
    }

    /// Starts a separate Postgres with `fsync` on, as in production, so that measurements are realistic.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self.own_postgres()
    }

    /// Puts the data of the separate Postgres into this folder.
    #[must_use]
    pub fn postgres_in(mut self, folder: &Path) -> Self {
        self.postgres_in = Some(folder.to_owned());
        self.own_postgres()
    }

    /// Runs the programs of another release, found in this folder, on a separate database with their schema.
    #[must_use]
    pub fn release(mut self, folder: &Path) -> Self {
        self.release = Some(folder.to_owned());
        self.own_postgres()
    }

    /// Sets an environment variable of every process. It takes precedence over the cluster's own settings.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Starts everything and waits until every process is ready.
    ///
    /// # Errors
    /// When a server or a process does not become ready; the error includes the end of its log.
    pub async fn start(mut self) -> Result<Cluster> {
        let directory = if self.durable { TempDir::new() } else { TempDir::in_memory() }?;
        let programs = self.release.as_deref().map_or_else(Programs::own, |folder| Ok(Programs::in_folder(folder)))?;
        // A test that names another database, or another route to its own, passes the owner's URL.
        let given_url = self.environment.remove("DATABASE_URL");
        let has_gateway = self.counts[ProcessKind::Gateway as usize] > 0;
        let copies_gateway = has_gateway && !self.own_postgres && given_url.is_none();
        let (url, postgres, database) = if self.own_postgres {
            let folder = self.postgres_in.unwrap_or_else(|| directory.path().join("postgres"));
            let (url, postgres) = postgres_with_database(&folder, self.durable, self.release.is_none()).await?;
            (url, Some(postgres), None)
        } else {
            let database = match copies_gateway {
                true => Database::create_with_gateway(&programs).await?,
                false => Database::create().await?,
            };
            (database.url().to_owned(), None, Some(database))
        };
        let is_migrated = self.release.is_none() && given_url.is_none();
        let owner = given_url.unwrap_or(url);
        let roles = match &self.release {
            None => Roles::of(&owner, ROLES_PASSWORD)?,
            Some(_) => Roles::owner_only(&owner),
        };
        if self.release.is_some() {
            run(&programs.path("migrate")?, &roles.migration_environment(), &[]).await?;
        } else if !is_migrated {
            migrations::run(&owner).await?;
            roles.grant().await?;
        }
        let redis = Redis::start(&directory.path().join("redis"), redis::Options::default()).await?;
        let mut environment = common_environment(&redis)?;
        let mail = directory.path().join("mail");
        for folder in ["MAIL_FOLDER", "GATEWAY_MAIL_FOLDER"] {
            environment.insert(folder.to_owned(), mail.display().to_string());
        }
        environment.extend(self.environment);
        if has_gateway && !copies_gateway {
            migrate_gateway(&programs, &roles).await?;
        }
        environment.extend(roles.program_environment());
        let mut cluster = Cluster {
            processes: Vec::new(),
            programs,
            environment,
            mail,
            logs: test_logs::folder()?,
            roles,
            redis,
            postgres,
            _database: database,
            _directory: directory,
        };
        for kind in KINDS {
            for _ in 0..self.counts[kind as usize] {
                cluster.spawn(kind)?;
            }
        }
        for process in &mut cluster.processes {
            process.wait_until_ready().await?;
        }
        Ok(cluster)
    }

    fn with(mut self, kind: ProcessKind, count: usize) -> Self {
        self.counts[kind as usize] = count;
        self
    }
}

const KINDS: [ProcessKind; 5] =
    [ProcessKind::Gateway, ProcessKind::Api, ProcessKind::Portal, ProcessKind::Worker, ProcessKind::Scheduler];

/// A running system. Dropping it ends everything in it. The logs stay in `target/test-logs/<test>/`, and their last
/// lines are printed when the test panics.
#[derive(Debug)]
pub struct Cluster {
    // Fields are dropped in this order: processes end before the servers they depend on.
    processes: Vec<Process>,
    programs: Programs,
    environment: Environment,
    mail: PathBuf,
    logs: PathBuf,
    roles: Roles,
    pub redis: Redis,
    /// Set if [`Builder::own_postgres`] was called.
    pub postgres: Option<Postgres>,
    _database: Option<Database>,
    _directory: TempDir,
}

impl Cluster {
    /// A cluster without processes: `Cluster::builder().api(1).worker(2).scheduler(1).env("K", "V").start().await`.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `postgres://…` of its database as the owner. No other cluster uses this database.
    #[must_use]
    pub fn database_url(&self) -> &str {
        &self.roles.owner
    }

    /// The URLs of all roles of its database.
    #[must_use]
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The text of every message that the gateways have written to their mail folder, by file name.
    #[must_use]
    pub fn sent_mail(&self) -> BTreeMap<String, String> {
        let files = fs::read_dir(&self.mail).into_iter().flatten().flatten();
        let named = files.filter_map(|file| Some((file.file_name().into_string().ok()?, file.path())));
        // Files with other names are still being written.
        let complete = named.filter(|(name, _)| name.ends_with(".eml"));
        complete.filter_map(|(name, path)| Some((name, fs::read_to_string(path).ok()?))).collect()
    }

    /// Sets an environment variable of processes started from now on, and of `ctl`.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    /// Migrates the schemas to this release while processes keep running. From now on this release's programs and tools
    /// are used.
    ///
    /// # Errors
    /// When a migration fails.
    pub(crate) async fn migrate_to(&mut self, programs: &Programs) -> Result<()> {
        run(&programs.path("migrate")?, &self.roles.migration_environment(), &[]).await?;
        if self.of_kind(ProcessKind::Gateway).count() > 0 {
            migrate_gateway(programs, &self.roles).await?;
        }
        self.programs = programs.clone();
        Ok(())
    }

    /// Everything that the process `index` of a kind has logged.
    ///
    /// # Panics
    /// When there is no such process.
    #[must_use]
    pub fn log(&self, kind: ProcessKind, index: usize) -> String {
        self.of_kind(kind).nth(index).expect("no such process in this cluster").log()
    }

    /// The folder with the logs of the processes.
    #[must_use]
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// Starts one more process and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn add(&mut self, kind: ProcessKind) -> Result<&mut Process> {
        self.spawn(kind)?;
        let process = self.processes.last_mut().context("no process was added")?;
        process.wait_until_ready().await?;
        Ok(process)
    }

    /// The api process `index`, from 0.
    ///
    /// # Panics
    /// When there is no such process.
    pub fn api(&mut self, index: usize) -> &mut Process {
        self.process(ProcessKind::Api, index)
    }

    /// The worker `index`, from 0.
    ///
    /// # Panics
    /// When there is no such process.
    pub fn worker(&mut self, index: usize) -> &mut Process {
        self.process(ProcessKind::Worker, index)
    }

    /// The scheduler `index`, from 0.
    ///
    /// # Panics
    /// When there is no such process.
    pub fn scheduler(&mut self, index: usize) -> &mut Process {
        self.process(ProcessKind::Scheduler, index)
    }

    /// The gateway `index`, from 0.
    ///
    /// # Panics
    /// When there is no such process.
    pub fn gateway(&mut self, index: usize) -> &mut Process {
        self.process(ProcessKind::Gateway, index)
    }

    /// All processes, in start order.
    pub fn processes(&mut self) -> &mut [Process] {
        &mut self.processes
    }

    /// `http://…` of the api process `index`.
    ///
    /// # Panics
    /// When there is no such process.
    #[must_use]
    pub fn api_url(&self, index: usize) -> String {
        self.of_kind(ProcessKind::Api).nth(index).expect("no such api in this cluster").api_url()
    }

    /// `http://…` of the gateway `index`.
    ///
    /// # Panics
    /// When there is no such process.
    #[must_use]
    pub fn gateway_url(&self, index: usize) -> String {
        self.of_kind(ProcessKind::Gateway).nth(index).expect("no such gateway in this cluster").gateway_url()
    }

    /// `http://localhost:…` of the portal `index`.
    ///
    /// # Panics
    /// When there is no such process.
    #[must_use]
    pub fn portal_url(&self, index: usize) -> String {
        self.of_kind(ProcessKind::Portal).nth(index).expect("no such portal in this cluster").portal_url()
    }

    /// The process id of the gateway `index`.
    ///
    /// # Panics
    /// When there is no such process.
    #[must_use]
    pub fn gateway_pid(&self, index: usize) -> u32 {
        self.of_kind(ProcessKind::Gateway).nth(index).expect("no such gateway in this cluster").pid()
    }

    /// `http://…` of the internal listener of a process.
    ///
    /// # Panics
    /// When there is no such process.
    #[must_use]
    pub fn metrics_url(&self, kind: ProcessKind, index: usize) -> String {
        self.of_kind(kind).nth(index).expect("no such process in this cluster").metrics_url()
    }

    /// A client of the first api process with the account's secret key.
    ///
    /// # Errors
    /// When the client cannot be built.
    pub fn client(&self, account: &Account) -> Result<Client> {
        Client::new(&self.api_url(0))?.bearer(&account.secret_key)
    }

    fn spawn(&mut self, kind: ProcessKind) -> Result<()> {
        let index = self.of_kind(kind).count();
        let mut environment = BTreeMap::from([("METRICS_BIND".to_owned(), format!("127.0.0.1:{}", ports::free()?))]);
        if kind == ProcessKind::Api {
            let bind = format!("127.0.0.1:{}", ports::free()?);
            self.environment.entry("PUBLIC_URL".to_owned()).or_insert_with(|| format!("http://{bind}"));
            environment.insert("API_BIND".to_owned(), bind);
        }
        if kind == ProcessKind::Portal {
            let bind = format!("127.0.0.1:{}", ports::free()?);
            self.environment.entry("PORTAL_URL".to_owned()).or_insert_with(|| named_url(&bind));
            environment.insert("PORTAL_BIND".to_owned(), bind);
        }
        if kind == ProcessKind::Gateway {
            let bind = format!("127.0.0.1:{}", ports::free()?);
            for name in ["GATEWAY_PUBLIC_URL", "CARD_GATEWAY_URL"] {
                self.environment.entry(name.to_owned()).or_insert_with(|| format!("http://{bind}"));
            }
            environment.insert("GATEWAY_BIND".to_owned(), bind);
        }
        environment.extend(self.environment.clone());
        environment.entry("PUBLIC_URL".to_owned()).or_insert_with(|| "http://127.0.0.1:9".to_owned());
        // Each connection prepares each statement, and a pool uses its connections in turn. Nothing holds one while it
        // takes another, but tests block some of them with locks. What has a server of its own is measured or loaded as
        // in production.
        if self.postgres.is_none() {
            let pool = match kind {
                ProcessKind::Scheduler | ProcessKind::Portal => "3",
                ProcessKind::Api | ProcessKind::Worker | ProcessKind::Gateway => "4",
            };
            environment.entry("DATABASE_POOL".to_owned()).or_insert_with(|| pool.to_owned());
        }
        let log = self.logs.join(format!("{}-{index}.log", kind.name()));
        self.processes.push(Process::spawn(&self.programs, kind, index, environment, log)?);
        Ok(())
    }

    /// The process `index` of a kind, from 0.
    ///
    /// # Panics
    /// When there is no such process.
    pub fn process(&mut self, kind: ProcessKind, index: usize) -> &mut Process {
        let mut processes = self.processes.iter_mut().filter(|process| process.kind() == kind);
        processes.nth(index).expect("no such process in this cluster")
    }

    fn of_kind(&self, kind: ProcessKind) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(move |process| process.kind() == kind)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() {
            for process in &self.processes {
                eprint!("{}", process.log_tail());
            }
        }
    }
}

fn common_environment(redis: &Redis) -> Result<Environment> {
    let set = [
        ("REDIS_URL", redis.url()),
        ("USER", operator()),
        ("KEY_PEPPER", random_hex(32)?),
        ("ENCRYPTION_KEY", random_hex(32)?),
        ("GATEWAY_CARD_KEY", random_hex(32)?),
        ("GATEWAY_PEPPER", random_hex(32)?),
        ("MAIL_FROM", "invoices@test.example".to_owned()),
        ("GATEWAY_MAIL_FROM", "receipts@test.example".to_owned()),
        // All browsers of a test share one address.
        ("GATEWAY_PUBLIC_RATE", "100000".to_owned()),
        ("GATEWAY_FAILURE_RATE", "100000".to_owned()),
        ("GATEWAY_USER_FAILURE_RATE", "100000".to_owned()),
        // No caching, so that changes made with ctl take effect at once.
        ("KEY_CACHE_MS", "0".to_owned()),
        // All payers and all clients of a test share one address.
        ("PAGE_RATE_LIMIT", "1000000".to_owned()),
        ("UNAUTHENTICATED_RATE_LIMIT", "1000000".to_owned()),
        ("ADDRESS_SHARE", "100".to_owned()),
        // The webhook receivers of tests listen on loopback.
        ("WEBHOOK_ALLOW_LOOPBACK", "true".to_owned()),
        // There is no load balancer that would have to notice a shutdown.
        ("DRAIN_MS", "0".to_owned()),
        ("LOG_FORMAT", "text".to_owned()),
        ("RUST_LOG", "info".to_owned()),
    ];
    Ok(set.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
