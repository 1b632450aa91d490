//! Mutants: the system with one rule left out, in a scene that gives the harm a chance. The same checker must see it; and with
//! the rule it must see nothing in the same scene, so that it is the rule that makes the difference.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    Run,
    report::Least,
    schedule::{Fault, Plan},
    setting::{Setting, Size},
    world::Line,
};

/// Scenes at a time: each waits most of the time.
const AT_ONCE: usize = 4;
/// How long a scene is under load.
const LOAD: Duration = Duration::from_secs(35);
/// What has not come to its end by then will not.
const PATIENCE: Duration = Duration::from_secs(75);
/// Those of a short run.
pub(super) const SHORT: &str = "gate,key,event";

/// A rule left out, and where that shows.
#[derive(Debug)]
pub(super) struct Mutant {
    /// As in `LEFT_OUT`.
    rule: &'static str,
    /// What is kept when it is kept.
    what: &'static str,
    /// How the invariants begin that must be violated without it; others do not count.
    harm: &'static [&'static str],
    setting: Setting,
    faults: &'static [Fault],
    /// Milliseconds between two faults.
    gap: (u64, u64),
}

const SCENE: Setting = Setting {
    size: Size { apis: 1, workers: 2, schedulers: 2, gateways: 1 },
    lines: &[Line::Mock('A')],
    disk: false,
    ..Setting::WHOLE
};

macro_rules! mutant {
    ($rule:literal, $what:literal, $harm:expr, $lines:expr, $faults:expr, gap: $gap:expr $(, $field:ident: $value:expr)*) => {
        Mutant { gap: $gap, ..mutant!($rule, $what, $harm, $lines, $faults $(, $field: $value)*) }
    };
    ($rule:literal, $what:literal, $harm:expr, $lines:expr, $faults:expr $(, $field:ident: $value:expr)*) => {
        Mutant {
            rule: $rule,
            what: $what,
            harm: $harm,
            setting: Setting { lines: $lines, environment: &[("LEFT_OUT", $rule)], $($field: $value,)* ..SCENE },
            faults: $faults,
            gap: (2200, 3200),
        }
    };
}

use Fault::{
    ClockHours, ClockMonths, ClockRestart, GatewayLose, GatewayRefuse, GatewayTurnAway, KillWorker, MockDelay,
    MockLose, MockOutage, MockRefuse, RedisFlush, RedisRestart,
};
use Line::{Clock, Fee, Gateway, Mock};

/// While one process takes itself out, another of its kind goes on.
const PAIRS: Size = Size { apis: 2, workers: 2, schedulers: 2, gateways: 2 };

/// All of them.
pub(super) const ALL: &[Mutant] = &[
    mutant!(
        "gate",
        "a claim remembers that a request may be under way",
        &["one charge for each"],
        &[Mock('C')],
        &[KillWorker, MockLose]
    ),
    mutant!(
        "claim",
        "of many who claim an operation at once, one gets it",
        &["one charge for each"],
        &[Mock('C')],
        &[]
    ),
    mutant!(
        "reference",
        "a request is repeated under its own reference",
        &["one charge for each", "each charge is one payment"],
        &[Mock('A'), Gateway],
        &[MockLose, GatewayLose]
    ),
    mutant!(
        "fence",
        "a request that did nothing counts only while its claim is the latest", &["each charge is one payment"],
        &[Mock('A'), Mock('A'), Mock('A')],
        &[MockRefuse],
        // The second worker's request is under way while the first writes what became of its own.
        gap: (3000, 4000),
        latency: "3000",
        failpoints: "perform.refused=return(pause=23000)"
    ),
    mutant!(
        "unknown",
        "a lost answer is no failure",
        &["each charge is one payment"],
        &[Mock('A'), Gateway],
        &[MockLose, GatewayLose]
    ),
    mutant!(
        "not_found",
        "a request that the provider does not find is no failure",
        &["each charge is one payment"],
        &[Mock('B')],
        &[MockDelay]
    ),
    mutant!(
        "sweep",
        "work that nobody has taken is handed out again",
        &["every accepted payment"],
        &[Mock('A'), Gateway],
        &[KillWorker, RedisFlush, RedisRestart]
    ),
    mutant!(
        "key",
        "an idempotency key is claimed with the payment",
        &["one charge for each idempotency key"],
        &[Mock('A')],
        &[]
    ),
    mutant!("token", "a token is spent with the payment", &["one charge for each payment without"], &[Mock('A')], &[]),
    mutant!(
        "event",
        "state and event are one transaction",
        &["each event reached"],
        &[Mock('A'), Gateway],
        &[KillWorker]
    ),
    mutant!(
        "collect",
        "an invoice stays locked until its collection is written", &["nothing is sent after", "one charge for each invoice"],
        &[Mock('A')],
        &[],
        without: &[
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
        "a cycle's invoice and the move to the next are one transaction", &["one invoice for each period"],
        &[Clock('A'), Clock('B')],
        &[KillWorker],
        without: &["DROP INDEX invoices_one_per_subscription_period"]
    ),
    mutant!(
        "link",
        "a link has one live payment", &["one charge for each link"],
        &[Mock('A'), Mock('B')],
        &[],
        without: &["DROP INDEX payments_one_live_per_link"]
    ),
    mutant!(
        "reservation",
        "what a refund under way will give back is reserved", &["refunded + reserved"],
        &[Mock('A'), Mock('B')],
        &[],
        without: &["ALTER TABLE payments DROP CONSTRAINT payments_sums"]
    ),
    mutant!(
        "backoff",
        "a soft decline is tried again after days, not at once",
        &["attempts 1 to n"],
        &[Clock('A'), Clock('B')],
        &[]
    ),
    mutant!("redelivery", "a delivery that was not taken is made again", &["each event reached"], &[Mock('A')], &[]),
    mutant!("bytes", "each delivery of an event is the same bytes", &["an event is the same bytes"], &[Mock('A')], &[]),
    mutant!(
        "database_clock",
        "a process follows the clock of the database, and stops when its own is wrong", &["nothing is charged before"],
        &[Mock('A'), Gateway],
        &[ClockHours, ClockMonths, ClockRestart],
        // Each kind of process has its turn.
        gap: (3500, 4500),
        size: PAIRS
    ),
    mutant!(
        "breaker",
        "a provider that turns everything away is no longer sent anything", &["a provider that turns"],
        &[Gateway],
        &[GatewayTurnAway],
        // One ends before the next one begins.
        gap: (16_000, 17_000)
    ),
    mutant!(
        "not_processed",
        "what was not processed is no outcome for work that nobody waits for", &["an attempt has failed", "every accepted refund", "an invoice that is due"],
        &[Mock('A'), Gateway],
        &[MockOutage, GatewayRefuse, GatewayTurnAway],
        gap: (6000, 8000)
    ),
    mutant!(
        "child_reference",
        "captures, voids and refunds carry a reference of their own",
        &["each capture, void and refund"],
        &[Gateway],
        &[GatewayLose]
    ),
    mutant!(
        "total",
        "only the total that was asked for is booked",
        &["each charge is one payment", "a total that nobody", "our books and"],
        &[Fee],
        &[]
    ),
];

/// Those of these names, with commas between; or `all`, or `none`.
pub(super) fn named(names: &str) -> Result<Vec<&'static Mutant>> {
    match names {
        "all" => Ok(ALL.iter().collect()),
        "none" => Ok(Vec::new()),
        _ => names.split(',').map(find).collect(),
    }
}

fn find(rule: &str) -> Result<&'static Mutant> {
    ALL.iter().find(|mutant| mutant.rule == rule).with_context(|| format!("{rule} is no mutant"))
}

/// Plays one scene: `RULE SEED without` or `RULE SEED with` the rule.
pub(super) async fn play(arguments: &[String], folder: &Path) -> Result<()> {
    let [rule, seed, how] = arguments else { bail!("scene RULE SEED with|without") };
    let mutant = find(rule)?;
    let mut setting = mutant.setting;
    if how == "with" {
        (setting.environment, setting.without) = (&[], &[]);
    }
    let run = Run {
        former: None,
        setting,
        plan: Plan { seed: seed.parse()?, load: LOAD, gap: mutant.gap, kinds: mutant.faults },
        least: Least { lost: 0, late: 0 },
        faults: !mutant.faults.is_empty(),
        patience: PATIENCE,
    };
    super::hold(&run, &folder.join("scenes"), &format!("{rule}-{how}")).await.map(drop)
}

/// How a scene ended: violations by invariant.
type Seen = BTreeMap<String, usize>;

/// Plays the scenes of these mutants, prints what was seen, and answers those that are not as they should be.
pub(super) async fn hunt(mutants: &[&'static Mutant], controls: bool, seed: u64, folder: &Path) -> Result<Vec<String>> {
    if mutants.is_empty() {
        return Ok(Vec::new());
    }
    fs::create_dir_all(folder.join("scenes"))?;
    println!("\n{} mutants, each in a scene of {} s", mutants.len(), LOAD.as_secs());
    let hows: &[&str] = if controls { &["without", "with"] } else { &["without"] };
    let scenes: Vec<_> = mutants.iter().flat_map(|mutant| hows.iter().map(|how| (mutant.rule, *how))).collect();
    let played = stream::iter(scenes).map(|(rule, how)| async move {
        let seen = scene(rule, how, seed, folder).await.with_context(|| format!("{rule}, {how}"))?;
        anyhow::Ok(((rule, how), seen))
    });
    let seen: BTreeMap<_, Seen> = played.buffer_unordered(AT_ONCE).try_collect().await?;
    let mut wrong = Vec::new();
    let mut report = Vec::new();
    for mutant in mutants {
        let without = &seen[&(mutant.rule, "without")];
        let with = seen.get(&(mutant.rule, "with")).map(|seen| seen.values().sum::<usize>());
        let caught = without.keys().any(|seen| mutant.harm.iter().any(|harm| seen.starts_with(harm)));
        let verdict = if caught { "caught" } else { "NOT CAUGHT" };
        println!("\n{:<12} {verdict:<10}  without the rule: {}", mutant.rule, mutant.what);
        for (invariant, count) in without {
            println!("{:>24} x {invariant}", count);
        }
        if !caught {
            wrong.push(format!("{} was not caught", mutant.rule));
        }
        if let Some(with) = with {
            println!("{with:>24} violations of the same scene with the rule");
        }
        if with.is_some_and(|with| with > 0) {
            wrong.push(format!("{} with its rule", mutant.rule));
        }
        report.push(
            json!({"rule": mutant.rule, "what": mutant.what, "caught": caught, "seen": without, "with_the_rule": with}),
        );
    }
    let report = json!({"seed": seed, "mutants": report});
    fs::write(folder.join("mutants.json"), format!("{report:#}\n"))?;
    Ok(wrong)
}

/// A process of its own for each scene: it has a whole system to itself.
async fn scene(rule: &str, how: &str, seed: u64, folder: &Path) -> Result<Seen> {
    let place = folder.join("scenes");
    let report = place.join(format!("{rule}-{how}.json"));
    let _ = fs::remove_file(&report);
    let log = File::create(place.join(format!("{rule}-{how}.log")))?;
    let mut process = Command::new(std::env::current_exe()?);
    process.args(["scene", rule, &seed.to_string(), how]).kill_on_drop(true);
    let status = process.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).status().await?;
    ensure!(status.success(), "the scene could not be played; see {}", place.display());
    let report: Value = serde_json::from_slice(&fs::read(&report)?)?;
    let mut seen = Seen::new();
    for invariant in report["invariants"].as_array().context("a report")? {
        let violations = invariant["violations"].as_array().map_or(0, Vec::len);
        if violations > 0 {
            seen.insert(invariant["invariant"].as_str().unwrap_or_default().to_owned(), violations);
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_that_can_be_left_out_has_its_scene() {
        let switches = include_str!("../../../common/src/proof/switch.rs");
        let list = switches.split_once("rules! {").and_then(|(_, rest)| rest.split_once("\n}")).expect("a list").0;
        let switches: BTreeSet<&str> = list.split('"').skip(1).step_by(2).collect();
        // The order of locks is left out by a journey, where two commands meet often enough.
        let journeys = ["lock_order"];
        let rules: BTreeSet<&str> = ALL.iter().map(|mutant| mutant.rule).chain(journeys).collect();
        assert_eq!(switches, rules);
        assert!(rules.len() >= 12 && rules.len() == ALL.len() + journeys.len());
        assert_eq!(super::named(SHORT).expect("mutants").len(), 3);
    }
}
