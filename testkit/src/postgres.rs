//! A private Postgres on its own port. It also works for root, which Postgres itself rejects.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::time;

use crate::{
    child::{Child, Signal},
    files,
    owner::Owner,
    ports, tls,
    tools::{self, Tool},
};

/// A start may include crash recovery.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const PORT_ATTEMPTS: usize = 5;
const USER: &str = "payments";

/// How to start a private Postgres. The default suits tests.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Additional environment variables of the server.
    pub environment: Vec<(String, String)>,
    /// Turn `fsync` on. Without it a crash of the machine, but not of Postgres, loses data.
    pub durable: bool,
    /// The preferred port; any free port if it is taken.
    pub port: Option<u16>,
    /// Accept TLS connections too, with a certificate of [`tls::AUTHORITY`].
    pub tls: bool,
    /// More settings, such as `wal_level=minimal`.
    pub settings: Vec<String>,
}

/// A running Postgres, killed when dropped and when the process that started it dies.
#[derive(Debug)]
pub struct Postgres {
    launch: Launch,
    password: String,
    child: Child,
}

#[derive(Debug)]
struct Launch {
    tool: Tool,
    owner: Owner,
    home: PathBuf,
    environment: Vec<(String, String)>,
    durable: bool,
    port: u16,
    tls: bool,
    settings: Vec<String>,
}

/// Where a Postgres requested in `directory` really stores its data: for root it runs as another user, who must be able
/// to reach the directory.
///
/// # Errors
/// When there is no other user to run it.
pub fn home(directory: &Path) -> Result<PathBuf> {
    Owner::choose()?.reachable(directory)
}

impl Postgres {
    /// Starts a server with its data in [`home`] of `directory`, initializes the data if there is none, and waits until
    /// it is ready.
    ///
    /// # Errors
    /// When Postgres is not installed or not ready within 60 seconds.
    pub async fn start(directory: &Path, options: Options) -> Result<Self> {
        let owner = Owner::choose()?;
        let home = owner.reachable(directory)?;
        owner.prepare(&home)?;
        let tool = tools::postgres_programs()?;
        let password = files::password(&home)?;
        owner.hand_over(&home.join("password"))?;
        let mut launch = Launch {
            tool,
            owner,
            home,
            environment: options.environment,
            durable: options.durable,
            port: 0,
            tls: options.tls,
            settings: options.settings,
        };
        launch.initialize()?;
        if launch.tls {
            for file in tls::write_server(&launch.home)? {
                launch.owner.hand_over(&file)?;
            }
        }
        let mut failure = None;
        // Another process may take the port between our check and the server's start.
        for preferred in std::iter::once(options.port).chain([None; PORT_ATTEMPTS]) {
            launch.port = match preferred.filter(|port| ports::is_free(*port)) {
                Some(port) => port,
                None => ports::free()?,
            };
            match launch.run().await {
                Ok(child) => return Ok(Self { launch, password, child }),
                Err(error) => failure = Some(error),
            }
        }
        bail!("Postgres does not start: {:#}", failure.context("no port was tried")?)
    }

    /// `postgres://…` of the database `name`, as a superuser; unchanged by a restart.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("postgres://{USER}:{}@127.0.0.1:{}/{name}", self.password, self.launch.port)
    }

    /// The password of the superuser.
    pub(crate) fn password(&self) -> &str {
        &self.password
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.launch.port
    }

    /// The process id of the postmaster that runs, or ran last.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Whether the server is running, even if paused.
    ///
    /// # Errors
    /// When the status cannot be read.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.exit_status()?.is_none())
    }

    /// Ends every server process at once without a checkpoint, as `pg_ctl stop -m immediate` does: the next start runs
    /// crash recovery.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn kill_immediate(&mut self) -> Result<()> {
        self.child.kill_with(Signal::SIGQUIT).map(drop)
    }

    /// Stops it if it runs and starts it on the same port.
    ///
    /// # Errors
    /// As for [`Postgres::start`].
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.child = self.launch.run().await?;
        Ok(())
    }

    /// Shuts it down (fast): transactions are rolled back and clients disconnected.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub async fn stop(&mut self) -> Result<()> {
        self.child.stop(Signal::SIGINT, STOP_TIMEOUT).await.map(drop)
    }

    /// Creates an empty database `name` unless it exists.
    ///
    /// # Errors
    /// When the server rejects the statement.
    pub async fn ensure_database(&self, name: &str) -> Result<()> {
        let mut admin = admin(&self.url("postgres")).await?;
        let exists = sqlx::query_scalar::<_, bool>("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)");
        if !exists.bind(name).fetch_one(&mut admin).await? {
            execute(&mut admin, format!("CREATE DATABASE \"{name}\"")).await?;
        }
        Ok(())
    }
}

/// A connection as a superuser.
pub(crate) async fn admin(url: &str) -> Result<PgConnection> {
    PgConnection::connect(url).await.context("cannot connect to the private Postgres")
}

/// Runs a statement without parameters whose identifiers are generated here.
pub(crate) async fn execute(connection: &mut PgConnection, statement: String) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await?;
    Ok(())
}

impl Launch {
    fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    fn log(&self) -> PathBuf {
        self.home.join("postgres.log")
    }

    /// Creates the data directory under a temporary name first, so that an interrupted one is never used.
    fn initialize(&self) -> Result<()> {
        if self.data().join("PG_VERSION").is_file() {
            return Ok(());
        }
        let unfinished = self.home.join("data.new");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        let mut command = self.tool.program("initdb");
        command.args(["--no-sync", "--encoding=UTF8", "--locale=C", "--auth=password"]);
        command.args(["--username", USER, "--pwfile"]).arg(self.home.join("password"));
        command.arg("-D").arg(&unfinished);
        let status = self.prepare(&mut command)?.status().context("cannot start initdb")?;
        ensure!(status.success(), "initdb failed; see {}", self.log().display());
        fs::rename(&unfinished, self.data()).context("cannot rename the new data directory")
    }

    async fn run(&self) -> Result<Child> {
        let mut command = self.tool.program("postgres");
        command.arg("-D").arg(self.data());
        for setting in self.settings() {
            command.args(["-c", &setting]);
        }
        // On SIGQUIT the postmaster also ends its children.
        let command = self.prepare(&mut command)?.envs(self.environment.iter().cloned());
        let mut child = Child::spawn(command, Signal::SIGQUIT)?;
        let ready = time::timeout(START_TIMEOUT, async {
            while !self.is_ready(child.pid()) {
                if let Some(status) = child.exit_status()? {
                    bail!("postgres exited ({status}); see {}", self.log().display());
                }
                time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        });
        ready.await.with_context(|| format!("postgres is not ready; see {}", self.log().display()))??;
        Ok(child)
    }

    /// No Unix socket, because its path is limited to 100 bytes and a checkout's path may be longer. No `jit`, because
    /// it needs a separate library and speeds up none of our statements.
    fn settings(&self) -> Vec<String> {
        let mut settings: Vec<String> = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=1000",
            "jit=off",
            "timezone=UTC",
        ]
        .map(String::from)
        .to_vec();
        settings.push(format!("port={}", self.port));
        if self.tls {
            settings.push("ssl=on".to_owned());
            settings.push(format!("ssl_cert_file={}", self.home.join("server.pem").display()));
            settings.push(format!("ssl_key_file={}", self.home.join("server.key.pem").display()));
        }
        if !self.durable {
            let settings_of_tests =
                ["fsync=off", "full_page_writes=off", "autovacuum_naptime=600", "max_wal_size=256MB"];
            settings.extend(settings_of_tests.map(String::from));
        }
        settings.extend_from_slice(&self.settings);
        settings
    }

    fn prepare<'a>(&self, command: &'a mut Command) -> Result<&'a mut Command> {
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log())
            .context("cannot write the log of Postgres")?;
        self.owner.run(command.current_dir(&self.home));
        // The environment may set another cluster's time zone, port or options.
        for name in ["PGPORT", "PGHOST", "PGDATA", "PGTZ", "PGOPTIONS"] {
            command.env_remove(name);
        }
        Ok(command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output))
    }

    /// The server writes its pid and, on the eighth line, its state to a file of its own. Asking on the port could
    /// reach another server.
    fn is_ready(&self, pid: u32) -> bool {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let mut lines = text.lines();
        lines.next().map(str::trim) == Some(&pid.to_string()) && lines.nth(6).map(str::trim) == Some("ready")
    }
}
