//! `simulate`: runs histories and reports what they violate.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, exit};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context as _, Result};
use clap::Parser;
use serde::{Deserialize, Serialize};
use simulation::generator::generate;
use simulation::lane::Lane;
use simulation::run::Report;
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
    /// Stop after this many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// Run this history, as written by an earlier run.
    #[arg(long)]
    history: Option<PathBuf>,
    /// Write the events of the history to this file. Needs --seed or --history.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// How many histories run at the same time.
    #[arg(long, default_value_t = 2)]
    lanes: u64,
    /// Internal: the number of this lane.
    #[arg(long, hide = true)]
    lane: Option<u64>,
}

/// What a lane prints for each history.
#[derive(Deserialize, Serialize)]
struct Line {
    seed: u64,
    report: Report,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(lane) = options.lane {
        return run_lane(&options, lane);
    }
    if options.seed.is_some() || options.history.is_some() {
        return run_one(&options);
    }
    let first = options.first.map_or_else(random_seed, Ok)?;
    println!("{} histories from seed {first}, {} at a time", options.seeds, options.lanes);
    let began = Instant::now();
    let mut children = Vec::new();
    let (sender, lines) = mpsc::channel();
    for lane in 0..options.lanes {
        let mut child = spawn_lane(&options, first, lane)?;
        let output = child.stdout.take().context("a pipe")?;
        let sender = sender.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        children.push(child);
    }
    drop(sender);
    let mut summary = Summary::default();
    for line in lines {
        summary.add(&serde_json::from_str(&line).context("a lane's report")?);
    }
    summary.print(began.elapsed());
    let lanes_ended = children.iter_mut().all(|child| child.wait().is_ok_and(|status| status.success()));
    exit(i32::from(!lanes_ended || !summary.failed.is_empty()));
}

fn random_seed() -> Result<u64> {
    Ok(u64::from(getrandom::u32()?))
}

/// Where failing histories are written.
fn directory() -> Result<PathBuf> {
    let folder = env::current_exe()?.parent().and_then(Path::parent).context("the build folder")?.join("simulation");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn spawn_lane(options: &Options, first: u64, lane: u64) -> Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["--lane", &lane.to_string(), "--lanes", &options.lanes.to_string()]);
    command.args(["--first", &first.to_string(), "--seeds", &options.seeds.to_string()]);
    if let Some(minutes) = options.minutes {
        command.args(["--minutes", &minutes.to_string()]);
    }
    command.stdout(Stdio::piped()).spawn().context("a lane")
}

/// Runs every `lanes`th seed and prints a line for each.
fn run_lane(options: &Options, number: u64) -> Result<()> {
    let mut lane = Lane::start(number as usize)?;
    let end = options.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let first = options.first.context("--first")?;
    for seed in (first..first + options.seeds).skip(number as usize).step_by(options.lanes as usize) {
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        let report = lane.run(&generate(seed), None)?;
        println!("{}", serde_json::to_string(&Line { seed, report })?);
    }
    Ok(())
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
    /// Of the digests, so that two runs of the same seeds can be compared.
    sum: u64,
}

impl Summary {
    fn add(&mut self, line: &Line) {
        self.histories += 1;
        self.events += line.report.events;
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
