//! How a page looks in the settings that some people need, and how the bank's page does.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{BUTTON, open, pay};
use crate::support::{Provider, Shop, card};

#[tokio::test]
async fn the_button_is_seen_where_the_system_chooses_the_colours() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.link(500).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        tab.prefer("screen", &[("forced-colors", "active")]).await?;
        tab.top().wait("matchMedia('(forced-colors: active)').matches").await?;
        let edge = "e => { const s = getComputedStyle(e); \
                    return parseFloat(s.borderTopWidth) >= 1 && s.borderTopStyle !== 'none' && s.borderTopColor !== s.backgroundColor }";
        ensure!(tab.top().of(BUTTON, edge).await? == true, "the button has no edge");
        tab.picture("forced-colors").await
    })
    .await
}

#[tokio::test]
async fn a_long_name_of_a_brand_is_shown_whole() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(500).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        page.enter("#card-number", "378282246310005").await?;
        page.shows("#card-brand", "American Express").await?;
        // Neither the name nor the number is covered by the other.
        let fits = "e => { const number = document.querySelector('#card-number'); const style = getComputedStyle(number); \
                    const free = parseFloat(style.paddingRight) - (number.getBoundingClientRect().right - e.getBoundingClientRect().right); \
                    return e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight && e.clientWidth <= free }";
        ensure!(page.of("#card-brand", fits).await? == true, "the name is cut off");
        ensure!(page.of("#card-number", "e => e.scrollWidth <= e.clientWidth").await? == true, "the number is cut off");
        tab.picture("brand").await
    })
    .await
}

/// The bank's page counts its half minute down, says when it is over, and looks like the page before it.
#[tokio::test]
async fn the_bank_counts_down() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(500).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        let look = "(() => { const s = getComputedStyle(document.querySelector('section')); \
                    return [getComputedStyle(document.body).backgroundColor, s.backgroundColor, s.borderRadius, \
                    getComputedStyle(document.querySelector('button')).backgroundColor].join() })()";
        let dark = [("prefers-color-scheme", "dark"), ("prefers-reduced-motion", "reduce")];
        tab.prefer("screen", &dark).await?;
        let before = page.value(look).await?;
        pay(browser, &tab, card("4000002500003155")).await?;
        page.shows("button", "Confirm").await?;
        ensure!(page.value(look).await? == before, "{} is not {before}", page.value(look).await?);
        page.shows("#time", "seconds to decide").await?;
        let left = page.text("#time").await?;
        page.wait(&format!("document.querySelector('#time').innerText !== {}", json!(left))).await?;
        tab.picture("bank").await?;
        page.value("performance.now = () => Infinity; 0").await?;
        page.wait("!document.querySelector('#over').hidden").await?;
        page.shows("#over", "The time is up").await?;
        ensure!(page.focused().await? == "#over" && page.of("#question", "e => e.hidden").await? == true);
        tab.picture("over").await
    })
    .await
}
