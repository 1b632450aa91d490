//! `ctl clocks …`: test clocks.

use anyhow::Result;
use clap::{Args, Subcommand};
use domain::test_clocks;
use foundation::id::AccountId;
use serde_json::json;

use crate::output::Output;
use crate::{Ctl, entry};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Stop the advance of a test account's clock at the clock's current time. Work already done remains. The account's
    /// keys can start another advance, so revoke them first.
    Stop(Stop),
}

#[derive(Args)]
pub(crate) struct Stop {
    /// The account (acct_…).
    account: AccountId,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: Option<String>,
}

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    let Command::Stop(Stop { account, reason }) = command;
    let reason = reason.as_deref().map(|reason| operator::operator_text("reason", reason)).transpose()?;
    let mut tx = ctl.begin().await?;
    let stopped = test_clocks::stop(&mut tx, account).await?;
    let detail = json!({"at": stopped.at, "target": stopped.target, "reason": reason});
    tx.commit(&entry("clocks.stop", account, account, detail)).await?;
    Ok(Output::new(vec![
        ("account", json!(account)),
        ("stopped_at", json!(stopped.at)),
        ("target", json!(stopped.target)),
    ]))
}
