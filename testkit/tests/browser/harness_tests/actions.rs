//! Typing, clicking and reading, in pages and in frames.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::browser::{AccessibleElement, Device, Site, browse};

const FIELDS: &str = r#"<!doctype html><html lang="en"><title>Fields</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<label for="a">First</label><input id="a" required>
<label for="b">Second</label><input id="b" aria-invalid="true" aria-describedby="why"><p id="why">Too short</p>
<select id="c" aria-label="Country"><option value="">-<option value="DE">Germany<option value="US">United States</select>
<button id="go" type="button" onclick="result.textContent = a.value + '/' + b.value + '/' + c.value">Go</button>
<p id="result" role="status"></p></html>"#;

#[tokio::test]
async fn a_page_is_filled_in_and_read() -> Result<()> {
    let site = Site::start()?.page("/", FIELDS);
    browse(Device::Desktop, async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.origin()).await?;
        let page = tab.top();
        page.enter("#a", "first try").await?;
        page.enter("#a", "Ada L.").await?;
        page.enter("#b", "42").await?;
        page.choose("#c", "DE").await?;
        page.click("#go").await?;
        page.shows("[role=status]", "Ada L./42/DE").await?;
        assert_eq!(page.input_value("#a").await?, "Ada L.");
        assert_eq!(page.attribute("#c", "aria-label").await?.as_deref(), Some("Country"));
        assert_eq!(page.attribute("#c", "name").await?, None);
        assert_eq!((page.count("input").await?, page.count("table").await?), (2, 0));
        tab.reload().await?;
        assert_eq!(page.text("[role=status]").await?, "");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_page_is_filled_in_by_keyboard() -> Result<()> {
    let site = Site::start()?.page("/", FIELDS);
    browse(Device::Desktop, async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.origin()).await?;
        let mut focused = Vec::new();
        for keys in ["7", "x y", "United", ""] {
            tab.press("Tab").await?;
            focused.push(tab.top().focused().await?);
            tab.type_text(keys).await?;
        }
        assert_eq!(focused, ["#a", "#b", "#c", "#go"]);
        tab.press("Enter").await?;
        tab.top().shows("#result", "7/x y/US").await?;
        tab.press("Shift+Tab").await?;
        assert_eq!(tab.top().focused().await?, "#c");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn accessible_names_and_states_are_read() -> Result<()> {
    let site = Site::start()?.page("/", FIELDS);
    browse(Device::Desktop, async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.origin()).await?;
        let element = |role: &str, name: &str| AccessibleElement {
            role: role.into(),
            name: name.into(),
            ..AccessibleElement::default()
        };
        let page = tab.top();
        assert_eq!(
            page.accessibility("#a").await?,
            AccessibleElement { required: true, ..element("textbox", "First") }
        );
        let invalid =
            AccessibleElement { invalid: true, description: "Too short".into(), ..element("textbox", "Second") };
        assert_eq!(page.accessibility("#b").await?, invalid);
        assert_eq!(page.accessibility("#go").await?, element("button", "Go"));
        Ok(())
    })
    .await
}

/// In a frame of the same origin, and in one of another site, which has its own browser process.
#[tokio::test]
async fn frames_are_filled_in() -> Result<()> {
    let inner = Site::start()?.page("/", FIELDS);
    let middle = Site::start()?.page("/", &page_with_frame(&inner.origin()));
    let outer = Site::start()?.page("/near", &page_with_frame("/fields")).page("/fields", FIELDS);
    let outer = outer.page("/far", &page_with_frame(&middle.localhost_origin()));
    browse(Device::Phone, async |browser| {
        let tab = browser.tab().await?;
        for (path, fields) in [("/near", tab.frame("#frame")), ("/far", tab.frame("#frame").within("#frame"))] {
            tab.open(&format!("{}{path}", outer.origin())).await?;
            fields.enter("#a", "inside").await?;
            tab.press("Tab").await?;
            tab.type_text("also").await?;
            assert_eq!(fields.focused().await?, "#b");
            fields.click("#go").await?;
            fields.shows("#result", "inside/also/").await?;
            assert_eq!(fields.accessibility("#a").await?.name, "First");
        }
        Ok(())
    })
    .await
}

fn page_with_frame(address: &str) -> String {
    format!(
        r#"<!doctype html><html lang="en"><title>Outer</title><meta name="viewport" content="width=device-width">
        <p style="height: 1200px">Above</p><iframe id="frame" style="border: 7px solid" src="{address}"></iframe></html>"#
    )
}

#[tokio::test]
async fn screenshots_are_taken_at_both_sizes() -> Result<()> {
    let wide = r#"<!doctype html><meta name="viewport" content="width=device-width"><p style="width: 500px">Wide</p>"#;
    let site = Site::start()?.page("/", FIELDS).page("/wide", wide);
    browse(Device::Phone, async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.origin()).await?;
        tab.screenshot("fields").await?;
        for (device, width) in [("desktop", 1280), ("phone", 780)] {
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

#[tokio::test]
async fn tabs_act_concurrently() -> Result<()> {
    let site = Site::start()?.page("/", FIELDS);
    browse(Device::Desktop, async |browser| {
        let (left, right) = (browser.tab().await?, browser.tab().await?);
        for tab in [&left, &right] {
            tab.open(&site.origin()).await?;
        }
        let (a, b) = (left.top(), right.top());
        tokio::try_join!(a.enter("#a", "left"), b.enter("#a", "right"))?;
        tokio::try_join!(a.click("#go"), b.click("#go"))?;
        tokio::try_join!(a.shows("#result", "left//"), b.shows("#result", "right//"))?;
        Ok(())
    })
    .await
}
