//! `ctl reconcile`: a provider's statement of a day beside our books. It changes nothing, and ends with 0 if they agree, with 1
//! if they differ, and with 2 if they could not be compared.

use anyhow::Result;
use clap::Args;
use common::calendar::Date;
use common::flows::{self, Compared, Disagreement, Total};
use common::id::AccountId;
use serde_json::{Value, json};

use crate::Ctl;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Reconcile {
    /// The account (acct_…).
    #[arg(long)]
    account: AccountId,
    /// The day, of UTC, such as 2026-11-21.
    #[arg(long, value_parser = day)]
    day: Date,
}

fn day(text: &str) -> Result<Date, &'static str> {
    text.parse().map_err(|_| "not a day such as 2026-11-21")
}

pub(crate) async fn run(ctl: &Ctl, args: Reconcile) -> Result<Output> {
    let providers = ctl.providers()?;
    let compared = flows::compare_books(&ctl.db, &providers, args.account, args.day).await?;
    let (agree, all) = (
        compared.iter().all(|one| one.disagreements.is_empty()),
        compared.iter().all(|one| one.not_compared.is_none()),
    );
    let verdict = match (agree, all) {
        (true, true) => ("they agree", 0),
        (false, _) => ("they differ", 1),
        (true, false) => ("not all could be compared", 2),
    };
    let lines = compared.iter().flat_map(table).chain([verdict.0.to_owned()]).collect();
    let output = Output::new(vec![
        ("account", json!(args.account)),
        ("day", json!(args.day.to_string())),
        ("agree", json!(agree && all)),
        ("providers", compared.iter().map(|one| provider(one).into_json()).collect::<Value>()),
    ]);
    Ok(output.lines(lines).exit(verdict.1))
}

fn provider(one: &Compared) -> Output {
    Output::new(vec![
        ("provider", json!(one.provider)),
        ("provider_account", json!(one.provider_account)),
        ("lines", json!(one.lines)),
        ("operations", json!(one.operations)),
        ("not_compared", json!(one.not_compared)),
        ("totals", one.totals.iter().map(|(of, total)| self::total(*of, total).into_json()).collect::<Value>()),
        ("differences", one.disagreements.iter().map(|found| difference(found).into_json()).collect::<Value>()),
    ])
}

fn total((kind, currency): (&str, &str), total: &Total) -> Output {
    Output::new(vec![
        ("kind", json!(kind)),
        ("currency", json!(currency)),
        ("their_count", json!(total.theirs.0)),
        ("their_amount", json!(total.theirs.1)),
        ("our_count", json!(total.ours.0)),
        ("our_amount", json!(total.ours.1)),
    ])
}

fn difference(found: &Disagreement) -> Output {
    Output::new(vec![
        ("difference", json!(found.difference.name())),
        ("kind", json!(found.entry.name())),
        ("reference", json!(found.reference)),
        ("theirs", found.theirs.clone()),
        ("ours", found.ours.clone()),
    ])
}

fn table(one: &Compared) -> Vec<String> {
    let (name, account) = (one.provider.name(), one.provider_account);
    let head = match &one.not_compared {
        Some(reason) => format!("{name} {account}: not compared: {reason}"),
        None => format!("{name} {account}: {} lines of theirs, {} operations of ours", one.lines, one.operations),
    };
    let row = |found: &Disagreement| {
        let side = |side: &Value| if side.is_null() { "–".to_owned() } else { side.to_string() };
        format!(
            "  {:<20} {:<8} {}  theirs {}  ours {}",
            found.difference.name(),
            found.entry.name(),
            if found.reference.is_empty() { "no reference" } else { &found.reference },
            side(&found.theirs),
            side(&found.ours)
        )
    };
    let sum = |((kind, currency), total): (&(&str, &str), &Total)| {
        let ((their_count, theirs), (our_count, ours)) = (total.theirs, total.ours);
        format!("  {kind} {currency}: theirs {their_count} of {theirs}, ours {our_count} of {ours}")
    };
    let sums = one.totals.iter().map(sum);
    [head].into_iter().chain(sums).chain(one.disagreements.iter().map(row)).collect()
}
