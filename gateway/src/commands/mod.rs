//! The command line: `gateway serve`, `gateway migrate`, and what an operator does. The operator's commands are a library's too:
//! `ctl gateway …` is the same code.

mod account;
mod serve;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use common::actor::Actor;
use common::console::print;
use common::db;
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::accounts::Vaulting;
use crate::{audit, config, inspect, key_check, migrations, rekey};

#[derive(Parser)]
#[command(name = "gateway", about = "The card gateway")]
struct Cli {
    /// Who you are, for the audit log; your user name at this machine by default.
    #[arg(long = "as", global = true, value_name = "NAME")]
    actor: Option<String>,
    /// Without one it serves.
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Answer requests until told to stop.
    Serve,
    /// Bring the schema up as the owner of the database at DATABASE_URL, let the role of GATEWAY_DATABASE_URL work on it, and end.
    Migrate,
    #[command(flatten)]
    Operate(Operate),
}

/// What an operator does. Each prints one JSON object.
#[derive(Subcommand)]
pub enum Operate {
    /// Merchants' accounts.
    #[command(subcommand)]
    Account(account::Command),
    /// What operators did.
    #[command(subcommand)]
    Audit(Audit),
    /// Transactions that have no end yet.
    Transactions(Scope),
    /// Receipts that are still to be sent: how many, since when, and how often they were tried.
    Receipts,
    /// How much of their limits accounts have used, the nearest to one first. Amounts are in hundredths.
    Limits(Scope),
    /// Encrypt under the current key what an old one has encrypted. It may be stopped and run beside serving processes.
    Reencrypt,
}

/// Of one account or of all, so many at most.
#[derive(Args)]
pub struct Scope {
    /// Of this account alone.
    #[arg(long)]
    username: Option<String>,
    /// So many at most.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
}

/// What is asked of the audit log.
#[derive(Subcommand)]
pub enum Audit {
    /// What operators did, newest first; or oldest first after a record. "more" says that the limit left some out.
    List {
        /// After the record of this id, oldest first, without those of the last minute: for copies. 0 is from the beginning.
        #[arg(long)]
        after: Option<i64>,
        /// To this account alone.
        #[arg(long)]
        username: Option<String>,
        /// So many at most.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
    },
}

/// Does what the arguments of the process say.
///
/// # Errors
/// Whatever kept it from being done.
pub async fn run() -> Result<()> {
    let cli = Cli::parse();
    match cli.command.unwrap_or(Command::Serve) {
        Command::Serve => serve::serve().await,
        Command::Migrate => {
            let (owner, role) = (common::config::database_url()?, config::role_url()?);
            migrations::run(owner.expose(), role.as_ref().map(|url| url.expose().as_str())).await?;
            Ok(print("the schema is up to date")?)
        }
        Command::Operate(command) => Ok(print(operate(command, &Actor::named(cli.actor.as_deref())?).await?)?),
    }
}

/// Does what an operator wants, in the environment of the gateway, and says what came of it.
///
/// # Errors
/// Whatever kept it from being done.
pub async fn operate(command: Operate, actor: &Actor) -> Result<Value> {
    let db = db::pool(&config::database_url()?, 2, "gateway")?;
    match command {
        Operate::Account(command) => account::run(&db, command, actor).await,
        Operate::Transactions(Scope { username, limit }) => {
            Ok(json!({"transactions": inspect::unfinished(&db, username.as_deref(), limit).await?}))
        }
        Operate::Receipts => Ok(serde_json::to_value(inspect::receipts(&db).await?)?),
        Operate::Limits(Scope { username, limit }) => {
            Ok(json!({"limits": inspect::limits(&db, username.as_deref(), limit).await?}))
        }
        Operate::Reencrypt => {
            let ring = config::card_keys()?;
            // It commits batch by batch, so that it was begun is written down before.
            record(&db, actor, &json!({"state": "begun"})).await?;
            let done = serde_json::to_value(rekey::run(&db, &ring).await?)?;
            record(&db, actor, &json!({"state": "ended", "done": done})).await?;
            Ok(done)
        }
        Operate::Audit(Audit::List { after, username, limit }) => {
            let username = username.as_deref();
            let mut rows = match after {
                Some(after) => audit::after(&db, after, username, limit + 1).await?,
                None => audit::list(&db, username, limit + 1).await?,
            };
            let all = rows.len();
            rows.truncate(usize::try_from(limit)?);
            Ok(json!({"more": rows.len() < all, "audit": rows}))
        }
    }
}

async fn record(db: &PgPool, actor: &Actor, detail: &Value) -> Result<()> {
    Ok(audit::record(&mut *db.acquire().await?, actor.name()?, "reencrypt", None, detail).await?)
}

/// What hashes and encrypts, unless it fits nothing of what is stored: what it would make nobody could use.
async fn fitting(db: &PgPool) -> Result<Vaulting> {
    let vaulting = vaulting()?;
    if !common::config::keys_unchecked()?
        && let Some(wrong) = key_check::misfit(db, &vaulting).await?
    {
        return Err(wrong.into());
    }
    Ok(vaulting)
}

fn vaulting() -> Result<Vaulting> {
    Ok(Vaulting { pepper: config::pepper()?, card_keys: config::card_keys()? })
}
