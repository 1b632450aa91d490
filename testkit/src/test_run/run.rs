//! Runs one test executable and collects what its tests did.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{
    events::{self, Event, Suite, Test},
    executables::Executable,
};

/// No test may run for longer: then it hangs, and would hold up the run until it is killed without a report.
const LIMIT: Duration = Duration::from_secs(900);
/// With more processes the cause is not one test, and the rest does not run.
const MAX_PROCESSES: usize = 3;

/// Which tests of an executable run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Selection<'a> {
    /// All but the ignored ones.
    Gate,
    /// The ignored ones, which take long or keep the machine busy.
    Ignored,
    /// Those whose name contains this text, ignored or not.
    Matching(&'a str),
    /// The one with this name.
    Only(&'a str),
}

impl Selection<'_> {
    /// Whether it can be combined with exclusions, which libtest matches as it matches names.
    const fn is_whole(self) -> bool {
        matches!(self, Self::Gate | Self::Ignored)
    }
}

/// A test that has ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) seconds: f64,
    /// What it printed, if it failed.
    pub(super) failure: Option<String>,
}

/// What an executable did.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) ended: Vec<Ended>,
    pub(super) skipped: usize,
}

/// Runs the selected tests on this many threads. What the programs under test print goes to `log`.
///
/// A crash or a test that hangs ends the process. Those tests have failed, and another process runs the rest.
pub(super) fn run(executable: &Executable, selection: Selection, threads: usize, log: &Path) -> Result<Outcome> {
    let mut log = File::options().create(true).append(true).open(log).context("cannot write the log of a suite")?;
    let mut ended = Vec::new();
    let mut reason = String::new();
    for _ in 0..MAX_PROCESSES {
        let mut child = start(executable, selection, threads, &ended, &log)?;
        let mut process = Process::default();
        let is_stopped = process.read(&mut child, &mut log)?;
        let excluded = ended.len();
        ended.append(&mut process.ended);
        if let Some(skipped) = process.skipped {
            return Ok(Outcome { ended, skipped: skipped - excluded });
        }
        reason = end(&mut child, is_stopped)?;
        ended.extend(process.failures(&reason, is_stopped));
        // A process in which no test ended would be followed by another such one.
        if ended.len() == excluded || !selection.is_whole() {
            break;
        }
    }
    ended.push(Ended { name: "(the rest)".to_owned(), seconds: 0.0, failure: Some(reason) });
    Ok(Outcome { ended, skipped: 0 })
}

/// What one process of an executable did.
#[derive(Debug, Default)]
struct Process {
    ended: Vec<Ended>,
    /// Tests that have started and not ended, the oldest first.
    running: Vec<(String, Instant)>,
    ignored: usize,
    /// How many tests it left out; `None` until it has run all others.
    skipped: Option<usize>,
}

impl Process {
    /// Reads what the process prints until its last test has ended, or the process has, or a test hangs; then `true`.
    fn read(&mut self, child: &mut Child, log: &mut File) -> Result<bool> {
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().context("standard output is a pipe")?);
        thread::spawn(move || {
            // Programs under test may print bytes that are no text.
            output.split(b'\n').map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut last_line = Instant::now();
        // A server that a test started may hold the pipe open after the executable has ended.
        while self.skipped.is_none() {
            let oldest = self.running.first().map_or(last_line, |(_, start)| *start);
            match lines.recv_timeout(LIMIT.saturating_sub(oldest.elapsed())) {
                Ok(line) => {
                    last_line = Instant::now();
                    match events::parse(&String::from_utf8_lossy(&line)) {
                        Some(event) => self.record(event),
                        None => log.write_all(&[&line[..], b"\n"].concat())?,
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Ok(true),
            }
        }
        Ok(false)
    }

    fn record(&mut self, event: Event) {
        match event {
            Event::Suite(Suite::Ok { filtered_out } | Suite::Failed { filtered_out }) => {
                self.skipped = Some(filtered_out + self.ignored);
            }
            Event::Test(Test::Started { name }) => self.running.push((name, Instant::now())),
            Event::Test(Test::Ok { name, exec_time }) => self.end(name, exec_time, None),
            Event::Test(Test::Failed { name, exec_time, stdout, message }) => {
                self.end(name, exec_time, Some(if stdout.is_empty() { message } else { stdout }));
            }
            Event::Test(Test::Ignored { name }) => {
                self.running.retain(|(running, _)| *running != name);
                self.ignored += 1;
            }
            Event::Suite(Suite::Started) | Event::Test(Test::Timeout) => {}
        }
    }

    fn end(&mut self, name: String, seconds: f64, failure: Option<String>) {
        self.running.retain(|(running, _)| *running != name);
        self.ended.push(Ended { name, seconds, failure });
    }

    /// The tests that may have ended this process: those that ran for long when it was stopped, or all when it crashed.
    fn failures(self, reason: &str, is_stopped: bool) -> impl Iterator<Item = Ended> {
        let running = self.running.into_iter().map(|(name, start)| (name, start.elapsed()));
        let failed = running.filter(move |(_, time)| !is_stopped || *time >= LIMIT / 2);
        failed.map(|(name, time)| Ended { name, seconds: time.as_secs_f64(), failure: Some(reason.to_owned()) })
    }
}

fn start(
    executable: &Executable,
    selection: Selection,
    threads: usize,
    excluded: &[Ended],
    log: &File,
) -> Result<Child> {
    let mut command = Command::new(&executable.path);
    command.args(["-Z", "unstable-options", "--format", "json", "--report-time"]);
    command.arg(format!("--test-threads={threads}"));
    match selection {
        Selection::Gate => {}
        Selection::Ignored => drop(command.arg("--ignored")),
        Selection::Matching(text) => drop(command.args(["--include-ignored", text])),
        Selection::Only(name) => drop(command.args(["--include-ignored", "--exact", name])),
    }
    if !excluded.is_empty() {
        command.arg("--exact");
    }
    command.args(excluded.iter().flat_map(|test| ["--skip", &test.name]));
    // The options above are unstable, and the version of Rust is fixed in rust-toolchain.toml.
    command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_MANIFEST_DIR", &executable.directory);
    command.current_dir(&executable.directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.try_clone()?);
    command.spawn().with_context(|| format!("cannot start {}", executable.path.display()))
}

/// Waits for its end, or kills it, and says how it ended. The watchdog of a killed process ends its servers.
fn end(child: &mut Child, is_stopped: bool) -> Result<String> {
    if is_stopped {
        child.kill()?;
        child.wait()?;
        return Ok(format!("it had not ended after {} s, so its process was killed", LIMIT.as_secs()));
    }
    Ok(format!("its process ended early ({})", child.wait()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_fails_the_tests_that_ran_and_the_others_run_in_another_process() -> Result<()> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/test_run");
        let path = directory.join("example_suite.sh");
        let executable = Executable { name: "example".to_owned(), path, directory };
        let outcome = run(&executable, Selection::Gate, 1, Path::new("/dev/null"))?;
        let ended: Vec<_> = outcome.ended.iter().map(|test| (test.name.as_str(), test.failure.as_deref())).collect();
        let crashed = ended[1].1.context("a reason")?;
        assert!(crashed.starts_with("its process ended early (signal: 6"), "{crashed}");
        assert_eq!(ended, [("first", None), ("crashing", Some(crashed)), ("last", None)]);
        assert_eq!(outcome.skipped, 1, "one is ignored");
        Ok(())
    }

    #[test]
    fn only_tests_that_have_run_for_long_are_blamed_for_a_stop() {
        let now = Instant::now();
        let running =
            [("hanging", LIMIT), ("hanging, too", LIMIT - Duration::from_secs(9)), ("innocent", Duration::ZERO)];
        let running = running.map(|(name, time)| (name.to_owned(), now.checked_sub(time).expect("uptime")));
        let process = || Process { running: running.to_vec(), ..Process::default() };
        let names = |process: Process, is_stopped| -> Vec<_> {
            process.failures("killed", is_stopped).map(|test| test.name).collect()
        };
        assert_eq!(names(process(), true), ["hanging", "hanging, too"]);
        assert_eq!(names(process(), false).len(), 3, "any of them may have crashed");
    }
}
