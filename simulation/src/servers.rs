//! The real Postgres and Redis of one lane of simulations, in virtual time.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process;

use anyhow::{Context as _, Result};
use sqlx::{Connection as _, Executor as _, PgConnection};
use testkit::{postgres, redis};
use tokio::runtime::Builder;

use crate::clock;
use crate::world::{PostgresServer, RedisServer};

/// The name of the database that a history uses.
const DATABASE: &str = "history";
const TEMPLATE: &str = "migrated";

/// A running Postgres and Redis.
pub struct Servers {
    // Dropped in this order: the files are removed last.
    postgres: testkit::Postgres,
    redis: testkit::Redis,
    _directory: Directory,
}

/// A directory that Postgres, which may run as another user, can reach; removed when dropped.
struct Directory(PathBuf);

impl Directory {
    /// A new one. The ids that Postgres gives to types depend on what was there before.
    fn create() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("simulation-{}", process::id()));
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        DirBuilder::new().mode(0o755).create(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Servers {
    /// Starts both with their files in a temporary directory, and migrates a template database.
    ///
    /// # Errors
    /// If one of them does not start.
    pub fn start() -> Result<Self> {
        let directory = Directory::create()?;
        let (library, shared) = (directory.0.join("libpreload.so"), directory.0.join("clock"));
        fs::copy(preload_library()?, &library).context("the library for Postgres and Redis is not built")?;
        clock::create(&shared)?;
        // The migrations create the partitions of the coming months.
        clock::reset(clock::BEGIN_US, 0);
        let environment = vec![
            ("LD_PRELOAD".to_owned(), library.display().to_string()),
            ("SIMULATION_CLOCK".to_owned(), shared.display().to_string()),
        ];
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (postgres, redis) = runtime.block_on(async {
            let options = postgres::Options { environment: environment.clone(), ..postgres::Options::default() };
            let postgres = testkit::Postgres::start(&directory.0.join("postgres"), options).await?;
            let options = redis::Options { environment, ..redis::Options::default() };
            let redis = testkit::Redis::start(&directory.0.join("redis"), options).await?;
            postgres.ensure_database(TEMPLATE).await?;
            migrations::run(&postgres.url(TEMPLATE)).await?;
            anyhow::Ok((postgres, redis))
        })?;
        Ok(Self { postgres, redis, _directory: directory })
    }

    /// Makes an empty database for a history, and empties Redis.
    ///
    /// # Errors
    /// If Postgres or Redis fails.
    pub fn reset(&self) -> Result<()> {
        // A runtime of its own: a child process must not share one with its parent.
        Builder::new_current_thread().enable_all().build()?.block_on(async {
            let mut admin = PgConnection::connect(&self.postgres.url("postgres")).await?;
            admin.execute(sqlx::AssertSqlSafe(format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"))).await?;
            let create = format!("CREATE DATABASE {DATABASE} TEMPLATE {TEMPLATE} STRATEGY file_copy");
            admin.execute(sqlx::AssertSqlSafe(create)).await?;
            admin.close().await
        })?;
        let mut redis = self.redis_connection()?;
        redis.call(b"*1\r\n$8\r\nFLUSHALL\r\n")?;
        redis.call(b"*2\r\n$6\r\nSCRIPT\r\n$5\r\nFLUSH\r\n")?;
        Ok(())
    }

    /// `postgres://…` of the history's database.
    pub fn database_url(&self) -> String {
        self.postgres.url(DATABASE)
    }

    /// `redis://…`.
    pub fn redis_url(&self) -> String {
        self.redis.url()
    }

    /// The ports of Postgres and Redis.
    pub fn ports(&self) -> (u16, u16) {
        (self.postgres.port(), self.redis.port())
    }

    /// A connection of the simulator's own to Postgres.
    ///
    /// # Errors
    /// If Postgres refuses it.
    pub fn postgres_connection(&self) -> Result<PostgresServer> {
        let url = url::Url::parse(&self.database_url())?;
        PostgresServer::log_in(self.postgres.port(), url.username(), url.password().context("a password")?)
    }

    /// A connection of the simulator's own to Redis.
    ///
    /// # Errors
    /// If Redis refuses it.
    pub fn redis_connection(&self) -> Result<RedisServer> {
        let mut redis = RedisServer::connect(self.redis.port())?;
        let url = url::Url::parse(&self.redis_url())?;
        let password = url.password().context("a password")?;
        redis.call(format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{password}\r\n", password.len()).as_bytes())?;
        Ok(redis)
    }
}

/// The library is built into the same folder as this program.
fn preload_library() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("libpreload.so"))
}
