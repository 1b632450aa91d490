//! The messages of the card field, for pages that use it without the script.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{mount_url, site_of};
use crate::support::{Provider, Shop, at_each_provider, card};

at_each_provider! { the_field_exchanges_messages_with_its_page }

/// A page that frames `address` and records its messages.
fn recording_page(address: &str) -> String {
    format!(
        r#"<!doctype html><title>Page</title><meta name="viewport" content="width=device-width"><script>
            const messages = [];
            addEventListener("message", event => messages.push({{origin: event.origin, data: event.data}}));
        </script><iframe id="field" src="{address}" width="340" height="460"></iframe>"#
    )
}

async fn the_field_exchanges_messages_with_its_page(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let site = site_of(&shop).await?;
    let address = mount_url(&shop, &site.localhost_origin()).await?;
    let site = site.page("/", &recording_page(&address));
    shop.visit(async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.localhost_origin()).await?;
        let page = tab.top();
        page.wait("messages.length === 1").await?;
        let submit = "field.contentWindow.postMessage({type: 'submit'}, '*')";
        page.value(submit).await?;
        page.wait("messages.length === 2").await?;
        card("4242424242424242").enter(browser, &tab.frame("#field")).await?;
        // A message from another window is ignored.
        tab.frame("#field").value("window.postMessage({type: 'submit'}, '*')").await?;
        page.value(submit).await?;
        page.wait("messages.length === 3").await?;
        let messages = page.value("messages").await?;
        let kinds: Vec<_> = (0..3).map(|i| messages[i]["data"]["type"].clone()).collect();
        ensure!(kinds == ["ready", "error", "upstreamToken"], "{messages}");
        ensure!(messages[1]["data"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{messages}");
        ensure!(messages[2]["data"]["upstreamToken"].as_str().is_some_and(|token| !token.is_empty()), "{messages}");
        let origin = page.value(&format!("new URL({}).origin", json!(address))).await?;
        ensure!((0..3).all(|i| messages[i]["origin"] == origin), "{messages}");
        tab.screenshot("field").await
    })
    .await
}
