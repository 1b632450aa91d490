//! The card field by itself, for pages that speak with it without the script.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{mount_url, site_of};
use crate::support::{Provider, Shop, at_each_provider, card};

at_each_provider! { the_field_speaks_with_its_page }

/// A page that frames `address` and keeps what it is told.
fn listening(address: &str) -> String {
    format!(
        r#"<!doctype html><title>Page</title><meta name="viewport" content="width=device-width"><script>
            const heard = [];
            addEventListener("message", event => heard.push({{origin: event.origin, data: event.data}}));
        </script><iframe id="field" src="{address}" width="340" height="460"></iframe>"#
    )
}

async fn the_field_speaks_with_its_page(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let site = site_of(&shop).await?;
    let address = mount_url(&shop, &site.named_origin()).await?;
    let site = site.page("/", &listening(&address));
    shop.visit(async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.named_origin()).await?;
        let page = tab.top();
        page.wait("heard.length === 1").await?;
        let submit = "field.contentWindow.postMessage({type: 'submit'}, '*')";
        page.value(submit).await?;
        page.wait("heard.length === 2").await?;
        card("4242424242424242").enter(browser, &tab.frame("#field")).await?;
        // What anybody else asks of it is not heard.
        tab.frame("#field").value("window.postMessage({type: 'submit'}, '*')").await?;
        page.value(submit).await?;
        page.wait("heard.length === 3").await?;
        let heard = page.value("heard").await?;
        let kinds: Vec<_> = (0..3).map(|i| heard[i]["data"]["type"].clone()).collect();
        ensure!(kinds == ["ready", "error", "upstreamToken"], "{heard}");
        ensure!(heard[1]["data"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{heard}");
        ensure!(heard[2]["data"]["upstreamToken"].as_str().is_some_and(|token| !token.is_empty()), "{heard}");
        let origin = page.value(&format!("new URL({}).origin", json!(address))).await?;
        ensure!((0..3).all(|i| heard[i]["origin"] == origin), "{heard}");
        tab.picture("field").await
    })
    .await
}
