//! Processes that are told where to fail.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use testkit::{Cluster, Kind, Process};
use tokio::time::{Instant, sleep};

use super::table::By;

/// Beyond the lease of 20 s and a sweep.
pub(super) const PAUSE: Duration = Duration::from_secs(26);
/// How long a story may take to its point.
const PATIENCE: Duration = Duration::from_secs(40);
const SIGABRT: i32 = 6;

/// What the process does at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Abort,
    Pause,
    Error,
}

impl Action {
    /// `point` with this action, so many times.
    pub(super) fn at(self, point: &str, times: usize) -> String {
        let told = match self {
            Self::Abort => "abort".to_owned(),
            Self::Pause => format!("pause={}", PAUSE.as_millis()),
            Self::Error => "error".to_owned(),
        };
        format!("{point}={times}*return({told})")
    }
}

/// A process of a cluster that was told so.
pub(super) struct Faulty {
    place: usize,
    log: PathBuf,
    /// Where it is asked, if it is an api.
    pub(super) url: String,
}

impl Faulty {
    pub(super) async fn start(cluster: &mut Cluster, by: By, points: &str) -> Result<Self> {
        let kind = match by {
            By::Api => Kind::Api,
            By::Worker => Kind::Worker,
            By::Scheduler => Kind::Scheduler,
        };
        cluster.set_env("FAILPOINTS", points);
        match cluster.add(kind).await {
            // What is due ends it before it has said that it is ready.
            Err(_) if by == By::Scheduler => {}
            added => added.map(drop)?,
        }
        cluster.set_env("FAILPOINTS", "");
        let place = cluster.processes().len() - 1;
        let process = &cluster.processes()[place];
        let (log, url) = (process.log_path().to_owned(), process.api_url());
        Ok(Self { place, log, url })
    }

    /// Returns when it has come by this point so often.
    pub(super) async fn hits(&self, point: &str, times: usize) -> Result<()> {
        hits(&self.log, point, times).await
    }

    pub(super) fn log(&self) -> PathBuf {
        self.log.clone()
    }

    pub(super) fn process<'a>(&self, cluster: &'a mut Cluster) -> &'a mut Process {
        &mut cluster.processes()[self.place]
    }

    /// Waits until it has aborted, and does not believe another end.
    pub(super) async fn aborts(&self, cluster: &mut Cluster) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process(cluster).ended()? {
                assert_eq!(status.signal(), Some(SIGABRT), "{status}");
                return Ok(());
            }
            if Instant::now() >= until {
                bail!("it did not abort");
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Returns when the log tells that a process has come by this point so often.
pub(super) async fn hits(log: &Path, point: &str, times: usize) -> Result<()> {
    let line = format!("failpoint point=\"{point}\"");
    let until = Instant::now() + PATIENCE;
    loop {
        let told = std::fs::read_to_string(log).unwrap_or_default();
        if told.matches(&line).count() >= times {
            return Ok(());
        }
        if Instant::now() >= until {
            bail!("nobody came by for the {times}. time; {}", log.display());
        }
        sleep(Duration::from_millis(20)).await;
    }
}
