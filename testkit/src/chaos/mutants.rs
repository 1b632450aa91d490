//! Mutants: the system with one rule disabled, run in a scene that provokes the resulting harm. The checker must find
//! it. With the rule enabled it must find nothing in the same scene, which shows that the rule makes the difference.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    fault::Fault,
    run::{self, Run},
    schedule::{Minimums, Plan},
    shop::ShopKind,
    system_config::{Size, SystemConfig},
};

/// Scenes run at a time; each spends most of its time waiting.
const CONCURRENT_SCENES: usize = 4;
/// How long the load of a scene lasts.
const LOAD: Duration = Duration::from_secs(35);
/// How long the work of a scene may take to finish after the load.
const TIMEOUT: Duration = Duration::from_secs(75);
/// The last lines of a scene's log, printed if it fails.
const LOG_LINES: usize = 20;
/// The mutants of a short run.
pub(super) const SHORT: &str = "gate,key,event";

/// A disabled rule, and the scene and invariants that reveal it.
#[derive(Debug)]
pub(super) struct Mutant {
    /// The name in `DISABLED_RULES`.
    rule: &'static str,
    /// What the rule guarantees.
    guarantee: &'static str,
    /// Prefixes of the invariants whose violation proves that the mutant was caught; others do not count.
    harm: &'static [&'static str],
    config: SystemConfig,
    faults: &'static [Fault],
    /// The range of milliseconds between two faults.
    gap: (u64, u64),
}

const SCENE_CONFIG: SystemConfig = SystemConfig {
    size: Size { apis: 1, workers: 2, schedulers: 2, gateways: 1 },
    shops: &[ShopKind::Mock('A')],
    disk: false,
    ..SystemConfig::FULL
};

macro_rules! mutant {
    ($rule:literal, $guarantee:literal, $harm:expr, $shops:expr, $faults:expr, gap: $gap:expr $(, $field:ident: $value:expr)*) => {
        Mutant { gap: $gap, ..mutant!($rule, $guarantee, $harm, $shops, $faults $(, $field: $value)*) }
    };
    ($rule:literal, $guarantee:literal, $harm:expr, $shops:expr, $faults:expr $(, $field:ident: $value:expr)*) => {
        Mutant {
            rule: $rule,
            guarantee: $guarantee,
            harm: $harm,
            config: SystemConfig { shops: $shops, environment: &[("DISABLED_RULES", $rule)], $($field: $value,)* ..SCENE_CONFIG },
            faults: $faults,
            gap: (2200, 3200),
        }
    };
}

use Fault::{
    ClockHours, ClockMonths, ClockRestart, GatewayLose, GatewayRefuse, GatewayTooManyRequests, KillWorker, MockDelay,
    MockLose, MockOutage, MockRefuse, RedisFlush, RedisRestart,
};
use ShopKind::{Clock, Fee, Gateway, Mock};

/// While one process is not ready because of its clock, another of its kind continues.
const TWO_OF_EACH: Size = Size { apis: 2, workers: 2, schedulers: 2, gateways: 2 };

pub(super) const ALL: &[Mutant] = &[
    mutant!(
        "gate",
        "a claim records that a request may have been sent",
        &["one charge for each"],
        &[Mock('C')],
        &[KillWorker, MockLose]
    ),
    mutant!(
        "claim",
        "only one of several concurrent claims of an operation succeeds",
        &["one charge for each"],
        &[Mock('C')],
        &[]
    ),
    mutant!(
        "reference",
        "a request is repeated with the same reference",
        &["one charge for each", "each charge belongs to one payment"],
        &[Mock('A'), Gateway],
        &[MockLose, GatewayLose]
    ),
    mutant!(
        "fence",
        "a request that had no effect counts only if its claim is the latest", &["each charge belongs to one payment"],
        &[Mock('A'), Mock('A'), Mock('A')],
        &[MockRefuse],
        // The second worker sends its request while the first is paused before it stores the outcome of its own.
        gap: (3000, 4000),
        latency: "3000",
        failpoints: "perform.refused=return(pause=23000)"
    ),
    mutant!(
        "unknown",
        "a lost response is not a failure",
        &["each charge belongs to one payment"],
        &[Mock('A'), Gateway],
        &[MockLose, GatewayLose]
    ),
    mutant!(
        "not_found",
        "a request that the provider cannot find is not a failure",
        &["each charge belongs to one payment"],
        &[Mock('B')],
        &[MockDelay]
    ),
    mutant!(
        "sweep",
        "unclaimed work is enqueued again",
        &["every accepted payment"],
        &[Mock('A'), Gateway],
        &[KillWorker, RedisFlush, RedisRestart]
    ),
    mutant!(
        "key",
        "an idempotency key is claimed in the transaction of its payment",
        &["one charge for each idempotency key"],
        &[Mock('A')],
        &[]
    ),
    mutant!(
        "token",
        "a token is spent in the transaction of its payment",
        &["one charge for each payment without"],
        &[Mock('A')],
        &[]
    ),
    mutant!(
        "event",
        "state and event are written in one transaction",
        &["each event reached"],
        &[Mock('A'), Gateway],
        &[KillWorker]
    ),
    mutant!(
        "collect",
        "an invoice stays locked until its collection is written", &["nothing is sent after", "one charge for each invoice"],
        &[Mock('A')],
        &[],
        dropped_constraints: &[
            "DROP INDEX payments_one_live_per_invoice",
            "DROP INDEX collection_attempts_one_in_flight",
            "ALTER TABLE collection_attempts DROP CONSTRAINT collection_attempts_number",
        ]
    ),
    mutant!(
        "void",
        "an invoice is not voided while it is being paid",
        &["nothing is sent after"],
        &[Mock('A'), Mock('C')],
        &[]
    ),
    mutant!(
        "cycle",
        "a cycle's invoice and the move to the next cycle are one transaction", &["one invoice for each period"],
        &[Clock('A'), Clock('B')],
        &[KillWorker],
        dropped_constraints: &["DROP INDEX invoices_one_per_subscription_period"]
    ),
    mutant!(
        "link",
        "a link has at most one live payment", &["one charge for each link"],
        &[Mock('A'), Mock('B')],
        &[],
        dropped_constraints: &["DROP INDEX payments_one_live_per_link"]
    ),
    mutant!(
        "reservation",
        "the amount of a pending refund is reserved", &["refunded + reserved"],
        &[Mock('A'), Mock('B')],
        &[],
        dropped_constraints: &["ALTER TABLE payments DROP CONSTRAINT payments_sums"]
    ),
    mutant!(
        "backoff",
        "a soft decline is retried after days, not at once",
        &["attempts are numbered"],
        &[Clock('A'), Clock('B')],
        &[]
    ),
    mutant!("redelivery", "a failed delivery is retried", &["each event reached"], &[Mock('A')], &[]),
    mutant!("bytes", "every delivery of an event has identical bytes", &["repeated deliveries"], &[Mock('A')], &[]),
    mutant!(
        "database_clock",
        "a process follows the database's clock, and stops when its own is wrong", &["nothing is charged before"],
        &[Mock('A'), Gateway],
        &[ClockHours, ClockMonths, ClockRestart],
        // Leaves time for every kind of process.
        gap: (3500, 4500),
        size: TWO_OF_EACH
    ),
    mutant!(
        "breaker",
        "requests to a provider that rejects everything are suspended", &["a provider that rejects"],
        &[Gateway],
        &[GatewayTooManyRequests],
        // Longer than an outage lasts, so that outages do not overlap.
        gap: (16_000, 17_000)
    ),
    mutant!(
        "not_processed",
        "an unprocessed request is not an outcome if no client is waiting", &["an attempt fails", "every accepted refund", "a due invoice"],
        &[Mock('A'), Gateway],
        &[MockOutage, GatewayRefuse, GatewayTooManyRequests],
        gap: (6000, 8000)
    ),
    mutant!(
        "child_reference",
        "captures, voids and refunds have their own references",
        &["each capture, void and refund"],
        &[Gateway],
        &[GatewayLose]
    ),
    mutant!(
        "total",
        "only the requested total is recorded",
        &["each charge belongs to one payment", "a total that was never requested", "our records and"],
        &[Fee],
        &[]
    ),
];

/// Statements that remove constraints which would reject what happens without this rule.
pub fn dropped_constraints(rule: &str) -> &'static [&'static str] {
    ALL.iter().find(|mutant| mutant.rule == rule).map_or(&[], |mutant| mutant.config.dropped_constraints)
}

/// The mutants with these comma-separated names, or `all`, or `none`.
pub(super) fn named(names: &str) -> Result<Vec<&'static Mutant>> {
    match names {
        "all" => Ok(ALL.iter().collect()),
        "none" => Ok(Vec::new()),
        _ => names.split(',').map(find).collect(),
    }
}

fn find(rule: &str) -> Result<&'static Mutant> {
    ALL.iter().find(|mutant| mutant.rule == rule).with_context(|| format!("there is no mutant {rule}"))
}

/// Runs one scene; the arguments are `RULE SEED without|with`.
pub(super) async fn run_scene(arguments: &[String], folder: &Path) -> Result<()> {
    let [rule, seed, mode] = arguments else { bail!("usage: chaos scene RULE SEED with|without") };
    let mutant = find(rule)?;
    let mut config = mutant.config;
    if mode == "with" {
        (config.environment, config.dropped_constraints) = (&[], &[]);
    }
    let run = Run {
        previous: None,
        config,
        plan: Plan {
            seed: seed.parse()?,
            load: LOAD,
            gap: mutant.gap,
            kinds: mutant.faults,
            minimums: Minimums::default(),
        },
        faults: !mutant.faults.is_empty(),
        timeout: TIMEOUT,
    };
    run::run_and_keep_evidence(&run, &folder.join("scenes"), &format!("{rule}-{mode}")).await.map(drop)
}

/// The violations of a scene by invariant.
type Violations = BTreeMap<String, usize>;

/// Runs the scenes of these mutants, prints the results, and returns a description of each unexpected one.
pub(super) async fn run_all(
    mutants: &[&'static Mutant],
    controls: bool,
    seed: u64,
    folder: &Path,
) -> Result<Vec<String>> {
    if mutants.is_empty() {
        return Ok(Vec::new());
    }
    fs::create_dir_all(folder.join("scenes"))?;
    println!("\n{} mutants, each in a scene of {} s", mutants.len(), LOAD.as_secs());
    let modes: &[&str] = if controls { &["without", "with"] } else { &["without"] };
    let scenes: Vec<_> = mutants.iter().flat_map(|mutant| modes.iter().map(|mode| (mutant.rule, *mode))).collect();
    let results = stream::iter(scenes).map(|(rule, mode)| async move {
        let violations =
            run_scene_process(rule, mode, seed, folder).await.with_context(|| format!("{rule}, {mode}"))?;
        anyhow::Ok(((rule, mode), violations))
    });
    let violations: BTreeMap<_, Violations> = results.buffer_unordered(CONCURRENT_SCENES).try_collect().await?;
    let mut unexpected = Vec::new();
    let mut report = Vec::new();
    for mutant in mutants {
        let violations_without_rule = &violations[&(mutant.rule, "without")];
        let violations_with_rule =
            violations.get(&(mutant.rule, "with")).map(|violations| violations.values().sum::<usize>());
        let caught =
            violations_without_rule.keys().any(|invariant| mutant.harm.iter().any(|harm| invariant.starts_with(harm)));
        let verdict = if caught { "caught" } else { "NOT CAUGHT" };
        println!("\n{:<12} {verdict:<10}  disabled rule: {}", mutant.rule, mutant.guarantee);
        for (invariant, count) in violations_without_rule {
            println!("{:>24} x {invariant}", count);
        }
        if !caught {
            unexpected.push(format!("{} was not caught", mutant.rule));
        }
        if let Some(violations_with_rule) = violations_with_rule {
            println!("{violations_with_rule:>24} violations in the same scene with the rule enabled");
        }
        if violations_with_rule.is_some_and(|count| count > 0) {
            unexpected.push(format!("{} has violations with its rule enabled", mutant.rule));
        }
        report.push(
            json!({"rule": mutant.rule, "guarantee": mutant.guarantee, "caught": caught, "violations_without_rule": violations_without_rule, "violations_with_rule": violations_with_rule}),
        );
    }
    let report = json!({"seed": seed, "mutants": report});
    fs::write(folder.join("mutants.json"), format!("{report:#}\n"))?;
    Ok(unexpected)
}

/// Runs a scene in a process of its own.
async fn run_scene_process(rule: &str, mode: &str, seed: u64, folder: &Path) -> Result<Violations> {
    let scenes_folder = folder.join("scenes");
    let report = scenes_folder.join(format!("{rule}-{mode}.json"));
    let _ = fs::remove_file(&report);
    let log_path = scenes_folder.join(format!("{rule}-{mode}.log"));
    let log = File::create(&log_path)?;
    let mut process = Command::new(std::env::current_exe()?);
    process.args(["scene", rule, &seed.to_string(), mode]).kill_on_drop(true);
    let status = process.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).status().await?;
    if !status.success() {
        // Where it runs unattended, the file may be gone before anybody reads it.
        let log = fs::read_to_string(&log_path)?;
        let lines: Vec<_> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        bail!("cannot run the scene; {} ends with:\n{last}", log_path.display());
    }
    let report: Value = serde_json::from_slice(&fs::read(&report)?)?;
    let mut violations = Violations::new();
    for invariant in report["invariants"].as_array().context("the report has no invariants")? {
        let count = invariant["violations"].as_array().map_or(0, Vec::len);
        if count > 0 {
            violations.insert(invariant["invariant"].as_str().unwrap_or_default().to_owned(), count);
        }
    }
    Ok(violations)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_that_can_be_disabled_has_a_scene() {
        let switches = include_str!("../../../common/foundation/src/faults/switch.rs");
        let list = switches.split_once("rules! {").and_then(|(_, rest)| rest.split_once("\n}")).expect("a list").0;
        let switches: BTreeSet<&str> = list.split('"').skip(1).step_by(2).collect();
        // The lock order is tested by a journey, where two commands contend often enough; what a provider forgets after a
        // day, challenges, and accounts that share one at the gateway, by the simulation.
        let elsewhere = ["lock_order", "forgotten", "challenge", "account"];
        let rules: BTreeSet<&str> = ALL.iter().map(|mutant| mutant.rule).chain(elsewhere).collect();
        assert_eq!(switches, rules);
        assert!(rules.len() >= 12 && rules.len() == ALL.len() + elsewhere.len());
        assert_eq!(super::named(SHORT).expect("mutants").len(), 3);
    }
}
