//! A private Redis on its own port.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time,
};

use crate::{
    child::{Child, Signal},
    files, ports, tls,
    tools::{self, Tool},
};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const PORT_ATTEMPTS: usize = 5;

/// How to start a private Redis. The default suits tests.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Additional environment variables of the server.
    pub environment: Vec<(String, String)>,
    /// Save the data in the directory and load it at the next start.
    pub persistent: bool,
    /// The preferred port; any free port if it is taken.
    pub port: Option<u16>,
    /// Listen on a TLS port too, with a certificate of [`tls::AUTHORITY`].
    pub tls: bool,
}

/// A running `redis-server`, killed when dropped and when the process that started it dies.
#[derive(Debug)]
pub struct Redis {
    tool: Tool,
    directory: PathBuf,
    environment: Vec<(String, String)>,
    password: String,
    port: u16,
    tls_port: Option<u16>,
    child: Child,
}

impl Redis {
    /// Starts a server with its files in `directory`, which is created if missing, and waits until it responds.
    ///
    /// # Errors
    /// When `redis-server` is not installed or does not respond within a minute.
    pub async fn start(directory: &Path, options: Options) -> Result<Self> {
        let tool = tools::redis_server()?;
        fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let password = files::password(directory)?;
        let mut failure = None;
        // Another process may take the port between our check and the server's start.
        for preferred in std::iter::once(options.port).chain([None; PORT_ATTEMPTS]) {
            let port = match preferred.filter(|port| ports::is_free(*port)) {
                Some(port) => port,
                None => ports::free()?,
            };
            let tls_port = options.tls.then(ports::free).transpose()?;
            configure(directory, &password, port, options.persistent, tls_port)?;
            match launch(&tool, directory, &password, port, &options.environment).await {
                Ok(child) => {
                    return Ok(Self {
                        tool,
                        directory: directory.to_path_buf(),
                        environment: options.environment,
                        password,
                        port,
                        tls_port,
                        child,
                    });
                }
                Err(error) => failure = Some(error),
            }
        }
        bail!("Redis does not start: {:#}", failure.context("no port was tried")?)
    }

    /// `redis://…` with the password; unchanged by a restart.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://:{}@127.0.0.1:{}/", self.password, self.port)
    }

    /// `rediss://…` with the password, if it listens on a TLS port.
    #[must_use]
    pub fn tls_url(&self) -> Option<String> {
        self.tls_port.map(|port| format!("rediss://:{}@127.0.0.1:{port}/", self.password))
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of the server that runs, or ran last.
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

    /// Kills it as `kill -9` does; unsaved data is lost.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn kill9(&mut self) -> Result<()> {
        self.child.kill_with(Signal::SIGKILL).map(drop)
    }

    /// Stops it if it runs and starts it on the same port.
    ///
    /// # Errors
    /// As for [`Redis::start`].
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.child = launch(&self.tool, &self.directory, &self.password, self.port, &self.environment).await?;
        Ok(())
    }

    /// Stops it (SIGSTOP): connections stay open and it does not respond.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn pause(&mut self) -> Result<()> {
        self.child.pause()
    }

    /// Deletes all data with `FLUSHALL`.
    ///
    /// # Errors
    /// When the server does not reply OK.
    pub async fn flush_all(&self) -> Result<()> {
        self.run_command("FLUSHALL").await
    }

    /// Runs a command whose reply is OK.
    ///
    /// # Errors
    /// When the server does not reply OK.
    pub async fn run_command(&self, command: &str) -> Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.write_all(format!("AUTH {}\r\n{command}\r\nQUIT\r\n", self.password).as_bytes()).await?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await?;
        ensure!(reply.matches("+OK").count() >= 2 && !reply.contains("\r\n-"), "Redis replied {reply:?}");
        Ok(())
    }

    /// Resumes it after [`Redis::pause`].
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn resume(&mut self) -> Result<()> {
        self.child.signal(Signal::SIGCONT)
    }

    /// Shuts it down; a persistent one saves first.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub async fn stop(&mut self) -> Result<()> {
        self.child.stop(Signal::SIGTERM, STOP_TIMEOUT).await.map(drop)
    }
}

/// The password goes into a file, because every user can read command lines. Paths are relative to the server's working
/// directory, so that none needs quoting.
fn configure(directory: &Path, password: &str, port: u16, persistent: bool, tls_port: Option<u16>) -> Result<()> {
    let save = if persistent { "60 1" } else { "\"\"" };
    let mut text = format!(
        "bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir ./\ndaemonize no\nappendonly no\nsave {save}\n\
         maxclients 2000\njemalloc-bg-thread no\n"
    );
    if let Some(port) = tls_port {
        tls::write_server(directory)?;
        text += &format!("tls-port {port}\ntls-auth-clients no\n");
        text += "tls-cert-file server.pem\ntls-key-file server.key.pem\ntls-ca-cert-file server.pem\n";
    }
    files::write_private(&directory.join("redis.conf"), &text)
}

async fn launch(
    tool: &Tool,
    directory: &Path,
    password: &str,
    port: u16,
    environment: &[(String, String)],
) -> Result<Child> {
    let log = directory.join("redis.log");
    let output = OpenOptions::new().create(true).append(true).open(&log).context("cannot write the log of Redis")?;
    let mut command = tool.command();
    command.arg("redis.conf").current_dir(directory).stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output).envs(environment.iter().cloned());
    let mut child = Child::spawn(&mut command, Signal::SIGKILL)?;
    let pid = child.pid();
    let ready = time::timeout(START_TIMEOUT, async {
        while !is_ours(port, password, pid).await {
            if let Some(status) = child.exit_status()? {
                bail!("redis-server exited ({status}); see {}", log.display());
            }
            time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    });
    ready.await.with_context(|| format!("redis-server does not respond; see {}", log.display()))??;
    Ok(child)
}

/// Whether the server on `port` is ours. The port may belong to another Redis, so the reply must contain our pid.
async fn is_ours(port: u16, password: &str, pid: u32) -> bool {
    let query = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        let request = format!("AUTH {password}\r\nINFO server\r\nQUIT\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await.ok()?;
        Some(String::from_utf8_lossy(&reply).contains(&format!("process_id:{pid}\r\n")))
    };
    time::timeout(Duration::from_secs(1), query).await.ok().flatten().unwrap_or(false)
}
