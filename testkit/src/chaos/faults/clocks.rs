//! Processes whose own clock is wrong: each reads by how much from a file of its own.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::time::timeout;

use super::Hand;
use crate::{Client, Kind, TempDir, chaos::schedule::Step};

/// By what a process finds its file.
pub(in crate::chaos) const CLOCK_OFFSET_FILE: &str = "CLOCK_OFFSET_FILE";
/// A clock that is off by no more than this is tolerated, in milliseconds.
const TOLERATED: i64 = 2000;
/// A process measures every 5 s; by then it must have noticed.
const NOTICED_WITHIN: Duration = Duration::from_secs(7);
/// One that is stopped gives no answer.
const ANSWERS_WITHIN: Duration = Duration::from_millis(400);

/// The files, by process.
#[derive(Debug)]
pub(in crate::chaos) struct Clocks(TempDir);

impl Clocks {
    pub(in crate::chaos) fn new() -> Result<Self> {
        Ok(Self(TempDir::new()?))
    }

    /// The file of a process. It need not be there: then the clock is right.
    pub(in crate::chaos) fn file(&self, kind: Kind, place: usize) -> PathBuf {
        self.0.path().join(format!("{}-{place}", kind.name()))
    }

    /// Sets a clock ahead by so many milliseconds, or back.
    fn set(&self, kind: Kind, place: usize, shift: i64) -> Result<()> {
        let (file, fresh) = (self.file(kind, place), self.0.path().join("fresh"));
        let sign = if shift < 0 { '-' } else { '+' };
        let by = shift.unsigned_abs();
        fs::write(&fresh, format!("{sign}{}.{:03}\n", by / 1000, by % 1000))?;
        // Whoever reads it reads the former one or this one.
        fs::rename(fresh, file)?;
        Ok(())
    }
}

/// A process that must say that it is not ready.
#[derive(Debug)]
pub(super) struct Watch {
    of: (Kind, usize),
    since: Instant,
    shift: i64,
    /// None until it has answered.
    ready: Option<bool>,
}

impl Hand<'_> {
    pub(super) fn shift_clock(&mut self, step: &Step, restarted: bool) -> Result<()> {
        let of = self.place(step);
        self.stage.clocks.set(of.0, of.1, step.shift)?;
        if restarted && !self.down.contains(&(of.0 as usize, of.1)) {
            self.process(of).relaunch()?;
        }
        println!("           the clock of {}-{} is off by {} s", of.0.name(), of.1, step.shift / 1000);
        if step.shift.abs() > TOLERATED {
            self.watches.push(Watch { of, since: Instant::now(), shift: step.shift, ready: None });
        }
        Ok(())
    }

    pub(super) fn set_clock_right(&mut self, step: &Step) -> Result<()> {
        let of = self.place(step);
        let (ended, others) = self.watches.drain(..).partition(|watch: &Watch| watch.of == of);
        self.watches = others;
        for Watch { shift, ready, .. } in ended {
            self.fired.asked_for_the_time += u64::from(ready.is_some());
            if ready == Some(true) {
                let name = format!("{}-{}", of.0.name(), of.1);
                self.fired.ready_with_a_wrong_clock.push(format!("{name} with a clock off by {} s", shift / 1000));
            }
        }
        self.stage.clocks.set(of.0, of.1, 0)
    }

    /// Asks those with a wrong clock whether they are ready, once they have had time to notice.
    pub(super) async fn ask_for_the_time(&mut self) -> Result<()> {
        for place in 0..self.watches.len() {
            let Watch { of: (kind, index), since, .. } = self.watches[place];
            if since.elapsed() < NOTICED_WITHIN {
                continue;
            }
            let url = self.stage.cluster.metrics_url(kind, index).replace("/metrics", "");
            let client = Client::new(&url)?;
            let Ok(Ok(answer)) = timeout(ANSWERS_WITHIN, client.get("/readyz")).await else { continue };
            let says_why = String::from_utf8_lossy(&answer.bytes).contains("clock");
            let watch = &mut self.watches[place];
            // Once it has said that it is ready, that stands. What it says while the database is away counts for nothing.
            if answer.status == 200 {
                watch.ready = Some(true);
            } else if says_why {
                watch.ready.get_or_insert(false);
            }
        }
        Ok(())
    }
}
