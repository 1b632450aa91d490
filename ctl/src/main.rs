//! The operator's command line: accounts, keys, webhook endpoints, and the faults of the mock. Output for people, or one JSON object with
//! `--json`. It works on the database alone, so it can be run beside any number of processes.

mod accounts;
mod keys;
mod mock;
mod output;
mod webhooks;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use common::clock::Clock;
use common::crypto::{EncryptionKey, Pepper};
use common::{config, db};
use sqlx::PgPool;

use crate::output::Output;

#[derive(Parser)]
#[command(
    name = "ctl",
    about = "Operates Unified Payments: accounts, keys, webhook endpoints, and the mock provider's faults"
)]
struct Cli {
    /// Print one JSON object instead of text for people.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Merchants' accounts.
    #[command(subcommand)]
    Accounts(accounts::Command),
    /// API keys.
    #[command(subcommand)]
    Keys(keys::Command),
    /// Where merchants hear of events.
    #[command(subcommand)]
    Webhooks(webhooks::Command),
    /// The mock provider.
    #[command(subcommand)]
    Mock(mock::Command),
}

/// What the commands work with.
struct Ctl {
    db: PgPool,
    clock: Clock,
    pepper: Pepper,
    encryption: EncryptionKey,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command).await {
        Ok(output) => {
            output.print(cli.json);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ctl: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<Output> {
    let ctl = Ctl {
        db: db::pool(&config::database_url()?, 2, "ctl")?,
        clock: Clock::system(),
        pepper: config::pepper()?,
        encryption: config::encryption_key()?,
    };
    match command {
        Command::Accounts(command) => accounts::run(&ctl, command).await,
        Command::Keys(command) => keys::run(&ctl, command).await,
        Command::Webhooks(command) => webhooks::run(&ctl, command).await,
        Command::Mock(command) => mock::run(&ctl, command).await,
    }
}
