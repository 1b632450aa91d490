//! `ctl reconcile`: compares a provider's statement for a day with our books. Changes nothing. Exits with 0 if they
//! agree, with 1 if they differ, and with 2 if they could not be compared.

use anyhow::{Context, Result};
use clap::Args;
use foundation::calendar::{Date, TimeZone};
use foundation::id::AccountId;
use operator::AccountComparison;
use operator::BookMismatch;
use operator::Total;
use serde_json::{Value, json};

use crate::Ctl;
use crate::output::{Output, to_value};

#[derive(Args)]
pub(crate) struct Reconcile {
    /// The account (acct_…).
    #[arg(long)]
    account: AccountId,
    /// The day in UTC, such as 2026-11-21.
    #[arg(long, value_parser = day)]
    day: Date,
}

fn day(text: &str) -> Result<Date, &'static str> {
    text.parse().map_err(|_| "not a date such as 2026-11-21")
}

pub(crate) async fn run(ctl: &Ctl, args: Reconcile) -> Result<Output> {
    let providers = ctl.providers()?;
    let comparisons = operator::compare_books(&ctl.db, &providers, args.account, args.day).await?;
    let (agree, complete) = (
        comparisons.iter().all(|comparison| comparison.mismatches.is_empty()),
        comparisons.iter().all(|comparison| comparison.not_compared.is_none()),
    );
    let (verdict, code) = match (agree, complete) {
        (true, true) => ("they agree", 0),
        (false, _) => ("they differ", 1),
        (true, false) => ("not all could be compared", 2),
    };
    let utc: TimeZone = "UTC".parse().context("this machine has no time zone data for UTC")?;
    let is_over = args.day < utc.date_at(ctl.clock.now());
    let verdict = if is_over { verdict.to_owned() } else { format!("{verdict} so far: the day is not over in UTC") };
    let lines = comparisons.iter().flat_map(table).chain([verdict]).collect();
    let output = Output::new(vec![
        ("account", json!(args.account)),
        ("day", json!(args.day.to_string())),
        ("day_is_over", json!(is_over)),
        ("agree", json!(agree && complete)),
        ("providers", comparisons.iter().map(provider).collect::<Result<Value, _>>()?),
    ]);
    Ok(output.lines(lines).exit(code))
}

fn provider(comparison: &AccountComparison) -> Result<Value, serde_json::Error> {
    let totals = comparison.totals.iter().map(|(key, total)| self::total(*key, total));
    let differences = comparison.mismatches.iter().map(|mismatch| difference(mismatch).into_json());
    let output = Output::new(vec![
        ("provider", json!(comparison.provider)),
        ("provider_account", json!(comparison.provider_account)),
        ("lines", json!(comparison.lines)),
        ("operations", json!(comparison.operations)),
        ("not_compared", json!(comparison.not_compared)),
        ("totals", totals.collect::<Result<Value, _>>()?),
        ("differences", differences.collect::<Value>()),
    ]);
    Ok(output.into_json())
}

fn total((kind, currency): (&str, &str), total: &Total) -> Result<Value, serde_json::Error> {
    let output = Output::new(vec![
        ("kind", json!(kind)),
        ("currency", json!(currency)),
        ("their_count", json!(total.theirs.0)),
        ("their_amount", to_value(&total.theirs.1)?),
        ("our_count", json!(total.ours.0)),
        ("our_amount", to_value(&total.ours.1)?),
    ]);
    Ok(output.into_json())
}

fn difference(mismatch: &BookMismatch) -> Output {
    Output::new(vec![
        ("difference", json!(mismatch.difference.name())),
        ("kind", json!(mismatch.entry.name())),
        ("reference", json!(mismatch.reference)),
        ("theirs", mismatch.theirs.clone()),
        ("ours", mismatch.ours.clone()),
    ])
}

fn table(comparison: &AccountComparison) -> Vec<String> {
    let (name, account) = (comparison.provider.name(), comparison.provider_account);
    let head = match &comparison.not_compared {
        Some(reason) => format!("{name} {account}: not compared: {reason}"),
        None => format!(
            "{name} {account}: {} statement lines, {} operations of ours",
            comparison.lines, comparison.operations
        ),
    };
    let row = |mismatch: &BookMismatch| {
        let side = |side: &Value| if side.is_null() { "–".to_owned() } else { side.to_string() };
        format!(
            "  {:<20} {:<18} {}  theirs {}  ours {}",
            mismatch.difference.name(),
            mismatch.entry.name(),
            if mismatch.reference.is_empty() { "no reference" } else { &mismatch.reference },
            side(&mismatch.theirs),
            side(&mismatch.ours)
        )
    };
    let sum = |((kind, currency), total): (&(&str, &str), &Total)| {
        let ((their_count, theirs), (our_count, ours)) = (total.theirs, total.ours);
        format!("  {kind} {currency}: theirs {their_count} of {theirs}, ours {our_count} of {ours}")
    };
    let sums = comparison.totals.iter().map(sum);
    [head].into_iter().chain(sums).chain(comparison.mismatches.iter().map(row)).collect()
}
