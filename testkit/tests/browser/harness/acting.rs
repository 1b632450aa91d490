//! Typing, clicking, looking, in pages and the pages within them.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::browser::{Device, Site, Spoken, browse};

const FIELDS: &str = r#"<!doctype html><html lang="en"><title>Fields</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<label for="a">First</label><input id="a" required>
<label for="b">Second</label><input id="b" aria-invalid="true" aria-describedby="why"><p id="why">Too short</p>
<select id="c" aria-label="Country"><option value="">-<option value="DE">Germany<option value="US">United States</select>
<button id="go" type="button" onclick="said.textContent = a.value + '/' + b.value + '/' + c.value">Go</button>
<p id="said" role="status"></p></html>"#;

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
        assert_eq!(page.entered("#a").await?, "Ada L.");
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
async fn keys_are_enough() -> Result<()> {
    let site = Site::start()?.page("/", FIELDS);
    browse(Device::Desktop, async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.origin()).await?;
        let mut walked = Vec::new();
        for keys in ["7", "x y", "United", ""] {
            tab.press("Tab").await?;
            walked.push(tab.top().focused().await?);
            tab.keys(keys).await?;
        }
        assert_eq!(walked, ["#a", "#b", "#c", "#go"]);
        tab.press("Enter").await?;
        tab.top().shows("#said", "7/x y/US").await?;
        tab.press("Shift+Tab").await?;
        assert_eq!(tab.top().focused().await?, "#c");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_a_screen_reader_is_told() -> Result<()> {
    let site = Site::start()?.page("/", FIELDS);
    browse(Device::Desktop, async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.origin()).await?;
        let spoken = |role: &str, name: &str| Spoken { role: role.into(), name: name.into(), ..Spoken::default() };
        let page = tab.top();
        assert_eq!(page.spoken("#a").await?, Spoken { required: true, ..spoken("textbox", "First") });
        let wrong = Spoken { invalid: true, description: "Too short".into(), ..spoken("textbox", "Second") };
        assert_eq!(page.spoken("#b").await?, wrong);
        assert_eq!(page.spoken("#go").await?, spoken("button", "Go"));
        Ok(())
    })
    .await
}

/// The frame is once of the same origin and once of another site, which has a process of its own.
#[tokio::test]
async fn pages_within_pages_are_filled_in_too() -> Result<()> {
    let inner = Site::start()?.page("/", FIELDS);
    let middle = Site::start()?.page("/", &holding(&inner.origin()));
    let outer = Site::start()?.page("/near", &holding("/fields")).page("/fields", FIELDS);
    let outer = outer.page("/far", &holding(&middle.named_origin()));
    browse(Device::Phone, async |browser| {
        let tab = browser.tab().await?;
        for (path, fields) in [("/near", tab.frame("#held")), ("/far", tab.frame("#held").within("#held"))] {
            tab.open(&format!("{}{path}", outer.origin())).await?;
            fields.enter("#a", "inside").await?;
            tab.press("Tab").await?;
            tab.keys("also").await?;
            assert_eq!(fields.focused().await?, "#b");
            fields.click("#go").await?;
            fields.shows("#said", "inside/also/").await?;
            assert_eq!(fields.spoken("#a").await?.name, "First");
        }
        Ok(())
    })
    .await
}

fn holding(address: &str) -> String {
    format!(
        r#"<!doctype html><html lang="en"><title>Outer</title><meta name="viewport" content="width=device-width">
        <p style="height: 1200px">Above</p><iframe id="held" style="border: 7px solid" src="{address}"></iframe></html>"#
    )
}

#[tokio::test]
async fn pictures_are_taken_at_both_sizes() -> Result<()> {
    let wide = r#"<!doctype html><meta name="viewport" content="width=device-width"><p style="width: 500px">Wide</p>"#;
    let site = Site::start()?.page("/", FIELDS).page("/wide", wide);
    browse(Device::Phone, async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.origin()).await?;
        tab.picture("fields").await?;
        for (device, width) in [("desktop", 1280), ("phone", 780)] {
            let name = format!("harness.acting.pictures_are_taken_at_both_sizes-fields-{device}.png");
            let target = std::env::current_exe()?.ancestors().nth(3).context("a target folder")?.to_path_buf();
            let bytes = std::fs::read(target.join("browser").join(name))?;
            assert_eq!(&bytes[1..4], b"PNG");
            assert_eq!(u32::from_be_bytes(bytes[16..20].try_into()?), width, "{device}");
        }
        assert_eq!(tab.top().value("innerWidth").await?, json!(390), "the tab is as large as before");
        tab.open(&format!("{}/wide", site.origin())).await?;
        let complaint = tab.picture("wide").await.expect_err("it is wider than a phone").to_string();
        assert!(complaint.contains("-wide-phone.png"), "{complaint}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn tabs_do_not_wait_for_each_other() -> Result<()> {
    let site = Site::start()?.page("/", FIELDS);
    browse(Device::Desktop, async |browser| {
        let (left, right) = (browser.tab().await?, browser.tab().await?);
        for tab in [&left, &right] {
            tab.open(&site.origin()).await?;
        }
        let (a, b) = (left.top(), right.top());
        tokio::try_join!(a.enter("#a", "left"), b.enter("#a", "right"))?;
        tokio::try_join!(a.click("#go"), b.click("#go"))?;
        tokio::try_join!(a.shows("#said", "left//"), b.shows("#said", "right//"))?;
        Ok(())
    })
    .await
}
