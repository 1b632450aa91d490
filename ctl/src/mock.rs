//! `ctl mock …`: faults and gaps to order.

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use common::accounts;
use common::capabilities::Operation;
use common::id::AccountId;
use common::providers::mock::{Faults, set_faults};
use common::providers::{ProviderKind, RecoveryClass};
use serde_json::json;

use crate::output::Output;
use crate::{Ctl, entry};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Order faults and gaps of the mock for one account. What is not named: latency, lost answers and class stay as they
    /// are; refusing and rejecting end, and every operation is there.
    Set(Set),
}

#[derive(Args)]
pub(crate) struct Set {
    /// The account (acct_…).
    account: AccountId,
    /// Milliseconds that every request takes, half of them before the mock writes its books and half after.
    #[arg(long, value_parser = clap::value_parser!(i32).range(0..=600_000))]
    latency_ms: Option<i32>,
    /// So many of the next answers are lost, after the books were written.
    #[arg(long, value_parser = clap::value_parser!(i32).range(0..))]
    lose_answer: Option<i32>,
    /// Process no request, as in an outage: payments fail with provider_unavailable, other work is tried again.
    #[arg(long)]
    refuse: bool,
    /// Refuse every capture, void and refund for good.
    #[arg(long)]
    reject: bool,
    /// A: a repeated reference gets the first answer. B: it is refused, and can be looked up. C: neither.
    #[arg(long, value_enum, ignore_case = true)]
    class: Option<Class>,
    /// An operation that the mock cannot do, such as payments.authorize; may be repeated.
    #[arg(long)]
    without: Vec<Operation>,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "UPPER")]
enum Class {
    A,
    B,
    C,
}

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    let Command::Set(set) = command;
    let mut act = ctl.act().await?;
    let provider_account =
        accounts::set_unsupported(&mut **act, set.account, ProviderKind::Mock, Some(&set.without)).await?;
    let recovery = set.class.map(|class| match class {
        Class::A => RecoveryClass::Idempotent,
        Class::B => RecoveryClass::Lookup,
        Class::C => RecoveryClass::Neither,
    });
    let faults = Faults {
        latency_ms: set.latency_ms,
        lose_answers: set.lose_answer,
        refuse: Some(set.refuse),
        reject: Some(set.reject),
        recovery,
    };
    set_faults(&mut **act, provider_account, &faults).await?;
    let detail = json!({
        "latency_ms": set.latency_ms,
        "lose_answer": set.lose_answer,
        "refuse": set.refuse,
        "reject": set.reject,
        "class": faults.recovery.map(RecoveryClass::letter),
        "without": set.without.iter().map(|operation| operation.name()).collect::<Vec<_>>(),
    });
    act.commit(&entry("mock.set", set.account, provider_account, detail)).await?;
    Ok(Output::new(vec![
        ("account", json!(set.account)),
        ("provider_account", json!(provider_account)),
        ("without", json!(set.without.iter().map(|operation| operation.name()).collect::<Vec<_>>())),
    ]))
}
