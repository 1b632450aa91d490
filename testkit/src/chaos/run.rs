//! One run of a system, from its start to the report.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use super::{
    check, evidence,
    fault::Fault,
    faults::FaultInjector,
    ledger,
    load::{self, state::LoadState},
    quiet,
    report::Report,
    schedule::{Plan, steps},
    system::System,
    system_config::SystemConfig,
    upgrade,
};
use crate::process::Programs;

/// What to run.
pub(super) struct Run {
    pub(super) config: SystemConfig,
    pub(super) plan: Plan,
    pub(super) faults: bool,
    pub(super) timeout: Duration,
    /// The folder with the programs of the previous release, to test an upgrade from it.
    pub(super) previous: Option<PathBuf>,
}

/// The result of a run.
pub(super) struct RunResult {
    pub(super) violations: usize,
    pub(super) is_inconclusive: bool,
}

/// Runs a system, and keeps its database and logs if it violates an invariant.
pub(super) async fn run_and_keep_evidence(run: &Run, folder: &Path, name: &str) -> Result<RunResult> {
    println!("seed {}, {} s of load", run.plan.seed, run.plan.load.as_secs());
    let mut system = System::start(run.config, run.previous.as_deref()).await?;
    let load = Arc::new(LoadState::new(&system.access(), &folder.join(format!("{name}.requests.jsonl")))?);
    let outcome = run_phases(run, &mut system, &load, &folder.join(format!("{name}.json"))).await;
    if outcome.as_ref().map_or(true, |run_result| run_result.violations > 0) {
        keep_evidence(&mut system, &folder.join(format!("{name}.kept"))).await;
    }
    outcome
}

async fn run_phases(run: &Run, system: &mut System, load: &Arc<LoadState>, report_path: &Path) -> Result<RunResult> {
    if run.previous.is_some() {
        let unsupported =
            Fault::NEWLY_SUPPORTED.map(|fault| (fault, "the previous release may not support it".to_owned()));
        system.left_out.extend(unsupported);
    }
    let left_out = system.left_out.clone();
    let steps = if run.faults { steps(&run.plan, &left_out) } else { Vec::new() };
    for step in &steps {
        let offset = if step.shift == 0 { String::new() } else { format!(", by {} ms", step.shift) };
        println!(
            "  {:6.1} s  {} #{}, for {:.1} s{offset}",
            step.at.as_secs_f64(),
            step.fault.name(),
            step.target,
            step.duration.as_secs_f64()
        );
    }
    let clients = load::start(load, run.plan.seed)?;
    load::warm_up(load, &clients).await;
    let previous = run.previous.as_deref().map(Programs::in_folder);
    let upgrade_result = match &previous {
        Some(previous) => Some(upgrade::run_without_faults(system, load, previous).await?),
        None => None,
    };
    // In an upgrade, killed processes restart as the new release.
    let release = previous.map(|_| Programs::own()).transpose()?;
    let fault_log = FaultInjector::new(system, release).run(&steps, &run.plan).await?;
    load::finish(load, clients).await;
    if upgrade_result.is_some() {
        upgrade::finish(system, load).await?;
    }
    let quiet = quiet::wait_until_quiet(system, run.timeout).await?;
    let mut evidence = evidence::gather(&system.access(), load.journal.entries(), &quiet).await?;
    evidence.search(&system.access(), &system.traces().await?).await?;
    evidence.add_fault_log(&fault_log);
    let mut findings = check::check(&evidence);
    if run.previous.is_none() {
        findings.extend(check::check_current_release(&evidence));
    }
    findings.extend(upgrade_result.as_ref().map(|observations| upgrade::check(observations, &evidence.requests)));
    let lost_responses = Some(ledger::charges_with_lost_response(system).await?);
    let report = Report {
        plan: &run.plan,
        left_out: &left_out,
        fault_log: &fault_log,
        lost_responses,
        quiet: quiet.duration,
        evidence: &evidence,
        findings: &findings,
        upgrade: upgrade_result.as_ref(),
    };
    report.print();
    report.write(report_path, &system.shops)?;
    Ok(RunResult { violations: report.violations(), is_inconclusive: !report.missing_coverage().is_empty() })
}

/// Copies the database and the logs.
async fn keep_evidence(system: &mut System, folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    let copied = async {
        for process in system.cluster.processes() {
            process.kill9()?;
        }
        let postgres = system.cluster.postgres.as_mut().context("the system has no Postgres of its own")?;
        postgres.stop().await?;
        fs::create_dir_all(folder)?;
        for from in [system.data.clone(), system.cluster.logs().to_owned()] {
            let status = std::process::Command::new("cp").arg("-a").arg(&from).arg(folder).status()?;
            ensure!(status.success(), "cannot copy {}", from.display());
        }
        anyhow::Ok(())
    };
    match copied.await {
        Ok(()) => println!("copied the database and the logs to {}", folder.display()),
        Err(error) => println!("cannot copy the database and the logs: {error:#}"),
    }
}
