//! Processes with a wrong clock, and whether they report it.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::time::timeout;

use super::processes::ProcessId;
use crate::{
    Client,
    chaos::{fault_log::FaultLog, system::System},
};

/// Offsets up to this many milliseconds are tolerated.
const TOLERANCE: i64 = 2000;
/// A process compares its clock every 5 s; by then it must have noticed.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(7);
/// A stopped process does not respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(400);

/// A process that must report that it is not ready.
struct Watch {
    process: ProcessId,
    since: Instant,
    shift: i64,
    /// `None` until it has responded.
    ready: Option<bool>,
}

#[derive(Default)]
pub(super) struct WrongClocks(Vec<Watch>);

impl WrongClocks {
    pub(super) fn shift(&mut self, system: &System, process: ProcessId, shift: i64) -> Result<()> {
        system.clock_files.set(process.0, process.1, shift)?;
        println!("           the clock of {}-{} is off by {} s", process.0.name(), process.1, shift / 1000);
        if shift.abs() > TOLERANCE {
            self.0.push(Watch { process, since: Instant::now(), shift, ready: None });
        }
        Ok(())
    }

    pub(super) fn reset(&mut self, system: &System, process: ProcessId, fault_log: &mut FaultLog) -> Result<()> {
        for Watch { shift, ready, .. } in self.0.extract_if(.., |watch| watch.process == process) {
            fault_log.clock_checks += u64::from(ready.is_some());
            if ready == Some(true) {
                let name = format!("{}-{}", process.0.name(), process.1);
                fault_log.ready_with_wrong_clock.push(format!("{name} with a clock off by {} s", shift / 1000));
            }
        }
        system.clock_files.set(process.0, process.1, 0)
    }

    /// Queries the readiness of processes with a wrong clock, once they have had time to notice.
    pub(super) async fn check(&mut self, system: &System) -> Result<()> {
        for watch in self.0.iter_mut().filter(|watch| watch.since.elapsed() >= NOTICE_TIMEOUT) {
            let url = system.cluster.metrics_url(watch.process.0, watch.process.1).replace("/metrics", "");
            let client = Client::new(&url)?;
            let Ok(Ok(response)) = timeout(RESPONSE_TIMEOUT, client.get("/readyz")).await else { continue };
            let gives_reason = String::from_utf8_lossy(&response.bytes).contains("clock");
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
