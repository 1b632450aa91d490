//! The portal, as a merchant's people use it.

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use testkit::PortalUser;
use testkit::browser::{Device, Frame, Tab, browse};

use crate::support::{Provider, Shop, address, assert_accessible, cluster};

/// Signs in on a new tab.
async fn sign_in(page: &Frame<'_>, user: &PortalUser) -> Result<()> {
    page.enter("#email", &user.email).await?;
    page.enter("#password", &user.password).await?;
    page.click(".sign-in button").await?;
    page.shows("h1", "Home").await
}

/// The lists, the resources of /v1, and whether there is a page on which one is created.
const LISTS: [(&str, &str, bool); 13] = [
    ("payments", "payments", false),
    ("refunds", "refunds", false),
    ("customers", "customers", true),
    ("cards", "payment_methods", false),
    ("invoices", "invoices", true),
    ("recurring-invoices", "recurring_invoices", true),
    ("subscriptions", "subscriptions", true),
    ("payment-links", "payment_links", true),
    ("plans", "plans", true),
    ("disputes", "disputes", false),
    ("events", "events", false),
    ("webhooks", "webhook_endpoints", true),
    ("deliveries", "webhook_deliveries", false),
];

/// Fails if the page is wider than the window of a phone, in dark mode. It is not loaded again.
async fn assert_fits(tab: &Tab, page: &Frame<'_>, what: &str) -> Result<()> {
    tab.emulate_media("screen", &[("prefers-color-scheme", "dark")]).await?;
    tab.resize(Device::Phone).await?;
    let wide = "document.documentElement.scrollWidth <= 390 ? [] : [...document.querySelectorAll('body *')] \
                .filter(e => e.getBoundingClientRect().right > 390.5).map(e => e.outerHTML.slice(0, 99))";
    let wide = page.value(wide).await?;
    ensure!(wide == json!([]), "{what} is too wide: {wide}");
    Ok(())
}

/// Creates an object for each list that can have one at once. Texts have a word that does not fit on a line of a phone.
async fn fill(shop: &Shop) -> Result<()> {
    let word = "Donaudampfschifffahrtsgesellschaftskapitaensmuetzen";
    let payment = json!({"amount": 4_200, "currency": "USD", "paymentToken": "tok_ok", "description": word});
    let payment = shop.create("/v1/payments", payment).await?;
    let refund = format!("/v1/payments/{}/refund", payment["id"].as_str().context("an id")?);
    shop.create(&refund, json!({"amount": 100})).await?;
    let customer = json!({"email": format!("{word}@shop.example"), "name": word});
    let customer = shop.create("/v1/customers", customer).await?["id"].clone();
    shop.create("/v1/payment_methods", json!({"customerId": customer, "paymentToken": "tok_ok"})).await?;
    let plan = json!({"name": word, "amount": 800, "currency": "USD", "interval": "month"});
    let plan = shop.create("/v1/plans", plan).await?["id"].clone();
    let items = json!([{"description": word, "quantity": 1, "unitAmount": 900}]);
    for (path, body) in [
        ("/v1/invoices", json!({"customerId": customer, "currency": "USD", "description": word, "items": items})),
        ("/v1/subscriptions", json!({"customerId": customer, "planId": plan, "startAt": "2090-01-01"})),
        (
            "/v1/recurring_invoices",
            json!({"customerId": customer, "name": word, "cadence": {"unit": "monthly"}, "startDate": "2090-01-15",
                "template": {"currency": "USD", "items": items}}),
        ),
        ("/v1/webhook_endpoints", json!({"url": format!("http://127.0.0.1:9/{word}")})),
    ] {
        shop.create(path, body).await?;
    }
    Ok(())
}

/// The lists, what is in them, and the pages on which something is created, confirmed or signed in.
async fn assert_the_other_pages_fit(shop: &Shop, tab: &Tab, url: &str) -> Result<()> {
    let customer = shop.get("/v1/customers?limit=1").await?["data"][0]["id"].clone();
    let customer = customer.as_str().context("an id")?;
    let mut paths = vec![format!("/test/customers/{customer}/erase")];
    for (page, resource, has_creation) in LISTS {
        paths.push(format!("/test/{page}"));
        if has_creation {
            paths.push(format!("/test/{page}/new"));
        }
        let filter = if page == "cards" { format!("&customerId={customer}") } else { String::new() };
        let listed = shop.get(&format!("/v1/{resource}?limit=1{filter}")).await?;
        paths.extend(listed["data"][0]["id"].as_str().map(|id| format!("/test/{page}/{id}")));
    }
    // A sign-in does not end the session.
    paths.push("/sign-in".to_owned());
    ensure!(paths.len() >= 30, "{paths:?}");
    for path in paths {
        tab.open(&format!("{url}{path}")).await?;
        assert_fits(tab, &tab.top(), &path).await?;
    }
    Ok(())
}

#[tokio::test]
async fn every_page_is_accessible() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.create("/v1/payment_links", json!({"amount": 4_200, "currency": "USD"})).await?;
    fill(&shop).await?;
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
        assert_fits(&tab, &page, "a new key").await?;
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
            assert_fits(&tab, &page, path).await?;
        }
        tab.open(&format!("{url}/test/payment-links/{link}")).await?;
        page.shows("h1", "USD 42.00").await?;
        let width = page.value("document.querySelector('.qr').getBoundingClientRect().width").await?;
        assert!(width.as_f64().is_some_and(|width| width >= 80.0), "{width}");
        assert_accessible(&tab, &page, "portal-link").await?;
        assert_the_other_pages_fit(&shop, &tab, &url).await
    })
    .await
}

/// Opens a page and goes to its content, by keyboard.
async fn open_content(tab: &Tab, address: &str) -> Result<()> {
    tab.open(address).await?;
    tab.press("Tab").await?;
    ensure!(tab.top().value("document.activeElement.className").await? == "skip", "the first link skips the menu");
    tab.press("Enter").await?;
    tab.top().wait("location.hash === '#content'").await
}

/// Presses Tab until an element has the focus, which must be visible.
async fn focus(tab: &Tab, selector: &str) -> Result<()> {
    let page = tab.top();
    for _ in 0..30 {
        tab.press("Tab").await?;
        if page.value(&format!("document.activeElement.matches({})", json!(selector))).await? == true {
            let outline = page.value("getComputedStyle(document.activeElement).outlineStyle").await?;
            ensure!(outline != "none", "{selector} does not show its focus");
            return Ok(());
        }
    }
    bail!("{selector} is not reached by 30 times Tab")
}

/// Enters what a form asks for, each in its field, by keyboard.
async fn fill_in(tab: &Tab, fields: &[(&str, &str)]) -> Result<()> {
    for (name, text) in fields {
        focus(tab, &format!("main input[name='{name}']")).await?;
        tab.type_text(text).await?;
    }
    Ok(())
}

/// A refund, a payment link and an invoice, without a mouse.
async fn work_by_keyboard(tab: &Tab, url: &str, payment: &str) -> Result<()> {
    let page = tab.top();
    tab.resize(Device::Desktop).await?;
    open_content(tab, &format!("{url}/test/payments/{payment}")).await?;
    fill_in(tab, &[("amount", "1.00"), ("reason", "Late")]).await?;
    tab.press("Enter").await?;
    page.shows("[role=status]", "Done").await?;
    page.shows("dd", "USD 1.00").await?;
    open_content(tab, &format!("{url}/test/payment-links/new")).await?;
    fill_in(tab, &[("amount", "5.00"), ("currency", "USD"), ("description", "Tea")]).await?;
    focus(tab, "form[action='/test/payment-links/new'] button").await?;
    tab.press("Space").await?;
    page.shows("[role=status]", "Done").await?;
    page.shows("h1", "USD 5.00").await?;
    open_content(tab, &format!("{url}/test/invoices/new")).await?;
    fill_in(tab, &[("customerId", "ada@example.com"), ("amount", "7.00"), ("currency", "USD")]).await?;
    tab.press("Enter").await?;
    page.shows("[role=status]", "Done").await?;
    page.shows("h1", "USD 7.00").await?;
    // The timeline has the user's address by now.
    tab.open(&format!("{url}/test/payments/{payment}")).await?;
    page.shows(".timeline", "@").await?;
    assert_fits(tab, &page, "a refunded payment").await
}

#[tokio::test]
async fn signing_in_finding_a_payment_and_working_by_keyboard() -> Result<()> {
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
        work_by_keyboard(&tab, &url, &payment).await?;
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
async fn a_refund_by_double_click_reload_and_back_is_one_refund() -> Result<()> {
    let (amount, button) = ("form[action$='/refund'] input[name='amount']", "form[action$='/refund'] button");
    let shop = Shop::new(Provider::Mock).await?;
    let payment =
        shop.create("/v1/payments", json!({"amount": 4_200, "currency": "USD", "paymentToken": "tok_ok"})).await?;
    let payment = payment["id"].as_str().context("an id")?.to_owned();
    let (url, user) = (cluster().await?.portal_url(0), cluster().await?.portal_user(&shop.account, "support").await?);
    browse(Device::Desktop, async |browser| {
        let tab = browser.tab().await?;
        let page = tab.top();
        tab.open(&url).await?;
        sign_in(&page, &user).await?;
        tab.open(&format!("{url}/test/payments/{payment}")).await?;
        page.enter(amount, "1.00").await?;
        page.evaluate_on(button, "button => { button.click(); button.click(); return true }").await?;
        page.shows("[role=status]", "Done").await?;
        tab.reload().await?;
        page.shows("[role=status]", "Done").await?;
        tab.back().await?;
        let is_empty = format!("location.search === '' && document.querySelector({})?.value === ''", json!(amount));
        page.wait(&is_empty).await?;
        let refunded = shop.get(&format!("/v1/payments/{payment}")).await?;
        ensure!(refunded["refunds"].as_array().map(Vec::len) == Some(1), "{refunded}");
        Ok(())
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
        // The browser does not record forms with files.
        browser.trust(&url);
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

/// Sends the same assertion of a passkey twice, and once more with a new challenge. The first one signs in.
async fn assert_no_assertion_is_accepted_twice(page: &Frame<'_>, button: &str) -> Result<()> {
    page.value("HTMLFormElement.prototype.submit = function () { window.sent = this.elements.credential.value }; 0")
        .await?;
    page.click(button).await?;
    page.wait("typeof window.sent === 'string'").await?;
    let send = "fetch('/sign-in/passkey', {method: 'POST', body: new URLSearchParams({credential: window.sent}), \
                redirect: 'manual'}).then(response => response.type === 'opaqueredirect' ? 303 : response.status)";
    assert_eq!(page.value(send).await?, 303);
    assert_eq!(page.value(send).await?, 422);
    let begin = "fetch('/passkeys/sign-in', {method: 'POST'}).then(response => response.status)";
    assert_eq!(page.value(begin).await?, 200);
    assert_eq!(page.value(send).await?, 422);
    Ok(())
}

#[tokio::test]
async fn a_passkey_is_added_signs_in_and_is_removed() -> Result<()> {
    const WITH_PASSKEY: &str = "form[action='/sign-in/passkey'] button";
    let shop = Shop::new(Provider::Mock).await?;
    let (url, user) = (cluster().await?.portal_url(0), cluster().await?.portal_user(&shop.account, "viewer").await?);
    browse(Device::Desktop, async |browser| {
        browser.expect_console_error("422");
        let tab = browser.tab().await?;
        let (page, security) = (tab.top(), format!("{url}/test/security"));
        tab.add_authenticator().await?;
        tab.open(&url).await?;
        sign_in(&page, &user).await?;
        tab.open(&security).await?;
        let add = "form[action='/test/security/add-passkey']";
        page.enter(&format!("{add} input[name='name']"), "Laptop").await?;
        page.enter(&format!("{add} input[name='current']"), &user.password).await?;
        page.click(&format!("{add} button")).await?;
        page.shows("[role=status]", "Done").await?;
        page.shows("td", "Laptop").await?;
        assert_accessible(&tab, &page, "portal-passkey").await?;
        assert_fits(&tab, &page, "a passkey").await?;
        tab.resize(Device::Desktop).await?;
        page.click(".top button").await?;
        page.shows("h1", "Sign in").await?;
        page.click(WITH_PASSKEY).await?;
        page.shows("h1", "Home").await?;
        tab.open(&security).await?;
        let remove = "form[action$='/remove-passkey']";
        let times = format!("document.querySelector(\"{remove}\").closest('tr').querySelectorAll('time').length");
        assert_eq!(page.value(&times).await?, 2, "when it was made and used");
        page.click(".top button").await?;
        page.shows("h1", "Sign in").await?;
        assert_no_assertion_is_accepted_twice(&page, WITH_PASSKEY).await?;

        tab.open(&security).await?;
        page.enter(&format!("{remove} input[name='current']"), &user.password).await?;
        page.click(&format!("{remove} button")).await?;
        page.shows("[role=status]", "Done").await?;
        assert_eq!(page.count(remove).await?, 0);
        page.click(".top button").await?;
        page.shows("h1", "Sign in").await?;
        page.click(WITH_PASSKEY).await?;
        page.shows("[role=alert]", "The passkey was not accepted.").await?;
        assert_accessible(&tab, &page, "passkey-refused").await
    })
    .await
}

#[tokio::test]
async fn what_needs_a_script_for_passkeys_is_hidden_without_one() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let (url, user) = (cluster().await?.portal_url(0), cluster().await?.portal_user(&shop.account, "viewer").await?);
    browse(Device::Desktop, async |browser| {
        let mut tab = browser.tab().await?;
        tab.disable_scripts().await?;
        tab.open(&url).await?;
        let page = tab.top();
        let is_shown = |selector: &str| format!("document.querySelector({}).checkVisibility()", json!(selector));
        assert_eq!(page.value(&is_shown("form[action='/sign-in/passkey']")).await?, false);
        sign_in(&page, &user).await?;
        tab.open(&format!("{url}/test/security")).await?;
        page.shows("[data-unsupported]", "Passkeys cannot be added here").await?;
        assert_eq!(page.value(&is_shown("form[action='/test/security/add-passkey']")).await?, false);
        Ok(())
    })
    .await
}
