//! Processes with a wrong clock: each reads its offset from its own file.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::time::timeout;

use super::FaultInjector;
use crate::{Client, ProcessKind, TempDir, chaos::schedule::Step};

/// The environment variable with the path of the file.
pub(in crate::chaos) const CLOCK_OFFSET_FILE: &str = "CLOCK_OFFSET_FILE";
/// Offsets up to this many milliseconds are tolerated.
const TOLERANCE: i64 = 2000;
/// A process compares its clock every 5 s; by then it must have noticed.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(7);
/// A stopped process does not respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(400);

/// The offset files of all processes.
#[derive(Debug)]
pub(in crate::chaos) struct Clocks(TempDir);

impl Clocks {
    pub(in crate::chaos) fn new() -> Result<Self> {
        Ok(Self(TempDir::new()?))
    }

    /// The file of a process. If it does not exist, the clock is right.
    pub(in crate::chaos) fn file(&self, kind: ProcessKind, index: usize) -> PathBuf {
        self.0.path().join(format!("{}-{index}", kind.name()))
    }

    /// Sets the offset of a clock in milliseconds.
    fn set(&self, kind: ProcessKind, index: usize, shift: i64) -> Result<()> {
        let (file, new_file) = (self.file(kind, index), self.0.path().join("fresh"));
        let sign = if shift < 0 { '-' } else { '+' };
        let by = shift.unsigned_abs();
        fs::write(&new_file, format!("{sign}{}.{:03}\n", by / 1000, by % 1000))?;
        // Atomically, so that a reader sees the old offset or the new one.
        fs::rename(new_file, file)?;
        Ok(())
    }
}

/// A process that must report that it is not ready.
#[derive(Debug)]
pub(super) struct ClockWatch {
    process: (ProcessKind, usize),
    since: Instant,
    shift: i64,
    /// `None` until it has responded.
    ready: Option<bool>,
}

impl FaultInjector<'_> {
    pub(super) fn shift_clock(&mut self, step: &Step, restart: bool) -> Result<()> {
        let process = self.target_process(step);
        self.system.clocks.set(process.0, process.1, step.shift)?;
        if restart && !self.killed.contains(&(process.0 as usize, process.1)) {
            self.process(process).relaunch()?;
        }
        println!("           the clock of {}-{} is off by {} s", process.0.name(), process.1, step.shift / 1000);
        if step.shift.abs() > TOLERANCE {
            self.clock_watches.push(ClockWatch { process, since: Instant::now(), shift: step.shift, ready: None });
        }
        Ok(())
    }

    pub(super) fn reset_clock(&mut self, step: &Step) -> Result<()> {
        let process = self.target_process(step);
        let (removed, remaining) =
            self.clock_watches.drain(..).partition(|watch: &ClockWatch| watch.process == process);
        self.clock_watches = remaining;
        for ClockWatch { shift, ready, .. } in removed {
            self.fault_log.clock_checks += u64::from(ready.is_some());
            if ready == Some(true) {
                let name = format!("{}-{}", process.0.name(), process.1);
                self.fault_log.ready_with_wrong_clock.push(format!("{name} with a clock off by {} s", shift / 1000));
            }
        }
        self.system.clocks.set(process.0, process.1, 0)
    }

    /// Queries the readiness of processes with a wrong clock, once they have had time to notice.
    pub(super) async fn check_wrong_clocks(&mut self) -> Result<()> {
        for position in 0..self.clock_watches.len() {
            let ClockWatch { process: (kind, index), since, .. } = self.clock_watches[position];
            if since.elapsed() < NOTICE_TIMEOUT {
                continue;
            }
            let url = self.system.cluster.metrics_url(kind, index).replace("/metrics", "");
            let client = Client::new(&url)?;
            let Ok(Ok(response)) = timeout(RESPONSE_TIMEOUT, client.get("/readyz")).await else { continue };
            let gives_reason = String::from_utf8_lossy(&response.bytes).contains("clock");
            let watch = &mut self.clock_watches[position];
            // A 200 is final. Being unready for another reason, such as an unavailable database, does not count.
            if response.status == 200 {
                watch.ready = Some(true);
            } else if gives_reason {
                watch.ready.get_or_insert(false);
            }
        }
        Ok(())
    }
}
