//! `ctl audit …`: the log of operators' actions.

use anyhow::Result;
use clap::{Args, Subcommand};
use domain::audit::{self, Filter};
use foundation::id::{AccountId, AuditId};
use foundation::time::Timestamp;
use serde_json::json;

use crate::output::Output;
use crate::{Ctl, timestamp};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List records, newest first, or oldest first with --after. "more" is true if the limit omitted records.
    List(List),
}

#[derive(Args)]
pub(crate) struct List {
    /// Only records since this time, such as 2026-11-21T00:00:00Z.
    #[arg(long, value_parser = timestamp)]
    since: Option<Timestamp>,
    /// Records after this one (aud_…), oldest first, without those of the last minute: for exports. Start with
    /// aud_00000000000000000000000000.
    #[arg(long, conflicts_with = "since")]
    after: Option<AuditId>,
    /// Only records of this account (acct_…).
    #[arg(long)]
    account: Option<AccountId>,
    /// Maximum number of records.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
}

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    let Command::List(list) = command;
    // One row beyond the limit shows that there are more.
    let limit = list.limit + 1;
    let mut rows = match list.after {
        Some(after) => audit::after(&ctl.db, after, list.account, limit).await?,
        None => audit::list(&ctl.db, Filter { account: list.account, since: list.since, limit }).await?,
    };
    let found = rows.len();
    rows.truncate(usize::try_from(list.limit)?);
    let columns = &["at", "actor", "action", "account", "object", "detail", "id"];
    Ok(Output::list("audit", rows.iter().map(record), columns).and(vec![("more", json!(rows.len() < found))]))
}

pub(crate) fn record(row: &audit::Row) -> Output {
    Output::new(vec![
        ("at", json!(row.at)),
        ("actor", json!(row.actor)),
        ("action", json!(row.action)),
        ("account", json!(row.account_id)),
        ("object", json!(row.object)),
        ("detail", row.detail.clone()),
        ("id", json!(row.id)),
    ])
}
