//! `ctl clocks …`: the time of test accounts.

use anyhow::Result;
use clap::{Args, Subcommand};
use common::flows;
use common::id::AccountId;
use common::test_clocks;
use serde_json::json;

use crate::output::Output;
use crate::{Ctl, entry};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// End the advance of a test account's clock that is under way, where the clock stands. Nothing more is done on the way, and
    /// nothing that was done is taken back. Its keys can begin another: revoke them first.
    Stop(Stop),
}

#[derive(Args)]
pub(crate) struct Stop {
    /// The account (acct_…).
    account: AccountId,
    /// Why, for the audit log.
    #[arg(long)]
    reason: Option<String>,
}

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    let Command::Stop(Stop { account, reason }) = command;
    let reason = reason.as_deref().map(|reason| flows::typed("reason", reason)).transpose()?;
    let mut act = ctl.act().await?;
    let stopped = test_clocks::stop(&mut act, account).await?;
    let detail = json!({"at": stopped.at, "target": stopped.target, "reason": reason});
    act.commit(&entry("clocks.stop", account, account, detail)).await?;
    Ok(Output::new(vec![
        ("account", json!(account)),
        ("stopped_at", json!(stopped.at)),
        ("target", json!(stopped.target)),
    ]))
}
