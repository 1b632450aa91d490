//! `./dev chaos --containers`: the composition of compose.yaml on a Docker daemon of its own, under the same load and
//! judged by the same checker. First its containers have faults; then all are replaced, and no request may fail.

mod deployment;
mod plan;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use tokio::time::sleep;

use self::{
    deployment::{Deployment, SETTINGS},
    plan::{Action, KINDS, ROUND, Step},
};
use super::{
    check, evidence,
    fault_log::{FaultLog, Window},
    load::{self, state::LoadState},
    quiet,
    report::Report,
    schedule::{Minimums, Plan},
    upgrade,
};
use crate::docker::{self, Docker, Image};

/// How long the faults last if nothing else is requested.
pub(super) const LOAD: Duration = Duration::from_secs(2 * ROUND.as_secs());
/// A container gets another address with a network. After 30 s of silence on its former connections the process exits
/// and is started again.
const SILENCE: Duration = Duration::from_secs(45);

/// Runs the program again where a Docker daemon can be started, and there the composition. Says so if this machine
/// cannot start one.
pub(super) async fn command(plan: &Plan, image: Image, arguments: &[String], folder: &Path) -> Result<()> {
    ensure!(plan.load >= ROUND, "each fault occurs once in {} s, so the load cannot be shorter", ROUND.as_secs());
    let Some(docker) = docker::started_inside(SETTINGS, image)? else { return outside(image, arguments) };
    println!("seed {}, {} s of load with faults", plan.seed, plan.load.as_secs());
    let plan = Plan { kinds: &KINDS, minimums: Minimums::default(), ..*plan };
    let violations = run(docker, &plan, folder).await?;
    ensure!(violations == 0, "{violations} invariant violations");
    Ok(())
}

fn outside(image: Image, arguments: &[String]) -> Result<()> {
    if let Some(why) = docker::unsupported() {
        eprintln!("SKIPPED: compose.yaml was not run, because no Docker daemon can be started: {why}");
        return Ok(());
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let status = docker::inside(&arguments, image, Command::status)?;
    ensure!(status.success(), "the run on Docker exited with {status}");
    Ok(())
}

/// Runs the composition and returns the number of violations. If there are any, or it fails, keeps logs and database.
async fn run(docker: Docker, plan: &Plan, folder: &Path) -> Result<usize> {
    let (logs, kept) = (folder.join("containers.logs"), folder.join("containers.kept"));
    for former in [&logs, &kept] {
        let _ = fs::remove_dir_all(former);
    }
    fs::create_dir_all(&logs)?;
    let mut deployment = Deployment::start(docker).await?;
    let outcome = run_phases(&mut deployment, plan, folder, &logs).await;
    if outcome.as_ref().map_or(true, |violations| *violations > 0) {
        match deployment.keep(&kept) {
            Ok(()) => println!("wrote the logs and the database to {}", kept.display()),
            Err(error) => println!("cannot write the logs and the database: {error:#}"),
        }
    }
    outcome
}

async fn run_phases(deployment: &mut Deployment, plan: &Plan, folder: &Path, logs: &Path) -> Result<usize> {
    let load = Arc::new(LoadState::new(&deployment.access(), &folder.join("containers.requests.jsonl"))?);
    let steps = plan::steps(plan.seed, plan.load);
    let clients = load::start(&load, plan.seed)?;
    load::warm_up(&load, &clients).await;
    let outcome = change(deployment, &load, &steps, logs).await;
    load::finish(&load, clients).await;
    let (fault_log, replacement) = outcome?;
    deployment.save_logs(logs, "end.log")?;
    let quiet = quiet::wait_until_done(&deployment.db, quiet::TIMEOUT).await?;
    let mut evidence = evidence::gather(&deployment.access(), load.journal.entries(), &quiet).await?;
    evidence.search(&deployment.access(), &deployment.traces(logs)?).await?;
    evidence.add_fault_log(&fault_log);
    let mut findings = [check::check(&evidence), check::check_current_release(&evidence)].concat();
    findings.retain(|finding| !check::NOT_OF_CONTAINERS.contains(&finding.invariant));
    let invariant = "no request failed while all containers were replaced";
    findings.push(upgrade::no_request_failed(invariant, replacement, &evidence.requests));
    let report = Report {
        plan,
        left_out: &BTreeMap::new(),
        fault_log: &fault_log,
        lost_responses: None,
        quiet: quiet.duration,
        evidence: &evidence,
        findings: &findings,
        upgrade: None,
    };
    report.print();
    report.write(&folder.join("containers.json"), &deployment.shops)?;
    Ok(report.violations())
}

/// Injects the faults, waits until their effects have ended, and replaces all containers: the log of the faults, and when
/// the replacement began and ended.
async fn change(
    deployment: &mut Deployment,
    load: &LoadState,
    steps: &[Step],
    logs: &Path,
) -> Result<(FaultLog, (i64, i64))> {
    let mut fault_log = inject(deployment, steps).await?;
    load.full_timeouts.store(true, Ordering::Relaxed);
    sleep(SILENCE).await;
    deployment.recover().await?;
    fault_log.unexpected_exits = deployment.unexpected_exits(steps)?;
    deployment.save_logs(logs, "faults.log")?;
    println!("replacing all containers");
    let began = deployment.clock.now();
    deployment.replace_all()?;
    let ended = deployment.clock.now();
    println!("all containers were replaced in {} s", (ended - began) / 1000);
    fault_log.unexpected_exits.extend(deployment.unexpected_exits(&[])?);
    Ok((fault_log, (began, ended)))
}

/// Begins and ends each fault in time.
async fn inject(deployment: &Deployment, steps: &[Step]) -> Result<FaultLog> {
    let began = Instant::now();
    let never = i64::MAX;
    let windows = steps.iter().map(|step| Window { fault: step.fault, from: never, to: never }).collect();
    let mut fault_log = FaultLog { windows, ..FaultLog::default() };
    let phases = steps.iter().enumerate();
    let phases = phases.flat_map(|(index, step)| [(step.at, index, false), (step.at + step.duration, index, true)]);
    let mut phases: Vec<(Duration, usize, bool)> = phases.collect();
    phases.sort_unstable();
    for (at, index, ends) in phases {
        sleep(at.saturating_sub(began.elapsed())).await;
        let (step, window) = (&steps[index], &mut fault_log.windows[index]);
        if ends {
            deployment.end(step).await?;
            let silence = if matches!(step.action, Action::Disconnect(_)) { SILENCE } else { Duration::ZERO };
            window.to = deployment.clock.now() + i64::try_from(silence.as_millis())?;
            continue;
        }
        let Step { action, service, container, duration, .. } = step;
        let line =
            format!("{:7.1} s  {action:?} {service} #{container}, {} ms", at.as_secs_f64(), duration.as_millis());
        println!("{line}");
        fault_log.timeline.push(line);
        *fault_log.counts.entry(step.fault).or_default() += 1;
        window.from = deployment.clock.now();
        deployment.begin(step).await?;
    }
    Ok(fault_log)
}
