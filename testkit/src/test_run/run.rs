//! Runs one test executable and collects what its tests did.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

use super::{
    events::{self, Event, Suite, Test},
    executables::Executable,
};

/// No test may be silent for longer: then it hangs, and would hold up the run until it is killed without a report.
const STALL: Duration = Duration::from_secs(300);

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
    /// Tests that have started and not ended.
    running: Vec<String>,
    expected: usize,
    is_complete: bool,
}

impl Outcome {
    fn record(&mut self, event: Event) {
        match event {
            Event::Suite(Suite::Started { test_count }) => self.expected = test_count,
            Event::Suite(Suite::Ok { filtered_out } | Suite::Failed { filtered_out }) => {
                self.skipped += filtered_out;
                self.is_complete = true;
            }
            Event::Test(Test::Started { name }) => self.running.push(name),
            Event::Test(Test::Ok { name, exec_time }) => self.end(name, exec_time, None),
            Event::Test(Test::Failed { name, exec_time, stdout, message }) => {
                self.end(name, exec_time, Some(if stdout.is_empty() { message } else { stdout }));
            }
            Event::Test(Test::Ignored { name }) => {
                self.running.retain(|running| *running != name);
                self.skipped += 1;
                self.expected = self.expected.saturating_sub(1);
            }
            Event::Test(Test::Timeout { .. }) => {}
        }
    }

    fn end(&mut self, name: String, seconds: f64, failure: Option<String>) {
        self.running.retain(|running| *running != name);
        self.ended.push(Ended { name, seconds, failure });
    }

    /// Tests that never ended have failed, for this reason.
    fn close(&mut self, reason: &str) {
        for name in std::mem::take(&mut self.running) {
            self.ended.push(Ended { name, seconds: 0.0, failure: Some(reason.to_owned()) });
        }
        let missing = self.expected.saturating_sub(self.ended.len());
        if missing > 0 {
            let name = format!("({missing} more tests)");
            self.ended.push(Ended { name, seconds: 0.0, failure: Some(format!("did not run: {reason}")) });
        }
    }
}

/// Runs the selected tests on this many threads. What the programs under test print goes to `log`.
pub(super) fn run(executable: &Executable, selection: Selection, threads: usize, log: &Path) -> Result<Outcome> {
    let mut log = File::options().create(true).append(true).open(log).context("cannot write the log of a suite")?;
    let mut child = start(executable, selection, threads, &log)?;
    let (sender, lines) = mpsc::channel();
    let output = BufReader::new(child.stdout.take().context("standard output is a pipe")?);
    thread::spawn(move || {
        // Programs under test may print bytes that are no text.
        output.split(b'\n').map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let mut outcome = Outcome::default();
    let mut has_stalled = false;
    // A server that a test started may hold the pipe open after the executable has ended.
    while !outcome.is_complete {
        match lines.recv_timeout(STALL) {
            Ok(line) => match events::parse(&String::from_utf8_lossy(&line)) {
                Some(event) => outcome.record(event),
                None => log.write_all(&[&line[..], b"\n"].concat())?,
            },
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                has_stalled = true;
                break;
            }
        }
    }
    outcome.close(&end(&mut child, has_stalled)?);
    Ok(outcome)
}

fn start(executable: &Executable, selection: Selection, threads: usize, log: &File) -> Result<Child> {
    let mut command = Command::new(&executable.path);
    command.args(["-Z", "unstable-options", "--format", "json", "--report-time"]);
    command.arg(format!("--test-threads={threads}"));
    match selection {
        Selection::Gate => {}
        Selection::Ignored => drop(command.arg("--ignored")),
        Selection::Matching(text) => drop(command.args(["--include-ignored", text])),
        Selection::Only(name) => drop(command.args(["--include-ignored", "--exact", name])),
    }
    // The options above are unstable, and the version of Rust is fixed in rust-toolchain.toml.
    command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_MANIFEST_DIR", &executable.directory);
    command.current_dir(&executable.directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.try_clone()?);
    command.spawn().with_context(|| format!("cannot start {}", executable.path.display()))
}

/// Waits for its end, or kills it, and says how it ended. The watchdog of a killed process ends its servers.
fn end(child: &mut Child, has_stalled: bool) -> Result<String> {
    if has_stalled {
        child.kill()?;
        child.wait()?;
        return Ok(format!("nothing ended for {} s, so the suite was killed", STALL.as_secs()));
    }
    Ok(format!("the suite ended early ({})", child.wait()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_did_not_end_have_failed() {
        let mut outcome = Outcome::default();
        let name = |name: &str| name.to_owned();
        outcome.record(Event::Suite(Suite::Started { test_count: 5 }));
        outcome.record(Event::Test(Test::Ignored { name: name("slow") }));
        for test in ["good", "crashing"] {
            outcome.record(Event::Test(Test::Started { name: name(test) }));
        }
        outcome.record(Event::Test(Test::Ok { name: name("good"), exec_time: 0.1 }));
        outcome.close("signal: 6");
        let ended: Vec<_> = outcome.ended.iter().map(|test| (test.name.as_str(), test.failure.as_deref())).collect();
        let crashed = Some("signal: 6");
        let missing = ("(2 more tests)", Some("did not run: signal: 6"));
        assert_eq!(ended, [("good", None), ("crashing", crashed), missing]);
        assert_eq!(outcome.skipped, 1);
    }
}
