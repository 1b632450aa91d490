//! Checks of the files in `dashboards/`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::Value;

/// The data source of every panel: the variable of the dashboard.
const DATA_SOURCE: &str = "${datasource}";

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit is in the repository").to_owned()
}

pub(crate) fn dashboards_folder() -> PathBuf {
    root().join("dashboards")
}

/// Every dashboard, with the name of its file.
fn dashboards() -> Result<Vec<(String, Value)>> {
    let mut dashboards = Vec::new();
    for entry in fs::read_dir(dashboards_folder())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            dashboards.push((name.clone(), serde_json::from_slice(&fs::read(path)?).context(name)?));
        }
    }
    assert!(dashboards.len() >= 5, "only {} dashboards", dashboards.len());
    Ok(dashboards)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A query of a panel.
pub(crate) struct Target {
    /// The dashboard and the panel.
    pub(crate) place: String,
    /// The expression, with Grafana's variables substituted.
    pub(crate) expression: String,
    pub(crate) legend: String,
}

/// Variables that filter a dashboard; each has the name of the label that it is compared with.
const FILTERS: [&str; 4] = ["instance", "provider", "currency", "account"];

/// The expression that Grafana sends while every variable is "All".
fn substituted(expression: &str) -> String {
    let all = |text: String, name: &str| text.replace(&format!("${name}"), ".*");
    FILTERS.into_iter().fold(expression.replace("$__rate_interval", "1m"), all)
}

/// The queries of all panels.
pub(crate) fn targets() -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for (name, dashboard) in dashboards()? {
        for panel in list(&dashboard, "panels") {
            targets.extend(list(panel, "targets").iter().map(|target| Target {
                place: format!("{name}, {}", text(panel, "/title")),
                expression: substituted(text(target, "/expr")),
                legend: text(target, "/legendFormat").to_owned(),
            }));
        }
    }
    assert!(targets.len() > 30, "only {} targets", targets.len());
    Ok(targets)
}

/// The names between `{{` and `}}` that have this prefix, without it.
pub(crate) fn labels_in(text: &str, prefix: &str) -> BTreeSet<String> {
    let inside = text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    let named = inside.flat_map(|inside| inside.split_whitespace()).filter_map(|word| word.strip_prefix(prefix));
    named.map(str::to_owned).collect()
}

/// The runbook that a text links to, for example `redis`.
pub(crate) fn runbook(text: &str) -> Option<&str> {
    text.split("docs/runbooks/").nth(1)?.split(".md").next()
}

#[test]
fn every_dashboard_has_what_grafana_needs() -> Result<()> {
    let (mut uids, mut titles) = (BTreeSet::new(), BTreeSet::new());
    for (name, dashboard) in dashboards()? {
        assert!(uids.insert(text(&dashboard, "/uid").to_owned()), "{name}: duplicate uid");
        assert!(titles.insert(text(&dashboard, "/title").to_owned()), "{name}: duplicate title");
        assert!(
            !text(&dashboard, "/uid").is_empty() && !text(&dashboard, "/title").is_empty(),
            "{name} has no uid or title"
        );
        assert!(
            list(&dashboard, "tags").contains(&Value::from("unified-payments")),
            "{name} has no tag unified-payments"
        );
        assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 39), "{name}: schemaVersion");
        let variables = list(&dashboard["templating"], "list");
        let source = variables.iter().find(|variable| variable["name"] == "datasource").context("no datasource")?;
        assert_eq!((&source["type"], &source["query"]), (&"datasource".into(), &"prometheus".into()), "{name}");
    }
    Ok(())
}

#[test]
fn every_dashboard_is_filtered_by_its_variables() -> Result<()> {
    for (name, dashboard) in dashboards()? {
        let variables = list(&dashboard["templating"], "list");
        let filters: BTreeSet<_> = variables
            .iter()
            .filter(|variable| variable["type"] == "query")
            .map(|variable| text(variable, "/name"))
            .collect();
        assert!(filters.contains("instance"), "{name}: {filters:?}");
        assert!(filters.iter().all(|filter| FILTERS.contains(filter)), "{name}: {filters:?}");
        let expressions: Vec<_> = list(&dashboard, "panels")
            .iter()
            .flat_map(|panel| list(panel, "targets"))
            .map(|target| text(target, "/expr"))
            .collect();
        for variable in &filters {
            let by = format!("{variable}=~\"${variable}\"");
            assert!(
                expressions.iter().any(|expression| expression.contains(&by)),
                "{name}: nothing is filtered by {variable}"
            );
        }
        for expression in &expressions {
            assert!(expression.contains("instance=~\"$instance\""), "{name}: {expression} is not filtered by instance");
            let undefined = FILTERS.iter().filter(|filter| !filters.contains(*filter));
            undefined.for_each(|filter| {
                assert!(!expression.contains(&format!("${filter}")), "{name} has no variable {filter}");
            });
        }
    }
    let payments = dashboards()?.into_iter().find(|(name, _)| name == "payments.json").context("payments")?.1;
    for content in ["payments_captured_minor_units_total", "payments_refunded_minor_units_total", "Approval rate"] {
        assert!(payments.to_string().contains(content), "payments.json does not show {content}");
    }
    Ok(())
}

#[test]
fn every_panel_has_a_title_a_unit_a_runbook_and_its_own_place() -> Result<()> {
    for (name, dashboard) in dashboards()? {
        let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
        for panel in list(&dashboard, "panels") {
            let title = text(panel, "/title");
            let place = format!("{name}, {title}");
            assert!(!title.is_empty(), "{name} has a panel without a title");
            assert!(ids.insert(panel["id"].as_u64()), "{place}: duplicate id");
            assert!(!text(panel, "/fieldConfig/defaults/unit").is_empty(), "{place} has no unit");
            let description = text(panel, "/description");
            let runbook = runbook(description).with_context(|| format!("{place} links to no runbook"))?;
            assert!(root().join(format!("docs/runbooks/{runbook}.md")).is_file(), "{place}: no runbook {runbook}");
            assert!(!list(panel, "targets").is_empty(), "{place} has no query");
            for query in std::iter::once(panel).chain(list(panel, "targets")) {
                if query["datasource"].is_object() || query["id"].is_u64() {
                    assert_eq!(text(query, "/datasource/uid"), DATA_SOURCE, "{place} uses another data source");
                }
            }
            let at =
                |side: &str| panel["gridPos"][side].as_u64().with_context(|| format!("{place}: no gridPos.{side}"));
            let (x, y) = (at("x")?, at("y")?);
            for cell in (x..x + at("w")?).flat_map(|x| (y..y + at("h").unwrap_or(1)).map(move |y| (x, y))) {
                assert!(cell.0 < 24, "{place} exceeds the grid of 24 columns");
                assert!(places.insert(cell), "{place} overlaps another panel");
            }
        }
    }
    Ok(())
}
