//! The command line: `gateway serve`, `gateway migrate`, and what an operator does. The operator's commands are a library's too:
//! `ctl gateway …` is the same code.

mod account;
mod serve;

use anyhow::Result;
use clap::{Parser, Subcommand};
use common::db;
use serde_json::Value;

use crate::accounts::Vaulting;
use crate::{config, migrations, rekey};

#[derive(Parser)]
#[command(name = "gateway", about = "The card gateway")]
struct Cli {
    /// Without one it serves.
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Answer requests until told to stop.
    Serve,
    /// Bring the schema up, and end.
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
    /// Encrypt under the current key what an old one has encrypted. It may be stopped and run beside serving processes.
    Reencrypt,
}

/// Does what the arguments of the process say.
///
/// # Errors
/// Whatever kept it from being done.
pub async fn run() -> Result<()> {
    match Cli::parse().command.unwrap_or(Command::Serve) {
        Command::Serve => serve::serve().await,
        Command::Migrate => {
            migrations::run(common::config::database_url()?.expose()).await?;
            println!("the schema is up to date");
            Ok(())
        }
        Command::Operate(command) => {
            println!("{}", operate(command).await?);
            Ok(())
        }
    }
}

/// Does what an operator wants, in the environment of the gateway, and says what came of it.
///
/// # Errors
/// Whatever kept it from being done.
pub async fn operate(command: Operate) -> Result<Value> {
    match command {
        Operate::Account(command) => account::run(command).await,
        Operate::Reencrypt => {
            let db = db::pool(&common::config::database_url()?, 2, "gateway")?;
            Ok(serde_json::to_value(rekey::run(&db, &config::card_keys()?).await?)?)
        }
    }
}

fn vaulting() -> Result<Vaulting> {
    Ok(Vaulting { pepper: config::pepper()?, card_keys: config::card_keys()? })
}
