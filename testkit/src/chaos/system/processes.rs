//! The processes, each behind its proxies.

use anyhow::{Context, Result};

use crate::{
    Cluster, ProcessKind,
    chaos::{
        clock_files::{CLOCK_OFFSET_FILE, ClockFiles},
        system_config::{Size, SystemConfig},
    },
    proxy::Proxy,
};

/// The proxies between the processes and their servers.
#[derive(Debug)]
pub(in crate::chaos) struct Proxies {
    pub(in crate::chaos) redis: Proxy,
    /// One for each worker, and a last one for all other processes.
    pub(in crate::chaos) postgres: Vec<Proxy>,
    /// One for each worker.
    pub(in crate::chaos) gateway: Vec<Proxy>,
    /// One for each worker, before the double of Stripe.
    pub(in crate::chaos) stripe: Vec<Proxy>,
}

/// Starts the processes behind their proxies.
pub(super) async fn start(
    cluster: &mut Cluster,
    config: SystemConfig,
    clocks: &ClockFiles,
    stripe_url: &str,
) -> Result<Proxies> {
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
    let mut proxies = Proxies { redis, postgres: Vec::new(), gateway: Vec::new(), stripe: Vec::new() };
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
        let stripe = Proxy::start(&[port_of(stripe_url)?]).await?;
        cluster.set_env("DATABASE_URL", &through(&database_url, postgres_port, postgres.port()));
        cluster.set_env("CARD_GATEWAY_URL", &format!("http://127.0.0.1:{}", gateway.port()));
        cluster.set_env("STRIPE_URL", &format!("http://127.0.0.1:{}", stripe.port()));
        cluster.set_env("FAILPOINTS", if worker == 0 { config.failpoints } else { "" });
        cluster.set_env(CLOCK_OFFSET_FILE, &clock(ProcessKind::Worker, worker));
        cluster.add(ProcessKind::Worker).await?;
        proxies.postgres.push(postgres);
        proxies.gateway.push(gateway);
        proxies.stripe.push(stripe);
    }
    proxies.postgres.push(others);
    // `ctl` connects directly, with the right clock.
    cluster.set_env("STRIPE_URL", stripe_url);
    cluster.set_env(CLOCK_OFFSET_FILE, "");
    cluster.set_env("DATABASE_URL", &database_url);
    cluster.set_env("REDIS_URL", &redis_url);
    Ok(proxies)
}
