//! `./dev chaos`: a whole system under load and faults, followed by a checker that relies on none of its code.
//!
//! The seed determines the schedule of faults and the choices of each client. It does not determine the timing of the
//! processes, so a seed reproduces the circumstances of a finding but not every interleaving.

mod access;
mod check;
mod clock_files;
mod containers;
mod endpoints;
mod evidence;
mod fault;
mod fault_log;
mod faults;
mod gateway_report;
mod instances;
mod journal;
mod leaks;
mod ledger;
mod load;
mod modifiers;
mod mutants;
mod quiet;
mod report;
mod run;
mod schedule;
mod shop;
mod system;
mod system_config;
mod test_cards;
mod time;
mod upgrade;

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};

pub use self::mutants::dropped_constraints;
use self::{
    mutants::Mutant,
    quiet::TIMEOUT,
    run::Run,
    schedule::{LONG, Minimums, Plan},
    system_config::SystemConfig,
};
use crate::{docker::Image, process::target_folder};

/// Charges per minute whose response must be lost for a run to be conclusive.
const LOST_RESPONSES_PER_MINUTE: usize = 1;

/// Milliseconds between two faults of a short run, short enough for each kind to occur.
const SHORT_GAP: (u64, u64) = (1900, 2150);

/// Runs in which to find a conclusive one.
const MAX_RUNS: usize = 3;

/// The options of the command line.
struct Options {
    run: Run,
    mutants: Vec<&'static Mutant>,
    /// Whether each mutant's scene is also run with its rule enabled.
    controls: bool,
    /// The image, if the system runs in containers.
    containers: Option<Image>,
}

/// Runs the main run, prints the report and writes it to `target/chaos/report.json`; then runs the mutants.
///
/// # Errors
/// When an invariant is violated, all runs are inconclusive, a mutant is not caught, or the system cannot be run.
pub async fn command(arguments: &[String]) -> Result<()> {
    let folder = target_folder()?.join("chaos");
    fs::create_dir_all(&folder)?;
    if let [first, scene @ ..] = arguments
        && first == "scene"
    {
        return mutants::run_scene(scene, &folder).await;
    }
    let options = options(arguments)?;
    if let Some(image) = options.containers {
        return containers::command(&options.run.plan, image, arguments, &folder).await;
    }
    let seed = options.run.plan.seed;
    let violations = if options.run.plan.load.is_zero() { 0 } else { conclusive_run(options.run, &folder).await? };
    let unexpected = mutants::run_all(&options.mutants, options.controls, seed, &folder).await?;
    ensure!(violations == 0, "{violations} invariant violations");
    ensure!(unexpected.is_empty(), "unexpected mutant results: {}", unexpected.join(", "));
    Ok(())
}

/// The number of violations of the first conclusive run. One in which some faults did not meet what they were meant for,
/// by its timing, proves too little and is repeated with the next seed.
async fn conclusive_run(mut run: Run, folder: &Path) -> Result<usize> {
    for _ in 0..MAX_RUNS {
        let result = run::run_and_keep_evidence(&run, folder, "report").await?;
        if result.violations > 0 || !run.faults || !result.is_inconclusive {
            return Ok(result.violations);
        }
        println!("seed {} was inconclusive; continuing with the next", run.plan.seed);
        run.plan.seed += 1;
    }
    bail!("{MAX_RUNS} runs were inconclusive")
}

fn options(arguments: &[String]) -> Result<Options> {
    let mut run = Run {
        config: SystemConfig::FULL,
        plan: Plan {
            seed: 1,
            load: Duration::from_secs(600),
            gap: (3000, 5500),
            kinds: &[],
            minimums: Minimums::default(),
        },
        faults: true,
        timeout: TIMEOUT,
        previous: None,
    };
    let (mut mutants, mut controls): (Vec<_>, _) = (mutants::ALL.iter().collect(), true);
    let mut containers = None;
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
            "--containers" => {
                containers = Some(Image::Built);
                run.plan.load = containers::LOAD;
            }
            "--from-sources" if containers.is_some() => containers = Some(Image::Sources),
            "--no-faults" => run.faults = false,
            "--mutants" => mutants = mutants::named(value()?)?,
            "--short" => {
                run.plan = Plan { load: Duration::from_secs(90), gap: SHORT_GAP, ..run.plan };
                (mutants, controls) = (mutants::named(mutants::SHORT)?, false);
            }
            other => bail!(
                "unknown option {other}; usage: chaos [--minutes N | --seconds N] [--seed S] [--short] [--upgrade FOLDER] [--containers [--from-sources]] [--no-faults] [--mutants all | none | a,b]"
            ),
        }
    }
    let minutes = usize::try_from(run.plan.load.as_secs() / 60)?;
    if run.plan.load >= LONG {
        run.timeout = 2 * TIMEOUT;
    }
    run.plan.minimums =
        Minimums { lost_responses: (minutes * LOST_RESPONSES_PER_MINUTE).max(1), late_sends: (minutes / 3).max(1) };
    Ok(Options { run, mutants, controls, containers })
}
