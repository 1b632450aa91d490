//! `ctl differences …`: differences between a provider's books and ours that reconciliation has recorded, and their
//! resolution.

use anyhow::Result;
use clap::{Args, Subcommand};
use foundation::id::{AccountId, DifferenceId};
use operator::BookDifference;
use operator::DifferenceFilter;
use serde_json::json;

use crate::Ctl;
use crate::output::Output;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List unresolved differences, newest first.
    List(List),
    /// Mark a difference as resolved. No payment changes, and the same difference is not reported again.
    Resolve(Resolve),
}

#[derive(Args)]
pub(crate) struct List {
    /// Include resolved differences.
    #[arg(long)]
    all: bool,
    /// Only differences of this account (acct_…).
    #[arg(long)]
    account: Option<AccountId>,
    /// Maximum number of differences.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
}

#[derive(Args)]
pub(crate) struct Resolve {
    /// The difference (diff_…).
    id: DifferenceId,
    /// The cause, and what was done about it.
    #[arg(long)]
    reason: String,
}

const COLUMNS: [&str; 11] = [
    "id",
    "found_at",
    "difference",
    "kind",
    "account",
    "provider",
    "provider_ref",
    "payment",
    "ours",
    "theirs",
    "resolved_at",
];

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    match command {
        Command::List(list) => {
            let filter = DifferenceFilter { all: list.all, account: list.account, limit: list.limit };
            let rows = operator::list_differences(&ctl.db, filter).await?;
            Ok(Output::list("differences", rows.iter().map(difference), &COLUMNS))
        }
        Command::Resolve(args) => {
            let (row, record) = operator::resolve_difference(&ctl.db, &ctl.actor, args.id, &args.reason).await?;
            let result = if record.is_some() { "resolved" } else { "already resolved; nothing was changed" };
            Ok(Output::new(vec![
                ("id", json!(row.id)),
                ("result", json!(result)),
                ("changed", json!(record.is_some())),
                ("resolved_at", json!(row.resolved_at)),
                ("resolution", json!(row.resolution)),
                ("audit", json!(record)),
            ]))
        }
    }
}

fn difference(row: &BookDifference) -> Output {
    let non_empty = |text: &String| (!text.is_empty()).then(|| text.clone());
    Output::new(vec![
        ("id", json!(row.id)),
        ("difference", json!(row.difference)),
        ("kind", json!(row.entry)),
        ("account", json!(row.account_id)),
        ("provider", json!(row.provider)),
        ("provider_account", json!(row.provider_account_id)),
        ("reference", json!(non_empty(&row.reference))),
        ("provider_ref", json!(non_empty(&row.provider_ref))),
        ("payment", json!(row.payment_id)),
        ("operation", json!(row.operation_id)),
        ("ours", row.ours.clone()),
        ("theirs", row.theirs.clone()),
        ("found_at", json!(row.found_at)),
        ("resolved_at", json!(row.resolved_at)),
        ("resolution", json!(row.resolution)),
    ])
}
