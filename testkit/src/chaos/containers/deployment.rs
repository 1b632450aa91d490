//! The composition on Docker, its merchants, and what is done to its containers.

use std::{collections::BTreeMap, fs, path::Path, process::Command, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions, PgSslMode},
};

use super::plan::{Action, SERVICES, Step};
use crate::{
    chaos::{
        access::{Access, Traces},
        endpoints::Endpoints,
        leaks::REDIS_CONTENTS,
        shop::{NO_LIMITS, ORIGIN, Shop, ShopKind, newest_provider_account},
        time::Clock,
    },
    docker::{Docker, run},
    polling::eventually,
};

/// All clients share one address.
pub(super) const SETTINGS: &str = "PAGE_RATE_LIMIT=1000000\nUNAUTHENTICATED_RATE_LIMIT=1000000\nADDRESS_SHARE=100\n\
                                   GATEWAY_PUBLIC_RATE=100000\nGATEWAY_FAILURE_RATE=100000\n";
const API: &str = "http://127.0.0.1:8080";
const GATEWAY: &str = "http://127.0.0.1:8090";
const PROJECT: &str = "unified-payments";
/// The programs, in the order in which they are replaced.
const PROGRAMS: [&str; 5] = ["api", "portal", "worker", "scheduler", "gateway"];
/// Workers deliver webhooks to public addresses only. In these namespaces, which reach no other machine, one can be ours.
const RECEIVER: &str = "1.1.1.1";
/// No class B: the charges that a paused worker sends late cannot be observed here, and class B has no deadline for them.
const SHOPS: [ShopKind; 4] = [ShopKind::Mock('A'), ShopKind::Mock('C'), ShopKind::Gateway, ShopKind::Clock('A')];

/// The running composition.
pub(super) struct Deployment {
    docker: Docker,
    /// The ids of the containers of each service. A container that is started again keeps its own.
    containers: BTreeMap<&'static str, Vec<String>>,
    pub(super) db: PgPool,
    pub(super) clock: Clock,
    endpoints: Endpoints,
    pub(super) shops: Arc<[Shop]>,
}

impl Deployment {
    pub(super) async fn start(docker: Docker) -> Result<Self> {
        let scales = SERVICES.map(|(service, count)| format!("{service}={count}"));
        let scales = scales.iter().flat_map(|scale| ["--scale", scale.as_str()]);
        // The others start as their dependencies.
        docker.up(&scales.chain(["balancer", "worker", "scheduler"]).collect::<Vec<_>>())?;
        run(Command::new("ip").args(["address", "add", &format!("{RECEIVER}/32"), "dev", "lo"]))?;
        let containers = containers(&docker)?;
        let db = connect(&docker, &containers["postgres"][0]).await?;
        let clock = Clock::of(&db).await?;
        let endpoints = Endpoints::start(RECEIVER, clock).await?;
        let mut shops = Vec::new();
        for kind in SHOPS {
            let shop = create_shop(&docker, &db, kind).await?;
            endpoints.register(shops.len(), &shop, API).await?;
            shops.push(shop);
        }
        Ok(Self { docker, containers, db, clock, endpoints, shops: shops.into() })
    }

    /// What the clients and the checker use of it.
    pub(super) fn access(&self) -> Access<'_> {
        Access {
            db: &self.db,
            endpoints: &self.endpoints,
            shops: &self.shops,
            clock: self.clock,
            stripe: None,
            apis: vec![API.to_owned()],
            gateways: vec![GATEWAY.to_owned()],
        }
    }

    /// Begins a fault. A container that Docker is starting again is waited for.
    pub(super) async fn begin(&self, step: &Step) -> Result<()> {
        let (docker, id) = (&self.docker, self.container(step)?);
        eventually(&format!("the beginning of {step:?}"), async || {
            match step.action {
                Action::Kill => docker.kill(id)?,
                Action::Pause => drop(docker.docker(&["pause", id])?),
                Action::Disconnect(network) => {
                    drop(docker.docker(&["network", "disconnect", &full_name(network), id])?);
                }
                Action::Restart => drop(docker.docker(&["restart", id])?),
            }
            Ok(Some(()))
        })
        .await
    }

    /// Ends a fault.
    pub(super) async fn end(&self, step: &Step) -> Result<()> {
        let (docker, id) = (&self.docker, self.container(step)?);
        eventually(&format!("the end of {step:?}"), async || {
            match step.action {
                Action::Kill | Action::Restart => {}
                Action::Pause => drop(docker.docker(&["unpause", id])?),
                // As docs/deploying.md says of containers that are connected by hand.
                Action::Disconnect(network) => {
                    drop(docker.docker(&["network", "connect", "--alias", step.service, &full_name(network), id])?);
                }
            }
            Ok(Some(()))
        })
        .await
    }

    /// Waits until every container is healthy again, and connects to Postgres, whose address may have changed.
    pub(super) async fn recover(&mut self) -> Result<()> {
        for id in self.containers.values().flatten() {
            eventually(&format!("container {id} to be healthy"), async || {
                let health = self.docker.inspect(id, "{{.State.Health.Status}}")?;
                ensure!(health == "healthy", "it is {health}");
                Ok(Some(()))
            })
            .await?;
        }
        self.db = connect(&self.docker, &self.containers["postgres"][0]).await?;
        Ok(())
    }

    /// The containers that Docker has started again although nobody killed them. One without a network may exit.
    pub(super) fn unexpected_exits(&self, steps: &[Step]) -> Result<Vec<String>> {
        let mut exits = Vec::new();
        for (service, ids) in &self.containers {
            for (index, id) in ids.iter().enumerate() {
                let of_this = |step: &&Step| (step.service, step.container) == (*service, index);
                let actions: Vec<Action> = steps.iter().filter(of_this).map(|step| step.action).collect();
                let kills = actions.iter().filter(|action| **action == Action::Kill).count();
                let restarts: usize = self.docker.inspect(id, "{{.RestartCount}}")?.parse()?;
                let was_disconnected = actions.iter().any(|action| matches!(action, Action::Disconnect(_)));
                if restarts > kills && !was_disconnected {
                    exits.push(format!("{service} #{index} was started again {restarts} times after {kills} kills"));
                }
            }
        }
        Ok(exits)
    }

    /// Replaces all containers of our programs with the command of docs/deploying.md.
    pub(super) fn replace_all(&mut self) -> Result<()> {
        run(&mut self.docker.command(&[&["deploy/replace"], &PROGRAMS[..]].concat()))?;
        let replaced = std::mem::replace(&mut self.containers, containers(&self.docker)?);
        for program in PROGRAMS {
            let (former, new) = (&replaced[program], &self.containers[program]);
            let are_new = new.len() == former.len() && !new.iter().any(|id| former.contains(id));
            ensure!(are_new, "{program} was not replaced: {former:?}, {new:?}");
        }
        Ok(())
    }

    /// Writes what the programs have logged to a file in this folder. A container's log is removed with it.
    pub(super) fn save_logs(&self, folder: &Path, name: &str) -> Result<()> {
        let log = self.docker.compose(&[&["logs", "--no-color"], &PROGRAMS[..]].concat())?;
        Ok(fs::write(folder.join(name), log)?)
    }

    /// Writes what explains a violation or an error into this folder: the state and the logs of all containers, and the
    /// database.
    pub(super) fn keep(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("containers.txt"), self.docker.compose(&["ps", "--all"])?)?;
        fs::write(folder.join("containers.log"), self.docker.compose(&["logs", "--no-color", "--timestamps"])?)?;
        let dump = ["exec", "-T", "postgres", "pg_dump", "-U", "payments", "-d", "payments", "-h", "127.0.0.1"];
        Ok(fs::write(folder.join("database.sql"), self.docker.compose(&dump)?)?)
    }

    /// The texts that it has left, with these logs.
    pub(super) fn traces(&self, logs: &Path) -> Result<Traces> {
        let redis = self.docker.redis(&["EVAL", REDIS_CONTENTS, "0"])?;
        ensure!(!redis.starts_with("ERR") && !redis.starts_with("NOPERM"), "Redis rejected the query: {redis}");
        let postgres_log = self.docker.compose(&["logs", "--no-color", "postgres"])?;
        Ok(Traces { logs: logs.to_owned(), redis, postgres_log })
    }

    fn container(&self, step: &Step) -> Result<&str> {
        let id = self.containers[step.service].get(step.container);
        id.map(String::as_str).with_context(|| format!("there is no container for {step:?}"))
    }
}

/// The name that Compose gives a network.
fn full_name(network: &str) -> String {
    format!("{PROJECT}_{network}")
}

fn containers(docker: &Docker) -> Result<BTreeMap<&'static str, Vec<String>>> {
    SERVICES.iter().map(|(service, _)| Ok((*service, docker.containers(service)?))).collect()
}

/// Connects as the owner of the database, to the address of the container: no port of Postgres is published. Without TLS,
/// because the certificate is for the name `postgres`.
async fn connect(docker: &Docker, postgres: &str) -> Result<PgPool> {
    let network = full_name("database");
    let address = format!("{{{{(index .NetworkSettings.Networks \"{network}\").IPAddress}}}}");
    let options = PgConnectOptions::new()
        .host(&docker.inspect(postgres, &address)?)
        .port(5432)
        .username("payments")
        .database("payments")
        .password(docker.project_file("secrets/postgres_password")?.trim())
        .ssl_mode(PgSslMode::Disable);
    let pool = PgPoolOptions::new().max_connections(3).acquire_timeout(Duration::from_secs(30));
    pool.connect_with(options).await.context("cannot connect to Postgres in its container")
}

async fn create_shop(docker: &Docker, db: &PgPool, kind: ShopKind) -> Result<Shop> {
    let ctl = |words: &[&str]| docker.ctl(&[words, &["--as", "operator"]].concat());
    let shop = match kind {
        ShopKind::Mock(class) | ShopKind::Clock(class) => {
            let account = docker.account("mock")?;
            let latency = if matches!(kind, ShopKind::Mock(_)) { "700" } else { "60" };
            ctl(&["mock", "set", &account.id, "--class", &class.to_string(), "--latency-ms", latency])?;
            let mut shop = Shop::new(kind, account);
            shop.mock_account_id = Some(newest_provider_account(db).await?);
            shop
        }
        ShopKind::Gateway | ShopKind::Moved | ShopKind::Fee | ShopKind::Stripe => {
            let limits = ["--monthly-limit", "999999999.99", "--daily-transactions", "1000000"];
            let (account, keys) = docker.account_at_gateway(&[&limits[..], &NO_LIMITS].concat())?;
            Shop::at_gateway(kind, account, serde_json::from_value(keys)?, db).await?
        }
    };
    let account = &shop.account.id;
    ctl(&["accounts", "set", account, "--origin", ORIGIN])?;
    if let Some(modifiers) = kind.modifiers() {
        ctl(&["accounts", "set", account, "--modifiers", &modifiers.json().to_string()])?;
    }
    Ok(shop)
}
