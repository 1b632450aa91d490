//! The sandbox: the whole system on this machine. Its data stays in `.dev/` between starts.

mod accounts;
mod backoff;
mod display;
mod running;
mod state;
mod system;

use std::{
    ffi::OsString,
    future::Future,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Command, ExitCode, exit},
};

use anyhow::{Context, Result, bail, ensure};
use sqlx::{Connection, PgConnection, migrate::Migrator};
use tokio::signal::unix::{SignalKind, signal};

use crate::{Postgres, TempDir, postgres, process::binary};

use display::print_line;
use state::SandboxFolder;
use system::System;

pub use running::{Running, program};

const USAGE: &str = "usage: sandbox run | reset | ctl ARGUMENTS… | gateway ARGUMENTS… | database -- COMMAND…";

/// Runs the `sandbox` program with these arguments.
///
/// # Errors
/// When the command fails; the message is for the user.
pub async fn command(arguments: &[String]) -> Result<ExitCode> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["run"] => run().await,
        ["reset"] => reset(),
        [program @ ("ctl" | "gateway"), rest @ ..] => run_tool(program, rest),
        ["database", "--", program, rest @ ..] => with_database(program, rest).await,
        _ => bail!("{USAGE}"),
    }
}

/// Starts everything and runs until interrupted.
async fn run() -> Result<ExitCode> {
    let folder = SandboxFolder::open()?;
    let Some(_lock) = folder.lock()? else {
        bail!("the sandbox is already running; its addresses and keys are in {}", folder.description().display());
    };
    let first_signal = shutdown_signal()?;
    let mut system = System::new(folder);
    let result = tokio::select! {
        result = system.serve() => result,
        () = first_signal => Ok(()),
    };
    if let Err(error) = &result {
        print_line(&format!("failed: {error:#}"));
    }
    print_line("stopping; press Ctrl-C again to kill everything");
    let second_signal = shutdown_signal()?;
    tokio::select! {
        result = system.stop() => result?,
        // The watchdog kills what still runs. Postgres and our processes lose no data.
        () = second_signal => exit(130),
    }
    print_line("stopped");
    Ok(if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Completes on the first Ctrl-C, SIGTERM or SIGHUP after this call.
fn shutdown_signal() -> Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

/// Deletes all data and keys.
fn reset() -> Result<ExitCode> {
    let folder = SandboxFolder::open()?;
    let lock = folder.lock()?;
    ensure!(lock.is_some(), "the sandbox is running; stop it first");
    folder.erase()?;
    print_line("deleted all data and keys of the sandbox; the next start creates new ones");
    if state::external("DATABASE_URL").is_some() {
        print_line("the external database at DATABASE_URL was not changed");
    }
    Ok(ExitCode::SUCCESS)
}

/// Replaces this process with an operator tool that has the environment of the running sandbox.
fn run_tool(program: &str, arguments: &[&str]) -> Result<ExitCode> {
    let folder = SandboxFolder::open()?;
    ensure!(folder.lock()?.is_none(), "the sandbox is not running; start it with ./dev run");
    let description = folder.read_description()?.context("the sandbox is still starting")?;
    let mut command = Command::new(binary(program)?);
    command.args(arguments).envs(folder.secrets()?.environment());
    command.env("DATABASE_URL", description.database_url).env("REDIS_URL", description.redis_url);
    command.env("GATEWAY_DATABASE_URL", description.gateway_database_url);
    command.env("PUBLIC_URL", description.api_url).env("CARD_GATEWAY_URL", description.gateway_url);
    Err(command.exec()).with_context(|| format!("cannot start {program}"))
}

/// Reads the gateway's migrations from their files: the gateway cannot be built before its statements have been
/// checked.
async fn migrate_gateway(url: &str) -> Result<()> {
    let mut files = Migrator::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateway/migrations")).await?;
    files.create_schema("gateway");
    files.dangerous_set_table_name("gateway._sqlx_migrations");
    files.run(&mut PgConnection::connect(url).await?).await.context("cannot migrate the gateway's schema")
}

/// Runs a command with the `DATABASE_URL` of a temporary, empty, migrated database, against which `cargo sqlx prepare`
/// checks statements.
async fn with_database(program: &str, arguments: &[&str]) -> Result<ExitCode> {
    let directory = TempDir::new()?;
    let mut postgres = Postgres::start(&directory.path().join("postgres"), postgres::Options::default()).await?;
    postgres.ensure_database("schema").await?;
    let url = postgres.url("schema");
    migrations::run(&url).await?;
    migrate_gateway(&url).await?;
    let arguments = arguments.iter().map(OsString::from);
    let status = Command::new(program).args(arguments).env("DATABASE_URL", url).status();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    postgres.stop().await?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}
