//! A Postgres whose connections can be interrupted.

use anyhow::{Context, Result};
use testkit::{Builder, Cluster, Database, proxy::Proxy};

/// A database of its own, behind a proxy.
pub(super) struct Network {
    pub(super) database: Database,
    pub(super) proxy: Proxy,
}

impl Network {
    pub(super) async fn new() -> Result<Self> {
        let database = Database::create().await?;
        let port = reqwest::Url::parse(database.url())?.port().context("a port")?;
        Ok(Self { database, proxy: Proxy::start(&[port]).await? })
    }

    /// A cluster whose processes reach their database through the proxy.
    pub(super) fn cluster(&self) -> Result<Builder> {
        let mut url = reqwest::Url::parse(self.database.url())?;
        url.set_port(Some(self.proxy.port())).ok().context("a port")?;
        // Connections that hang are those of a pool as in production.
        Ok(Cluster::builder().env("DATABASE_URL", url.as_str()).env("DATABASE_POOL", "16"))
    }
}
