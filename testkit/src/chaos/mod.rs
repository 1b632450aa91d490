//! `./dev chaos`: a whole system under load and faults, followed by a checker that relies on none of its code.
//!
//! The seed determines the schedule of faults and the choices of each client. It does not determine the timing of the
//! processes, so a seed reproduces the circumstances of a finding but not every interleaving.

mod caller;
mod check;
mod config;
mod evidence;
mod faults;
mod gateway_report;
mod journal;
mod load;
mod modifiers;
mod mutants;
mod proxy;
mod quiet;
mod random;
mod receiver;
mod report;
mod schedule;
mod time;
mod upgrade;
mod world;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use self::{
    config::SystemConfig,
    faults::FaultInjector,
    mutants::Mutant,
    quiet::TIMEOUT,
    report::{Minimums, Report},
    schedule::{Fault, LONG, Plan, steps},
    world::{System, World},
};
use crate::process::{Programs, profile_folder};

/// Charges per minute whose response must be lost for a run to be conclusive.
const LOST_RESPONSES_PER_MINUTE: usize = 1;

/// Milliseconds between two faults of a short run, short enough for each kind to occur.
const SHORT_GAP: (u64, u64) = (1900, 2150);

/// The options of the command line.
struct Options {
    run: Run,
    mutants: Vec<&'static Mutant>,
    /// Whether each mutant's scene is also run with its rule enabled.
    controls: bool,
}

struct Run {
    config: SystemConfig,
    plan: Plan,
    minimums: Minimums,
    faults: bool,
    timeout: Duration,
    /// The folder with the programs of the previous release, to test an upgrade from it.
    previous: Option<PathBuf>,
}

/// The result of a run.
struct RunResult {
    violations: usize,
    is_inconclusive: bool,
}

/// Runs the main run, prints the report and writes it to `target/chaos/report.json`; then runs the mutants.
///
/// # Errors
/// When an invariant is violated, the run is inconclusive, a mutant is not caught, or the system cannot be run.
pub async fn command(arguments: &[String]) -> Result<()> {
    let folder = profile_folder()?.parent().context("the profile folder has no parent")?.join("chaos");
    fs::create_dir_all(&folder)?;
    if let [first, scene @ ..] = arguments
        && first == "scene"
    {
        return mutants::run_scene(scene, &folder).await;
    }
    let options = options(arguments)?;
    let seed = options.run.plan.seed;
    let run_result = if options.run.plan.load.is_zero() {
        None
    } else {
        Some(run_and_keep_evidence(&options.run, &folder, "report").await?)
    };
    let unexpected = mutants::run_all(&options.mutants, options.controls, seed, &folder).await?;
    if let Some(run_result) = run_result {
        ensure!(run_result.violations == 0, "{} invariant violations", run_result.violations);
        ensure!(!options.run.faults || !run_result.is_inconclusive, "this run is inconclusive");
    }
    ensure!(unexpected.is_empty(), "unexpected mutant results: {}", unexpected.join(", "));
    Ok(())
}

/// Runs a system, and keeps its database and logs if it violates an invariant.
async fn run_and_keep_evidence(run: &Run, folder: &Path, name: &str) -> Result<RunResult> {
    println!("seed {}, {} s of load", run.plan.seed, run.plan.load.as_secs());
    let (mut system, world) =
        world::start(run.config, run.previous.as_deref(), &folder.join(format!("{name}.requests.jsonl"))).await?;
    let world = Arc::new(world);
    let outcome = run_phases(run, &mut system, &world, &folder.join(format!("{name}.json"))).await;
    if outcome.as_ref().map_or(true, |run_result| run_result.violations > 0) {
        keep_evidence(&mut system, &folder.join(format!("{name}.kept"))).await;
    }
    outcome
}

async fn run_phases(run: &Run, system: &mut System, world: &Arc<World>, report_path: &Path) -> Result<RunResult> {
    if run.previous.is_some() {
        let unsupported =
            Fault::NEWLY_SUPPORTED.map(|fault| (fault, "the previous release may not support it".to_owned()));
        system.left_out.extend(unsupported);
    }
    let left_out = system.left_out.clone();
    let steps = if run.faults { steps(&run.plan, &left_out) } else { Vec::new() };
    for step in &steps {
        let offset = if step.shift == 0 { String::new() } else { format!(", by {} ms", step.shift) };
        println!(
            "  {:6.1} s  {} #{}, for {:.1} s{offset}",
            step.at.as_secs_f64(),
            step.fault.name(),
            step.target,
            step.duration.as_secs_f64()
        );
    }
    let mut clients = load::start(world, run.plan.seed)?;
    load::warm_up(world, &clients).await;
    let previous = run.previous.as_deref().map(Programs::in_folder);
    let upgrade_result = match &previous {
        Some(previous) => Some(upgrade::run_without_faults(system, world, previous).await?),
        None => None,
    };
    // In an upgrade, killed processes restart as the new release.
    let release = previous.map(|_| Programs::own()).transpose()?;
    let fault_log = FaultInjector::new(system, world, release).run(&steps, run.plan.load, run.minimums).await?;
    world.load_ended.store(true, Ordering::Relaxed);
    println!("the load has ended");
    // Every request completes within half a minute; clients that are still retrying are aborted.
    let ending = async { while clients.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(35), ending).await;
    clients.shutdown().await;
    if upgrade_result.is_some() {
        upgrade::finish(system, world).await?;
    }
    let quiet = quiet::wait_until_quiet(system, world, run.timeout).await?;
    let mut evidence = evidence::gather(system, world, &quiet).await?;
    evidence.add_fault_log(&fault_log);
    let mut findings = check::check(&evidence);
    if run.previous.is_none() {
        findings.extend(check::check_current_release(&evidence));
    }
    findings.extend(upgrade_result.as_ref().map(|observations| upgrade::check(observations, &evidence.requests)));
    let lost_responses = evidence::charges_with_lost_response(system, world).await?;
    let report = Report {
        plan: &run.plan,
        minimums: run.minimums,
        left_out: &left_out,
        fault_log: &fault_log,
        lost_responses,
        quiet: quiet.duration,
        evidence: &evidence,
        findings: &findings,
        upgrade: upgrade_result.as_ref(),
    };
    report.print();
    report.write(report_path, world)?;
    Ok(RunResult { violations: report.violations(), is_inconclusive: !report.missing_coverage().is_empty() })
}

/// Copies the database and the logs.
async fn keep_evidence(system: &mut System, folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    let copied = async {
        for process in system.cluster.processes() {
            process.kill9()?;
        }
        let postgres = system.cluster.postgres.as_mut().context("the system has no Postgres of its own")?;
        postgres.stop().await?;
        fs::create_dir_all(folder)?;
        for from in [system.data.clone(), system.cluster.logs().to_owned()] {
            let status = std::process::Command::new("cp").arg("-a").arg(&from).arg(folder).status()?;
            ensure!(status.success(), "cannot copy {}", from.display());
        }
        anyhow::Ok(())
    };
    match copied.await {
        Ok(()) => println!("copied the database and the logs to {}", folder.display()),
        Err(error) => println!("cannot copy the database and the logs: {error:#}"),
    }
}

fn options(arguments: &[String]) -> Result<Options> {
    let mut run = Run {
        config: SystemConfig::FULL,
        plan: Plan { seed: 1, load: Duration::from_secs(600), gap: (3000, 5500), kinds: &[] },
        minimums: Minimums { lost_responses: 0, late_sends: 1 },
        faults: true,
        timeout: TIMEOUT,
        previous: None,
    };
    let (mut mutants, mut controls): (Vec<_>, _) = (mutants::ALL.iter().collect(), true);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().context("an option has no value");
        match argument.as_str() {
            "--minutes" => run.plan.load = Duration::from_secs(value()?.parse::<u64>()? * 60),
            "--seconds" => run.plan.load = Duration::from_secs(value()?.parse()?),
            "--seed" => run.plan.seed = value()?.parse()?,
            "--upgrade" => {
                run.previous = Some(value()?.into());
                run.plan = Plan { load: Duration::from_secs(90), gap: SHORT_GAP, ..run.plan };
                mutants.clear();
            }
            "--no-faults" => run.faults = false,
            "--mutants" => mutants = mutants::named(value()?)?,
            "--short" => {
                run.plan = Plan { load: Duration::from_secs(90), gap: SHORT_GAP, ..run.plan };
                (mutants, controls) = (mutants::named(mutants::SHORT)?, false);
            }
            other => bail!(
                "unknown option {other}; usage: chaos [--minutes N | --seconds N] [--seed S] [--short] [--upgrade FOLDER] [--no-faults] [--mutants all | none | a,b]"
            ),
        }
    }
    let minutes = usize::try_from(run.plan.load.as_secs() / 60)?;
    if run.plan.load >= LONG {
        run.timeout = 2 * TIMEOUT;
    }
    run.minimums =
        Minimums { lost_responses: (minutes * LOST_RESPONSES_PER_MINUTE).max(1), late_sends: (minutes / 3).max(1) };
    Ok(Options { run, mutants, controls })
}
