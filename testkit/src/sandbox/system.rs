//! The running sandbox: what it starts, in which order, and how it stops.

use std::{collections::BTreeMap, env, time::Duration};

use anyhow::{Context, Result};
use tokio::time;

use super::{
    accounts,
    backoff::{Backoff, Step},
    display::{follow, say, welcome},
    state::{Description, Place, Secrets, external},
};
use crate::{
    Kind, Postgres, Process, Redis, Roles,
    account::run,
    postgres,
    process::{Environment, Programs, binary},
    redis,
};

const DATABASE: &str = "payments";
const API_PORT: u16 = 8080;
const GATEWAY_PORT: u16 = 8090;
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The names of processes are shown in these colours of the terminal.
const KINDS: [(Kind, u8); 4] = [(Kind::Gateway, 32), (Kind::Api, 36), (Kind::Worker, 35), (Kind::Scheduler, 33)];

/// Everything that runs. Filled as it starts, so that an interrupted start stops what it has begun.
#[derive(Debug)]
pub(super) struct System {
    place: Place,
    // Dropped in this order: nobody is left without what it leans on.
    processes: Vec<Watched<Process>>,
    redis: Option<Watched<Redis>>,
    postgres: Option<Watched<Postgres>>,
}

#[derive(Debug)]
struct Watched<T> {
    it: T,
    backoff: Backoff,
}

impl<T> Watched<T> {
    fn new(it: T) -> Self {
        Self { it, backoff: Backoff::new(time::Instant::now()) }
    }

    /// Whether it is time to start it again, now that it has been found ended.
    fn is_due(&mut self, name: &str) -> bool {
        match self.backoff.step(time::Instant::now()) {
            Step::Announce(delay) => {
                say(&format!("{name} has ended by itself; it is started again in {} ms", delay.as_millis()));
                false
            }
            Step::Wait => false,
            Step::Start => true,
        }
    }
}

impl System {
    pub(super) fn new(place: Place) -> Self {
        Self { place, processes: Vec::new(), redis: None, postgres: None }
    }

    /// Starts everything, says so, and keeps it running. Returns only on failure.
    pub(super) async fn serve(&mut self) -> Result<()> {
        self.place.forget_description();
        let mut secrets = self.place.secrets()?;
        let owner_url = self.start_postgres(&mut secrets).await?;
        let redis_url = self.start_redis().await?;
        say("migrating the database");
        migrations::run(&owner_url).await?;
        let roles = self.roles(&owner_url, &secrets).await?;
        run(&binary(Kind::Gateway.name())?, &roles.of_migrations(), &["migrate"]).await?;
        let mut environment = secrets.environment();
        environment.extend(roles.of_programs());
        environment.insert("REDIS_URL".to_owned(), redis_url.clone());
        let (api_url, gateway_url, metrics) = self.start_processes(&environment).await?;
        accounts::ensure_gateway(&self.place, &mut secrets, &environment).await?;
        accounts::ensure(&self.place, &mut secrets, &environment).await?;
        let Secrets { accounts, mut gateway_accounts, .. } = secrets;
        let gateway_account = gateway_accounts.remove(accounts::GATEWAY_MAIN).context("it was just made")?;
        gateway_accounts.remove(accounts::GATEWAY_LIVE);
        let description = Description {
            api_url,
            gateway_url,
            metrics,
            database_url: roles.programs,
            gateway_database_url: roles.gateway,
            redis_url,
            accounts,
            gateway_account,
            gateway_accounts,
        };
        self.place.write_prometheus(&description.metrics)?;
        self.place.write_description(&description)?;
        welcome(&description, &self.place.description());
        self.keep_running().await
    }

    async fn start_postgres(&mut self, secrets: &mut Secrets) -> Result<String> {
        let external = external("DATABASE_URL");
        let database = external.clone().unwrap_or_else(|| "private".to_owned());
        if secrets.database != database {
            // Keys of accounts in another database open nothing here.
            secrets.accounts.clear();
            secrets.gateway_accounts.clear();
            secrets.connected.clear();
            secrets.database = database;
            self.place.write_secrets(secrets)?;
        }
        if let Some(url) = external {
            return Ok(url);
        }
        say("starting Postgres");
        let options =
            postgres::Options { durable: true, port: self.place.last_port("postgres")?, ..Default::default() };
        let started = Postgres::start(&self.place.postgres(), options).await?;
        self.place.keep_port("postgres", started.port())?;
        let watched = self.postgres.insert(Watched::new(started));
        watched.it.ensure_database(DATABASE).await?;
        Ok(watched.it.url(DATABASE))
    }

    /// The programs log in as roles that own nothing, as in production; at a database that is not ours only if its owner may make
    /// roles.
    async fn roles(&self, owner: &str, secrets: &Secrets) -> Result<Roles> {
        let roles = Roles::of(owner, &secrets.roles_password)?;
        match roles.grant().await {
            Ok(()) => Ok(roles),
            Err(error) if self.postgres.is_none() => {
                say(&format!("everything logs in as the owner of the database: {error:#}"));
                Ok(Roles::owner_alone(owner))
            }
            Err(error) => Err(error),
        }
    }

    async fn start_redis(&mut self) -> Result<String> {
        if let Some(url) = external("REDIS_URL") {
            return Ok(url);
        }
        say("starting Redis");
        let options = redis::Options { persistent: true, port: self.place.last_port("redis")?, ..Default::default() };
        let started = Redis::start(&self.place.redis(), options).await?;
        self.place.keep_port("redis", started.port())?;
        let watched = self.redis.insert(Watched::new(started));
        Ok(watched.it.url())
    }

    /// The URLs of the api and of the gateway, and the URL of each process's metrics.
    async fn start_processes(&mut self, shared: &Environment) -> Result<(String, String, BTreeMap<String, String>)> {
        say("starting gateway, api, worker and scheduler");
        let gateway = format!("127.0.0.1:{}", self.place.port("gateway", Some(GATEWAY_PORT))?);
        let gateway_url = format!("http://{gateway}");
        let api = format!("127.0.0.1:{}", self.place.port("api", Some(API_PORT))?);
        let api_url = format!("http://{api}");
        let mail = self.place.mail().display().to_string();
        let mut metrics = BTreeMap::new();
        for (kind, colour) in KINDS {
            let mut environment = shared.clone();
            let bind = format!("127.0.0.1:{}", self.place.port(&format!("{} metrics", kind.name()), None)?);
            metrics.insert(kind.name().to_owned(), format!("http://{bind}/metrics"));
            let log_level = env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned());
            environment.extend(
                [
                    ("API_BIND", api.as_str()),
                    ("PUBLIC_URL", &api_url),
                    ("GATEWAY_BIND", gateway.as_str()),
                    ("GATEWAY_PUBLIC_URL", &gateway_url),
                    ("CARD_GATEWAY_URL", &gateway_url),
                    ("GATEWAY_MAIL_FOLDER", &mail),
                    ("GATEWAY_MAIL_FROM", "receipts@sandbox.example"),
                    ("METRICS_BIND", &bind),
                    ("LOG_FORMAT", "text"),
                    ("DRAIN_MS", "0"),
                    // Everybody here, and every test of theirs, comes from one address.
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
            let log = self.place.new_log(kind.name())?;
            follow(kind.name(), colour, log.clone());
            self.processes.push(Watched::new(Process::spawn(&Programs::own()?, kind, 0, environment, log)?));
        }
        for process in &mut self.processes {
            process.it.wait_until_ready().await?;
        }
        Ok((api_url, gateway_url, metrics))
    }

    async fn keep_running(&mut self) -> Result<()> {
        loop {
            time::sleep(LOOK_EVERY).await;
            if let Some(postgres) = &mut self.postgres
                && !postgres.it.is_running()?
                && postgres.is_due("postgres")
                && let Err(error) = postgres.it.restart().await
            {
                say(&format!("{error:#}"));
            }
            if let Some(redis) = &mut self.redis
                && !redis.it.is_running()?
                && redis.is_due("redis")
                && let Err(error) = redis.it.restart().await
            {
                say(&format!("{error:#}"));
            }
            for process in &mut self.processes {
                if process.it.ended()?.is_some() && process.is_due(process.it.kind().name()) {
                    process.it.relaunch()?;
                }
            }
        }
    }

    /// Ends the processes side by side, then what they lean on.
    pub(super) async fn stop(&mut self) -> Result<()> {
        let mut ending = Vec::new();
        for process in self.processes.iter_mut().rev() {
            process.it.ask_to_end()?;
            ending.push(&mut process.it);
        }
        for process in ending {
            let status = process.ending().await?;
            if !status.success() {
                say(&format!("{} ended with {status}", process.kind().name()));
            }
        }
        if let Some(redis) = &mut self.redis {
            redis.it.stop().await.context("cannot stop Redis")?;
        }
        if let Some(postgres) = &mut self.postgres {
            postgres.it.stop().await.context("cannot stop Postgres")?;
        }
        // What the processes wrote last is shown before we go.
        time::sleep(Duration::from_millis(250)).await;
        Ok(())
    }
}
