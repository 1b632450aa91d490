//! A private Postgres on a port of its own, also for root, for whom Postgres refuses to run.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use tokio::time;

use crate::{
    child::{Child, Signal},
    files,
    owner::Owner,
    ports, tls,
    tools::{self, Tool},
};

/// Replaying the log after a crash is part of a start.
const START_PATIENCE: Duration = Duration::from_secs(60);
const STOP_PATIENCE: Duration = Duration::from_secs(30);
const PORTS_TRIED: usize = 5;
const USER: &str = "payments";

/// How a private Postgres is started. The default is what a test wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Wait for the disk at each commit. Without it a crash of the machine, but not of Postgres, loses data.
    pub durable: bool,
    /// The port to prefer if it is free; any free port otherwise.
    pub port: Option<u16>,
    /// Take connections by TLS as well, with a certificate of [`tls::AUTHORITY`].
    pub tls: bool,
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
    durable: bool,
    port: u16,
    tls: bool,
}

/// Where a Postgres asked for in `directory` really lives: as root it runs as another user, who must be able to get there.
///
/// # Errors
/// When no other user is found to run it.
pub fn home(directory: &Path) -> Result<PathBuf> {
    Owner::choose()?.reachable(directory)
}

impl Postgres {
    /// Starts a server whose data lives in [`home`] of `directory`, with a new cluster if there is none, and waits until it is ready.
    ///
    /// # Errors
    /// When no Postgres is found, or it is not ready within 60 seconds.
    pub async fn start(directory: &Path, options: Options) -> Result<Self> {
        let owner = Owner::choose()?;
        let home = owner.reachable(directory)?;
        owner.prepare(&home)?;
        let tool = tools::postgres_programs()?;
        let password = files::password(&home)?;
        owner.give(&home.join("password"))?;
        let mut launch = Launch { tool, owner, home, durable: options.durable, port: 0, tls: options.tls };
        launch.initialise()?;
        if launch.tls {
            for file in tls::write_server(&launch.home)? {
                launch.owner.give(&file)?;
            }
        }
        let mut failure = None;
        // Another process can take a port between our look at it and the server's start.
        for wanted in std::iter::once(options.port).chain([None; PORTS_TRIED]) {
            launch.port = match wanted.filter(|port| ports::is_free(*port)) {
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

    /// `postgres://…` of the database `name`, as a superuser; the same after a restart.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("postgres://{USER}:{}@127.0.0.1:{}/{name}", self.password, self.launch.port)
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

    /// Whether the server is running, paused or not.
    ///
    /// # Errors
    /// When the system cannot say.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.ended()?.is_none())
    }

    /// Ends every server process at once without a checkpoint, as `pg_ctl stop -m immediate` does: the next start
    /// recovers from the log as after a crash.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn kill_immediate(&mut self) -> Result<()> {
        self.child.end_with(Signal::SIGQUIT).map(drop)
    }

    /// Starts it again on the same port, after ending it if it runs.
    ///
    /// # Errors
    /// As for [`Postgres::start`].
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.child = self.launch.run().await?;
        Ok(())
    }

    /// Stops it in good order: transactions are rolled back and clients disconnected.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub async fn stop(&mut self) -> Result<()> {
        self.child.stop(Signal::SIGINT, STOP_PATIENCE).await.map(drop)
    }

    /// Makes an empty database `name` unless it exists.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn ensure_database(&self, name: &str) -> Result<()> {
        let mut admin = crate::database::admin(&self.url("postgres")).await?;
        let exists = sqlx::query_scalar::<_, bool>("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)");
        if !exists.bind(name).fetch_one(&mut admin).await? {
            crate::database::execute(&mut admin, format!("CREATE DATABASE \"{name}\"")).await?;
        }
        Ok(())
    }
}

impl Launch {
    fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    fn log(&self) -> PathBuf {
        self.home.join("postgres.log")
    }

    /// Makes the cluster under another name first, so that one that was interrupted is never taken for whole.
    fn initialise(&self) -> Result<()> {
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
        let status = self.direct(&mut command)?.status().context("cannot start initdb")?;
        ensure!(status.success(), "initdb failed; see {}", self.log().display());
        fs::rename(&unfinished, self.data()).context("cannot rename the new cluster")
    }

    async fn run(&self) -> Result<Child> {
        let mut command = self.tool.program("postgres");
        command.arg("-D").arg(self.data());
        for setting in self.settings() {
            command.args(["-c", &setting]);
        }
        // With SIGQUIT the postmaster takes its children along.
        let mut child = Child::spawn(self.direct(&mut command)?, Signal::SIGQUIT)?;
        let ready = time::timeout(START_PATIENCE, async {
            while !self.is_ready(child.pid()) {
                if let Some(status) = child.ended()? {
                    bail!("postgres ended ({status}); see {}", self.log().display());
                }
                time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        });
        ready.await.with_context(|| format!("postgres is not ready; see {}", self.log().display()))??;
        Ok(child)
    }

    /// There is no Unix socket, because its path may not be longer than 100 bytes and a checkout's may. `jit` needs a library
    /// of its own and helps no statement here.
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
            settings.extend(["fsync=off", "full_page_writes=off", "autovacuum_naptime=600"].map(String::from));
        }
        settings
    }

    fn direct<'a>(&self, command: &'a mut Command) -> Result<&'a mut Command> {
        let output =
            OpenOptions::new().create(true).append(true).open(self.log()).context("cannot write Postgres' log")?;
        self.owner.run(command.current_dir(&self.home));
        // The environment may name another cluster's time zone, port or messages.
        for name in ["PGPORT", "PGHOST", "PGDATA", "PGTZ", "PGOPTIONS"] {
            command.env_remove(name);
        }
        Ok(command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output))
    }

    /// The server writes its process number, and on the eighth line its state, into a file of its own: asking over the
    /// port could reach another's server.
    fn is_ready(&self, pid: u32) -> bool {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let mut lines = text.lines();
        lines.next().map(str::trim) == Some(&pid.to_string()) && lines.nth(6).map(str::trim) == Some("ready")
    }
}
