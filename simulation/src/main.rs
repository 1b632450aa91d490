//! `simulate`: runs histories and reports what they violate.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use foundation::faults::Rule;
use simulation::generator::generate;
use simulation::lane::Lane;
use simulation::lanes::{Job, Line};
use simulation::shrink::shrink;

/// Runs api, worker, scheduler and clients in virtual time, with faults, and checks that no money is lost.
#[derive(Parser)]
struct Options {
    /// How many histories to run.
    #[arg(long, default_value_t = 300)]
    seeds: u64,
    /// Run the history of this seed only; the same seed gives the same events.
    #[arg(long)]
    seed: Option<u64>,
    /// The first seed; by default a random one.
    #[arg(long)]
    first: Option<u64>,
    /// Run as many of the first histories a second time, on new servers, and compare their events.
    #[arg(long, default_value_t = 0)]
    repeat: u64,
    /// Stop after this many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// Run this history, as written by an earlier run.
    #[arg(long)]
    history: Option<PathBuf>,
    /// Write the events of the history to this file. Needs --seed or --history.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Disable each of these rules of the protocol (`all`, or names separated by commas), and search for a history in
    /// which that does harm.
    #[arg(long)]
    mutants: Option<String>,
    /// How many histories run at the same time.
    #[arg(long, default_value_t = 2)]
    lanes: u64,
    /// Internal: the number of this lane.
    #[arg(long, hide = true)]
    lane: Option<u64>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if options.seed.is_some() || options.history.is_some() {
        return run_one(&options);
    }
    let first = options.first.map_or_else(random_seed, Ok)?;
    let limit = options.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let job = Job { seeds: first..first + options.seeds, lanes: options.lanes, limit, disabled: None };
    match (options.lane, &options.mutants) {
        (Some(lane), _) => job.run_lane(lane),
        (None, Some(names)) => run_mutants(&job, names),
        (None, None) => run_all(&job, options.repeat),
    }
}

fn random_seed() -> Result<u64> {
    Ok(u64::from(getrandom::u32()?))
}

fn run_all(job: &Job, repeated: u64) -> Result<()> {
    println!("{} histories from seed {}, {} at a time", job.seeds.end - job.seeds.start, job.seeds.start, job.lanes);
    let began = Instant::now();
    let mut summary = Summary::default();
    job.run(|line| {
        summary.add(&line);
        ControlFlow::Continue(())
    })?;
    let repeated = job.seeds.start..job.seeds.end.min(job.seeds.start + repeated);
    let (mut compared, count) = (0, repeated.end - repeated.start);
    Job { seeds: repeated, ..job.clone() }.run(|line| {
        summary.compare(&line);
        compared += 1;
        ControlFlow::Continue(())
    })?;
    ensure!(compared == count || job.limit.is_some(), "only {compared} histories were repeated");
    summary.print(began.elapsed());
    exit(i32::from(!summary.failed.is_empty()));
}

/// Disables one rule after the other, and searches for a history in which that does harm.
fn run_mutants(job: &Job, names: &str) -> Result<()> {
    let chosen = |rule: &&Rule| names == "all" || names.split(',').any(|name| name == rule.name());
    let rules: Vec<&Rule> = Rule::ALL.iter().filter(chosen).collect();
    ensure!(!rules.is_empty(), "--mutants takes `all` or names of rules, separated by commas");
    let mut missed = Vec::new();
    for rule in rules {
        let (began, mut histories, mut found) = (Instant::now(), 0, None);
        Job { disabled: Some(rule.name()), ..job.clone() }.run(|line| {
            histories += 1;
            match line.report.violations.into_iter().next() {
                Some(violation) => {
                    found = Some(format!("seed {}: {violation}", line.seed));
                    ControlFlow::Break(())
                }
                None => ControlFlow::Continue(()),
            }
        })?;
        let (name, seconds) = (rule.name(), began.elapsed().as_secs());
        println!("{name:<16} {histories:>5} histories {seconds:>4} s  {}", found.as_deref().unwrap_or("NOT CAUGHT"));
        if found.is_none() {
            missed.push(name);
        }
    }
    ensure!(missed.is_empty(), "not caught: {}", missed.join(", "));
    Ok(())
}

/// Where failing histories are written.
fn directory() -> Result<PathBuf> {
    let folder = env::current_exe()?.parent().and_then(Path::parent).context("the build folder")?.join("simulation");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Runs one history; if it fails, finds the shortest one that fails.
fn run_one(options: &Options) -> Result<()> {
    let history = match &options.history {
        Some(path) => serde_json::from_slice(&fs::read(path)?).context("--history")?,
        None => generate(options.seed.context("--seed")?),
    };
    let mut lane = Lane::start(0)?;
    let report = lane.run(&history, options.trace.as_deref())?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    if report.violations.is_empty() {
        return Ok(());
    }
    let shortest = shrink(&history, |shorter| Ok(!lane.run(shorter, None)?.violations.is_empty()))?;
    let file = directory()?.join(format!("{}.json", history.seed));
    fs::write(&file, serde_json::to_vec_pretty(&shortest)?)?;
    println!("The shortest history that fails, also in {}:", file.display());
    for line in shortest.story() {
        println!("{line}");
    }
    for violation in lane.run(&shortest, None)?.violations {
        println!("Then: {violation}.");
    }
    // Stops the servers and removes their files, which `exit` would not.
    drop(lane);
    exit(1);
}

/// The figures of all histories.
#[derive(Default)]
struct Summary {
    histories: u64,
    events: u64,
    virtual_us: u64,
    statuses: BTreeMap<String, BTreeMap<String, u64>>,
    faults: BTreeMap<String, u64>,
    failed: Vec<u64>,
    /// By seed.
    digests: BTreeMap<u64, String>,
    /// A sum of the digests, so that two runs of the same seeds can be compared.
    sum: u64,
}

impl Summary {
    fn add(&mut self, line: &Line) {
        self.histories += 1;
        self.events += line.report.events;
        self.digests.insert(line.seed, line.report.digest.clone());
        self.sum = self.sum.wrapping_add(u64::from_str_radix(&line.report.digest, 16).unwrap_or(0));
        self.virtual_us += line.report.virtual_us;
        for (operation, counts) in &line.report.statuses {
            add(self.statuses.entry(operation.clone()).or_default(), counts);
        }
        add(&mut self.faults, &line.report.faults);
        for violation in &line.report.violations {
            println!("seed {}: {violation}", line.seed);
        }
        if !line.report.violations.is_empty() {
            self.failed.push(line.seed);
        }
    }

    /// Compares a history with an earlier run of it.
    fn compare(&mut self, line: &Line) {
        let (seed, digest) = (line.seed, &line.report.digest);
        if self.digests.get(&seed).is_some_and(|first| first != digest) {
            println!("seed {seed}: its second run had other events than the first");
            self.failed.push(seed);
        }
    }

    fn print(&self, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        println!(
            "{} histories in {seconds:.0} s: {:.1} histories/s, {:.0} events/s, {:.1} virtual hours",
            self.histories,
            self.histories as f64 / seconds,
            self.events as f64 / seconds,
            self.virtual_us as f64 / 3.6e9,
        );
        println!("digest: {:016x}", self.sum);
        for (operation, statuses) in &self.statuses {
            println!("{operation}: {statuses:?}");
        }
        println!("faults: {:?}", self.faults);
        match self.failed.as_slice() {
            [] => println!("no violations"),
            seeds => println!("violations with the seeds {seeds:?}; repeat one with --seed"),
        }
    }
}

fn add(total: &mut BTreeMap<String, u64>, counts: &BTreeMap<String, u64>) {
    for (name, count) in counts {
        *total.entry(name.clone()).or_default() += count;
    }
}
