//! Processes with configured failpoints.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use testkit::{Cluster, Process, ProcessKind};
use tokio::time::{Instant, sleep};

use super::table::By;
use crate::support::failpoint_hits;

/// The least time for which a process pauses: longer than the lease of 20 s and a sweep.
pub(super) const PAUSE: Duration = Duration::from_secs(26);
/// How long a scenario may take to reach its failpoint.
const TIMEOUT: Duration = Duration::from_secs(60);
const SIGABRT: i32 = 6;

/// What the process does at its failpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Abort,
    Pause,
    Error,
}

impl Action {
    /// The configuration of `point` with this action, `times` times. A pause ends when the file `resume` exists, or, in
    /// an api whose client waits, after [`PAUSE`].
    pub(super) fn at(self, point: &str, times: usize, by: By, resume: &Path) -> String {
        let action = match self {
            Self::Abort => "abort".to_owned(),
            Self::Pause if by == By::Api => format!("pause={}", PAUSE.as_millis()),
            Self::Pause => format!("hold={}", resume.display()),
            Self::Error => "error".to_owned(),
        };
        format!("{point}={times}*return({action})")
    }
}

/// A process of a cluster with configured failpoints.
pub(super) struct Faulty {
    index: usize,
    log: PathBuf,
    /// Its address, if it is an api.
    pub(super) url: String,
}

impl Faulty {
    pub(super) async fn start(cluster: &mut Cluster, by: By, points: &str) -> Result<Self> {
        let kind = match by {
            By::Api => ProcessKind::Api,
            By::Worker => ProcessKind::Worker,
            By::Scheduler => ProcessKind::Scheduler,
        };
        cluster.set_env("FAILPOINTS", points);
        match cluster.add(kind).await {
            // Due work may make it abort before it is ready.
            Err(_) if by == By::Scheduler => {}
            added => added.map(drop)?,
        }
        cluster.set_env("FAILPOINTS", "");
        let index = cluster.processes().len() - 1;
        let process = &cluster.processes()[index];
        let (log, url) = (process.log_path().to_owned(), process.api_url());
        Ok(Self { index, log, url })
    }

    /// Waits until it has hit this failpoint `times` times.
    pub(super) async fn hits(&self, point: &str, times: usize) -> Result<()> {
        failpoint_hits(&self.log, point, times).await
    }

    pub(super) fn log(&self) -> PathBuf {
        self.log.clone()
    }

    pub(super) fn process<'a>(&self, cluster: &'a mut Cluster) -> &'a mut Process {
        &mut cluster.processes()[self.index]
    }

    /// Waits until it has aborted. Any other exit fails.
    pub(super) async fn aborts(&self, cluster: &mut Cluster) -> Result<()> {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.process(cluster).exit_status()? {
                assert_eq!(status.signal(), Some(SIGABRT), "{status}");
                return Ok(());
            }
            if Instant::now() >= until {
                bail!("the process did not abort");
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}
