//! Workers that are stopped during charges and send their requests late.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use sqlx::PgPool;
use tokio::time::sleep;

use super::{mock::Mock, processes};
use crate::{ProcessKind, chaos::system::System};

#[derive(Default)]
pub(super) struct LateSends {
    /// The references of the charges that were in progress when a worker was stopped, by worker.
    in_progress_at_stop: BTreeMap<usize, Vec<String>>,
}

impl LateSends {
    /// Stops a worker between the gate and the mock's ledger, where a high latency of the mock keeps it. Returns false
    /// if it must be retried.
    pub(super) async fn stop_during_charge(
        &mut self,
        system: &mut System,
        mock: &mut Mock,
        worker: usize,
    ) -> Result<bool> {
        if !mock.set_latency(system, "6000").await {
            return Ok(false);
        }
        sleep(Duration::from_millis(1800)).await;
        processes::process(system, (ProcessKind::Worker, worker)).pause()?;
        self.in_progress_at_stop.insert(worker, charges_in_progress(&system.db).await.unwrap_or_default());
        mock.reset_latency(system).await;
        Ok(true)
    }

    /// Records what the worker sends right after it is resumed: it was about to send it when it was stopped.
    pub(super) async fn resume(&mut self, system: &mut System, worker: usize) -> Result<()> {
        let in_progress = self.in_progress_at_stop.remove(&worker).unwrap_or_default();
        // If Postgres is unavailable, this worker's late sends are not counted.
        let watched = finished_elsewhere(&system.db, in_progress).await.unwrap_or_default();
        system.proxies.postgres[worker].watch(watched);
        processes::process(system, (ProcessKind::Worker, worker)).resume()
    }
}

/// Charges in progress at the mock that are not in its ledger yet. Some belong to the worker just stopped.
async fn charges_in_progress(db: &PgPool) -> Result<Vec<String>> {
    let in_progress = sqlx::query_scalar(
        "SELECT o.reference FROM operations o JOIN provider_accounts p ON p.id = o.provider_account_id
         WHERE o.state = 'sending' AND p.provider = 'mock' AND o.kind IN ('sale', 'authorize')
           AND NOT EXISTS (SELECT FROM mock.transactions t WHERE t.account = p.id AND t.reference = o.reference)",
    );
    Ok(in_progress.fetch_all(db).await?)
}

/// Those of the references that other workers have finished or given up: no worker has a reason to send them now.
async fn finished_elsewhere(db: &PgPool, references: Vec<String>) -> Result<Vec<String>> {
    let finished = sqlx::query_scalar(
        "SELECT reference FROM operations
         WHERE reference = ANY ($1) AND (finished_at IS NOT NULL OR (state = 'unknown' AND next_push_at IS NULL))",
    );
    Ok(finished.bind(references).fetch_all(db).await?)
}
