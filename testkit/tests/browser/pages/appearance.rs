//! The appearance of a page with forced colours and long card brands, and of the bank's page.

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::browser::Device;

use super::{BUTTON, open, pay};
use crate::support::{Provider, Shop, card};

#[tokio::test]
async fn the_button_is_visible_with_forced_colours() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.link(500).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        tab.emulate_media("screen", &[("forced-colors", "active")]).await?;
        tab.top().wait("matchMedia('(forced-colors: active)').matches").await?;
        let has_border = "e => { const s = getComputedStyle(e); \
                    return parseFloat(s.borderTopWidth) >= 1 && s.borderTopStyle !== 'none' && s.borderTopColor !== s.backgroundColor }";
        ensure!(tab.top().evaluate_on(BUTTON, has_border).await? == true, "the button has no border");
        tab.screenshot("forced-colors").await
    })
    .await
}

#[tokio::test]
async fn a_long_brand_name_is_not_truncated() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(500).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        page.enter("#card-number", "378282246310005").await?;
        page.shows("#card-brand", "American Express").await?;
        // The name is above the number, or in its padding.
        let fits = "e => { const number = document.querySelector('#card-number'); const style = getComputedStyle(number); \
                    const [box, brand] = [number, e].map(e => e.getBoundingClientRect()); \
                    const free = parseFloat(style.paddingRight) - (box.right - brand.right); \
                    const apart = brand.bottom <= box.top || e.clientWidth <= free; \
                    return e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight && apart }";
        ensure!(page.evaluate_on("#card-brand", fits).await? == true, "the name is truncated");
        ensure!(page.evaluate_on("#card-number", "e => e.scrollWidth <= e.clientWidth").await? == true, "the number is truncated");
        tab.screenshot("brand").await
    })
    .await
}

#[tokio::test]
async fn a_whole_card_number_is_visible_on_the_narrowest_phone() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.link(500).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        tab.resize(Device::SmallPhone).await?;
        let page = tab.top();
        // 8 is one of the widest digits where digits differ.
        for (number, brand) in [("4888888888888888", "Visa"), ("378282246310005", "American Express")] {
            page.enter("#card-number", number).await?;
            page.shows("#card-brand", brand).await?;
            ensure!(page.value("document.querySelector('#card-number').value.includes(' ')").await? == true);
            let fits = "e => e.scrollWidth <= e.clientWidth";
            ensure!(page.evaluate_on("#card-number", fits).await? == true, "the number {number} is truncated");
            // The brand covers neither the number nor the label.
            let clear = "e => { const box = e => e.getBoundingClientRect(); const range = document.createRange(); \
                         range.selectNodeContents(document.querySelector('label[for=card-number]')); \
                         const [brand, label] = [box(e), range.getBoundingClientRect()]; \
                         return brand.bottom <= box(document.querySelector('#card-number')).top && brand.left > label.right }";
            ensure!(page.evaluate_on("#card-brand", clear).await? == true, "{brand} covers something");
        }
        tab.screenshot_at_current_size("number-small-phone").await
    })
    .await
}

/// The bank's page counts down 30 seconds, reports when they are over, and has the style of the payment page.
#[tokio::test]
async fn the_bank_page_counts_down() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(500).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        let style = "(() => { const s = getComputedStyle(document.querySelector('section')); \
                    return [getComputedStyle(document.body).backgroundColor, s.backgroundColor, s.borderRadius, \
                    getComputedStyle(document.querySelector('button')).backgroundColor].join() })()";
        let dark = [("prefers-color-scheme", "dark"), ("prefers-reduced-motion", "reduce")];
        tab.emulate_media("screen", &dark).await?;
        let before = page.value(style).await?;
        pay(browser, &tab, card("4000002500003155")).await?;
        page.shows("button", "Confirm").await?;
        ensure!(page.value(style).await? == before, "{} is not {before}", page.value(style).await?);
        page.shows("#time", "Time to decide").await?;
        let countdown = page.text("#time").await?;
        page.wait(&format!("document.querySelector('#time').innerText !== {}", json!(countdown))).await?;
        tab.screenshot("bank").await?;
        page.value("performance.now = () => Infinity; 0").await?;
        page.wait("!document.querySelector('#over').hidden").await?;
        page.shows("#over", "The time is up").await?;
        ensure!(page.focused().await? == "#over" && page.evaluate_on("#question", "e => e.hidden").await? == true);
        tab.screenshot("over").await
    })
    .await
}
