//! `./dev chaos`: a whole system under load and faults, and then a checker that trusts none of it.
//!
//! The schedule of faults and what each client does follow from the seed. When exactly the processes do what is up to the
//! machine, so a seed repeats the circumstances of a finding and not each of its microseconds.

mod caller;
mod check;
mod evidence;
mod faults;
mod journal;
mod load;
mod proxy;
mod random;
mod receiver;
mod report;
mod schedule;
mod settle;
mod time;
mod world;

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use self::{
    evidence::Evidence,
    faults::Hand,
    report::{Least, Report},
    schedule::{Plan, steps},
    world::{Stage, World},
};
use crate::process::profile_folder;

/// So many charges a minute at least have their answer lost, or the run does not count.
const LOST_A_MINUTE: usize = 2;

/// How the command line wants it.
struct Wanted {
    plan: Plan,
    least: Least,
    faults: bool,
}

/// Runs it, prints the report and writes it to `target/chaos/report.json`.
///
/// # Errors
/// When an invariant was violated, when the run proves nothing, or when it could not be held.
pub async fn command(arguments: &[String]) -> Result<()> {
    let wanted = wanted(arguments)?;
    let folder = profile_folder()?.parent().context("a profile in no target folder")?.join("chaos");
    fs::create_dir_all(&folder)?;
    println!("seed {}, {} s of load", wanted.plan.seed, wanted.plan.load.as_secs());
    let (mut stage, world) = world::raise(&folder.join("requests.jsonl")).await?;
    let world = Arc::new(world);
    let outcome = run(&wanted, &mut stage, &world, &folder).await;
    if outcome.is_err() {
        keep(&mut stage, &folder).await;
    }
    outcome
}

async fn run(wanted: &Wanted, stage: &mut Stage, world: &Arc<World>, folder: &Path) -> Result<()> {
    let left_out = stage.left_out.clone();
    let steps = if wanted.faults { steps(&wanted.plan, &left_out) } else { Vec::new() };
    for step in &steps {
        println!(
            "  {:6.1} s  {} #{}, for {:.1} s",
            step.at.as_secs_f64(),
            step.fault.name(),
            step.target,
            step.lasts.as_secs_f64()
        );
    }
    let mut clients = load::start(world, wanted.plan.seed)?;
    let fired = Hand::new(stage, world).run(&steps, wanted.plan.load).await?;
    world.over.store(true, Ordering::Relaxed);
    println!("the load ends");
    // A request is answered within half a minute; whoever repeats his is left where he is.
    let ending = async { while clients.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(35), ending).await;
    clients.shutdown().await;
    let quiet = settle::settle(stage, world).await?;
    let mut evidence = evidence::gather(stage, world).await?;
    evidence.died.clone_from(&fired.died);
    let findings = check::check(&evidence);
    let lost = charged_and_lost(stage, &evidence)?;
    let report = Report {
        plan: &wanted.plan,
        least: wanted.least,
        left_out: &left_out,
        fired: &fired,
        lost,
        quiet,
        evidence: &evidence,
        findings: &findings,
    };
    report.print();
    report.write(&folder.join("report.json"), world)?;
    ensure!(report.violations() == 0, "{} violations", report.violations());
    ensure!(!wanted.faults || report.vacuity().is_empty(), "this run proves nothing");
    Ok(())
}

/// Approved charges whose answer never came: as the logs tell of the mock, and our proxies of the gateway.
fn charged_and_lost(stage: &Stage, evidence: &Evidence) -> Result<usize> {
    let mut lost: BTreeSet<String> = stage.wires.gateway.iter().flat_map(proxy::Proxy::lost).collect();
    for file in fs::read_dir(stage.cluster.logs())?.flatten() {
        let text = String::from_utf8_lossy(&fs::read(file.path())?).into_owned();
        for line in text.lines().filter(|line| line.contains("told to lose this answer")) {
            let at = line.find("operation=").map(|at| &line[at + "operation=".len()..]);
            lost.extend(at.and_then(|rest| rest.split_whitespace().next()).map(str::to_owned));
        }
    }
    let charged = evidence.ledger.iter().filter(|line| line.is_charge() && line.approved);
    Ok(charged.filter(|line| lost.contains(&line.reference)).count())
}

/// Copies what tells of a finding: the database as it stands, and the logs.
async fn keep(stage: &mut Stage, folder: &Path) {
    let kept = folder.join("kept");
    let _ = fs::remove_dir_all(&kept);
    let copied = async {
        for process in stage.cluster.processes() {
            process.kill9()?;
        }
        let postgres = stage.cluster.postgres.as_mut().context("its own")?;
        postgres.stop().await?;
        fs::create_dir_all(&kept)?;
        for from in [stage.data.clone(), stage.cluster.logs().to_owned()] {
            let status = std::process::Command::new("cp").arg("-a").arg(&from).arg(&kept).status()?;
            ensure!(status.success(), "cp {}", from.display());
        }
        anyhow::Ok(())
    };
    match copied.await {
        Ok(()) => println!("the database and the logs are kept in {}", kept.display()),
        Err(error) => println!("they could not be kept: {error:#}"),
    }
}

fn wanted(arguments: &[String]) -> Result<Wanted> {
    let mut wanted = Wanted {
        plan: Plan { seed: 1, load: Duration::from_secs(600), gap: (3000, 5500) },
        least: Least { lost: 0, late: 1 },
        faults: true,
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<u64> { Ok(arguments.next().context("a number is missing")?.parse()?) };
        match argument.as_str() {
            "--minutes" => wanted.plan.load = Duration::from_secs(number()? * 60),
            "--seconds" => wanted.plan.load = Duration::from_secs(number()?),
            "--seed" => wanted.plan.seed = number()?,
            "--no-faults" => wanted.faults = false,
            "--short" => wanted.plan = Plan { seed: 1, load: Duration::from_secs(90), gap: (2600, 3100) },
            other => bail!("chaos [--minutes N | --seconds N] [--seed S] [--short] [--no-faults], and not {other}"),
        }
    }
    let minutes = usize::try_from(wanted.plan.load.as_secs() / 60)?;
    wanted.least = Least { lost: (minutes * LOST_A_MINUTE).max(1), late: (minutes / 3).max(1) };
    Ok(wanted)
}
