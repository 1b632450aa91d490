//! The portal, as a merchant's people use it.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::browser::{Device, browse};

use crate::support::{Provider, Shop, assert_accessible, cluster};

#[tokio::test]
async fn signing_in_and_finding_a_payment() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let payment =
        shop.create("/v1/payments", json!({"amount": 4_200, "currency": "USD", "paymentToken": "tok_ok"})).await?;
    let payment = payment["id"].as_str().context("an id")?.to_owned();
    shop.invoice(json!({"items": [{"description": "Hours", "quantity": 1, "unitAmount": 900}]})).await?;
    let (url, user) = (cluster().await?.portal_url(0), cluster().await?.portal_user(&shop.account, "owner").await?);
    browse(Device::Desktop, async |browser| {
        browser.expect_console_error("404");
        browser.expect_console_error("422");
        let tab = browser.tab().await?;
        let page = tab.top();
        tab.open(&url).await?;
        assert_accessible(&tab, &page, "sign-in").await?;
        for password in ["wrong password", user.password.as_str()] {
            page.enter("#email", &user.email).await?;
            page.enter("#password", password).await?;
            page.click(".sign-in button").await?;
            if password.starts_with("wrong") {
                page.shows("[role=alert]", "wrong").await?;
                assert_accessible(&tab, &page, "refused").await?;
            }
        }
        page.shows("h1", "Home").await?;
        page.shows(".mode", "Test data").await?;
        assert_accessible(&tab, &page, "home").await?;
        page.click("nav a[href='/test/payments']").await?;
        page.shows("td", "USD 42.00").await?;
        assert_accessible(&tab, &page, "list").await?;
        page.click(&format!("td a[href$='{payment}']")).await?;
        page.shows("h1", "USD 42.00 Approved").await?;
        assert_accessible(&tab, &page, "payment").await?;
        tab.open(&format!("{url}/test/payments/{payment}x")).await?;
        page.shows("h1", "Not found").await?;
        assert_accessible(&tab, &page, "unknown").await?;
        tab.open(&url).await?;
        page.click(".top button").await?;
        page.shows("h1", "Sign in").await?;
        tab.open(&format!("{url}/test/payments/{payment}")).await?;
        page.shows("h1", "Sign in").await
    })
    .await
}
