//! The operator's command line: accounts, keys, webhook endpoints, the mock's faults and the card gateway's accounts.
//! It prints text, or one JSON object with `--json`. It needs only the database, so it can run next to any number of
//! processes.

mod accounts;
mod audit;
mod clocks;
mod differences;
mod doctor;
mod incidents;
mod inspect;
mod keys;
mod mock;
mod operations;
mod output;
mod reconcile;
mod reencrypt;
mod users;
mod webhooks;
mod why;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use domain::audit::{AuditedTx, Entry};
use engine::Keys;
use foundation::actor::Actor;
use foundation::clock::Clock;
use foundation::config;
use foundation::console::{self, print_error};
use foundation::crypto::{KeyRing, Peppers};
use foundation::db;
use foundation::db::Db;
use foundation::id::AccountId;
use foundation::time::Timestamp;
use providers::{Providers, card_gateway::CardGateway, mock::Mock, stripe::Stripe};
use queue::Publisher;
use serde_json::Value;

#[derive(Parser)]
#[command(
    name = "ctl",
    about = "Operates Unified Payments: accounts, keys, webhook endpoints, the mock provider's faults, and the card gateway"
)]
struct Cli {
    /// Print one JSON object instead of text.
    #[arg(long, global = true)]
    json: bool,
    /// Your name in the audit log. Default: your user name on this host.
    #[arg(long = "as", global = true, value_name = "NAME")]
    actor: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Core(Box<CoreCommand>),
    /// The card gateway: the commands of the `gateway` program, with its environment variables. Each prints one JSON
    /// object.
    #[command(subcommand)]
    Gateway(gateway::commands::Operate),
}

#[derive(Subcommand)]
enum CoreCommand {
    /// Merchant accounts.
    #[command(subcommand)]
    Accounts(accounts::Command),
    /// API keys.
    #[command(subcommand)]
    Keys(keys::Command),
    /// People who sign in to the portal.
    #[command(subcommand)]
    Users(users::Command),
    /// Test clocks.
    #[command(subcommand)]
    Clocks(clocks::Command),
    /// Webhook endpoints and their deliveries.
    #[command(subcommand)]
    Webhooks(webhooks::Command),
    /// Identify an object and its account by any id, a provider's transaction id, a Request-Id, an e-mail address, or
    /// the last four digits of a card.
    Why(why::Why),
    /// Show a payment's history, its current state and the reason for it.
    #[command(subcommand)]
    Payments(inspect::Payments),
    /// Explain why an invoice is not collected.
    #[command(subcommand)]
    Invoices(inspect::Invoices),
    /// Requests to providers: list unfinished ones, and enter outcomes found by manual review.
    #[command(subcommand)]
    Operations(operations::Command),
    /// Compare a provider's statement for a day with the recorded operations. Changes nothing; exits with 0 if they
    /// agree.
    Reconcile(reconcile::Reconcile),
    /// Recorded differences between a provider's books and ours, and their resolution.
    #[command(subcommand)]
    Differences(differences::Command),
    /// Transactions at a provider whose reference belongs to no operation.
    #[command(subcommand)]
    Orphans(incidents::Orphans),
    /// Duplicate charges, charges of a wrong amount, and their reversals.
    #[command(subcommand)]
    Anomalies(incidents::Anomalies),
    /// Open circuit breakers of provider accounts.
    #[command(subcommand)]
    Breakers(incidents::Breakers),
    /// How far providers' statements have been read.
    #[command(subcommand)]
    Statements(incidents::Statements),
    /// Due work and its delay: collections, billing cycles, payment links, operations.
    #[command(subcommand)]
    Due(incidents::Due),
    /// Re-encrypt with the current key everything that an old key encrypted. Exits with 1 if anything remains.
    Reencrypt(reencrypt::Reencrypt),
    /// Check the system's health: connections, migrations, clocks, stuck work, endpoints. Exits with 0 (ok), 1 (warn)
    /// or 2 (bad).
    Doctor,
    /// The log of operators' actions.
    #[command(subcommand)]
    Audit(audit::Command),
    /// The mock provider.
    #[command(subcommand)]
    Mock(mock::Command),
}

/// The most connections to Postgres that the doctor uses: a commit that it tries may keep one.
const DOCTORS_CONNECTIONS: u32 = 2;

/// What the commands share.
struct Ctl {
    db: Db,
    clock: Clock,
    actor: Actor,
    keys: Keys,
    /// Whether the keys may be used although no stored data confirms them.
    keys_unchecked: bool,
}

/// Keys that are checked against the stored data.
struct VerifiedKeys<'a> {
    encryption: &'a KeyRing,
    peppers: &'a Peppers,
}

/// The program.
#[tokio::main(flavor = "current_thread")]
pub async fn start() -> ExitCode {
    let cli = Cli::parse();
    // `reconcile` exits with 1 if the books differ, so an error needs another code.
    let failure =
        if matches!(&cli.command, Command::Core(core) if matches!(**core, CoreCommand::Reconcile(_))) { 2 } else { 1 };
    match run(cli).await {
        Ok(code) => code,
        Err(error) => {
            print_error(format_args!("ctl: {error:#}"));
            ExitCode::from(failure)
        }
    }
}

async fn run(cli: Cli) -> Result<ExitCode> {
    let command = match cli.command {
        Command::Core(command) => *command,
        Command::Gateway(command) => {
            console::print_json(&gateway::commands::operate(command, &Actor::named(cli.actor.as_deref())?).await?)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    // The doctor reports by itself whether Postgres can be reached and whether this host's clock is right. All other times
    // are the database's, whatever this host's clock shows.
    let is_doctor = matches!(command, CoreCommand::Doctor);
    let ctl = Ctl::new(cli.actor.as_deref(), is_doctor).await?;
    if !is_doctor {
        ctl.clock.synchronize(&mut *ctl.db.acquire().await?).await?;
    }
    let output = match command {
        CoreCommand::Accounts(command) => accounts::run(&ctl, command).await,
        CoreCommand::Keys(command) => keys::run(&ctl, command).await,
        CoreCommand::Users(command) => users::run(&ctl, command).await,
        CoreCommand::Clocks(command) => clocks::run(&ctl, command).await,
        CoreCommand::Webhooks(command) => webhooks::run(&ctl, command).await,
        CoreCommand::Why(args) => why::run(&ctl, args).await,
        CoreCommand::Orphans(command) => incidents::orphans(&ctl, command).await,
        CoreCommand::Anomalies(command) => incidents::anomalies(&ctl, command).await,
        CoreCommand::Breakers(command) => incidents::breakers(&ctl, command).await,
        CoreCommand::Statements(command) => incidents::statements(&ctl, command).await,
        CoreCommand::Due(command) => incidents::due(&ctl, command).await,
        CoreCommand::Payments(command) => inspect::payments(&ctl, command).await,
        CoreCommand::Invoices(command) => inspect::invoices(&ctl, command).await,
        CoreCommand::Operations(command) => operations::run(&ctl, command).await,
        CoreCommand::Reconcile(args) => reconcile::run(&ctl, args).await,
        CoreCommand::Differences(command) => differences::run(&ctl, command).await,
        CoreCommand::Reencrypt(args) => reencrypt::run(&ctl, args).await,
        CoreCommand::Doctor => doctor::run(&ctl).await,
        CoreCommand::Audit(command) => audit::run(&ctl, command).await,
        CoreCommand::Mock(command) => mock::run(&ctl, command).await,
    };
    // Send pending wake-ups before the process exits.
    if let Some(publisher) = ctl.db.publisher() {
        publisher.flush().await;
    }
    db::close(&ctl.db).await;
    Ok(output?.print(cli.json))
}

impl Ctl {
    async fn new(actor: Option<&str>, may_be_unreachable: bool) -> Result<Self> {
        let url = config::database_url()?;
        let pool = if may_be_unreachable {
            db::pool(&url, DOCTORS_CONNECTIONS, "ctl")?
        } else {
            db::command_pool(&url, "ctl").await.context("cannot connect to Postgres")?
        };
        Ok(Self {
            db: match config::redis_if_any()? {
                Some(redis) => Db::new(pool, Publisher::connect(&redis)),
                None => Db::without_queue(pool),
            },
            clock: Clock::system(),
            actor: Actor::named(actor)?,
            keys: Keys { encryption: config::encryption_keys()?, peppers: Some(config::peppers()?) },
            keys_unchecked: config::keys_unchecked()?,
        })
    }

    /// The keys, after a check that the running processes can use what is created with them.
    async fn verified_keys(&self) -> Result<VerifiedKeys<'_>> {
        engine::read_binding(&self.db, &self.keys.encryption).await?;
        if !self.keys_unchecked
            && let Some(mismatch) = engine::key_mismatch(&self.db, &self.keys).await?
        {
            return Err(mismatch.into());
        }
        let peppers = self.keys.peppers.as_ref().context("ctl has no peppers")?;
        Ok(VerifiedKeys { encryption: &self.keys.encryption, peppers })
    }

    /// The providers; the card gateway only if its URL is configured.
    fn providers(&self) -> Result<Providers> {
        let mock = Mock::new((*self.db).clone());
        let url = config::card_gateway_url()?;
        let gateway = url.map(|url| CardGateway::new(url, (*self.db).clone(), self.keys.encryption.clone()));
        let stripe = Stripe::new(config::stripe_url()?, (*self.db).clone(), self.keys.encryption.clone());
        Ok(Providers::new(mock, gateway, Some(stripe)))
    }

    /// Begins a transaction that commits a change together with its audit record.
    async fn begin(&self) -> Result<AuditedTx> {
        Ok(AuditedTx::begin(&self.db, &self.actor).await?)
    }
}

/// The audit record of a change to an object of an account.
fn entry(action: &'static str, account: AccountId, object: impl std::fmt::Display, detail: Value) -> Entry {
    Entry { action, account: Some(account), object: Some(object.to_string()), detail }
}

/// Parses a number and its unit, s, m, h or d, up to 366 days.
fn duration(text: &str) -> Result<Duration, &'static str> {
    const INVALID: &str = "not a duration such as 30m, 24h or 7d";
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or(INVALID)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(INVALID),
    };
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| digits).ok_or(INVALID)?;
    let seconds =
        number.checked_mul(seconds).filter(|seconds| *seconds <= 366 * 86_400).ok_or("longer than 366 days")?;
    Ok(Duration::from_secs(seconds))
}

/// Parses a timestamp in the API's format.
fn timestamp(text: &str) -> Result<Timestamp, &'static str> {
    Timestamp::parse(text).ok_or("not a timestamp such as 2026-11-21T00:00:00Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        for (text, seconds) in [("0s", 0), ("90s", 90), ("30m", 1_800), ("24h", 86_400), ("366d", 31_622_400)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for invalid in ["", "h", "24", "-1h", "+1h", "1.5h", "24H", "1w", "367d", "99999999999999999999h", "5€", "€h"]
        {
            assert!(duration(invalid).is_err(), "{invalid}");
        }
    }
}
