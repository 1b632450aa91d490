//! Accessibility of every page, checked by axe-core.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use testkit::browser::Device;

use crate::pages::{BUTTON, open, pay};
use crate::support::{Example, Provider, Shop, assert_accessible, card, cluster};

const MODIFIERS: &str = r#"{"tax": {"type": "percent", "value": 825}, "tip": {"type": "fixed", "value": 200}}"#;

#[tokio::test]
async fn a_page_from_open_to_paid() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    shop.set(&["--modifiers", MODIFIERS, "--support-contact", "help@shop.example"]).await?;
    let items: Vec<_> =
        (1..=12).map(|n| json!({"description": format!("Tin {n}"), "quantity": n, "unitAmount": 100})).collect();
    let invoice = shop.invoice(json!({"items": items, "description": "November"})).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &invoice).await?;
        let page = tab.top();
        assert_accessible(&tab, &page, "open").await?;
        page.click(BUTTON).await?;
        page.shows("#card-number-error", "card number").await?;
        page.click(".lines > summary").await?;
        assert_accessible(&tab, &page, "errors").await?;
        pay(browser, &tab, card("4000000000000002")).await?;
        page.shows("#outcome", "declined").await?;
        assert_accessible(&tab, &page, "declined").await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        page.shows("#receipt", "help@shop.example").await?;
        assert_accessible(&tab, &page, "paid").await
    })
    .await
}

#[tokio::test]
async fn pages_without_a_payment_form() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.link(500).await?;
    shop.post(&format!("/v1/payment_links/{}/cancel", link["id"].as_str().context("an id")?)).await?;
    shop.visit(async |browser| {
        browser.expect_console_error("404");
        let tab = open(browser, &link).await?;
        assert_accessible(&tab, &tab.top(), "cancelled").await?;
        tab.open(&format!("{}x", crate::support::address(&link)?)).await?;
        assert_accessible(&tab, &tab.top(), "unknown").await
    })
    .await
}

#[tokio::test]
async fn the_banks_page_and_the_waiting_page() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(500).await?;
    let gateway = cluster().await?.gateway_url(0);
    shop.visit(async |browser| {
        browser.expect_console_error("404");
        let tab = open(browser, &link).await?;
        let page = tab.top();
        pay(browser, &tab, card("4000002500003155")).await?;
        page.shows("button", "Confirm").await?;
        assert_accessible(&tab, &page, "bank").await?;
        page.value("performance.now = () => Infinity; 0").await?;
        page.wait("!document.querySelector('#over').hidden").await?;
        assert_accessible(&tab, &page, "over").await?;
        tab.back().await?;
        page.shows("[role=status]", "Your bank asks").await?;
        assert_accessible(&tab, &page, "waiting").await?;
        tab.open(&format!("{gateway}/services/3ds/nothing")).await?;
        assert_accessible(&tab, &page, "nothing").await
    })
    .await
}

#[tokio::test]
async fn the_example_shops_and_the_card_field() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let running = Example::all(&shop).await?;
    shop.visit(async |browser| {
        for (name, example) in &running {
            let tab = browser.tab().await?;
            tab.open(&example.url).await?;
            let (page, field) = (tab.top(), tab.frame("#card iframe"));
            field.text("label").await?;
            assert_accessible(&tab, &page, &format!("{name}-checkout")).await?;
            assert_accessible(&tab, &field, &format!("{name}-field")).await?;
            card("4242424242424242").enter(browser, &field).await?;
            page.click("button").await?;
            page.shows("h1", "Your order").await?;
            assert_accessible(&tab, &page, &format!("{name}-outcome")).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_api_reference_and_the_gateways_field() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let (api, gateway) = (cluster().await?.api_url(0), cluster().await?.gateway_url(0));
    let create = ["account", "create", "--username", "field", "--origin", gateway.as_str()];
    let keys = cluster().await?.run_gateway(&create).await?;
    let app_key = keys["app_key"].as_str().context("an app_key")?;
    let field = format!("{gateway}/services/field?app_key={app_key}&origin={gateway}");
    shop.visit(async |browser| {
        let tab = browser.tab().await?;
        tab.open(&format!("{api}/docs")).await?;
        // All operations and all objects are shown alike, and axe-core takes minutes for all of them.
        let shorten = "document.querySelectorAll('article').forEach((article, at) => at % 10 && article.remove())";
        tab.top().value(&format!("{shorten}; null")).await?;
        assert_accessible(&tab, &tab.top(), "reference").await?;
        for page in ["/docs", "/docs/guide/quick-start", "/docs/payments"] {
            tab.open(&format!("{api}{page}")).await?;
            tab.resize(Device::Phone).await?;
            let begins = "document.querySelector('h1').getBoundingClientRect().bottom < 300 \
                          && document.querySelector('h1 ~ *').getBoundingClientRect().top \
                          < document.querySelector('nav').getBoundingClientRect().top";
            ensure!(tab.top().value(begins).await? == true, "{page} does not begin with its content");
            let wide = "[...document.querySelectorAll('main, main *, nav')] \
                        .filter(e => e.getBoundingClientRect().right > 390.5).map(e => e.outerHTML.slice(0, 99))";
            ensure!(tab.top().value(wide).await? == json!([]), "{page}: {}", tab.top().value(wide).await?);
            tab.resize(Device::Desktop).await?;
        }
        tab.open(&format!("{api}/docs/guide/quick-start")).await?;
        assert_accessible(&tab, &tab.top(), "guide").await?;
        tab.open(&field).await?;
        assert_accessible(&tab, &tab.top(), "gateway-field").await
    })
    .await
}
