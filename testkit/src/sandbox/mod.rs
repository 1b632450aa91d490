//! The sandbox: every part of the system on this machine, its data kept in `.dev/` from one start to the next.

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

use display::say;
use state::Place;
use system::System;

pub use running::{Running, program};

const USAGE: &str = "usage: sandbox run | reset | ctl ARGUMENTS… | gateway ARGUMENTS… | database -- COMMAND…";

/// Does what the arguments of the `sandbox` program say.
///
/// # Errors
/// When it cannot be done; the message is for the person who asked.
pub async fn command(arguments: &[String]) -> Result<ExitCode> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["run"] => run().await,
        ["reset"] => reset(),
        [program @ ("ctl" | "gateway"), rest @ ..] => operate(program, rest),
        ["database", "--", program, rest @ ..] => with_database(program, rest).await,
        _ => bail!("{USAGE}"),
    }
}

/// Starts everything and stays until it is told to stop.
async fn run() -> Result<ExitCode> {
    let place = Place::open()?;
    let Some(_lock) = place.lock()? else {
        bail!("it runs already; its addresses and keys are in {}", place.description().display());
    };
    let interrupted = interruption()?;
    let mut system = System::new(place);
    let result = tokio::select! {
        result = system.serve() => result,
        () = interrupted => Ok(()),
    };
    if let Err(error) = &result {
        say(&format!("failed: {error:#}"));
    }
    say("stopping; once more Ctrl-C ends it at once");
    let impatience = interruption()?;
    tokio::select! {
        stopped = system.stop() => stopped?,
        // What still runs is killed by the watchdog. Postgres and the processes lose nothing by it.
        () = impatience => exit(130),
    }
    say("stopped");
    Ok(if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Ends with the first Ctrl-C, SIGTERM, or closing of the terminal from now on.
fn interruption() -> Result<impl Future<Output = ()>> {
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

/// Forgets all data and all keys.
fn reset() -> Result<ExitCode> {
    let place = Place::open()?;
    let lock = place.lock()?;
    ensure!(lock.is_some(), "it runs; stop it first");
    place.erase()?;
    say("all data and keys of the sandbox are gone; the next start begins anew");
    if state::external("DATABASE_URL").is_some() {
        say("the database at DATABASE_URL is not ours and was left alone");
    }
    Ok(ExitCode::SUCCESS)
}

/// Becomes an operator's tool, with the running sandbox's environment.
fn operate(program: &str, arguments: &[&str]) -> Result<ExitCode> {
    let place = Place::open()?;
    ensure!(place.lock()?.is_none(), "the sandbox does not run; start it with ./dev run");
    let description = place.read_description()?.context("the sandbox is still starting")?;
    let mut command = Command::new(binary(program)?);
    command.args(arguments).envs(place.secrets()?.environment());
    command.env("DATABASE_URL", description.database_url).env("REDIS_URL", description.redis_url);
    command.env("GATEWAY_DATABASE_URL", description.gateway_database_url);
    command.env("PUBLIC_URL", description.api_url).env("CARD_GATEWAY_URL", description.gateway_url);
    Err(command.exec()).with_context(|| format!("cannot start {program}"))
}

/// The gateway's schema, read from its files: its own program cannot be built before its statements are checked.
async fn migrate_gateway(url: &str) -> Result<()> {
    let mut files = Migrator::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateway/migrations")).await?;
    files.create_schema("gateway");
    files.dangerous_set_table_name("gateway._sqlx_migrations");
    files.run(&mut PgConnection::connect(url).await?).await.context("cannot migrate the gateway's schema")
}

/// Runs a command with `DATABASE_URL` of an empty, migrated database that is gone afterwards: what checking statements against
/// the schema needs.
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
