//! `ctl doctor`: checks the system's health. Exits with 0 if it is healthy, with 1 if something needs attention, and
//! with 2 if something needs immediate action.

use std::time::Duration;

use anyhow::Result;
use foundation::db;
use operator::Finding;
use operator::Severity;
use operator::clock_off;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::Ctl;
use crate::output::Output;

/// How long a test commit may take.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn run(ctl: &Ctl) -> Result<Output> {
    let mut findings = Vec::new();
    match migrations::status(&ctl.db).await {
        Ok(status) => {
            findings.push(Finding::ok("postgres", "responds"));
            findings.push(commits(ctl).await);
            findings.push(schema(&status));
        }
        Err(error) => findings.push(Finding::of(
            "postgres",
            Severity::Bad,
            format!("cannot be queried: {error:#}"),
            "start it, or correct DATABASE_URL; if it is new, run migrate",
        )),
    }
    redis(ctl, &mut findings).await;
    // The other checks need the schema.
    let is_usable =
        |finding: &Finding| !matches!(finding.check, "postgres" | "migrations") || finding.severity != Severity::Bad;
    if findings.iter().all(is_usable) {
        let examined = async {
            let mut findings = operator::examine(&ctl.db, &ctl.clock).await?;
            findings.extend(operator::examine_keys(&ctl.db, &ctl.keys).await?);
            Ok::<_, foundation::error::Error>(findings)
        };
        match examined.await {
            Ok(examined) => findings.extend(examined),
            Err(error) => findings.push(Finding::of(
                "examination",
                Severity::Bad,
                format!("failed: {error}"),
                "check the log of Postgres",
            )),
        }
    }
    let worst = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok);
    let lines = findings.iter().flat_map(lines).collect();
    let output = Output::new(vec![
        ("verdict", json!(worst.name())),
        ("checks", findings.iter().map(|finding| check(finding).into_json()).collect::<Value>()),
    ]);
    Ok(output.lines(lines).exit(worst as u8))
}

/// Postgres can serve reads while it commits nothing; the other checks would then pass.
async fn commits(ctl: &Ctl) -> Finding {
    let committed = async { db::can_commit(&mut *ctl.db.acquire().await?).await };
    let (check, advice) = ("commits", "docs/runbooks/postgres.md: it waits for its standby, or was demoted");
    match timeout(COMMIT_TIMEOUT, committed).await {
        Ok(Ok(true)) => Finding::ok(check, "succeed"),
        Ok(Ok(false)) => Finding::of(check, Severity::Bad, "the database is read-only", advice),
        Ok(Err(error)) => Finding::of(check, Severity::Bad, format!("fail: {error}"), advice),
        Err(_) => Finding::of(check, Severity::Bad, format!("do not finish within {COMMIT_TIMEOUT:?}"), advice),
    }
}

fn schema(status: &migrations::MigrationStatus) -> Finding {
    let list = |versions: &[i64]| versions.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let (check, bad) = ("migrations", Severity::Bad);
    if !status.unfinished.is_empty() {
        let advice = "a migration was interrupted: restore the database or repair it by hand before anything else";
        return Finding::of(check, bad, format!("unfinished: {}", list(&status.unfinished)), advice);
    }
    if !status.changed.is_empty() {
        let advice = "another build created the schema: use the ctl of the running version";
        return Finding::of(check, bad, format!("applied with another text: {}", list(&status.changed)), advice);
    }
    if !status.missing.is_empty() {
        return Finding::of(check, bad, format!("not applied: {}", list(&status.missing)), "run migrate");
    }
    if !status.unknown.is_empty() {
        let advice = "the database belongs to a newer version: use its ctl";
        return Finding::of(check, Severity::Warn, format!("unknown to this build: {}", list(&status.unknown)), advice);
    }
    Finding::ok(check, "all are applied")
}

async fn redis(ctl: &Ctl, findings: &mut Vec<Finding>) {
    let Some(publisher) = ctl.db.publisher() else {
        let advice = "set REDIS_URL to check it";
        return findings.push(Finding::of("redis", Severity::Ok, "not checked: REDIS_URL is not set", advice));
    };
    let before = ctl.clock.now().as_millisecond();
    let checked = async {
        let time = publisher.time().await?;
        publisher.ping().await.map(|()| time)
    };
    match checked.await {
        Ok(redis_time) => {
            let our_time = i64::midpoint(before, ctl.clock.now().as_millisecond());
            let redis_time = i64::try_from(redis_time).unwrap_or(i64::MAX);
            findings.push(Finding::ok("redis", "responds"));
            findings.push(clock_off("clock of redis", (our_time - redis_time) as f64 / 1000.0));
        }
        Err(error) => findings.push(Finding::of(
            "redis",
            Severity::Bad,
            format!("does not respond, or rejects writes: {error}"),
            "start it, or find out why it rejects writes; payments continue without it, but take seconds",
        )),
    }
}

fn check(finding: &Finding) -> Output {
    let advice = (!finding.advice.is_empty()).then_some(finding.advice);
    Output::new(vec![
        ("check", json!(finding.check)),
        ("grade", json!(finding.severity.name())),
        ("message", json!(finding.message)),
        ("advice", json!(advice)),
    ])
}

fn lines(finding: &Finding) -> impl Iterator<Item = String> {
    let (severity, check, message) = (finding.severity.name(), finding.check, &finding.message);
    let advice = (finding.severity != Severity::Ok).then(|| format!("{:31}→ {}", "", finding.advice));
    [format!("{severity:<4}  {check:<23}  {message}")].into_iter().chain(advice)
}
