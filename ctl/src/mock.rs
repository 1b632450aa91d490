//! `ctl mock …`: simulated faults and unsupported operations.

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use domain::accounts;
use foundation::id::AccountId;
use providers::capabilities::Permission;
use providers::mock::{Faults, read_faults, set_faults};
use providers::{ProviderKind, RecoveryClass};
use serde_json::json;

use crate::output::Output;
use crate::{Ctl, entry};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Set the faults and unsupported operations of the mock for one account. Without their options, latency, lost
    /// responses and class keep their values, refusing and rejecting are turned off, and every operation is supported.
    Set(Set),
    /// Show the faults and unsupported operations of the mock for one account.
    Show {
        /// The account (acct_…).
        account: AccountId,
    },
}

#[derive(Args)]
pub(crate) struct Set {
    /// The account (acct_…).
    account: AccountId,
    /// Latency of every request in milliseconds: half before the mock books the transaction and half after.
    #[arg(long, value_parser = clap::value_parser!(i32).range(0..=600_000))]
    latency_ms: Option<i32>,
    /// Lose this many of the next responses, after the transaction is booked.
    // The alias is the former name, which chaos runs of an upgrade use with both versions.
    #[arg(long, alias = "lose-answer", value_parser = clap::value_parser!(i32).range(0..))]
    lose_responses: Option<i32>,
    /// Process no request, as in an outage: payments fail with provider_unavailable, other work is retried.
    #[arg(long)]
    refuse: bool,
    /// Permanently reject every capture, void and refund.
    #[arg(long)]
    reject: bool,
    /// A: a repeated reference returns the first response. B: it is refused, and can be looked up. C: neither.
    #[arg(long, value_enum, ignore_case = true)]
    class: Option<Class>,
    /// An operation that the mock does not support, such as payments.authorize; may be repeated.
    #[arg(long)]
    without: Vec<Permission>,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "UPPER")]
enum Class {
    A,
    B,
    C,
}

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    let set = match command {
        Command::Set(set) => set,
        Command::Show { account } => return show(ctl, account).await,
    };
    let mut tx = ctl.begin().await?;
    let provider_account =
        accounts::set_unsupported(&mut **tx, set.account, ProviderKind::Mock, Some(&set.without)).await?;
    let recovery = set.class.map(|class| match class {
        Class::A => RecoveryClass::Idempotent,
        Class::B => RecoveryClass::Lookup,
        Class::C => RecoveryClass::Neither,
    });
    let faults = Faults {
        latency_ms: set.latency_ms,
        lose_responses: set.lose_responses,
        refuse: Some(set.refuse),
        reject: Some(set.reject),
        recovery,
    };
    set_faults(&mut **tx, provider_account, &faults).await?;
    let detail = json!({
        "latency_ms": set.latency_ms,
        "lose_responses": set.lose_responses,
        "refuse": set.refuse,
        "reject": set.reject,
        "class": faults.recovery.map(RecoveryClass::letter),
        "without": set.without.iter().map(|operation| operation.name()).collect::<Vec<_>>(),
    });
    tx.commit(&entry("mock.set", set.account, provider_account, detail)).await?;
    show(ctl, set.account).await
}

async fn show(ctl: &Ctl, account: AccountId) -> Result<Output> {
    let (provider_account, without) = accounts::unsupported(&ctl.db, account, ProviderKind::Mock).await?;
    let faults = read_faults(&ctl.db, provider_account).await?;
    Ok(Output::new(vec![
        ("account", json!(account)),
        ("provider_account", json!(provider_account)),
        ("latency_ms", json!(faults.latency_ms)),
        ("lose_responses", json!(faults.lose_responses)),
        ("refuse", json!(faults.refuse)),
        ("reject", json!(faults.reject)),
        ("class", json!(faults.recovery.letter())),
        ("without", json!(without)),
    ]))
}
