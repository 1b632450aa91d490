//! Who may frame what.

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::browser::Site;

use super::{mount_url, site_of};
use crate::support::{Provider, Shop, address};

fn framing(address: &str) -> String {
    format!(
        r#"<!doctype html><html lang="en"><title>Page</title><meta name="viewport" content="width=device-width">
        <iframe id="held" src="{address}" style="width: 95%; height: 30rem"></iframe></html>"#
    )
}

/// A site that frames `address`, opened by this name of it, shows nothing of what is there.
async fn is_refused(shop: &Shop, site: &Site, origin: &str, address: &str) -> Result<()> {
    site.put("/", &framing(address));
    shop.visit(async |browser| {
        browser.expect_complaint("frame-ancestors");
        let tab = browser.tab().await?;
        tab.open(origin).await?;
        let held = tab.frame("#held");
        held.wait("location.protocol === 'chrome-error:'").await?;
        ensure!(held.count("input, main").await? == 0);
        tab.picture("refused").await
    })
    .await
}

#[tokio::test]
async fn a_card_field_belongs_to_one_origin() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let site = site_of(&shop).await?;
    let address = mount_url(&shop, &site.named_origin()).await?;
    // Another port, and the same one by another name.
    let stranger = Site::start()?;
    is_refused(&shop, &stranger, &stranger.named_origin(), &address).await?;
    is_refused(&shop, &site, &site.origin(), &address).await?;
    // Its own page within a stranger's is framed by the stranger too.
    let outer = Site::start()?.page("/", &framing(&site.named_origin()));
    let site = site.page("/", &framing(&address));
    shop.visit(async |browser| {
        browser.expect_complaint("frame-ancestors");
        let tab = browser.tab().await?;
        tab.open(&outer.named_origin()).await?;
        tab.frame("#held").within("#held").wait("location.protocol === 'chrome-error:'").await?;
        tab.open(&site.named_origin()).await?;
        tab.frame("#held").wait("document.querySelector('#card-number') !== null").await
    })
    .await
}

#[tokio::test]
async fn a_payment_page_is_framed_by_nobody() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let site = site_of(&shop).await?;
    let (link, invoice) = (shop.link(500).await?, shop.invoice(json!({"amount": 500})).await?);
    for object in [&link, &invoice] {
        is_refused(&shop, &site, &site.named_origin(), address(object)?).await?;
    }
    Ok(())
}
