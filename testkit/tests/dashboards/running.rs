//! Runs the queries of dashboards, alerts and runbooks on a whole system that Prometheus scrapes.

use std::{collections::BTreeSet, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::{Client, Cluster, ProcessKind, Prometheus, TempDir, eventually, prometheus::configuration};
use tokio::time::sleep;

use crate::{
    commands,
    expressions::references,
    files::{dashboards_folder, labels_in, targets},
    load,
    outages::PROCESSES,
    runbooks::runbooks,
};

/// Alerts that may be pending shortly after the start of a healthy system. `TickMissing`: a tick that runs once a
/// minute ran before the first scrape, so it seems missing until it runs again. `StatementsNotRead`: a statement is
/// available before it is read. `PaymentsSlow`: a machine under load is slow, and the rule looks back ten minutes.
const PENDING_AT_START: [&str; 3] = ["TickMissing", "StatementsNotRead", "PaymentsSlow"];

/// How often an empty panel is queried, every half second, before the test fails.
const MAX_POLLS: usize = 120;

async fn start_prometheus(cluster: &Cluster, directory: &Path) -> Result<Prometheus> {
    let target = |kind: ProcessKind| {
        let url = cluster.metrics_url(kind, 0);
        (kind.name().to_owned(), url.trim_start_matches("http://").to_owned())
    };
    let targets = PROCESSES.map(target);
    Prometheus::start(directory, &configuration(1, &targets, &dashboards_folder().join("alerts.yml"))).await
}

#[tokio::test]
async fn every_panel_rule_command_and_query_works_on_a_running_system() -> Result<()> {
    let cluster = Cluster::builder().api(1).portal(1).worker(1).scheduler(1).gateway(1);
    // As in production: a rule watches how much of the pool is used.
    let mut cluster = cluster.env("DATABASE_POOL", "16").start().await?;
    let directory = TempDir::new()?;
    let prometheus = start_prometheus(&cluster, directory.path()).await?;
    load::drive(&mut cluster).await?;
    every_panel_has_data(&prometheus).await?;
    every_selector_and_label_exists(&prometheus).await?;
    money_is_counted_by_currency(&prometheus).await?;
    metrics_have_help_version_and_few_series(&cluster).await?;
    every_rule_is_healthy_and_none_fires(&prometheus).await?;
    commands::every_documented_command_exists(&cluster).await?;
    every_runbook_query_runs(cluster.database_url()).await
}

async fn every_panel_has_data(prometheus: &Prometheus) -> Result<()> {
    let mut remaining = targets()?;
    // Gauges are published every five seconds, and a rate needs two samples.
    for _ in 0..MAX_POLLS {
        let mut empty = Vec::new();
        for target in remaining {
            let series = prometheus.query(&target.expression).await.context(target.place.clone())?;
            let labels = labels(&series);
            for label in labels_in(&target.legend, "") {
                assert!(series.is_empty() || labels.contains(&label), "{}: the legend needs {label}", target.place);
            }
            if series.is_empty() {
                empty.push(target);
            }
        }
        remaining = empty;
        if remaining.is_empty() {
            return Ok(());
        }
        sleep(Duration::from_millis(500)).await;
    }
    let empty = remaining.iter().map(|target| format!("{}: {}", target.place, target.expression));
    bail!("panels without data:\n  {}", Vec::from_iter(empty).join("\n  "))
}

/// The labels of all series.
fn labels(series: &[Value]) -> BTreeSet<String> {
    let metrics = series.iter().filter_map(|series| series["metric"].as_object());
    metrics.flat_map(|metric| metric.keys().cloned()).collect()
}

async fn every_selector_and_label_exists(prometheus: &Prometheus) -> Result<()> {
    let rules = prometheus.rules().await?;
    // Annotations contain labels, which promtool does not check.
    let of_rules = rules.iter().map(|rule| {
        let annotations = rule["annotations"].to_string();
        (rule["query"].as_str().unwrap_or_default().to_owned(), labels_in(&annotations, "$labels."))
    });
    let of_panels = targets()?.into_iter().map(|target| (target.expression, BTreeSet::new()));
    let (mut seen, mut missing) = (BTreeSet::new(), Vec::new());
    for (expression, annotated) in of_rules.chain(of_panels) {
        let references = references(&expression);
        let mut existing = BTreeSet::new();
        for selector in references.selectors {
            let series = prometheus.query(&selector).await?;
            if series.is_empty() {
                missing.push(format!("{selector} of {expression}"));
            }
            existing.extend(labels(&series));
            seen.insert(selector);
        }
        let result = if references.labels.is_empty() { &existing } else { &references.labels };
        missing
            .extend(references.labels.difference(&existing).map(|label| format!("the label {label} of {expression}")));
        missing.extend(
            annotated.difference(result).map(|label| format!("the label {label} in annotations of {expression}")),
        );
    }
    assert!(missing.is_empty(), "no process exports:\n  {}", missing.join("\n  "));
    assert!(seen.len() > 60, "only {} selectors were checked", seen.len());
    Ok(())
}

/// The captured amount of [`load::drive`]: three payments and an invoice, without the decline.
async fn money_is_counted_by_currency(prometheus: &Prometheus) -> Result<()> {
    let captured = prometheus.query("sum by (currency) (payments_captured_minor_units_total) > 0").await?;
    let totals: Vec<_> = captured.iter().map(|series| (&series["metric"]["currency"], &series["value"][1])).collect();
    assert_eq!(totals, [(&Value::from("USD"), &Value::from("3700"))]);
    Ok(())
}

/// The maximum series of each process after this load: the measured number plus a margin. A label with too many values
/// fails here first.
const MAX_SERIES: [(ProcessKind, usize); 5] = [
    (ProcessKind::Api, 420),
    (ProcessKind::Portal, 400),
    (ProcessKind::Worker, 700),
    (ProcessKind::Scheduler, 570),
    (ProcessKind::Gateway, 330),
];

async fn metrics_have_help_version_and_few_series(cluster: &Cluster) -> Result<()> {
    for (kind, max) in MAX_SERIES {
        let metrics = Client::new(&cluster.metrics_url(kind, 0))?.get("/metrics").await?;
        let text = String::from_utf8(metrics.bytes)?;
        let named = |mark: &str| -> BTreeSet<_> {
            text.lines().filter_map(|line| line.strip_prefix(mark)?.split(' ').next()).collect()
        };
        let (typed, helped) = (named("# TYPE "), named("# HELP "));
        assert_eq!(typed.difference(&helped).collect::<Vec<_>>(), Vec::<&&str>::new(), "{}: no # HELP", kind.name());
        let version = format!("build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
        assert!(text.lines().any(|line| line == version), "{} does not export {version}", kind.name());
        let series = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        assert!(series <= max, "{} exports {series} series, more than {max}", kind.name());
    }
    Ok(())
}

async fn every_rule_is_healthy_and_none_fires(prometheus: &Prometheus) -> Result<()> {
    // The others may be pending for a moment, for example if a process did not respond to one scrape.
    let is_quiet = |rule: &Value| {
        let may_be_pending = rule["name"].as_str().is_some_and(|name| PENDING_AT_START.contains(&name));
        rule["state"] == "inactive" || (may_be_pending && rule["state"] == "pending")
    };
    let quiet = async || {
        let rules = prometheus.rules().await?;
        for rule in rules.iter().filter(|rule| rule["health"] != "unknown") {
            assert_eq!((&rule["health"], &rule["lastError"]), (&"ok".into(), &Value::Null), "{}", rule["name"]);
            assert_ne!(rule["state"], "firing", "{} fires in a healthy system: {}", rule["name"], rule["alerts"]);
        }
        Ok(rules.iter().all(|rule| rule["health"] != "unknown" && is_quiet(rule)).then_some(rules))
    };
    let rules: Vec<Value> = eventually("every rule evaluated and healthy", quiet).await?;
    assert!(rules.len() > 20, "only {} rules", rules.len());
    Ok(())
}

/// Runs the SQL of every runbook in a transaction and rolls it back.
async fn every_runbook_query_runs(database_url: &str) -> Result<()> {
    let mut connection = PgConnection::connect(database_url).await?;
    let mut count = 0;
    for (name, page) in runbooks()? {
        for query in page.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let mut transaction = connection.begin().await?;
            sqlx::raw_sql(AssertSqlSafe(query))
                .execute(&mut *transaction)
                .await
                .with_context(|| format!("{name}: {query}"))?;
            transaction.rollback().await?;
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} queries");
    Ok(())
}
