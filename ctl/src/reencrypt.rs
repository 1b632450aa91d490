//! `ctl reencrypt`: what an old key has sealed comes under the current one.

use anyhow::Result;
use clap::Args;
use common::flows;
use serde_json::json;

use crate::Ctl;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Reencrypt {
    /// Secrets that are written in one transaction.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    batch: i64,
    /// Count them, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(ctl: &Ctl, args: Reencrypt) -> Result<Output> {
    let ring = &ctl.fitting_keys().await?.encryption;
    let done = if args.dry_run { 0 } else { flows::reencrypt(&ctl.db, &ctl.actor, ring, args.batch).await? };
    let left = flows::sealed_secrets(&ctl.db, ring).await?;
    let unreadable = left.unreadable.len() as u64;
    let remaining = left.other + unreadable;
    let output = Output::new(vec![
        ("reencrypted", json!(done)),
        ("remaining", json!(remaining)),
        ("unreadable", json!(unreadable)),
        ("current", json!(left.current)),
    ]);
    Ok(output.exit(u8::from(remaining > 0 && !args.dry_run)))
}
