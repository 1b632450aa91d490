//! `ctl audit …`: what operators did.

use anyhow::Result;
use clap::{Args, Subcommand};
use common::audit::{self, Filter};
use common::id::{AccountId, AuditId};
use common::time::Timestamp;
use serde_json::json;

use crate::output::Output;
use crate::{Ctl, instant};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// What operators did, newest first; or oldest first after a record. "more" says that the limit left some out.
    List(List),
}

#[derive(Args)]
pub(crate) struct List {
    /// None that is older, such as 2026-11-21T00:00:00Z.
    #[arg(long, value_parser = instant)]
    since: Option<Timestamp>,
    /// After this record (aud_…), oldest first, without those of the last minute: for copies. aud_00000000000000000000000000 is from
    /// the beginning.
    #[arg(long, conflicts_with = "since")]
    after: Option<AuditId>,
    /// Of this account alone (acct_…).
    #[arg(long)]
    account: Option<AccountId>,
    /// So many at most.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
}

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    let Command::List(list) = command;
    let one_more = list.limit + 1;
    let mut rows = match list.after {
        Some(after) => audit::after(&ctl.db, after, list.account, one_more).await?,
        None => audit::list(&ctl.db, Filter { account: list.account, since: list.since, limit: one_more }).await?,
    };
    let all = rows.len();
    rows.truncate(usize::try_from(list.limit)?);
    let columns = &["at", "actor", "action", "account", "object", "detail", "id"];
    Ok(Output::list("audit", rows.iter().map(record), columns).and(vec![("more", json!(rows.len() < all))]))
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
