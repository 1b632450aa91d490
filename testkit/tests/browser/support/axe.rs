//! Accessibility checks with axe-core, <https://github.com/dequelabs/axe-core>, which only the tests install.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::{
    browser::{Device, Frame, Tab},
    integration_examples::package_file,
};
use tokio::sync::OnceCell;

const VERSION: &str = "4.14.1";
const INTEGRITY: &str =
    "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==";
/// Without frames, which are checked separately.
const RUN: &str = "axe.run(document, {iframes: false, resultTypes: ['violations']}).then(result => result.violations.map(
    rule => rule.id + ': ' + rule.help + ': ' + rule.nodes.map(node => node.target + ' ' + node.failureSummary).join('; ')))";

async fn script() -> Result<Option<&'static str>> {
    static SCRIPT: OnceCell<Option<String>> = OnceCell::const_new();
    let script = SCRIPT.get_or_try_init(|| async {
        let file = package_file("axe-core", VERSION, INTEGRITY, "axe.min.js").await?;
        file.map(|file| fs::read_to_string(&file).with_context(|| file.display().to_string())).transpose()
    });
    Ok(script.await?.as_deref())
}

/// Fails if the page violates a rule, in light or dark mode, on a desktop or a phone.
pub(crate) async fn assert_accessible(tab: &Tab, page: &Frame<'_>, what: &str) -> Result<()> {
    let Some(script) = script().await? else { return Ok(()) };
    if page.value("typeof axe === 'undefined'").await? == true {
        // The debugger evaluates the script, so the Content-Security-Policy of the page stays unchanged.
        page.value(&format!("{script}; null")).await?;
    }
    for (scheme, device) in [("light", Device::Desktop), ("dark", Device::Phone)] {
        tab.emulate_media("screen", &[("prefers-color-scheme", scheme), ("prefers-reduced-motion", "reduce")]).await?;
        tab.resize(device).await?;
        tab.screenshot_at_current_size(&format!("{what}-{scheme}")).await?;
        let violations = page.value(RUN).await?;
        let violations: Vec<_> = violations.as_array().context("a list")?.iter().filter_map(Value::as_str).collect();
        ensure!(violations.is_empty(), "{what}, {scheme}, {}:\n{}", device.name(), violations.join("\n"));
    }
    tab.emulate_media("", &[]).await
}
