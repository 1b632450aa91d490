//! The processes of the sandbox: start order, restarts and shutdown.

use std::{collections::BTreeMap, env, time::Duration};

use anyhow::{Context, Result};
use tokio::time;

use super::{
    accounts,
    backoff::{Backoff, Step},
    display::{follow_log, print_line, print_summary},
    state::{Description, SandboxFolder, Secrets, external},
};
use crate::{
    Postgres, Process, ProcessKind, Redis, Roles,
    account::run,
    postgres,
    process::{Environment, Programs, binary, named_url},
    redis,
};

const DATABASE: &str = "payments";
const API_PORT: u16 = 8080;
const GATEWAY_PORT: u16 = 8090;
const PORTAL_PORT: u16 = 8070;
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The terminal colour of each process name.
const KINDS: [(ProcessKind, u8); 5] = [
    (ProcessKind::Gateway, 32),
    (ProcessKind::Api, 36),
    (ProcessKind::Portal, 34),
    (ProcessKind::Worker, 35),
    (ProcessKind::Scheduler, 33),
];

/// Everything that runs. Filled during the start, so that an interrupted start can be stopped too.
#[derive(Debug)]
pub(super) struct System {
    folder: SandboxFolder,
    // Dropped in this order: processes end before the servers they depend on.
    processes: Vec<Supervised<Process>>,
    redis: Option<Supervised<Redis>>,
    postgres: Option<Supervised<Postgres>>,
}

/// Where the sandbox is reached.
struct Urls {
    api: String,
    gateway: String,
    portal: String,
}

#[derive(Debug)]
struct Supervised<T> {
    inner: T,
    backoff: Backoff,
}

impl<T> Supervised<T> {
    fn new(inner: T) -> Self {
        Self { inner, backoff: Backoff::new(time::Instant::now()) }
    }

    /// Whether to restart it now that it has exited.
    fn is_due(&mut self, name: &str) -> bool {
        match self.backoff.step(time::Instant::now()) {
            Step::Announce(delay) => {
                print_line(&format!("{name} exited; restarting it in {} ms", delay.as_millis()));
                false
            }
            Step::Wait => false,
            Step::Start => true,
        }
    }
}

impl System {
    pub(super) fn new(folder: SandboxFolder) -> Self {
        Self { folder, processes: Vec::new(), redis: None, postgres: None }
    }

    /// Starts everything, reports it, and keeps it running. Returns only on failure.
    pub(super) async fn serve(&mut self) -> Result<()> {
        self.folder.remove_description();
        let mut secrets = self.folder.secrets()?;
        let owner_url = self.start_postgres(&mut secrets).await?;
        let redis_url = self.start_redis().await?;
        print_line("migrating the database");
        migrations::run(&owner_url).await?;
        let roles = self.roles(&owner_url, &secrets).await?;
        run(&binary(ProcessKind::Gateway.name())?, &roles.migration_environment(), &["migrate"]).await?;
        let mut environment = secrets.environment();
        environment.extend(roles.program_environment());
        environment.insert("REDIS_URL".to_owned(), redis_url.clone());
        let (urls, metrics) = self.start_processes(&environment).await?;
        accounts::ensure_gateway(&self.folder, &mut secrets, &environment).await?;
        accounts::ensure(&self.folder, &mut secrets, &environment).await?;
        let portal_user = accounts::ensure_user(&self.folder, &mut secrets, &environment).await?;
        let Secrets { accounts, mut gateway_accounts, .. } = secrets;
        let gateway_account = gateway_accounts.remove(accounts::GATEWAY_MAIN).context("the account is missing")?;
        gateway_accounts.remove(accounts::GATEWAY_LIVE);
        let description = Description {
            api_url: urls.api,
            gateway_url: urls.gateway,
            portal_url: urls.portal,
            portal_user,
            metrics,
            database_url: roles.programs,
            gateway_database_url: roles.gateway,
            redis_url,
            accounts,
            gateway_account,
            gateway_accounts,
        };
        self.folder.write_prometheus(&description.metrics)?;
        self.folder.write_description(&description)?;
        print_summary(&description, &self.folder.description());
        self.supervise().await
    }

    async fn start_postgres(&mut self, secrets: &mut Secrets) -> Result<String> {
        let external = external("DATABASE_URL");
        let database = external.clone().unwrap_or_else(|| "private".to_owned());
        if secrets.database != database {
            // Accounts of another database do not exist in this one.
            secrets.accounts.clear();
            secrets.gateway_accounts.clear();
            secrets.connected.clear();
            secrets.portal_user = None;
            secrets.database = database;
            self.folder.write_secrets(secrets)?;
        }
        if let Some(url) = external {
            return Ok(url);
        }
        print_line("starting Postgres");
        let options =
            postgres::Options { durable: true, port: self.folder.last_port("postgres")?, ..Default::default() };
        let started = Postgres::start(&self.folder.postgres(), options).await?;
        self.folder.store_port("postgres", started.port())?;
        let supervised = self.postgres.insert(Supervised::new(started));
        supervised.inner.ensure_database(DATABASE).await?;
        Ok(supervised.inner.url(DATABASE))
    }

    /// The programs log in as roles that own nothing, as in production; with an external database only if its owner may
    /// create roles.
    async fn roles(&self, owner: &str, secrets: &Secrets) -> Result<Roles> {
        let roles = Roles::of(owner, &secrets.roles_password)?;
        match roles.grant().await {
            Ok(()) => Ok(roles),
            Err(error) if self.postgres.is_none() => {
                print_line(&format!(
                    "cannot create roles, so everything logs in as the owner of the database: {error:#}"
                ));
                Ok(Roles::owner_only(owner))
            }
            Err(error) => Err(error),
        }
    }

    async fn start_redis(&mut self) -> Result<String> {
        if let Some(url) = external("REDIS_URL") {
            return Ok(url);
        }
        print_line("starting Redis");
        let options = redis::Options { persistent: true, port: self.folder.last_port("redis")?, ..Default::default() };
        let started = Redis::start(&self.folder.redis(), options).await?;
        self.folder.store_port("redis", started.port())?;
        let supervised = self.redis.insert(Supervised::new(started));
        Ok(supervised.inner.url())
    }

    /// The URLs, and those of each process's metrics.
    async fn start_processes(&mut self, shared: &Environment) -> Result<(Urls, BTreeMap<String, String>)> {
        print_line("starting gateway, api, portal, worker and scheduler");
        let gateway = format!("127.0.0.1:{}", self.folder.port("gateway", Some(GATEWAY_PORT))?);
        let gateway_url = format!("http://{gateway}");
        let api = format!("127.0.0.1:{}", self.folder.port("api", Some(API_PORT))?);
        let api_url = format!("http://{api}");
        let portal = format!("127.0.0.1:{}", self.folder.port("portal", Some(PORTAL_PORT))?);
        let portal_url = named_url(&portal);
        let mail = self.folder.mail().display().to_string();
        let mut metrics = BTreeMap::new();
        for (kind, colour) in KINDS {
            let mut environment = shared.clone();
            let bind = format!("127.0.0.1:{}", self.folder.port(&format!("{} metrics", kind.name()), None)?);
            metrics.insert(kind.name().to_owned(), format!("http://{bind}/metrics"));
            let log_level = env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned());
            environment.extend(
                [
                    ("API_BIND", api.as_str()),
                    ("PUBLIC_URL", &api_url),
                    ("PORTAL_BIND", &portal),
                    ("PORTAL_URL", &portal_url),
                    ("GATEWAY_BIND", gateway.as_str()),
                    ("GATEWAY_PUBLIC_URL", &gateway_url),
                    ("CARD_GATEWAY_URL", &gateway_url),
                    ("MAIL_FOLDER", &mail),
                    ("MAIL_FROM", "invoices@sandbox.example"),
                    ("GATEWAY_MAIL_FOLDER", &mail),
                    ("GATEWAY_MAIL_FROM", "receipts@sandbox.example"),
                    ("METRICS_BIND", &bind),
                    ("LOG_FORMAT", "text"),
                    ("DRAIN_MS", "0"),
                    // All users and tests of a sandbox share one address.
                    ("PAGE_RATE_LIMIT", "10000"),
                    ("UNAUTHENTICATED_RATE_LIMIT", "10000"),
                    ("ADDRESS_SHARE", "100"),
                    ("GATEWAY_PUBLIC_RATE", "10000"),
                    ("GATEWAY_FAILURE_RATE", "10000"),
                    ("GATEWAY_USER_FAILURE_RATE", "10000"),
                    ("RUST_LOG", &log_level),
                ]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
            );
            // A double of Stripe, as for the tools.
            environment.extend(env::var("STRIPE_URL").map(|url| ("STRIPE_URL".to_owned(), url)));
            let log = self.folder.new_log(kind.name())?;
            follow_log(kind.name(), colour, log.clone());
            self.processes.push(Supervised::new(Process::spawn(&Programs::own()?, kind, 0, environment, log)?));
        }
        for process in &mut self.processes {
            process.inner.wait_until_ready().await?;
        }
        Ok((Urls { api: api_url, gateway: gateway_url, portal: portal_url }, metrics))
    }

    async fn supervise(&mut self) -> Result<()> {
        loop {
            time::sleep(POLL_INTERVAL).await;
            if let Some(postgres) = &mut self.postgres
                && !postgres.inner.is_running()?
                && postgres.is_due("postgres")
                && let Err(error) = postgres.inner.restart().await
            {
                print_line(&format!("{error:#}"));
            }
            if let Some(redis) = &mut self.redis
                && !redis.inner.is_running()?
                && redis.is_due("redis")
                && let Err(error) = redis.inner.restart().await
            {
                print_line(&format!("{error:#}"));
            }
            for process in &mut self.processes {
                if process.inner.exit_status()?.is_some() && process.is_due(process.inner.kind().name()) {
                    process.inner.relaunch()?;
                }
            }
        }
    }

    /// Stops the processes in parallel, then the servers they depend on.
    pub(super) async fn stop(&mut self) -> Result<()> {
        let mut stopping = Vec::new();
        for process in self.processes.iter_mut().rev() {
            process.inner.request_shutdown()?;
            stopping.push(&mut process.inner);
        }
        for process in stopping {
            let status = process.wait_for_shutdown().await?;
            if !status.success() {
                print_line(&format!("{} exited with {status}", process.kind().name()));
            }
        }
        if let Some(redis) = &mut self.redis {
            redis.inner.stop().await.context("cannot stop Redis")?;
        }
        if let Some(postgres) = &mut self.postgres {
            postgres.inner.stop().await.context("cannot stop Postgres")?;
        }
        // Time to print the last lines of the logs.
        time::sleep(Duration::from_millis(250)).await;
        Ok(())
    }
}
