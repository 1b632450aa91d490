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
mod modifiers;
mod mutants;
mod proxy;
mod random;
mod receiver;
mod report;
mod schedule;
mod setting;
mod settle;
mod statement;
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
    faults::Hand,
    mutants::Mutant,
    report::{Least, Report},
    schedule::{Fault, LONG, Plan, steps},
    setting::Setting,
    settle::PATIENCE,
    world::{Stage, World},
};
use crate::process::{Programs, profile_folder};

/// So many charges a minute at least have their answer lost, or the run does not count.
const LOST_A_MINUTE: usize = 1;

/// Between two faults of a short run, so that each kind has its turn.
const SHORT_GAP: (u64, u64) = (1900, 2150);

/// How the command line wants it.
struct Wanted {
    run: Run,
    mutants: Vec<&'static Mutant>,
    /// Whether each mutant's scene is played with its rule too.
    controls: bool,
}

/// One run.
struct Run {
    setting: Setting,
    plan: Plan,
    least: Least,
    faults: bool,
    patience: Duration,
    /// Where the programs of the last release are, if it is to be upgraded from.
    former: Option<PathBuf>,
}

/// What it has shown.
struct Shown {
    violations: usize,
    proves_nothing: bool,
}

/// Runs it, prints the report and writes it to `target/chaos/report.json`; then the mutants.
///
/// # Errors
/// When an invariant was violated, when the run proves nothing, when a mutant was not caught, or when it could not be held.
pub async fn command(arguments: &[String]) -> Result<()> {
    let folder = profile_folder()?.parent().context("a profile in no target folder")?.join("chaos");
    fs::create_dir_all(&folder)?;
    if let [first, scene @ ..] = arguments
        && first == "scene"
    {
        return mutants::play(scene, &folder).await;
    }
    let wanted = wanted(arguments)?;
    let seed = wanted.run.plan.seed;
    let shown = if wanted.run.plan.load.is_zero() { None } else { Some(hold(&wanted.run, &folder, "report").await?) };
    let uncaught = mutants::hunt(&wanted.mutants, wanted.controls, seed, &folder).await?;
    if let Some(shown) = shown {
        ensure!(shown.violations == 0, "{} violations", shown.violations);
        ensure!(!wanted.run.faults || !shown.proves_nothing, "this run proves nothing");
    }
    ensure!(uncaught.is_empty(), "not as it should be: {}", uncaught.join(", "));
    Ok(())
}

/// Holds a run, and keeps what tells of a finding.
async fn hold(run: &Run, folder: &Path, name: &str) -> Result<Shown> {
    println!("seed {}, {} s of load", run.plan.seed, run.plan.load.as_secs());
    let (mut stage, world) =
        world::raise(run.setting, run.former.as_deref(), &folder.join(format!("{name}.requests.jsonl"))).await?;
    let world = Arc::new(world);
    let outcome = play(run, &mut stage, &world, &folder.join(format!("{name}.json"))).await;
    if outcome.as_ref().map_or(true, |shown| shown.violations > 0) {
        keep(&mut stage, &folder.join(format!("{name}.kept"))).await;
    }
    outcome
}

async fn play(run: &Run, stage: &mut Stage, world: &Arc<World>, report: &Path) -> Result<Shown> {
    if run.former.is_some() {
        let new = Fault::NEW.map(|fault| (fault, "the last release may be from before it".to_owned()));
        stage.left_out.extend(new);
    }
    let left_out = stage.left_out.clone();
    let steps = if run.faults { steps(&run.plan, &left_out) } else { Vec::new() };
    for step in &steps {
        let by = if step.shift == 0 { String::new() } else { format!(", by {} ms", step.shift) };
        println!(
            "  {:6.1} s  {} #{}, for {:.1} s{by}",
            step.at.as_secs_f64(),
            step.fault.name(),
            step.target,
            step.lasts.as_secs_f64()
        );
    }
    let mut clients = load::start(world, run.plan.seed)?;
    load::warm_up(world, &clients).await;
    let former = run.former.as_deref().map(Programs::within);
    let upgraded = match &former {
        Some(former) => Some(upgrade::act(stage, world, former).await?),
        None => None,
    };
    // Who is killed comes back as this release's.
    let release = former.map(|_| Programs::own()).transpose()?;
    let fired = Hand::new(stage, world, release).run(&steps, run.plan.load, run.least).await?;
    world.over.store(true, Ordering::Relaxed);
    println!("the load ends");
    // A request is answered within half a minute; whoever repeats his is left where he is.
    let ending = async { while clients.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(35), ending).await;
    clients.shutdown().await;
    if upgraded.is_some() {
        upgrade::finish(stage, world).await?;
    }
    let quiet = settle::settle(stage, world, run.patience).await?;
    let mut evidence = evidence::gather(stage, world, &quiet).await?;
    evidence.takes(&fired);
    let mut findings = check::check(&evidence);
    if run.former.is_none() {
        findings.extend(check::check_of_this_release(&evidence));
    }
    findings.extend(upgraded.as_ref().map(|seen| upgrade::check(seen, &evidence.requests)));
    let lost = evidence::charged_and_lost(stage, world).await?;
    let told = Report {
        plan: &run.plan,
        least: run.least,
        left_out: &left_out,
        fired: &fired,
        lost,
        quiet: quiet.took,
        evidence: &evidence,
        findings: &findings,
        upgraded: upgraded.as_ref(),
    };
    told.print();
    told.write(report, world)?;
    Ok(Shown { violations: told.violations(), proves_nothing: !told.vacuity().is_empty() })
}

/// Copies what tells of a finding: the database as it stands, and the logs.
async fn keep(stage: &mut Stage, kept: &Path) {
    let _ = fs::remove_dir_all(kept);
    let copied = async {
        for process in stage.cluster.processes() {
            process.kill9()?;
        }
        let postgres = stage.cluster.postgres.as_mut().context("its own")?;
        postgres.stop().await?;
        fs::create_dir_all(kept)?;
        for from in [stage.data.clone(), stage.cluster.logs().to_owned()] {
            let status = std::process::Command::new("cp").arg("-a").arg(&from).arg(kept).status()?;
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
    let mut run = Run {
        setting: Setting::WHOLE,
        plan: Plan { seed: 1, load: Duration::from_secs(600), gap: (3000, 5500), kinds: &[] },
        least: Least { lost: 0, late: 1 },
        faults: true,
        patience: PATIENCE,
        former: None,
    };
    let (mut mutants, mut controls): (Vec<_>, _) = (mutants::ALL.iter().collect(), true);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().context("a value is missing");
        match argument.as_str() {
            "--minutes" => run.plan.load = Duration::from_secs(value()?.parse::<u64>()? * 60),
            "--seconds" => run.plan.load = Duration::from_secs(value()?.parse()?),
            "--seed" => run.plan.seed = value()?.parse()?,
            "--upgrade" => {
                run.former = Some(value()?.into());
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
                "chaos [--minutes N | --seconds N] [--seed S] [--short] [--upgrade FOLDER] [--no-faults] [--mutants all | none | a,b], and not {other}"
            ),
        }
    }
    let minutes = usize::try_from(run.plan.load.as_secs() / 60)?;
    if run.plan.load >= LONG {
        run.patience = 2 * PATIENCE;
    }
    run.least = Least { lost: (minutes * LOST_A_MINUTE).max(1), late: (minutes / 3).max(1) };
    Ok(Wanted { run, mutants, controls })
}
