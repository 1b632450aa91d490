//! The dashboards as they stand in `dashboards/`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::Value;

/// What every panel asks, under the variable that names the data source.
const SOURCE: &str = "${datasource}";

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit lies in the repository").to_owned()
}

pub(crate) fn dashboards_folder() -> PathBuf {
    root().join("dashboards")
}

/// Every dashboard by the name of its file.
fn dashboards() -> Result<Vec<(String, Value)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dashboards_folder())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.push((name.clone(), serde_json::from_slice(&fs::read(path)?).context(name)?));
        }
    }
    assert!(found.len() >= 5, "only {} dashboards", found.len());
    Ok(found)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// What a panel asks.
pub(crate) struct Target {
    /// The dashboard and the panel.
    pub(crate) place: String,
    /// As Grafana would ask it.
    pub(crate) expression: String,
    /// How what comes back is called.
    pub(crate) legend: String,
}

/// Variables that narrow what a dashboard shows, and the label that each is compared with.
const NARROWED_BY: [&str; 4] = ["instance", "provider", "currency", "account"];

/// As Grafana asks it while every variable is "All".
fn as_asked(expression: &str) -> String {
    let all = |text: String, name: &str| text.replace(&format!("${name}"), ".*");
    NARROWED_BY.into_iter().fold(expression.replace("$__rate_interval", "1m"), all)
}

/// What all panels ask.
pub(crate) fn targets() -> Result<Vec<Target>> {
    let mut found = Vec::new();
    for (name, dashboard) in dashboards()? {
        for panel in list(&dashboard, "panels") {
            found.extend(list(panel, "targets").iter().map(|target| Target {
                place: format!("{name}, {}", text(panel, "/title")),
                expression: as_asked(text(target, "/expr")),
                legend: text(target, "/legendFormat").to_owned(),
            }));
        }
    }
    assert!(found.len() > 30, "only {} targets", found.len());
    Ok(found)
}

/// The names between `{{` and `}}`, with this before each.
pub(crate) fn labels_in(text: &str, mark: &str) -> BTreeSet<String> {
    let inside = text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    let named = inside.flat_map(|inside| inside.split_whitespace()).filter_map(|word| word.strip_prefix(mark));
    named.map(str::to_owned).collect()
}

/// The runbook that a text names, if it does, such as `redis`.
pub(crate) fn runbook(text: &str) -> Option<&str> {
    text.split("docs/runbooks/").nth(1)?.split(".md").next()
}

#[test]
fn every_dashboard_can_be_loaded() -> Result<()> {
    let (mut uids, mut titles) = (BTreeSet::new(), BTreeSet::new());
    for (name, dashboard) in dashboards()? {
        assert!(uids.insert(text(&dashboard, "/uid").to_owned()), "{name}: the uid is another's");
        assert!(titles.insert(text(&dashboard, "/title").to_owned()), "{name}: the title is another's");
        assert!(!text(&dashboard, "/uid").is_empty() && !text(&dashboard, "/title").is_empty(), "{name} has no name");
        assert!(list(&dashboard, "tags").contains(&Value::from("unified-payments")), "{name} lacks our tag");
        assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 39), "{name}: schemaVersion");
        let variables = list(&dashboard["templating"], "list");
        let source = variables.iter().find(|variable| variable["name"] == "datasource").context("no datasource")?;
        assert_eq!((&source["type"], &source["query"]), (&"datasource".into(), &"prometheus".into()), "{name}");
    }
    Ok(())
}

#[test]
fn every_dashboard_is_narrowed_by_its_variables() -> Result<()> {
    for (name, dashboard) in dashboards()? {
        let variables = list(&dashboard["templating"], "list");
        let asked: BTreeSet<_> =
            variables.iter().filter(|one| one["type"] == "query").map(|one| text(one, "/name")).collect();
        assert!(asked.contains("instance") && asked.iter().all(|one| NARROWED_BY.contains(one)), "{name}: {asked:?}");
        let expressions: Vec<_> = list(&dashboard, "panels")
            .iter()
            .flat_map(|panel| list(panel, "targets"))
            .map(|target| text(target, "/expr"))
            .collect();
        for variable in &asked {
            let by = format!("{variable}=~\"${variable}\"");
            assert!(
                expressions.iter().any(|expression| expression.contains(&by)),
                "{name}: nothing is narrowed by {variable}"
            );
        }
        for expression in &expressions {
            assert!(expression.contains("instance=~\"$instance\""), "{name}: {expression} shows every instance");
            let others = NARROWED_BY.iter().filter(|one| !asked.contains(*one));
            others.for_each(|one| assert!(!expression.contains(&format!("${one}")), "{name} has no variable {one}"));
        }
    }
    let told = dashboards()?.into_iter().find(|(name, _)| name == "payments.json").context("payments")?.1;
    for about in ["payments_captured_minor_units_total", "payments_refunded_minor_units_total", "Approval rate"] {
        assert!(told.to_string().contains(about), "nothing shows {about}");
    }
    Ok(())
}

#[test]
fn every_panel_says_what_it_shows_and_what_a_bad_value_means() -> Result<()> {
    for (name, dashboard) in dashboards()? {
        let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
        for panel in list(&dashboard, "panels") {
            let title = text(panel, "/title");
            let place = format!("{name}, {title}");
            assert!(!title.is_empty(), "{name} has a panel without a title");
            assert!(ids.insert(panel["id"].as_u64()), "{place}: its id is another's");
            assert!(!text(panel, "/fieldConfig/defaults/unit").is_empty(), "{place} has no unit");
            let said = text(panel, "/description");
            let runbook = runbook(said).with_context(|| format!("{place} names no runbook"))?;
            assert!(root().join(format!("docs/runbooks/{runbook}.md")).is_file(), "{place}: no runbook {runbook}");
            assert!(!list(panel, "targets").is_empty(), "{place} asks nothing");
            for asks in std::iter::once(panel).chain(list(panel, "targets")) {
                if asks["datasource"].is_object() || asks["id"].is_u64() {
                    assert_eq!(text(asks, "/datasource/uid"), SOURCE, "{place} asks a data source of its own");
                }
            }
            let at =
                |side: &str| panel["gridPos"][side].as_u64().with_context(|| format!("{place}: no gridPos.{side}"));
            let (x, y) = (at("x")?, at("y")?);
            for cell in (x..x + at("w")?).flat_map(|x| (y..y + at("h").unwrap_or(1)).map(move |y| (x, y))) {
                assert!(cell.0 < 24, "{place} reaches over the edge");
                assert!(places.insert(cell), "{place} lies upon another panel");
            }
        }
    }
    Ok(())
}
