//! Runs many histories, on several lanes at a time. Each lane is a process.

use std::env;
use std::io::{self, BufRead as _, BufReader};
use std::ops::{ControlFlow, Range};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::generator::generate;
use crate::lane::Lane;
use crate::run::Report;

/// What a lane prints for each history.
#[derive(Debug, Deserialize, Serialize)]
pub struct Line {
    /// The history's seed.
    pub seed: u64,
    /// Its result.
    pub report: Report,
}

/// The histories of many seeds.
#[derive(Clone, Debug)]
pub struct Job {
    /// One for each history.
    pub seeds: Range<u64>,
    /// How many histories run at a time.
    pub lanes: u64,
    /// After how long no further history begins.
    pub limit: Option<Duration>,
    /// A rule of the protocol that is disabled.
    pub disabled: Option<&'static str>,
}

impl Job {
    /// Runs the histories until `each` breaks.
    ///
    /// # Errors
    /// If a lane fails.
    pub fn run(&self, mut each: impl FnMut(Line) -> ControlFlow<()>) -> Result<()> {
        let end = self.limit.map(|limit| Instant::now() + limit);
        let (sender, lines) = mpsc::channel();
        let mut lanes = Vec::new();
        // Each has a Postgres of its own.
        for number in 0..self.lanes.min(self.seeds.end - self.seeds.start) {
            let mut lane = self.spawn(number)?;
            let output = lane.stdout.take().context("a pipe")?;
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
            lanes.push(lane);
        }
        drop(sender);
        for line in &lines {
            let line = serde_json::from_str(&line).with_context(|| format!("a lane's report: {line}"))?;
            if each(line).is_break() || end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
        }
        for mut lane in lanes {
            // `wait` closes the lane's input, which ends it after the history that it is running.
            ensure!(lane.wait()?.success(), "a lane failed");
        }
        Ok(())
    }

    fn spawn(&self, number: u64) -> Result<Child> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--lane", &number.to_string(), "--lanes", &self.lanes.to_string()]);
        let count = self.seeds.end - self.seeds.start;
        command.args(["--first", &self.seeds.start.to_string(), "--seeds", &count.to_string()]);
        if let Some(rule) = self.disabled {
            command.env("DISABLED_RULES", rule);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("a lane")
    }

    /// Runs every `lanes`th history and prints a line for each, until its input is closed.
    ///
    /// # Errors
    /// If a history cannot be run.
    pub fn run_lane(&self, number: u64) -> Result<()> {
        let mut lane = Lane::start(number as usize)?;
        for seed in self.seeds.clone().skip(number as usize).step_by(self.lanes as usize) {
            if is_input_closed() {
                break;
            }
            let report = lane.run(&generate(seed), None)?;
            println!("{}", serde_json::to_string(&Line { seed, report })?);
        }
        Ok(())
    }
}

#[allow(unsafe_code)]
fn is_input_closed() -> bool {
    let mut input = libc::pollfd { fd: io::stdin().as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one valid entry; does not wait.
    unsafe { libc::poll(&raw mut input, 1, 0) };
    input.revents & libc::POLLHUP != 0
}
