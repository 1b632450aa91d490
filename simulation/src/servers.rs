//! The real Postgres and Redis of one lane of simulations, in virtual time.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::{env, process};

use anyhow::{Context as _, Result, ensure};
use sqlx::{Connection as _, PgConnection};
use testkit::chaos::dropped_constraints;
use testkit::{files, postgres, redis};
use tokio::runtime::Builder;

use crate::clock;
use crate::world::{Backend, Backends, Login, RedisServer};

/// The name of the database that a history uses.
const DATABASE: &str = "history";
/// The card gateway's role. It has no access to other schemas than its own.
const GATEWAY_ROLE: &str = "gateway";

/// Nothing happens by itself, and truncating a table is cheap.
const SETTINGS: [&str; 6] = [
    "autovacuum=off",
    "checkpoint_timeout=1d",
    "max_connections=100",
    "max_wal_senders=0",
    "shared_buffers=16MB",
    "wal_level=minimal",
];

/// Space for the files of one lane.
const NEEDED_SPACE: u64 = 1 << 30;

/// Records when a worker claims an operation of which no request can have taken effect, to send one.
const SENT: &str = "CREATE SCHEMA simulation;
    CREATE TABLE simulation.sent (operation_id uuid NOT NULL, sent_at timestamptz NOT NULL DEFAULT clock_timestamp());
    CREATE FUNCTION simulation.record_sent() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO simulation.sent (operation_id) VALUES (NEW.id);
        RETURN NULL;
    END $$;
    CREATE TRIGGER record_sent AFTER UPDATE ON operations FOR EACH ROW
        WHEN (OLD.state = 'ready' AND NEW.state = 'sending') EXECUTE FUNCTION simulation.record_sent()";

/// Records when a card begins to await the payment of a page, and when and how that ends.
const PAGE_CARDS: &str = "CREATE TABLE simulation.page_cards (id bigint GENERATED ALWAYS AS IDENTITY,
        card_id uuid NOT NULL, payment_id uuid NOT NULL, status text NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT clock_timestamp());
    CREATE FUNCTION simulation.record_page_card() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO simulation.page_cards (card_id, payment_id, status)
        VALUES (NEW.id, NEW.saved_for_payment_id, NEW.status::text);
        RETURN NULL;
    END $$;
    CREATE TRIGGER record_new_page_card AFTER INSERT ON payment_methods FOR EACH ROW
        WHEN (NEW.awaits_operation_id IS NOT NULL) EXECUTE FUNCTION simulation.record_page_card();
    CREATE TRIGGER record_page_card AFTER UPDATE ON payment_methods FOR EACH ROW
        WHEN (OLD.awaits_operation_id IS DISTINCT FROM NEW.awaits_operation_id)
        EXECUTE FUNCTION simulation.record_page_card()";

/// Without the triggers that protect the audit log, and without notices.
const AS_REPLICA: &str = "SET session_replication_role = replica; SET client_min_messages = warning";

/// The tables that were written to.
const WRITTEN: &str = "SELECT oid::regclass FROM pg_class WHERE relkind = 'r' AND pg_relation_size(oid) > 0
    AND relnamespace <> ALL ('{pg_catalog,information_schema}'::regnamespace[])";

/// A running Postgres and Redis.
pub struct Servers {
    login: Login,
    admin: Backend,
    /// Taken by the process of a history.
    backends: Option<Backends>,
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
        let memory = Path::new(files::MEMORY);
        let parent = if files::free_space(memory) >= NEEDED_SPACE { memory.to_owned() } else { env::temp_dir() };
        let path = parent.join(format!("simulation-{}", process::id()));
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
            let options = postgres::Options {
                environment: environment.clone(),
                settings: SETTINGS.map(String::from).to_vec(),
                ..postgres::Options::default()
            };
            let postgres = testkit::Postgres::start(&directory.0.join("postgres"), options).await?;
            let options = redis::Options { environment, ..redis::Options::default() };
            let redis = testkit::Redis::start(&directory.0.join("redis"), options).await?;
            postgres.ensure_database(DATABASE).await?;
            let owner = postgres.url(DATABASE);
            migrations::run(&owner).await?;
            gateway::migrations::run(&owner, Some(&role_url(&owner)?)).await?;
            let mut db = PgConnection::connect(&owner).await?;
            sqlx::raw_sql(SENT).execute(&mut db).await?;
            sqlx::raw_sql(PAGE_CARDS).execute(&mut db).await?;
            anyhow::Ok((postgres, redis))
        })?;
        let url = url::Url::parse(&postgres.url(DATABASE))?;
        let password = url.password().context("a password")?.to_owned();
        let login = Login { port: postgres.port(), user: url.username().to_owned(), password };
        let mut admin = Backend::log_in(&login, DATABASE)?;
        admin.query(AS_REPLICA)?;
        for rule in env::var("DISABLED_RULES").iter().flat_map(|rules| rules.split(',')) {
            for statement in dropped_constraints(rule) {
                admin.query(statement)?;
            }
        }
        let backends = Some(Backends::new(login.clone()));
        Ok(Self { login, admin, backends, postgres, redis, _directory: directory })
    }

    /// Empties Postgres and Redis for a history.
    ///
    /// # Errors
    /// If Postgres or Redis fails.
    pub fn reset(&mut self) -> Result<()> {
        self.truncate()?;
        self.backends.as_mut().context("backends")?.discard_plans()?;
        let mut redis = self.redis_connection()?;
        redis.call(b"*1\r\n$8\r\nFLUSHALL\r\n")?;
        redis.call(b"*2\r\n$6\r\nSCRIPT\r\n$5\r\nFLUSH\r\n")?;
        Ok(())
    }

    /// Truncating a table, unlike deleting its rows, leaves it as if it had never been written.
    fn truncate(&mut self) -> Result<()> {
        let written = self.admin.query(WRITTEN)?;
        if !written.is_empty() {
            self.admin.query(&format!("TRUNCATE {} CASCADE", written.join(", ")))?;
        }
        Ok(())
    }

    /// The processes of Postgres that a history uses, and a connection to observe it.
    ///
    /// # Errors
    /// If Postgres refuses the connection.
    pub fn take_backends(&mut self) -> Result<(Backends, Backend)> {
        Ok((self.backends.take().context("backends")?, Backend::log_in(&self.login, DATABASE)?))
    }

    /// Starts the processes of Postgres that a history has needed, for the following ones.
    ///
    /// # Errors
    /// If Postgres refuses a connection.
    pub fn provide_backends(&mut self, needed: BTreeMap<Vec<u8>, usize>) -> Result<()> {
        self.backends.as_mut().context("backends")?.provide(&needed)
    }

    /// Closes all connections; a history has left them in an unknown state.
    pub fn forget_backends(&mut self) {
        self.backends = Some(Backends::new(self.login.clone()));
    }

    /// `postgres://…` of the history's database.
    pub fn database_url(&self) -> String {
        self.postgres.url(DATABASE)
    }

    /// `postgres://…` of the same database, with the card gateway's role.
    pub fn gateway_url(&self) -> String {
        role_url(&self.database_url()).expect("a URL")
    }

    /// `redis://…`.
    pub fn redis_url(&self) -> String {
        self.redis.url()
    }

    /// The ports of Postgres and Redis.
    pub fn ports(&self) -> (u16, u16) {
        (self.postgres.port(), self.redis.port())
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

/// With the name of the card gateway's role, whose password is the owner's: the simulator logs in for all processes.
fn role_url(owner: &str) -> Result<String> {
    let mut url = url::Url::parse(owner)?;
    ensure!(url.set_username(GATEWAY_ROLE).is_ok(), "the URL of Postgres has a user name");
    Ok(url.into())
}

/// The library is built into the same folder as this program.
fn preload_library() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("libpreload.so"))
}
