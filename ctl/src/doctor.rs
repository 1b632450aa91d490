//! `ctl doctor`: whether all is well. It ends with 0 if so, with 1 if something should be looked at, and with 2 if something
//! must be done now.

use std::time::Duration;

use anyhow::Result;
use common::db;
use common::flows::{self, Finding, Grade, clock_off};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::Ctl;
use crate::output::Output;

/// How long a small write may take.
const COMMITS_WITHIN: Duration = Duration::from_secs(5);

pub(crate) async fn run(ctl: &Ctl) -> Result<Output> {
    let mut found = Vec::new();
    match migrations::standing(&ctl.db).await {
        Ok(standing) => {
            found.push(Finding::ok("postgres", "answers"));
            found.push(commits(ctl).await);
            found.push(schema(&standing));
        }
        Err(error) => found.push(Finding::of(
            "postgres",
            Grade::Bad,
            format!("cannot be asked: {error:#}"),
            "start it, or mend DATABASE_URL; if it is new, run migrate",
        )),
    }
    redis(ctl, &mut found).await;
    // Without the schema nothing else can be asked.
    if found.iter().all(|finding| !matches!(finding.check, "postgres" | "migrations") || finding.grade != Grade::Bad) {
        let asked = async {
            let mut findings = flows::examine(&ctl.db, &ctl.clock).await?;
            findings.extend(flows::examine_keys(&ctl.db, &ctl.keys).await?);
            Ok::<_, common::error::Error>(findings)
        };
        match asked.await {
            Ok(findings) => found.extend(findings),
            Err(error) => found.push(Finding::of(
                "examination",
                Grade::Bad,
                format!("was broken off: {error}"),
                "look at the log of Postgres",
            )),
        }
    }
    let worst = found.iter().map(|finding| finding.grade).max().unwrap_or(Grade::Ok);
    let lines = found.iter().map(line).collect();
    let output = Output::new(vec![
        ("verdict", json!(worst.name())),
        ("checks", found.iter().map(|finding| finding_of(finding).into_json()).collect::<Value>()),
    ]);
    Ok(output.lines(lines).exit(worst as u8))
}

/// It reads all the same while it commits nothing, so all the rest would look well.
async fn commits(ctl: &Ctl) -> Finding {
    let written = async { db::commits(&mut *ctl.db.acquire().await?).await };
    let (check, advice) = ("commits", "docs/runbooks/postgres.md: it lacks its standby, or was demoted");
    match timeout(COMMITS_WITHIN, written).await {
        Ok(Ok(true)) => Finding::ok(check, "are made"),
        Ok(Ok(false)) => Finding::of(check, Grade::Bad, "nothing may be written", advice),
        Ok(Err(error)) => Finding::of(check, Grade::Bad, format!("fail: {error}"), advice),
        Err(_) => Finding::of(check, Grade::Bad, format!("do not end within {COMMITS_WITHIN:?}"), advice),
    }
}

fn schema(standing: &migrations::Standing) -> Finding {
    let list = |versions: &[i64]| versions.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let (check, bad) = ("migrations", Grade::Bad);
    if !standing.unfinished.is_empty() {
        let advice = "a migration broke off: restore, or mend it by hand, before anything else";
        return Finding::of(check, bad, format!("unfinished: {}", list(&standing.unfinished)), advice);
    }
    if !standing.changed.is_empty() {
        let advice = "the schema was made by another build: run the ctl of the version that runs";
        return Finding::of(check, bad, format!("other text than ours: {}", list(&standing.changed)), advice);
    }
    if !standing.missing.is_empty() {
        return Finding::of(check, bad, format!("not applied: {}", list(&standing.missing)), "run migrate");
    }
    if !standing.unknown.is_empty() {
        let advice = "the database is of a newer version: run its ctl";
        return Finding::of(
            check,
            Grade::Warn,
            format!("not known to this build: {}", list(&standing.unknown)),
            advice,
        );
    }
    Finding::ok(check, "all are applied")
}

async fn redis(ctl: &Ctl, found: &mut Vec<Finding>) {
    let Some(publisher) = ctl.db.publisher() else {
        let advice = "set REDIS_URL to have it asked";
        return found.push(Finding::of("redis", Grade::Ok, "not asked: REDIS_URL is not set", advice));
    };
    let before = ctl.clock.now().as_millisecond();
    let tried = async {
        let time = publisher.time().await?;
        publisher.ping().await.map(|()| time)
    };
    match tried.await {
        Ok(theirs) => {
            let ours = i64::midpoint(before, ctl.clock.now().as_millisecond());
            let theirs = i64::try_from(theirs).unwrap_or(i64::MAX);
            found.push(Finding::ok("redis", "answers"));
            found.push(clock_off("clock of redis", (ours - theirs) as f64 / 1000.0));
        }
        Err(error) => found.push(Finding::of(
            "redis",
            Grade::Bad,
            format!("does not answer, or takes nothing: {error}"),
            "start it, or see what it refuses; payments go on without it, and take seconds",
        )),
    }
}

fn finding_of(finding: &Finding) -> Output {
    let advice = (!finding.advice.is_empty()).then_some(finding.advice);
    Output::new(vec![
        ("check", json!(finding.check)),
        ("grade", json!(finding.grade.name())),
        ("says", json!(finding.says)),
        ("advice", json!(advice)),
    ])
}

fn line(finding: &Finding) -> String {
    let (grade, check, says) = (finding.grade.name(), finding.check, &finding.says);
    let advice = if finding.grade == Grade::Ok { String::new() } else { format!("\n{:31}→ {}", "", finding.advice) };
    format!("{grade:<4}  {check:<23}  {says}{advice}")
}
