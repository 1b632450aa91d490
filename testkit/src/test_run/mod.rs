//! Runs the test executables that cargo has built, runs failed tests once more alone, and reports.
//!
//! Cargo's own runner prints a failure where it happens, thousands of lines before the end, and cannot repeat it.
//! cargo-nextest can, but gives each test a process of its own, and ours share servers within a process.

mod events;
mod executables;
mod report;
mod run;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};

use crate::test_logs;
use executables::Executable;
use report::{Failed, Report};
use run::{Ended, Selection};

/// The longest suite, whose tests mostly wait for other processes. The other suites run beside it.
const LONGEST: &str = "testkit::journeys";
/// Its threads for each processor. The others have one: with more, the processes that tests start wait for a processor
/// longer than their own timeouts.
const THREADS_OF_LONGEST: usize = 3;
/// Other suites whose tests wait for other processes: a lane beside the computing suites.
const WAITING: [&str; 5] =
    ["testkit::browser", "gateway::api", "queue::suite", "testkit::dashboards", "testkit::guides"];
/// With more failures the cause is not one test, and nothing is run again.
const MAX_RUN_AGAIN: usize = 20;

/// `MESSAGES [--ignored] [NAME]`: runs the executables in a file of cargo's messages, without the ignored tests, with
/// the ignored tests alone, or what matches a name.
///
/// # Errors
/// When a test fails, or more than a few only pass when run again, or an executable cannot be started.
pub fn command(arguments: &[String]) -> Result<()> {
    let (messages, rest) = arguments.split_first().context("usage: run_tests MESSAGES [--ignored] [NAME]")?;
    let selection = match rest {
        [] => Selection::Gate,
        [option] if option == "--ignored" => Selection::Ignored,
        [name] => Selection::Matching(name),
        _ => bail!("unexpected arguments {rest:?}"),
    };
    let executables = executables::read(File::open(messages).with_context(|| format!("cannot read {messages}"))?)?;
    ensure!(!executables.is_empty(), "{messages} names no test executable");
    let report = TestRun::new(selection)?.all(&executables)?;
    println!("{}", report.text());
    ensure!(!report.is_failure(), "the tests failed");
    Ok(())
}

/// The state of a run.
struct TestRun<'a> {
    selection: Selection<'a>,
    logs: PathBuf,
    processors: usize,
    report: Mutex<Report>,
}

impl<'a> TestRun<'a> {
    fn new(selection: Selection<'a>) -> Result<Self> {
        let logs = test_logs::root()?;
        fs::create_dir_all(logs.join("failed"))?;
        let processors = thread::available_parallelism()?.get();
        Ok(Self { selection, logs, processors, report: Mutex::default() })
    }

    fn all(&self, executables: &[Executable]) -> Result<Report> {
        if is_alone(self.selection) {
            self.suites(executables.iter())?;
        } else {
            thread::scope(|scope| {
                let lanes = [&[LONGEST][..], &WAITING].map(|lane| {
                    let in_order = lane.iter().filter_map(|name| executables.iter().find(|one| one.name == *name));
                    scope.spawn(move || self.suites(in_order))
                });
                let waits = |one: &Executable| one.name == LONGEST || WAITING.contains(&one.name.as_str());
                self.suites(executables.iter().filter(|one| !waits(one)))?;
                lanes.into_iter().try_for_each(|lane| lane.join().expect("a suite's failure is no panic"))
            })?;
        }
        self.run_again(executables)?;
        let mut report = std::mem::take(&mut *self.report.lock().expect("no suite panics"));
        report.durations.sort_by(|a, b| b.1.total_cmp(&a.1));
        let lines: String = report.durations.iter().map(|(name, seconds)| format!("{seconds:.1}\t{name}\n")).collect();
        let durations = if is_alone(self.selection) { "durations-long.tsv" } else { "durations.tsv" };
        fs::write(self.logs.join(durations), lines)?;
        Ok(report)
    }

    fn suites<'e>(&self, mut executables: impl Iterator<Item = &'e Executable>) -> Result<()> {
        executables.try_for_each(|executable| self.suite(executable))
    }

    fn suite(&self, executable: &Executable) -> Result<()> {
        let threads = if is_alone(self.selection) {
            1
        } else {
            self.processors * if executable.name == LONGEST { THREADS_OF_LONGEST } else { 1 }
        };
        let (log, start) = (self.suite_log(executable), Instant::now());
        let outcome = run::run(executable, self.selection, threads, &log)?;
        let (failed, passed): (Vec<_>, Vec<_>) = outcome.ended.into_iter().partition(|test| test.failure.is_some());
        if !failed.is_empty() || !passed.is_empty() {
            let seconds = start.elapsed().as_secs_f64();
            println!("{seconds:7.1} s  {}: {} passed, {} failed", executable.name, passed.len(), failed.len());
        }
        let mut report = self.report.lock().expect("no suite panics");
        report.passed += passed.len();
        report.skipped += outcome.skipped;
        for test in passed.iter().chain(&failed) {
            report.durations.push((format!("{} {}", executable.name, test.name), test.seconds));
        }
        for test in failed {
            let failed = self.failed(executable, test)?;
            println!("FAILED at its first run: {}", failed.name);
            report.failed.push(failed);
        }
        Ok(())
    }

    fn suite_log(&self, executable: &Executable) -> PathBuf {
        self.logs.join(format!("{}.log", test_logs::name(&executable.name)))
    }

    /// Keeps what the test printed and the logs of its processes, which its next run would replace.
    fn failed(&self, executable: &Executable, test: Ended) -> Result<Failed> {
        let name = format!("{} {}", executable.name, test.name);
        let folder = self.logs.join("failed").join(test_logs::name(&name));
        let processes = self.logs.join(test_logs::name(&test.name));
        if processes.is_dir() {
            // Logs of an earlier run of the same test.
            let _ = fs::remove_dir_all(&folder);
            fs::rename(processes, &folder)?;
        }
        fs::create_dir_all(&folder)?;
        let (log, output) = (folder.join("output.txt"), test.failure.unwrap_or_default());
        fs::write(&log, &output)?;
        Ok(Failed { name, output, log, is_flaky: false })
    }

    /// A failed test that passes alone is flaky.
    fn run_again(&self, executables: &[Executable]) -> Result<()> {
        let mut report = self.report.lock().expect("no suite panics");
        if report.failed.len() > MAX_RUN_AGAIN {
            return Ok(());
        }
        for failed in &mut report.failed {
            let (suite, test) = failed.name.split_once(' ').context("a name has two parts")?;
            let executable = executables.iter().find(|executable| executable.name == suite);
            let executable = executable.context("a failed test has an executable")?;
            failed.is_flaky = passes_alone(executable, test, &self.suite_log(executable))?;
            println!("run again alone: {}: {}", failed.name, if failed.is_flaky { "passed" } else { "failed" });
        }
        Ok(())
    }
}

/// Ignored tests run one at a time, because they are long or keep the machine busy.
const fn is_alone(selection: Selection) -> bool {
    matches!(selection, Selection::Ignored)
}

fn passes_alone(executable: &Executable, test: &str, log: &Path) -> Result<bool> {
    let outcome = run::run(executable, Selection::Only(test), 1, log)?;
    Ok(!outcome.ended.is_empty() && outcome.ended.iter().all(|test| test.failure.is_none()))
}
