//! `ctl orphans`, `anomalies`, `breakers`, `statements` and `due`: the lists that the runbooks use.

use anyhow::Result;
use clap::{Args, Subcommand};
use foundation::id::{AccountId, OperationId};
use operator::due as due_work;
use operator::incidents;
use serde_json::json;

use crate::Ctl;
use crate::output::Output;

#[derive(Subcommand)]
pub(crate) enum Orphans {
    /// List orphans, newest first.
    List(Scope),
}

#[derive(Subcommand)]
pub(crate) enum Anomalies {
    /// List anomalies, newest first, with the state of their reversal.
    List {
        #[command(flatten)]
        scope: Scope,
        /// Only anomalies whose reversal was refused: the cardholder has paid.
        #[arg(long)]
        refused: bool,
    },
    /// Record that you returned a charge whose reversal was refused. Its invoice or link can be paid again.
    Returned {
        /// The refused reversal (op_…), `reversed_by` in the list.
        reversal: OperationId,
        /// How it was returned.
        #[arg(long)]
        reason: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum Breakers {
    /// List open breakers with their cause and the number of waiting operations.
    List {
        /// Maximum number of breakers.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
    },
}

#[derive(Subcommand)]
pub(crate) enum Statements {
    /// List statements, the one furthest behind first.
    List {
        /// Maximum number of statements.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
    },
}

#[derive(Subcommand)]
pub(crate) enum Due {
    /// Count due collections, billing cycles and payment links, with the age of the oldest.
    Billing,
    /// Count unfinished operations by state, and those leased by a worker.
    Operations,
    /// List the invoices collected next.
    Collections(Scope),
    /// List subscriptions whose billing cycle failed and is deferred.
    Cycles {
        /// Maximum number of subscriptions.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
    },
}

#[derive(Args)]
pub(crate) struct Scope {
    /// Only this account (acct_…).
    #[arg(long)]
    account: Option<AccountId>,
    /// Maximum number of rows.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
}

pub(crate) async fn orphans(ctl: &Ctl, command: Orphans) -> Result<Output> {
    let Orphans::List(Scope { account, limit }) = command;
    let rows = incidents::orphans(&ctl.db, account, limit).await?;
    let columns =
        &["found_at", "occurred_at", "account", "account_name", "mode", "provider", "provider_ref", "reference"];
    Ok(Output::rows("orphans", &rows, columns)?)
}

pub(crate) async fn anomalies(ctl: &Ctl, command: Anomalies) -> Result<Output> {
    let (account, limit, refused) = match command {
        Anomalies::List { scope: Scope { account, limit }, refused } => (account, limit, refused),
        Anomalies::Returned { reversal, reason } => {
            let (charge, record) = operator::mark_returned(&ctl.db, &ctl.actor, reversal, &reason).await?;
            return Ok(Output::new(vec![
                ("account", json!(charge.account)),
                ("payment", json!(charge.payment)),
                ("provider_ref", json!(charge.provider_ref)),
                ("amount", json!(charge.amount)),
                ("currency", json!(charge.currency)),
                ("audit", json!(record)),
            ]));
        }
    };
    let rows = incidents::unwanted_charges(&ctl.db, account, refused, limit).await?;
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
    let rows = incidents::open_breakers(&ctl.db, limit).await?;
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
    let rows = incidents::statements_read(&ctl.db, limit).await?;
    let columns = &["account", "account_name", "mode", "provider", "read_until", "behind_seconds"];
    Ok(Output::rows("statements", &rows, columns)?)
}

pub(crate) async fn due(ctl: &Ctl, command: Due) -> Result<Output> {
    Ok(match command {
        Due::Billing => Output::rows("due", &due_work::billing(&ctl.db).await?, &["work", "due", "oldest"])?,
        Due::Operations => {
            let columns = &["state", "background", "count", "held", "oldest", "next_push"];
            Output::rows("due", &due_work::operations(&ctl.db).await?, columns)?
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
            Output::rows("due", &due_work::collections(&ctl.db, account, limit).await?, columns)?
        }
        Due::Cycles { limit } => {
            let columns =
                &["subscription", "account", "account_name", "mode", "timezone", "next_billing_date", "retry_at"];
            Output::rows("due", &due_work::deferred_cycles(&ctl.db, limit).await?, columns)?
        }
    })
}
