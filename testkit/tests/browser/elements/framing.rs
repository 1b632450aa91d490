//! Which sites may frame the card field and payment pages.

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::browser::Site;

use super::{mount_url, site_of};
use crate::support::{Provider, Shop, address};

fn page_with_frame(address: &str) -> String {
    format!(
        r#"<!doctype html><html lang="en"><title>Page</title><meta name="viewport" content="width=device-width">
        <iframe id="frame" src="{address}" style="width: 95%; height: 30rem"></iframe></html>"#
    )
}

/// Fails unless a page of `site`, opened at `origin`, is refused when it frames `address`.
async fn assert_not_framed(shop: &Shop, site: &Site, origin: &str, address: &str) -> Result<()> {
    site.put("/", &page_with_frame(address));
    shop.visit(async |browser| {
        browser.expect_console_error("frame-ancestors");
        let tab = browser.tab().await?;
        tab.open(origin).await?;
        let frame = tab.frame("#frame");
        frame.wait("location.protocol === 'chrome-error:'").await?;
        ensure!(frame.count("input, main").await? == 0);
        tab.screenshot("refused").await
    })
    .await
}

#[tokio::test]
async fn a_card_field_is_framed_by_its_origin_only() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let site = site_of(&shop).await?;
    let address = mount_url(&shop, &site.localhost_origin()).await?;
    // Another port, and the same port by another host name.
    let other = Site::start()?;
    assert_not_framed(&shop, &other, &other.localhost_origin(), &address).await?;
    assert_not_framed(&shop, &site, &site.origin(), &address).await?;
    // The allowed page inside a page of another site is framed by that site too.
    let outer = Site::start()?.page("/", &page_with_frame(&site.localhost_origin()));
    let site = site.page("/", &page_with_frame(&address));
    shop.visit(async |browser| {
        browser.expect_console_error("frame-ancestors");
        let tab = browser.tab().await?;
        tab.open(&outer.localhost_origin()).await?;
        tab.frame("#frame").within("#frame").wait("location.protocol === 'chrome-error:'").await?;
        tab.open(&site.localhost_origin()).await?;
        tab.frame("#frame").wait("document.querySelector('#card-number') !== null").await
    })
    .await
}

#[tokio::test]
async fn no_site_can_frame_a_payment_page() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let site = site_of(&shop).await?;
    let (link, invoice) = (shop.link(500).await?, shop.invoice(json!({"amount": 500})).await?);
    for object in [&link, &invoice] {
        assert_not_framed(&shop, &site, &site.localhost_origin(), address(object)?).await?;
    }
    Ok(())
}
