//! The portal, as a merchant's people use it.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::PortalUser;
use testkit::browser::{Device, Frame, browse};

use crate::support::{Provider, Shop, address, assert_accessible, cluster};

/// Signs in on a new tab.
async fn sign_in(page: &Frame<'_>, user: &PortalUser) -> Result<()> {
    page.enter("#email", &user.email).await?;
    page.enter("#password", &user.password).await?;
    page.click(".sign-in button").await?;
    page.shows("h1", "Home").await
}

#[tokio::test]
async fn every_page_is_accessible() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.create("/v1/payment_links", json!({"amount": 4_200, "currency": "USD"})).await?;
    shop.create("/v1/payments", json!({"amount": 4_200, "currency": "USD", "paymentToken": "tok_ok"})).await?;
    let link = link["id"].as_str().context("an id")?.to_owned();
    let (url, user) = (cluster().await?.portal_url(0), cluster().await?.portal_user(&shop.account, "owner").await?);
    browse(Device::Desktop, async |browser| {
        browser.allow_copying(&url).await?;
        let tab = browser.tab().await?;
        let page = tab.top();
        tab.open(&url).await?;
        sign_in(&page, &user).await?;
        page.click("nav a[href='/test/developers']").await?;
        page.shows("h1", "Developers").await?;
        page.click("nav a[href='/test/keys']").await?;
        page.shows("h1", "API keys").await?;
        page.click("form[action='/test/keys/new'] button").await?;
        page.shows(".once", "svc_sk_test_").await?;
        page.click(".once button[data-copy]").await?;
        page.shows(".once button", "Copied").await?;
        assert_accessible(&tab, &page, "portal-key").await?;
        for (path, title) in [
            ("", "Home"),
            ("/developers", "Developers"),
            ("/webhooks", "Webhooks"),
            ("/webhooks/new", "Create endpoint"),
            ("/deliveries", "Deliveries"),
            ("/requests", "Requests"),
            ("/clock", "Test clock"),
            ("/settings", "Settings"),
            ("/team", "Team"),
            ("/activity", "Activity"),
            ("/security", "Security"),
            ("/recurring-invoices/new", "Create recurring invoice"),
        ] {
            tab.open(&format!("{url}/test{path}")).await?;
            page.shows("h1", title).await?;
            assert_accessible(&tab, &page, &format!("portal{}", path.replace('/', "-"))).await?;
        }
        tab.open(&format!("{url}/test/payment-links/{link}")).await?;
        page.shows("h1", "USD 42.00").await?;
        let width = page.value("document.querySelector('.qr').getBoundingClientRect().width").await?;
        assert!(width.as_f64().is_some_and(|width| width >= 80.0), "{width}");
        assert_accessible(&tab, &page, "portal-link").await
    })
    .await
}

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
        // The window has the size of a phone now.
        page.click("nav > button").await?;
        page.click("nav a[href='/test/payments']").await?;
        page.shows("td", "USD 42.00").await?;
        assert_accessible(&tab, &page, "list").await?;
        page.click(&format!("td a[href$='{payment}']")).await?;
        page.shows("h1", "USD 42.00").await?;
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

#[tokio::test]
async fn an_uploaded_logo_is_on_the_pages_of_payers() -> Result<()> {
    const RED: &str = "iVBORw0KGgoAAAANSUhEUgAAACgAAAAUCAIAAABwJOjsAAAAJ0lEQVR42mM4oOBANvpPAWAYtXjU4lGLRy0etXjU4lGLRy0eORYDAOjZbasLyhSVAAAAAElFTkSuQmCC";
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.link(4_200).await?;
    let (url, user) = (cluster().await?.portal_url(0), cluster().await?.portal_user(&shop.account, "owner").await?);
    browse(Device::Desktop, async |browser| {
        let tab = browser.tab().await?;
        let page = tab.top();
        tab.open(&url).await?;
        sign_in(&page, &user).await?;
        tab.open(&format!("{url}/test/settings")).await?;
        page.shows("h1", "Settings").await?;
        let choose = format!(
            "input => {{ const files = new DataTransfer(); \
             const bytes = Uint8Array.from(atob('{RED}'), c => c.charCodeAt(0)); \
             files.items.add(new File([bytes], 'logo.png', {{type: 'image/png'}})); input.files = files.files; return true }}"
        );
        page.evaluate_on("input[type=file]", &choose).await?;
        page.click("form[action='/test/settings/logo'] button").await?;
        page.shows("[role=status]", "Done").await?;
        let is_shown = "(() => { const logo = document.querySelector('img.logo'); \
                        return logo !== null && logo.complete && logo.naturalWidth === 40 })()";
        page.wait(is_shown).await?;
        assert_accessible(&tab, &page, "portal-logo").await?;
        tab.open(address(&link)?).await?;
        page.wait(is_shown).await?;
        let height = page.value("document.querySelector('img.logo').getBoundingClientRect().height").await?;
        assert!(height.as_f64().is_some_and(|height| (20.0..=56.0).contains(&height)), "{height}");
        assert_eq!(page.value("document.querySelector('img.logo').alt").await?, "Ada's Tea");
        assert_accessible(&tab, &page, "logo").await
    })
    .await
}

#[tokio::test]
async fn every_page_is_in_the_menu_of_a_phone() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let (url, user) = (cluster().await?.portal_url(0), cluster().await?.portal_user(&shop.account, "owner").await?);
    browse(Device::Phone, async |browser| {
        let mut tab = browser.tab().await?;
        tab.open(&url).await?;
        sign_in(&tab.top(), &user).await?;
        tab.disable_scripts().await?;
        tab.open(&format!("{url}/test/payments")).await?;
        let page = tab.top();
        page.shows("h1", "Payments").await?;
        let is_open = "document.querySelector('#menu').matches(':popover-open')";
        let links = "[...document.querySelectorAll('nav a')].filter(link => link.checkVisibility()).length";
        assert_eq!(page.value(links).await?, 0, "the links take no room");
        let [wide, window] = ["document.documentElement.scrollWidth", "innerWidth"];
        assert_eq!(page.value(wide).await?, page.value(window).await?, "nothing is wider than the window");
        page.click("nav > button").await?;
        page.wait(is_open).await?;
        assert_eq!(page.value(links).await?, page.count("nav a").await?, "one tap shows all of them");
        let least = "Math.min(...[...document.querySelectorAll('nav a')].map(link => link.getBoundingClientRect().height)) >= 44";
        page.wait(least).await?;
        tab.screenshot_at_current_size("menu").await?;
        page.click("nav a[href='/test/activity']").await?;
        page.shows("h1", "Activity").await?;
        assert_eq!(page.value(links).await?, 0, "a page begins without its menu");
        tab.resize(Device::Desktop).await?;
        page.wait(&format!("{links} === document.querySelectorAll('nav a').length")).await?;
        assert_eq!(page.value("document.querySelector('nav > button').checkVisibility()").await?, false);
        Ok(())
    })
    .await
}
