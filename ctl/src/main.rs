//! The operator's command line: accounts, keys, webhook endpoints, the faults of the mock, and the card gateway's accounts. Output
//! for people, or one JSON object with `--json`. It works on the database alone, so it can be run beside any number of processes.

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

#[derive(Parser)]
#[command(
    name = "ctl",
    about = "Operates Unified Payments: accounts, keys, webhook endpoints, the mock provider's faults, and the card gateway"
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
    /// The card gateway: the commands of its own program, in its environment. Each prints one JSON object.
    #[command(subcommand)]
    Gateway(gateway::commands::Operate),
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
    match run(cli.command, cli.json).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ctl: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command, json: bool) -> Result<()> {
    let output = match command {
        Command::Accounts(command) => accounts::run(&Ctl::new()?, command).await,
        Command::Keys(command) => keys::run(&Ctl::new()?, command).await,
        Command::Webhooks(command) => webhooks::run(&Ctl::new()?, command).await,
        Command::Mock(command) => mock::run(&Ctl::new()?, command).await,
        Command::Gateway(command) => {
            println!("{}", gateway::commands::operate(command).await?);
            return Ok(());
        }
    };
    output?.print(json);
    Ok(())
}

impl Ctl {
    fn new() -> Result<Self> {
        Ok(Self {
            db: db::pool(&config::database_url()?, 2, "ctl")?,
            clock: Clock::system(),
            pepper: config::pepper()?,
            encryption: config::encryption_key()?,
        })
    }
}
