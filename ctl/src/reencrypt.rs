//! `ctl reencrypt`: re-encrypts secrets of old keys, and of the former version, with the current key.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::Ctl;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Reencrypt {
    /// Number of secrets written in one transaction.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    batch: i64,
    /// Count the secrets without writing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(ctl: &Ctl, args: Reencrypt) -> Result<Output> {
    let ring = &ctl.verified_keys().await?.encryption;
    let reencrypted = if args.dry_run { 0 } else { engine::reencrypt(&ctl.db, &ctl.actor, ring, args.batch).await? };
    let secrets = engine::sealed_secrets(&ctl.db, ring).await?;
    let unreadable = secrets.unreadable.len() as u64;
    let remaining = secrets.other + secrets.unbound + unreadable;
    let output = Output::new(vec![
        ("reencrypted", json!(reencrypted)),
        ("remaining", json!(remaining)),
        ("unreadable", json!(unreadable)),
        ("current", json!(secrets.current)),
    ]);
    Ok(output.exit(u8::from(remaining > 0 && !args.dry_run)))
}
