//! axe-core looks at a page: <https://github.com/dequelabs/axe-core>, which is installed for the tests alone.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::{
    browser::{Device, Frame, Tab},
    examples::file_of_package,
};
use tokio::sync::OnceCell;

const VERSION: &str = "4.14.1";
/// What is within another document is looked at by itself.
const RUN: &str = "axe.run(document, {iframes: false, resultTypes: ['violations']}).then(found => found.violations.map(
    rule => rule.id + ': ' + rule.help + ': ' + rule.nodes.map(node => node.target + ' ' + node.failureSummary).join('; ')))";

async fn script() -> Result<Option<&'static str>> {
    static SCRIPT: OnceCell<Option<String>> = OnceCell::const_new();
    let script = SCRIPT.get_or_try_init(|| async {
        let file = file_of_package("axe-core", VERSION, "axe.min.js").await?;
        file.map(|file| fs::read_to_string(&file).with_context(|| file.display().to_string())).transpose()
    });
    Ok(script.await?.as_deref())
}

/// It violates no rule, in light and in dark, on a desktop and on a phone.
pub(crate) async fn is_accessible(tab: &Tab, page: &Frame<'_>, what: &str) -> Result<()> {
    let Some(script) = script().await? else { return Ok(()) };
    // The debugger runs it beside the page, whose policy stays as it is.
    page.value(&format!("{script}; null")).await?;
    for (scheme, device) in [("light", Device::Desktop), ("dark", Device::Phone)] {
        tab.prefer("screen", &[("prefers-color-scheme", scheme), ("prefers-reduced-motion", "reduce")]).await?;
        tab.resize(device).await?;
        tab.picture_as_it_is(&format!("{what}-{scheme}")).await?;
        let found = page.value(RUN).await?;
        let found: Vec<_> = found.as_array().context("a list")?.iter().filter_map(Value::as_str).collect();
        ensure!(found.is_empty(), "{what}, {scheme}, {}:\n{}", device.name(), found.join("\n"));
    }
    tab.prefer("", &[]).await
}
