//! A separate database for each test, in the one Postgres of the test process.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use anyhow::Result;
use tokio::{runtime, sync::OnceCell};

use crate::{
    account::run,
    files::TempDir,
    postgres::{self, Postgres, admin, execute},
    process::{ProcessKind, Programs},
    redis::{self, Redis},
    roles::Roles,
    template,
};

/// As the template, with the schema of the card gateway.
const TEMPLATE_WITH_GATEWAY: &str = "template_with_gateway";
/// The database of a cluster with a server of its own.
const OF_CLUSTER: &str = "payments";

/// The servers shared by all tests of one process. Statics are never dropped: the watchdog ends them.
#[derive(Debug)]
pub struct Shared {
    /// Use [`Database::create`] to get a database.
    pub postgres: Postgres,
    /// Pub/sub ignores database numbers, so tests that use it start their own Redis.
    pub redis: Redis,
    _directory: TempDir,
}

/// The Postgres and the Redis of this test process, started on the first call.
///
/// # Errors
/// When a server does not start or the migrations fail.
pub async fn shared() -> Result<&'static Shared> {
    static SHARED: OnceCell<Shared> = OnceCell::const_new();
    SHARED.get_or_try_init(start).await
}

async fn start() -> Result<Shared> {
    let directory = TempDir::in_memory()?;
    let postgres = template::start(&directory.path().join("postgres"), postgres::Options::default()).await?;
    let redis = Redis::start(&directory.path().join("redis"), redis::Options::default()).await?;
    Ok(Shared { postgres, redis, _directory: directory })
}

/// A freshly migrated database, dropped with this value.
#[derive(Debug)]
pub struct Database {
    name: String,
    url: String,
    admin_url: String,
}

impl Database {
    /// Creates a database by copying the template, which takes a few hundredths of a second.
    ///
    /// # Errors
    /// When Postgres does not start or rejects the statement.
    pub async fn create() -> Result<Self> {
        Self::copy(&shared().await?.postgres, template::DATABASE).await
    }

    /// As [`Database::create`], with the card gateway's schema, which is made once in this process.
    pub(crate) async fn create_with_gateway(programs: &Programs) -> Result<Self> {
        static MADE: OnceCell<()> = OnceCell::const_new();
        let postgres = &shared().await?.postgres;
        let make = || async {
            // What a former attempt left when it failed.
            drop_database(&postgres.url("postgres"), TEMPLATE_WITH_GATEWAY).await?;
            copy_database(postgres, template::DATABASE, TEMPLATE_WITH_GATEWAY).await?;
            let roles = Roles::of(&postgres.url(TEMPLATE_WITH_GATEWAY), template::ROLES_PASSWORD)?;
            migrate_gateway(programs, &roles).await
        };
        MADE.get_or_try_init(make).await?;
        Self::copy(postgres, TEMPLATE_WITH_GATEWAY).await
    }

    async fn copy(postgres: &Postgres, template: &str) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        copy_database(postgres, template, &name).await?;
        Ok(Self { url: postgres.url(&name), admin_url: postgres.url("postgres"), name })
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The name of the database.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (name, url) = (self.name.clone(), self.admin_url.clone());
        // Drop may run inside a runtime, which must not block on itself: run it on another thread and join. A database
        // that is left over goes with its server.
        let drop =
            move || runtime::Builder::new_current_thread().enable_all().build()?.block_on(drop_database(&url, &name));
        let _: Result<Result<()>, _> = thread::spawn(drop).join();
    }
}

/// A server of its own for one cluster, and the URL of its database, which is empty or migrated.
pub(crate) async fn postgres_with_database(
    folder: &Path,
    durable: bool,
    is_migrated: bool,
) -> Result<(String, Postgres)> {
    let options = postgres::Options { durable, ..postgres::Options::default() };
    let postgres = if is_migrated {
        let postgres = template::start(folder, options).await?;
        // Nothing else is created from it on this server.
        let rename = format!("ALTER DATABASE {} RENAME TO {OF_CLUSTER}", template::DATABASE);
        execute(&mut admin(&postgres.url("postgres")).await?, rename).await?;
        postgres
    } else {
        let postgres = Postgres::start(folder, options).await?;
        postgres.ensure_database(OF_CLUSTER).await?;
        postgres
    };
    Ok((postgres.url(OF_CLUSTER), postgres))
}

/// Makes the schema of the card gateway in the database of these roles.
pub(crate) async fn migrate_gateway(programs: &Programs, roles: &Roles) -> Result<()> {
    run(&programs.path(ProcessKind::Gateway.name())?, &roles.migration_environment(), &["migrate"]).await.map(drop)
}

async fn copy_database(postgres: &Postgres, template: &str, name: &str) -> Result<()> {
    let mut admin = admin(&postgres.url("postgres")).await?;
    // Copying files is faster than writing the copy to the WAL, which tests never replay.
    execute(&mut admin, format!("CREATE DATABASE \"{name}\" TEMPLATE {template} STRATEGY file_copy")).await
}

async fn drop_database(url: &str, name: &str) -> Result<()> {
    let mut admin = admin(url).await?;
    execute(&mut admin, format!("DROP DATABASE IF EXISTS \"{name}\" WITH (FORCE)")).await
}
