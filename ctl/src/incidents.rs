//! `ctl orphans`, `anomalies`, `breakers`, `statements` and `due`: what the runbooks look at.

use anyhow::Result;
use clap::{Args, Subcommand};
use common::flows::{due as work, incidents as found};
use common::id::AccountId;

use crate::Ctl;
use crate::output::Output;

#[derive(Subcommand)]
pub(crate) enum Orphans {
    /// What was found, newest first.
    List(Scope),
}

#[derive(Subcommand)]
pub(crate) enum Anomalies {
    /// What was found, newest first, with what became of the reversal.
    List {
        #[command(flatten)]
        some: Scope,
        /// Those alone whose reversal was refused: the cardholder has paid.
        #[arg(long)]
        refused: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum Breakers {
    /// Since when, why, and how much waits.
    List {
        /// So many at most.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
    },
}

#[derive(Subcommand)]
pub(crate) enum Statements {
    /// How far each is read, the one that is furthest behind first.
    List {
        /// So many at most.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
    },
}

#[derive(Subcommand)]
pub(crate) enum Due {
    /// How much is due of collections, cycles and links, and since when.
    Billing,
    /// How many operations have not ended, by state, and how many of them a worker has.
    Operations,
    /// Invoices that are collected next.
    Collections(Scope),
    /// Subscriptions whose cycle could not be billed, and was put off.
    Cycles {
        /// So many at most.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
    },
}

/// Of one account or of all, so many at most.
#[derive(Args)]
pub(crate) struct Scope {
    /// Of this account alone (acct_…).
    #[arg(long)]
    account: Option<AccountId>,
    /// So many at most.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
}

pub(crate) async fn orphans(ctl: &Ctl, command: Orphans) -> Result<Output> {
    let Orphans::List(Scope { account, limit }) = command;
    let rows = found::orphans(&ctl.db, account, limit).await?;
    let columns =
        &["found_at", "occurred_at", "account", "account_name", "mode", "provider", "provider_ref", "reference"];
    Ok(Output::rows("orphans", &rows, columns)?)
}

pub(crate) async fn anomalies(ctl: &Ctl, command: Anomalies) -> Result<Output> {
    let Anomalies::List { some: Scope { account, limit }, refused } = command;
    let rows = found::unwanted_charges(&ctl.db, account, refused, limit).await?;
    let columns = &[
        "created_at",
        "kind",
        "account",
        "account_name",
        "mode",
        "payment",
        "provider_ref",
        "amount",
        "currency",
        "reversal",
        "failure",
        "reversed_by",
    ];
    Ok(Output::rows("anomalies", &rows, columns)?)
}

pub(crate) async fn breakers(ctl: &Ctl, command: Breakers) -> Result<Output> {
    let Breakers::List { limit } = command;
    let rows = found::open_breakers(&ctl.db, limit).await?;
    let columns = &[
        "since",
        "account",
        "account_name",
        "mode",
        "provider",
        "failures",
        "probes",
        "probe_at",
        "waiting",
        "reason",
    ];
    Ok(Output::rows("breakers", &rows, columns)?)
}

pub(crate) async fn statements(ctl: &Ctl, command: Statements) -> Result<Output> {
    let Statements::List { limit } = command;
    let rows = found::statements_read(&ctl.db, limit).await?;
    let columns = &["account", "account_name", "mode", "provider", "read_until", "behind_seconds"];
    Ok(Output::rows("statements", &rows, columns)?)
}

pub(crate) async fn due(ctl: &Ctl, command: Due) -> Result<Output> {
    Ok(match command {
        Due::Billing => Output::rows("due", &work::billing(&ctl.db).await?, &["work", "due", "oldest"])?,
        Due::Operations => {
            let columns = &["state", "background", "count", "held", "oldest", "next_push"];
            Output::rows("due", &work::operations(&ctl.db).await?, columns)?
        }
        Due::Collections(Scope { account, limit }) => {
            let columns = &[
                "account",
                "account_name",
                "mode",
                "invoice",
                "number",
                "customer_email",
                "customer",
                "amount",
                "currency",
                "billing_period",
                "issued_at",
                "next_attempt_at",
            ];
            Output::rows("due", &work::collections(&ctl.db, account, limit).await?, columns)?
        }
        Due::Cycles { limit } => {
            let columns =
                &["subscription", "account", "account_name", "mode", "timezone", "next_billing_date", "retry_at"];
            Output::rows("due", &work::cycles_put_off(&ctl.db, limit).await?, columns)?
        }
    })
}
