//! The operator's command line: accounts, keys, webhook endpoints, the faults of the mock, and the card gateway's accounts. Output
//! for people, or one JSON object with `--json`. It works on the database alone, so it can be run beside any number of processes.

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
mod webhooks;
mod why;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use common::actor::Actor;
use common::audit::{Act, Entry};
use common::clock::Clock;
use common::console::{self, complain};
use common::crypto::{KeyRing, Peppers};
use common::db::Db;
use common::flows::{self, Keys};
use common::id::AccountId;
use common::providers::{Providers, card_gateway::CardGateway, mock::Mock};
use common::time::Timestamp;
use common::{config, db};
use queue::Publisher;
use serde_json::Value;

#[derive(Parser)]
#[command(
    name = "ctl",
    about = "Operates Unified Payments: accounts, keys, webhook endpoints, the mock provider's faults, and the card gateway"
)]
struct Cli {
    /// Print one JSON object instead of text for people.
    #[arg(long, global = true)]
    json: bool,
    /// Who you are, for the audit log; your user name at this machine by default.
    #[arg(long = "as", global = true, value_name = "NAME")]
    actor: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Ours(Ours),
    /// The card gateway: the commands of its own program, in its environment. Each prints one JSON object.
    #[command(subcommand)]
    Gateway(gateway::commands::Operate),
}

#[derive(Subcommand)]
enum Ours {
    /// Merchants' accounts.
    #[command(subcommand)]
    Accounts(accounts::Command),
    /// API keys.
    #[command(subcommand)]
    Keys(keys::Command),
    /// Test clocks.
    #[command(subcommand)]
    Clocks(clocks::Command),
    /// Where merchants hear of events.
    #[command(subcommand)]
    Webhooks(webhooks::Command),
    /// What something is, and whose: any id of ours, a provider's name for a transaction, a Request-Id, an e-mail address, or the last
    /// four digits of a card.
    Why(why::Why),
    /// Payments: where one stands, and why.
    #[command(subcommand)]
    Payments(inspect::Payments),
    /// Invoices: why one is not collected.
    #[command(subcommand)]
    Invoices(inspect::Invoices),
    /// Requests to providers: what has not ended, and what a person has found out.
    #[command(subcommand)]
    Operations(operations::Command),
    /// A provider's statement of a day beside our books, both ways. Changes nothing; ends with 0 if they agree.
    Reconcile(reconcile::Reconcile),
    /// Differences between a provider's books and ours that were found, and what a person has found out about one.
    #[command(subcommand)]
    Differences(differences::Command),
    /// Money that moved at a provider under a reference that no operation of ours has.
    #[command(subcommand)]
    Orphans(incidents::Orphans),
    /// Charges that no payment wants, second ones and those of another amount, and their reversals.
    #[command(subcommand)]
    Anomalies(incidents::Anomalies),
    /// Provider accounts that process nothing.
    #[command(subcommand)]
    Breakers(incidents::Breakers),
    /// How far providers' statements have been read.
    #[command(subcommand)]
    Statements(incidents::Statements),
    /// What is due: collections, cycles, links, operations; and how late it is.
    #[command(subcommand)]
    Due(incidents::Due),
    /// Seal everything that an old key has sealed under the current one. Ends with 1 if something is left.
    Reencrypt(reencrypt::Reencrypt),
    /// Whether all is well: connections, migrations, clocks, stuck work, endpoints. Ends with 0 (ok), 1 (warn) or 2 (bad).
    Doctor,
    /// What operators did.
    #[command(subcommand)]
    Audit(audit::Command),
    /// The mock provider.
    #[command(subcommand)]
    Mock(mock::Command),
}

/// What the commands work with.
struct Ctl {
    db: Db,
    clock: Clock,
    actor: Actor,
    keys: Keys,
    /// Whether they may be used though they fit nothing.
    keys_unchecked: bool,
}

/// Keys with which secrets and API keys can be made.
struct FittingKeys<'a> {
    encryption: &'a KeyRing,
    peppers: &'a Peppers,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    // Where 1 has a meaning of its own, a failure is told apart from it.
    let failure = if matches!(cli.command, Command::Ours(Ours::Reconcile(_))) { 2 } else { 1 };
    match run(cli).await {
        Ok(code) => code,
        Err(error) => {
            complain(format_args!("ctl: {error:#}"));
            ExitCode::from(failure)
        }
    }
}

async fn run(cli: Cli) -> Result<ExitCode> {
    let command = match cli.command {
        Command::Ours(command) => command,
        Command::Gateway(command) => {
            console::print(gateway::commands::operate(command, &Actor::named(cli.actor.as_deref())?).await?)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let ctl = Ctl::new(cli.actor.as_deref())?;
    // Times are the database's, whatever this machine's clock shows. The doctor measures it by itself, and says what it finds.
    if !matches!(command, Ours::Doctor) {
        ctl.clock.synchronize(&mut *ctl.db.acquire().await?).await?;
    }
    let output = match command {
        Ours::Accounts(command) => accounts::run(&ctl, command).await,
        Ours::Keys(command) => keys::run(&ctl, command).await,
        Ours::Clocks(command) => clocks::run(&ctl, command).await,
        Ours::Webhooks(command) => webhooks::run(&ctl, command).await,
        Ours::Why(args) => why::run(&ctl, args).await,
        Ours::Orphans(command) => incidents::orphans(&ctl, command).await,
        Ours::Anomalies(command) => incidents::anomalies(&ctl, command).await,
        Ours::Breakers(command) => incidents::breakers(&ctl, command).await,
        Ours::Statements(command) => incidents::statements(&ctl, command).await,
        Ours::Due(command) => incidents::due(&ctl, command).await,
        Ours::Payments(command) => inspect::payments(&ctl, command).await,
        Ours::Invoices(command) => inspect::invoices(&ctl, command).await,
        Ours::Operations(command) => operations::run(&ctl, command).await,
        Ours::Reconcile(args) => reconcile::run(&ctl, args).await,
        Ours::Differences(command) => differences::run(&ctl, command).await,
        Ours::Reencrypt(args) => reencrypt::run(&ctl, args).await,
        Ours::Doctor => doctor::run(&ctl).await,
        Ours::Audit(command) => audit::run(&ctl, command).await,
        Ours::Mock(command) => mock::run(&ctl, command).await,
    };
    // Whoever was woken hears of it before this process is gone.
    if let Some(publisher) = ctl.db.publisher() {
        publisher.flush().await;
    }
    Ok(output?.print(cli.json))
}

impl Ctl {
    fn new(actor: Option<&str>) -> Result<Self> {
        let pool = db::pool(&config::database_url()?, 2, "ctl")?;
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

    /// The keys, once it is known that what is made with them can be read by the processes.
    async fn fitting_keys(&self) -> Result<FittingKeys<'_>> {
        if !self.keys_unchecked
            && let Some(wrong) = flows::misfit(&self.db, &self.keys).await?
        {
            return Err(wrong.into());
        }
        let peppers = self.keys.peppers.as_ref().context("ctl has peppers")?;
        Ok(FittingKeys { encryption: &self.keys.encryption, peppers })
    }

    /// Where providers can be asked: the card gateway if it is known where that is.
    fn providers(&self) -> Result<Providers> {
        let mock = Mock::new(db::pool(&config::database_url()?, 1, "ctl")?);
        let url = config::card_gateway_url()?;
        let gateway = url.map(|url| CardGateway::new(url, (*self.db).clone(), self.keys.encryption.clone()));
        Ok(Providers::new(mock, gateway))
    }

    /// A change, which is committed with its record in the audit log or not at all.
    async fn act(&self) -> Result<Act> {
        Ok(Act::begin(&self.db, &self.actor).await?)
    }
}

/// The record of a change of something that an account has.
fn entry(action: &'static str, account: AccountId, object: impl std::fmt::Display, detail: Value) -> Entry {
    Entry { action, account: Some(account), object: Some(object.to_string()), detail }
}

/// A number and its unit: s, m, h or d; 366 days at most.
fn span(text: &str) -> Result<Duration, &'static str> {
    const WRONG: &str = "not a time such as 30m, 24h or 7d";
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or(WRONG)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(WRONG),
    };
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| digits).ok_or(WRONG)?;
    let span = number.checked_mul(seconds).filter(|span| *span <= 366 * 86_400).ok_or("longer than 366 days")?;
    Ok(Duration::from_secs(span))
}

/// An instant as the API prints it.
fn instant(text: &str) -> Result<Timestamp, &'static str> {
    Timestamp::parse(text).ok_or("not an instant such as 2026-11-21T00:00:00Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_a_number_and_a_unit() {
        for (text, seconds) in [("0s", 0), ("90s", 90), ("30m", 1_800), ("24h", 86_400), ("366d", 31_622_400)] {
            assert_eq!(span(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "h", "24", "-1h", "+1h", "1.5h", "24H", "1w", "367d", "99999999999999999999h", "5€", "€h"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }
}
