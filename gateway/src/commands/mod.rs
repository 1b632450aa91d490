//! The command line: `gateway serve`, `gateway migrate`, and the operators' commands, which `ctl gateway …` uses as a
//! library.

mod account;
mod keys;
mod serve;

pub use serve::serve;

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand};
use foundation::actor::Actor;
use foundation::console::{print_json, print_lines};
use foundation::{db, telemetry};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::{accounts, audit, config, inspect, migrations, rekey};

#[derive(Parser)]
#[command(name = "gateway", about = "The card gateway")]
struct Cli {
    /// Your name for the audit log; by default your user name on this machine.
    #[arg(long = "as", global = true, value_name = "NAME")]
    actor: Option<String>,
    /// `serve` by default.
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve requests until terminated.
    Serve,
    /// Migrate the schema as the owner at DATABASE_URL, and grant the role of GATEWAY_DATABASE_URL access to it.
    Migrate,
    #[command(flatten)]
    Operate(Operate),
}

/// The operators' commands. Each prints one JSON object.
#[derive(Subcommand)]
pub enum Operate {
    /// Manage merchants' accounts.
    #[command(subcommand)]
    Account(account::Command),
    /// Read the audit log.
    #[command(subcommand)]
    Audit(Audit),
    /// List unfinished transactions.
    Transactions(Scope),
    /// Count the receipts still to be sent, with the oldest one and the attempts so far.
    Receipts,
    /// List the limits' usage by account, the closest to a limit first. Amounts are in minor units.
    Limits(Scope),
    /// Re-encrypt under the current key what an old key has encrypted. Can be interrupted, and run while gateways
    /// serve.
    Reencrypt,
}

/// Filter and limit of a list.
#[derive(Args)]
pub struct Scope {
    /// Only this account.
    #[arg(long)]
    username: Option<String>,
    /// Maximum number of entries.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
}

/// Subcommands of `audit`.
#[derive(Subcommand)]
pub enum Audit {
    /// List operators' actions, newest first, or with --after oldest first. "more" is true if the limit truncated the
    /// list.
    List {
        /// Only records after this id, oldest first and without those of the last minute, for copies. 0 starts at the
        /// beginning.
        #[arg(long)]
        after: Option<i64>,
        /// Only actions on this account.
        #[arg(long)]
        username: Option<String>,
        /// Maximum number of entries.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
    },
}

/// Runs the command of the process's arguments.
///
/// # Errors
/// The command failed.
pub async fn run() -> Result<()> {
    let cli = Cli::parse();
    match cli.command.unwrap_or(Command::Serve) {
        Command::Serve => {
            telemetry::init_logs();
            serve(telemetry::init_metrics()?, telemetry::shutdown_signal()).await
        }
        Command::Migrate => {
            let (owner, role) = (foundation::config::database_url()?, config::role_url()?);
            migrations::run(owner.expose(), role.as_ref().map(|url| url.expose().as_str())).await?;
            Ok(print_lines(&["the schema is up to date"])?)
        }
        Command::Operate(command) => Ok(print_json(&operate(command, &Actor::named(cli.actor.as_deref())?).await?)?),
    }
}

/// Runs an operator's command in the gateway's environment and returns its result.
///
/// # Errors
/// The command failed.
pub async fn operate(command: Operate, actor: &Actor) -> Result<Value> {
    let db = db::command_pool(&config::database_url()?, "gateway").await.context("cannot connect to Postgres")?;
    let result = perform(&db, command, actor).await;
    db::close(&db).await;
    result
}

async fn perform(db: &PgPool, command: Operate, actor: &Actor) -> Result<Value> {
    match command {
        Operate::Account(command) => account::run(db, command, actor).await,
        Operate::Transactions(Scope { username, limit }) => {
            Ok(json!({"transactions": inspect::unfinished(db, username.as_deref(), limit).await?}))
        }
        Operate::Receipts => Ok(serde_json::to_value(inspect::receipts(db).await?)?),
        Operate::Limits(Scope { username, limit }) => {
            Ok(json!({"limits": inspect::limits(db, username.as_deref(), limit).await?}))
        }
        Operate::Reencrypt => {
            let ring = config::card_keys()?;
            // It commits batch by batch, so record the start first.
            record(db, actor, &json!({"state": "begun"})).await?;
            accounts::bind_key_hashes(db).await?;
            let done = serde_json::to_value(rekey::run(db, &ring).await?)?;
            record(db, actor, &json!({"state": "ended", "done": done})).await?;
            Ok(done)
        }
        Operate::Audit(Audit::List { after, username, limit }) => {
            let username = username.as_deref();
            let mut records = match after {
                Some(after) => audit::after(db, after, username, limit + 1).await?,
                None => audit::list(db, username, limit + 1).await?,
            };
            let all = records.len();
            records.truncate(usize::try_from(limit)?);
            Ok(json!({"more": records.len() < all, "audit": records}))
        }
    }
}

async fn record(db: &PgPool, actor: &Actor, detail: &Value) -> Result<()> {
    Ok(audit::record(&mut *db.acquire().await?, actor.name()?, "reencrypt", None, detail).await?)
}
