//! Screenshots. The tests of pages fail if typing, clicking or reading does not work.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::browser::{Device, Site, browse};

const FIELDS: &str = r#"<!doctype html><html lang="en"><title>Fields</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<label for="a">First</label><input id="a" required>
<label for="b">Second</label><input id="b" aria-invalid="true" aria-describedby="why"><p id="why">Too short</p>
<select id="c" aria-label="Country"><option value="">-<option value="DE">Germany<option value="US">United States</select>
<button id="go" type="button" onclick="result.textContent = a.value + '/' + b.value + '/' + c.value">Go</button>
<p id="result" role="status"></p></html>"#;

#[tokio::test]
async fn screenshots_are_taken_at_both_sizes() -> Result<()> {
    let wide = r#"<!doctype html><meta name="viewport" content="width=device-width"><p style="width: 500px">Wide</p>"#;
    let site = Site::start()?.page("/", FIELDS).page("/wide", wide);
    browse(Device::Phone, async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.origin()).await?;
        tab.screenshot("fields").await?;
        for (device, width) in [("desktop", 1280), ("phone", 390)] {
            let name = format!("harness_tests.actions.screenshots_are_taken_at_both_sizes-fields-{device}.png");
            let target = std::env::current_exe()?.ancestors().nth(3).context("a target folder")?.to_path_buf();
            let bytes = std::fs::read(target.join("browser").join(name))?;
            assert_eq!(&bytes[1..4], b"PNG");
            assert_eq!(u32::from_be_bytes(bytes[16..20].try_into()?), width, "{device}");
        }
        assert_eq!(tab.top().value("innerWidth").await?, json!(390), "the size of the tab is restored");
        tab.open(&format!("{}/wide", site.origin())).await?;
        let error = tab.screenshot("wide").await.expect_err("the page is wider than a phone").to_string();
        assert!(error.contains("-wide-phone.png"), "{error}");
        Ok(())
    })
    .await
}
