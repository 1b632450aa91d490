//! Dashboards and alerts against a whole system that a Prometheus watches.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::{Cluster, Kind, Prometheus, TempDir, prometheus::configuration};

use crate::{
    expressions::asked,
    files::{dashboards_folder, expressions},
    load,
    runbooks::runbooks,
};

/// What may be about to fire for a moment in a system that is well and has just been started. `TickMissing`: what is done once a
/// minute was done before Prometheus looked for the first time, and seems not to be done at all until it is done again.
/// `StatementsNotRead`: a statement is handed out before it is read.
const EARLY: [&str; 2] = ["TickMissing", "StatementsNotRead"];

async fn watched(cluster: &Cluster, directory: &Path) -> Result<Prometheus> {
    let target = |kind: Kind| {
        let url = cluster.metrics_url(kind, 0);
        (kind.name().to_owned(), url.trim_start_matches("http://").to_owned())
    };
    let targets = [Kind::Api, Kind::Worker, Kind::Scheduler, Kind::Gateway].map(target);
    Prometheus::start(directory, &configuration(1, &targets, &dashboards_folder().join("alerts.yml"))).await
}

/// As Grafana would ask it.
fn filled_in(expression: &str) -> String {
    expression.replace("$__rate_interval", "1m")
}

#[tokio::test]
async fn everything_shown_and_judged_is_there_in_a_running_system() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).gateway(1).start().await?;
    let directory = TempDir::new()?;
    let prometheus = watched(&cluster, directory.path()).await?;
    load::drive(&cluster).await?;
    every_panel_shows_something(&prometheus).await?;
    every_selector_and_label_is_there(&prometheus).await?;
    no_rule_is_in_trouble_and_none_fires(&prometheus).await?;
    every_query_of_a_runbook_is_answered(cluster.database_url()).await
}

async fn every_panel_shows_something(prometheus: &Prometheus) -> Result<()> {
    let mut empty = BTreeSet::new();
    let mut asked_again = 0;
    loop {
        empty.clear();
        for (place, expression) in expressions()? {
            if prometheus.query(&filled_in(&expression)).await.context(place.clone())?.is_empty() {
                empty.insert(format!("{place}: {expression}"));
            }
        }
        // Figures are published every five seconds, and a rate needs two readings.
        asked_again += 1;
        if empty.is_empty() || asked_again > 30 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    assert!(empty.is_empty(), "panels that show nothing:\n  {}", Vec::from_iter(empty).join("\n  "));
    Ok(())
}

async fn every_selector_and_label_is_there(prometheus: &Prometheus) -> Result<()> {
    let rules = prometheus.rules().await?;
    let of_rules = rules.iter().filter_map(|rule| rule["query"].as_str()).map(str::to_owned);
    let of_panels = expressions()?.into_iter().map(|(_, expression)| filled_in(&expression));
    let (mut seen, mut missing) = (BTreeSet::new(), Vec::new());
    for expression in of_rules.chain(of_panels) {
        let asked = asked(&expression);
        let mut labels = BTreeSet::new();
        for selector in &asked.selectors {
            let series = prometheus.query(selector).await?;
            if series.is_empty() {
                missing.push(format!("{selector} of {expression}"));
            }
            let names =
                series.iter().filter_map(|series| series["metric"].as_object()).flat_map(|metric| metric.keys());
            labels.extend(names.cloned());
            seen.insert(selector.clone());
        }
        missing.extend(asked.labels.difference(&labels).map(|label| format!("the label {label} of {expression}")));
    }
    assert!(missing.is_empty(), "nothing exports:\n  {}", missing.join("\n  "));
    assert!(seen.len() > 60, "only {} selectors were looked for", seen.len());
    Ok(())
}

async fn no_rule_is_in_trouble_and_none_fires(prometheus: &Prometheus) -> Result<()> {
    let evaluated = async || {
        let rules = prometheus.rules().await?;
        Ok(rules.iter().all(|rule| rule["health"] != "unknown").then_some(rules))
    };
    let rules: Vec<Value> = load::eventually("an evaluation of each rule", evaluated).await?;
    assert!(rules.len() > 20, "only {} rules", rules.len());
    for rule in &rules {
        let (name, state) = (rule["name"].as_str().unwrap_or_default(), rule["state"].as_str().unwrap_or_default());
        assert_eq!((&rule["health"], &rule["lastError"]), (&"ok".into(), &Value::Null), "{name}");
        let fine = state == "inactive" || (state == "pending" && EARLY.contains(&name));
        assert!(fine, "{name} is {state} in a system that is well: {}", rule["alerts"]);
    }
    Ok(())
}

/// What stands in a runbook as SQL. What it changes is taken back.
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
    assert!(answered > 10, "only {answered} queries");
    Ok(())
}
