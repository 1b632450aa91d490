//! A whole system of its own for one test: a database, a Redis, and any number of processes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    Account, Client, Database, GatewayAccount, Kind, Postgres, Process, Redis, TempDir,
    account::{Ended, ctl_to_its_end, ctl_unread, run, run_ctl},
    database::ROLES_PASSWORD,
    files::random_hex,
    gateway_account::{self, run_gateway},
    ports, postgres,
    process::{Environment, Programs, operator},
    redis,
    roles::Roles,
    test_logs,
};

/// What to start; see [`Cluster::builder`].
#[derive(Clone, Debug, Default)]
pub struct Builder {
    counts: [usize; 4],
    environment: Environment,
    own_postgres: bool,
    durable: bool,
    postgres_in: Option<PathBuf>,
    release: Option<PathBuf>,
}

impl Builder {
    /// How many api processes.
    #[must_use]
    pub fn api(self, count: usize) -> Self {
        self.with(Kind::Api, count)
    }

    /// How many workers.
    #[must_use]
    pub fn worker(self, count: usize) -> Self {
        self.with(Kind::Worker, count)
    }

    /// How many schedulers.
    #[must_use]
    pub fn scheduler(self, count: usize) -> Self {
        self.with(Kind::Scheduler, count)
    }

    /// How many card gateways.
    #[must_use]
    pub fn gateway(self, count: usize) -> Self {
        self.with(Kind::Gateway, count)
    }

    /// A Postgres of its own instead of a database in the shared one, so that the test may crash it.
    #[must_use]
    pub fn own_postgres(mut self) -> Self {
        self.own_postgres = true;
        self
    }

    /// A Postgres of its own that waits for its disk, as in production, so that what is measured is honest.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self.own_postgres()
    }

    /// Where a Postgres of its own lives.
    #[must_use]
    pub fn postgres_in(mut self, folder: &Path) -> Self {
        self.postgres_in = Some(folder.to_owned());
        self.own_postgres()
    }

    /// The programs of another release than this one, in this folder; the database, which is one of its own, gets their schema.
    #[must_use]
    pub fn release(mut self, folder: &Path) -> Self {
        self.release = Some(folder.to_owned());
        self.own_postgres()
    }

    /// A variable of every process's environment; it wins over what the cluster sets.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Starts it all and waits until every process is ready.
    ///
    /// # Errors
    /// When a server or a process does not get ready; with the end of its log.
    pub async fn start(mut self) -> Result<Cluster> {
        let directory = TempDir::new()?;
        let programs = self.release.as_deref().map_or_else(Programs::own, |folder| Ok(Programs::within(folder)))?;
        let (url, postgres, database) = if self.own_postgres {
            let folder = self.postgres_in.unwrap_or_else(|| directory.path().join("postgres"));
            let (url, postgres) = new_postgres(&folder, self.durable).await?;
            (url, Some(postgres), None)
        } else {
            let database = Database::create().await?;
            (database.url().to_owned(), None, Some(database))
        };
        // Another database than its own, or another way to it, is named as its owner sees it.
        let elsewhere = self.environment.remove("DATABASE_URL");
        let has_roles = database.is_some() && elsewhere.is_none();
        let owner = elsewhere.unwrap_or(url);
        let roles = match &self.release {
            None => Roles::of(&owner, ROLES_PASSWORD)?,
            Some(_) => Roles::owner_alone(&owner),
        };
        if self.release.is_some() {
            run(&programs.path("migrate")?, &roles.of_migrations(), &[]).await?;
        } else if !has_roles {
            migrations::run(&owner).await?;
            roles.grant().await?;
        }
        let redis = Redis::start(&directory.path().join("redis"), redis::Options::default()).await?;
        let mut environment = common_environment(&redis)?;
        let mail = directory.path().join("mail");
        environment.insert("GATEWAY_MAIL_FOLDER".to_owned(), mail.display().to_string());
        environment.extend(self.environment);
        if self.counts[Kind::Gateway as usize] > 0 {
            run(&programs.path(Kind::Gateway.name())?, &roles.of_migrations(), &["migrate"]).await?;
        }
        environment.extend(roles.of_programs());
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

    fn with(mut self, kind: Kind, count: usize) -> Self {
        self.counts[kind as usize] = count;
        self
    }
}

const KINDS: [Kind; 4] = [Kind::Gateway, Kind::Api, Kind::Worker, Kind::Scheduler];

/// A running system. Everything in it ends when it is dropped; the logs stay in `target/test-logs/<test>/`, and their
/// ends are printed when the test panics.
#[derive(Debug)]
pub struct Cluster {
    // Fields are dropped in this order: nobody is left without what it leans on.
    processes: Vec<Process>,
    programs: Programs,
    environment: Environment,
    mail: PathBuf,
    logs: PathBuf,
    roles: Roles,
    /// Its own Redis.
    pub redis: Redis,
    /// Its own Postgres, if [`Builder::own_postgres`] asked for one.
    pub postgres: Option<Postgres>,
    _database: Option<Database>,
    _directory: TempDir,
}

impl Cluster {
    /// A cluster of no processes yet: `Cluster::builder().api(1).worker(2).scheduler(1).env("K", "V").start().await`.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `postgres://…` of its database as the owner, which no other cluster uses.
    #[must_use]
    pub fn database_url(&self) -> &str {
        &self.roles.owner
    }

    /// Who else gets into its database.
    #[must_use]
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The text of every letter that its gateways have put into their folder, by the name of its file.
    #[must_use]
    pub fn letters(&self) -> BTreeMap<String, String> {
        let files = fs::read_dir(&self.mail).into_iter().flatten().flatten();
        let named = files.filter_map(|file| Some((file.file_name().into_string().ok()?, file.path())));
        // Others are being written.
        let whole = named.filter(|(name, _)| name.ends_with(".eml"));
        whole.filter_map(|(name, path)| Some((name, fs::read_to_string(path).ok()?))).collect()
    }

    /// A variable of the environment of processes that are started from now on, and of the operator's tool.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    /// Brings the schemas to those of this release, beside whatever runs; from now on its programs are started, and its tools used.
    ///
    /// # Errors
    /// When a migration fails.
    pub(crate) async fn migrate_to(&mut self, programs: &Programs) -> Result<()> {
        run(&programs.path("migrate")?, &self.roles.of_migrations(), &[]).await?;
        if self.of_kind(Kind::Gateway).count() > 0 {
            run(&programs.path(Kind::Gateway.name())?, &self.roles.of_migrations(), &["migrate"]).await?;
        }
        self.programs = programs.clone();
        Ok(())
    }

    /// Where the processes write their logs.
    #[must_use]
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// Starts one more process and waits until it is ready.
    ///
    /// # Errors
    /// When it does not get ready.
    pub async fn add(&mut self, kind: Kind) -> Result<&mut Process> {
        self.spawn(kind)?;
        let process = self.processes.last_mut().context("it was just added")?;
        process.wait_until_ready().await?;
        Ok(process)
    }

    /// The api process number `index`, from 0.
    ///
    /// # Panics
    /// When there are not as many.
    pub fn api(&mut self, index: usize) -> &mut Process {
        self.process(Kind::Api, index)
    }

    /// The worker number `index`, from 0.
    ///
    /// # Panics
    /// When there are not as many.
    pub fn worker(&mut self, index: usize) -> &mut Process {
        self.process(Kind::Worker, index)
    }

    /// The scheduler number `index`, from 0.
    ///
    /// # Panics
    /// When there are not as many.
    pub fn scheduler(&mut self, index: usize) -> &mut Process {
        self.process(Kind::Scheduler, index)
    }

    /// The gateway number `index`, from 0.
    ///
    /// # Panics
    /// When there are not as many.
    pub fn gateway(&mut self, index: usize) -> &mut Process {
        self.process(Kind::Gateway, index)
    }

    /// All processes, in the order of their start.
    pub fn processes(&mut self) -> &mut [Process] {
        &mut self.processes
    }

    /// `http://…` of the api process number `index`.
    ///
    /// # Panics
    /// When there are not as many.
    #[must_use]
    pub fn api_url(&self, index: usize) -> String {
        self.of_kind(Kind::Api).nth(index).expect("no such api in this cluster").api_url()
    }

    /// `http://…` of the gateway process number `index`.
    ///
    /// # Panics
    /// When there are not as many.
    #[must_use]
    pub fn gateway_url(&self, index: usize) -> String {
        self.of_kind(Kind::Gateway).nth(index).expect("no such gateway in this cluster").gateway_url()
    }

    /// The process id of the gateway number `index`.
    ///
    /// # Panics
    /// When there are not as many.
    #[must_use]
    pub fn gateway_pid(&self, index: usize) -> u32 {
        self.of_kind(Kind::Gateway).nth(index).expect("no such gateway in this cluster").pid()
    }

    /// `http://…` of the internal listener of a process.
    ///
    /// # Panics
    /// When there are not as many.
    #[must_use]
    pub fn metrics_url(&self, kind: Kind, index: usize) -> String {
        self.of_kind(kind).nth(index).expect("no such process in this cluster").metrics_url()
    }

    /// A client of the first api with the account's secret key.
    ///
    /// # Errors
    /// When the client cannot be made.
    pub fn client(&self, account: &Account) -> Result<Client> {
        Client::new(&self.api_url(0))?.bearer(&account.secret_key)
    }

    /// A new test account on the mock provider, without a rate limit to speak of.
    ///
    /// # Errors
    /// When `ctl` fails.
    pub async fn account(&self) -> Result<Account> {
        let no_limit = ["--rate-limit", "1000000", "--burst", "1000000"];
        self.account_with(&[&["--mode", "test", "--provider", "mock"][..], &no_limit].concat()).await
    }

    /// A new account with these options of `ctl accounts create`.
    ///
    /// # Errors
    /// When `ctl` fails.
    pub async fn account_with(&self, options: &[&str]) -> Result<Account> {
        let arguments = [&["accounts", "create", "--name", "Test"], options].concat();
        serde_json::from_value(self.ctl(&arguments).await?).context("ctl printed no account")
    }

    /// A new test account that settles at an account of its own at this cluster's card gateway, without limits to speak of.
    /// The options are those of `gateway account create`.
    ///
    /// # Errors
    /// When `ctl` or the gateway's command line fails.
    pub async fn account_at_gateway(&self, options: &[&str]) -> Result<(Account, GatewayAccount)> {
        let no_limits = ["--monthly-limit", "999999999.99", "--daily-transactions", "1000000"];
        let username = format!("shop-{}", random_hex(8)?);
        let known = self.gateway_account(&username, &[&no_limits, options].concat()).await?;
        let no_limit = ["--rate-limit", "1000000", "--burst", "1000000"];
        let account = [&["--mode", "test", "--provider", "card_gateway"][..], &no_limit].concat();
        let account = self.account_with(&account).await?;
        self.connect(&account, &known, &[]).await?;
        Ok((account, known))
    }

    /// Tells by what the card gateway knows an account, with these options of `ctl accounts connect`.
    ///
    /// # Errors
    /// When `ctl` fails.
    pub async fn connect(&self, account: &Account, known: &GatewayAccount, options: &[&str]) -> Result<()> {
        gateway_account::connect(&self.programs, &self.environment, &account.id, known, options).await
    }

    /// Runs the operator's tool against this cluster and gives back the JSON it prints.
    ///
    /// # Errors
    /// When it fails, with what it complained about.
    pub async fn ctl(&self, arguments: &[&str]) -> Result<Value> {
        run_ctl(&self.programs.path("ctl")?, &self.environment, arguments).await
    }

    /// Runs the operator's tool against this cluster to its end, whatever that is.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn ctl_to_its_end(&self, arguments: &[&str]) -> Result<Ended> {
        ctl_to_its_end(&self.programs.path("ctl")?, &self.environment, arguments).await
    }

    /// The same while nobody reads what it prints.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn ctl_unread(&self, arguments: &[&str]) -> Result<Ended> {
        ctl_unread(&self.programs.path("ctl")?, &self.environment, arguments).await
    }

    /// Starts the operator's tool against this cluster and goes on; it is killed when it is dropped.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn ctl_begun(&self, arguments: &[&str]) -> Result<tokio::process::Child> {
        let mut command = tokio::process::Command::new(self.programs.path("ctl")?);
        command.args(arguments).envs(&self.environment).stdin(Stdio::null()).stdout(Stdio::null());
        command.kill_on_drop(true).spawn().context("cannot start ctl")
    }

    /// Runs the gateway's command line against this cluster and gives back the JSON it prints.
    ///
    /// # Errors
    /// When it fails, with what it complained about.
    pub async fn run_gateway(&self, arguments: &[&str]) -> Result<Value> {
        run_gateway(&self.programs, &self.environment, arguments).await
    }

    /// An account of the gateway with these options of `gateway account create`. One that is there already gets new keys.
    ///
    /// # Errors
    /// When the gateway's command line fails.
    pub async fn gateway_account(&self, username: &str, options: &[&str]) -> Result<GatewayAccount> {
        gateway_account::ensure(&self.programs, &self.environment, username, options).await
    }

    fn spawn(&mut self, kind: Kind) -> Result<()> {
        let place = self.of_kind(kind).count();
        let mut environment = BTreeMap::from([("METRICS_BIND".to_owned(), format!("127.0.0.1:{}", ports::free()?))]);
        if kind == Kind::Api {
            let bind = format!("127.0.0.1:{}", ports::free()?);
            self.environment.entry("PUBLIC_URL".to_owned()).or_insert_with(|| format!("http://{bind}"));
            environment.insert("API_BIND".to_owned(), bind);
        }
        if kind == Kind::Gateway {
            let bind = format!("127.0.0.1:{}", ports::free()?);
            for name in ["GATEWAY_PUBLIC_URL", "CARD_GATEWAY_URL"] {
                self.environment.entry(name.to_owned()).or_insert_with(|| format!("http://{bind}"));
            }
            environment.insert("GATEWAY_BIND".to_owned(), bind);
        }
        environment.extend(self.environment.clone());
        environment.entry("PUBLIC_URL".to_owned()).or_insert_with(|| "http://127.0.0.1:9".to_owned());
        let log = self.logs.join(format!("{}-{place}.log", kind.name()));
        self.processes.push(Process::spawn(&self.programs, kind, place, environment, log)?);
        Ok(())
    }

    fn process(&mut self, kind: Kind, index: usize) -> &mut Process {
        let mut found = self.processes.iter_mut().filter(|process| process.kind() == kind);
        found.nth(index).expect("no such process in this cluster")
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Process> {
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

async fn new_postgres(folder: &Path, durable: bool) -> Result<(String, Postgres)> {
    let options = postgres::Options { durable, ..postgres::Options::default() };
    let postgres = Postgres::start(folder, options).await?;
    postgres.ensure_database("payments").await?;
    Ok((postgres.url("payments"), postgres))
}

fn common_environment(redis: &Redis) -> Result<Environment> {
    let set = [
        ("REDIS_URL", redis.url()),
        ("USER", operator()),
        ("KEY_PEPPER", random_hex(32)?),
        ("ENCRYPTION_KEY", random_hex(32)?),
        ("GATEWAY_CARD_KEY", random_hex(32)?),
        ("GATEWAY_PEPPER", random_hex(32)?),
        ("GATEWAY_MAIL_FROM", "receipts@test.example".to_owned()),
        // One address stands for all the browsers of a test.
        ("GATEWAY_PUBLIC_RATE", "100000".to_owned()),
        ("GATEWAY_FAILURE_RATE", "100000".to_owned()),
        ("GATEWAY_USER_FAILURE_RATE", "100000".to_owned()),
        // What ctl changes holds at once, so that no test has to wait for it.
        ("KEY_CACHE_MS", "0".to_owned()),
        // All payers and all callers of a test have one address.
        ("PAGE_RATE_LIMIT", "1000000".to_owned()),
        ("UNAUTHENTICATED_RATE_LIMIT", "1000000".to_owned()),
        ("ADDRESS_SHARE", "100".to_owned()),
        // Where the receivers of tests are.
        ("WEBHOOK_ALLOW_LOOPBACK", "true".to_owned()),
        // No balancer has to hear of a stop.
        ("DRAIN_MS", "0".to_owned()),
        ("LOG_FORMAT", "text".to_owned()),
        ("RUST_LOG", "info".to_owned()),
    ];
    Ok(set.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
