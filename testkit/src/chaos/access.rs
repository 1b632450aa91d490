//! What the clients and the checker use of a running system, be it of processes or of containers.

use std::{path::PathBuf, sync::Arc};

use anyhow::Result;
use sqlx::PgPool;

use super::{endpoints::Endpoints, shop::Shop, time::Clock};
use crate::{Client, stripe::Stripe};

pub(super) struct Access<'a> {
    /// As the owner of the database.
    pub(super) db: &'a PgPool,
    pub(super) endpoints: &'a Endpoints,
    pub(super) shops: &'a Arc<[Shop]>,
    pub(super) clock: Clock,
    /// The double of Stripe, if merchants are there.
    pub(super) stripe: Option<&'a Stripe>,
    /// The addresses of the apis, or of their balancer.
    pub(super) apis: Vec<String>,
    /// The same of the gateways.
    pub(super) gateways: Vec<String>,
}

impl Access<'_> {
    /// A client of an api with the secret key of a shop.
    pub(super) fn client(&self, shop: usize) -> Result<Client> {
        Client::new(&self.apis[0])?.bearer(&self.shops[shop].account.secret_key)
    }
}

/// The texts that a run leaves, besides the rows of the database.
pub(super) struct Traces {
    /// The folder with the logs of the processes.
    pub(super) logs: PathBuf,
    /// All keys and values in Redis.
    pub(super) redis: String,
    /// Unlike the counters of Postgres, its log survives restarts.
    pub(super) postgres_log: String,
}
