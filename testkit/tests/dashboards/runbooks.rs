//! Every alert has a section in a runbook and every runbook an alert; each alert is tested both firing and silent.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context, Result};
use testkit::prometheus::promtool;

use crate::files::{dashboards_folder, root};

/// The alerts by name, with the text of their rules.
fn alerts() -> Result<BTreeMap<String, String>> {
    let rules = fs::read_to_string(dashboards_folder().join("alerts.yml"))?;
    let named = |part: &str| {
        let name = part.lines().next().unwrap_or_default().trim();
        (name.to_owned(), part.to_owned())
    };
    let alerts: BTreeMap<_, _> = rules.split("- alert: ").skip(1).map(named).collect();
    assert!(alerts.len() > 20, "only {} alerts", alerts.len());
    Ok(alerts)
}

/// The runbooks by name.
pub(crate) fn runbooks() -> Result<BTreeMap<String, String>> {
    let mut runbooks = BTreeMap::new();
    for entry in fs::read_dir(root().join("docs/runbooks"))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        runbooks.insert(name, fs::read_to_string(path)?);
    }
    Ok(runbooks)
}

/// The severity of an alert that does not page for test accounts, up to its first brace.
const BY_MODE: &str = "'{{ if eq $labels.mode \"test\" ";

/// The link of every alert to its runbook. An external label of Prometheus has the base URL.
const RUNBOOK_URL: &str = "runbook_url: '{{ $externalLabels.runbooks }}/";

#[test]
fn every_alert_links_to_a_runbook_and_every_runbook_has_an_alert() -> Result<()> {
    let (alerts, runbooks) = (alerts()?, runbooks()?);
    let mut linked = BTreeSet::new();
    for (name, alert) in &alerts {
        let severity = alert.split("severity: ").nth(1).and_then(|rest| rest.split('}').next());
        assert!(matches!(severity, Some("page" | "ticket" | BY_MODE)), "{name}: severity {severity:?}");
        let url = alert.lines().find_map(|line| line.trim().strip_prefix(RUNBOOK_URL));
        let page = url.with_context(|| format!("{name} has no annotation that begins with {RUNBOOK_URL}"))?;
        let (runbook, anchor) = page.split_once(".md#").with_context(|| format!("{name}: no page and anchor"))?;
        assert_eq!(anchor.trim_end_matches('\''), name.to_lowercase(), "{name} links to another section");
        let page = runbooks.get(runbook).with_context(|| format!("{name}: there is no runbook {runbook}"))?;
        assert!(page.lines().any(|line| line == format!("## {name}")), "{runbook} has no heading {name}");
        linked.insert(runbook.to_owned());
    }
    let example = fs::read_to_string(dashboards_folder().join("prometheus.yml"))?;
    assert!(example.contains("external_labels: {runbooks: 'https://"), "prometheus.yml has no external label runbooks");
    assert_eq!(linked, runbooks.keys().cloned().collect(), "linked runbooks and existing runbooks differ");
    let headings = runbooks.values().flat_map(|page| page.lines()).filter_map(|line| line.strip_prefix("## "));
    for heading in headings.filter(|heading| !heading.contains(' ')) {
        assert!(alerts.contains_key(heading), "a runbook has a section {heading}, which is no alert");
    }
    Ok(())
}

/// The rule tests of promtool: when alerts fire and when they do not.
const RULE_TESTS: [&str; 2] = ["alerts_test.yml", "alerts_processes_test.yml"];

#[test]
fn every_alert_is_tested_firing_and_silent() -> Result<()> {
    let tests = RULE_TESTS.map(|file| fs::read_to_string(dashboards_folder().join(file)));
    let tests = tests.into_iter().collect::<Result<String, _>>()?;
    for name in alerts()?.keys() {
        let tests_of_alert =
            || tests.split("  - name: ").skip(1).filter(|test| test.lines().next() == Some(name.as_str()));
        assert!(tests_of_alert().any(|test| test.contains("exp_samples: []")), "{name} is never expected to be silent");
        let fires = format!(r#"alertname="{name}""#);
        assert!(tests_of_alert().any(|test| test.contains(&fires)), "{name} is never expected to fire");
    }
    Ok(())
}

#[test]
fn promtool_accepts_the_rules_their_tests_and_the_configuration() -> Result<()> {
    let folder = dashboards_folder();
    promtool(&folder, &["check", "rules", "alerts.yml"])?;
    promtool(&folder, &["check", "config", "prometheus.yml"])?;
    promtool(&folder, &[&["test", "rules"], &RULE_TESTS[..]].concat()).map(drop)
}
