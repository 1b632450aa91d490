//! Dashboards and alerts against a whole system that a Prometheus watches.

use std::{collections::BTreeSet, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::{Client, Cluster, Kind, Prometheus, TempDir, prometheus::configuration};
use tokio::time::sleep;

use crate::{
    commands,
    expressions::asked,
    files::{dashboards_folder, labels_in, targets},
    load,
    runbooks::runbooks,
};

/// What may be about to fire for a moment in a system that is well and has just been started. `TickMissing`: what is done once a
/// minute was done before Prometheus looked for the first time, and seems not to be done at all until it is done again.
/// `StatementsNotRead`: a statement is handed out before it is read.
const EARLY: [&str; 2] = ["TickMissing", "StatementsNotRead"];

/// How often panels are looked at before they count as empty.
const READINGS: usize = 40;

async fn watched(cluster: &Cluster, directory: &Path) -> Result<Prometheus> {
    let target = |kind: Kind| {
        let url = cluster.metrics_url(kind, 0);
        (kind.name().to_owned(), url.trim_start_matches("http://").to_owned())
    };
    let targets = [Kind::Api, Kind::Worker, Kind::Scheduler, Kind::Gateway].map(target);
    Prometheus::start(directory, &configuration(1, &targets, &dashboards_folder().join("alerts.yml"))).await
}

#[tokio::test]
async fn everything_shown_and_judged_is_there_in_a_running_system() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).gateway(1).start().await?;
    let directory = TempDir::new()?;
    let prometheus = watched(&cluster, directory.path()).await?;
    load::drive(&mut cluster).await?;
    every_panel_shows_something(&prometheus).await?;
    every_selector_and_label_is_there(&prometheus).await?;
    money_is_counted_by_currency(&prometheus).await?;
    every_series_says_what_it_is(&cluster).await?;
    no_rule_is_in_trouble_and_none_fires(&prometheus).await?;
    commands::every_command_that_is_told_is_known(&cluster).await?;
    every_query_of_a_runbook_is_answered(cluster.database_url()).await
}

async fn every_panel_shows_something(prometheus: &Prometheus) -> Result<()> {
    let mut left = targets()?;
    // Figures are published every five seconds, and a rate needs two readings.
    for _ in 0..READINGS {
        let mut empty = Vec::new();
        for target in left {
            let series = prometheus.query(&target.expression).await.context(target.place.clone())?;
            let shown = labels(&series);
            for label in labels_in(&target.legend, "") {
                assert!(series.is_empty() || shown.contains(&label), "{}: no {label} for its legend", target.place);
            }
            if series.is_empty() {
                empty.push(target);
            }
        }
        left = empty;
        if left.is_empty() {
            return Ok(());
        }
        sleep(Duration::from_millis(500)).await;
    }
    let left = left.iter().map(|target| format!("{}: {}", target.place, target.expression));
    bail!("panels that show nothing:\n  {}", Vec::from_iter(left).join("\n  "))
}

/// The labels of a result.
fn labels(series: &[Value]) -> BTreeSet<String> {
    let metrics = series.iter().filter_map(|series| series["metric"].as_object());
    metrics.flat_map(|metric| metric.keys().cloned()).collect()
}

async fn every_selector_and_label_is_there(prometheus: &Prometheus) -> Result<()> {
    let rules = prometheus.rules().await?;
    // What a rule tells is filled in with labels, which no tool checks.
    let of_rules = rules.iter().map(|rule| {
        let told = rule["annotations"].to_string();
        (rule["query"].as_str().unwrap_or_default().to_owned(), labels_in(&told, "$labels."))
    });
    let of_panels = targets()?.into_iter().map(|target| (target.expression, BTreeSet::new()));
    let (mut seen, mut missing) = (BTreeSet::new(), Vec::new());
    for (expression, told) in of_rules.chain(of_panels) {
        let asked = asked(&expression);
        let mut there = BTreeSet::new();
        for selector in asked.selectors {
            let series = prometheus.query(&selector).await?;
            if series.is_empty() {
                missing.push(format!("{selector} of {expression}"));
            }
            there.extend(labels(&series));
            seen.insert(selector);
        }
        let kept = if asked.labels.is_empty() { &there } else { &asked.labels };
        missing.extend(asked.labels.difference(&there).map(|label| format!("the label {label} of {expression}")));
        missing.extend(told.difference(kept).map(|label| format!("the label {label}, told with {expression}")));
    }
    assert!(missing.is_empty(), "nothing exports:\n  {}", missing.join("\n  "));
    assert!(seen.len() > 60, "only {} selectors were looked for", seen.len());
    Ok(())
}

/// What [`load::drive`] takes: three payments and an invoice; a decline and a hold count for nothing.
async fn money_is_counted_by_currency(prometheus: &Prometheus) -> Result<()> {
    let taken = prometheus.query("sum by (currency) (payments_captured_minor_units_total) > 0").await?;
    let shown: Vec<_> = taken.iter().map(|series| (&series["metric"]["currency"], &series["value"][1])).collect();
    assert_eq!(shown, [(&Value::from("USD"), &Value::from("3700"))]);
    Ok(())
}

/// Series that a process may export after a little of everything; the numbers are those found, and some room. What multiplies shows
/// here first.
const MOST_SERIES: [(Kind, usize); 4] =
    [(Kind::Api, 340), (Kind::Worker, 430), (Kind::Scheduler, 490), (Kind::Gateway, 330)];

async fn every_series_says_what_it_is(cluster: &Cluster) -> Result<()> {
    for (kind, most) in MOST_SERIES {
        let metrics = Client::new(&cluster.metrics_url(kind, 0))?.get("/metrics").await?;
        let text = String::from_utf8(metrics.bytes)?;
        let named = |mark: &str| -> BTreeSet<_> {
            text.lines().filter_map(|line| line.strip_prefix(mark)?.split(' ').next()).collect()
        };
        let (typed, helped) = (named("# TYPE "), named("# HELP "));
        assert_eq!(typed.difference(&helped).collect::<Vec<_>>(), Vec::<&&str>::new(), "{}: no # HELP", kind.name());
        let version = format!("build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
        assert!(text.lines().any(|line| line == version), "{} does not say {version}", kind.name());
        let series = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        assert!(series <= most, "{} exports {series} series, more than {most}", kind.name());
    }
    Ok(())
}

async fn no_rule_is_in_trouble_and_none_fires(prometheus: &Prometheus) -> Result<()> {
    // What has just fallen due makes a rule pending for as long as it takes to be done.
    let is_quiet = |rule: &Value| {
        let early = rule["name"].as_str().is_some_and(|name| EARLY.contains(&name));
        rule["state"] == "inactive" || (early && rule["state"] == "pending")
    };
    let quiet = async || {
        let rules = prometheus.rules().await?;
        for rule in rules.iter().filter(|rule| rule["health"] != "unknown") {
            assert_eq!((&rule["health"], &rule["lastError"]), (&"ok".into(), &Value::Null), "{}", rule["name"]);
            assert_ne!(rule["state"], "firing", "{} in a system that is well: {}", rule["name"], rule["alerts"]);
        }
        Ok(rules.iter().all(|rule| rule["health"] != "unknown" && is_quiet(rule)).then_some(rules))
    };
    let rules: Vec<Value> = load::eventually("each rule evaluated, and none in trouble", quiet).await?;
    assert!(rules.len() > 20, "only {} rules", rules.len());
    Ok(())
}

/// What stands in a runbook as SQL, which asks the server about itself: all else is a command. What it changes is taken back.
async fn every_query_of_a_runbook_is_answered(database_url: &str) -> Result<()> {
    let mut connection = PgConnection::connect(database_url).await?;
    let mut answered = 0;
    for (name, page) in runbooks()? {
        for query in page.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let mut transaction = connection.begin().await?;
            sqlx::raw_sql(AssertSqlSafe(query))
                .execute(&mut *transaction)
                .await
                .with_context(|| format!("{name}: {query}"))?;
            transaction.rollback().await?;
            answered += 1;
        }
    }
    assert!(answered >= 5, "only {answered} queries");
    Ok(())
}
