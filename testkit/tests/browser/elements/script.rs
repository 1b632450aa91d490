//! `/elements/v1.js` in a merchant's page.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::browser::Device;

use super::{script_url, site_of};
use crate::support::{Provider, Shop, at_each_provider, card, cluster};

at_each_provider! { a_card_in_a_merchants_page_is_charged an_invalid_card_is_reported_to_the_page }

/// A checkout page of a merchant.
pub(crate) fn checkout(script: &str, key: &str) -> String {
    checkout_with(script, key, "{}")
}

/// As [`checkout`], with these options of the field.
fn checkout_with(script: &str, key: &str, options: &str) -> String {
    format!(
        r##"<!doctype html><html lang="en"><title>Checkout</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><script src="{script}"></script>
<h1>Two tins of tea</h1><div id="card"></div><button id="buy">Buy</button><p id="result" role="status" style="overflow-wrap: anywhere"></p>
<script>
    const card = UnifiedPayments("{key}").mount("#card", {options});
    buy.onclick = async () => {{
        result.textContent = "";
        try {{
            const {{ paymentToken }} = await card.submit();
            result.textContent = paymentToken;
        }} catch (error) {{
            result.textContent = "error: " + error.message;
        }}
    }};
</script></html>"##
    )
}

async fn a_card_in_a_merchants_page_is_charged(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let site = site_of(&shop).await?.page("/", &checkout(&script_url().await?, &shop.account.publishable_key));
    let mut tokens = Vec::new();
    shop.visit(async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.localhost_origin()).await?;
        let (page, field) = (tab.top(), tab.frame("#card iframe"));
        // Twice, because the field can be reused for another card.
        for number in ["4000000000009995", "4242424242424242"] {
            card(number).enter(browser, &field).await?;
            page.click("#buy").await?;
            page.shows("#result", "mtok_").await?;
            tokens.push(page.text("#result").await?);
        }
        tab.screenshot("token").await
    })
    .await?;
    for (token, status) in tokens.iter().zip(["declined", "pending_settlement"]) {
        let body = json!({"amount": 2700, "currency": "USD", "paymentToken": token});
        let payment = shop.create("/v1/payments", body).await?;
        ensure!(payment["status"] == status, "{payment}");
    }
    let last4: Vec<Value> = shop.payments().await?.iter().map(|payment| payment["card"]["last4"].clone()).collect();
    assert_eq!(last4, ["4242", "9995"]);
    Ok(())
}

/// The documented snippet (docs/elements.md) with the URL of the running API; and a wrong hash, which the browser
/// rejects.
#[tokio::test]
async fn the_documented_integrity_hash_is_enforced() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let site = site_of(&shop).await?;
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/elements.md"))?;
    let (_, snippet) = page.split_once("<script src=\"").context("a snippet")?;
    let (snippet, _) = snippet.split_once("></script>").context("the end of the snippet")?;
    let api = cluster().await?.api_url(0);
    let tag = snippet.replace("https://api.example", &api);
    let html = checkout("SCRIPT", &shop.account.publishable_key);
    let html = html.replace("src=\"SCRIPT\"", &format!("src=\"{tag}"));
    site.put("/", &html);
    site.put("/other", &html.replace("integrity=\"sha384-", "integrity=\"sha384-AAAA"));
    shop.visit(async |browser| {
        browser.expect_console_error("integrity");
        browser.expect_console_error("UnifiedPayments is not defined");
        let tab = browser.tab().await?;
        tab.open(&site.localhost_origin()).await?;
        tab.frame("#card iframe").text("label").await?;
        tab.open(&format!("{}/other", site.localhost_origin())).await?;
        ensure!(tab.top().value("typeof UnifiedPayments").await? == "undefined");
        Ok(())
    })
    .await
}

async fn an_invalid_card_is_reported_to_the_page(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let site = site_of(&shop).await?.page("/", &checkout(&script_url().await?, &shop.account.publishable_key));
    shop.visit(async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.localhost_origin()).await?;
        let (page, field) = (tab.top(), tab.frame("#card iframe"));
        card("4242424242424241").enter(browser, &field).await?;
        page.click("#buy").await?;
        page.shows("#result", "error: The card number").await?;
        field.shows("#card-number-error", "card number").await?;
        ensure!(field.accessibility("#card-number").await?.invalid);
        tab.screenshot("invalid").await?;
        card("4242424242424242").enter(browser, &field).await?;
        page.click("#buy").await?;
        page.shows("#result", "mtok_").await
    })
    .await
}

/// Tab moves the focus from the page into the field, through it, and on to the button of the page.
#[tokio::test]
async fn the_field_is_filled_in_by_keyboard() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let site = site_of(&shop).await?.page("/", &checkout(&script_url().await?, &shop.account.publishable_key));
    let card = card("4242424242424242");
    shop.visit(async |browser| {
        card.register(browser);
        let tab = browser.tab().await?;
        tab.open(&site.localhost_origin()).await?;
        let (page, field) = (tab.top(), tab.frame("#card iframe"));
        field.text("label").await?;
        ensure!(page.attribute("#card iframe", "title").await?.as_deref() == Some("Card details"));
        tab.press("Tab").await?;
        for (input, keys) in [
            ("#card-number", card.number),
            ("#card-expiry", card.expiry),
            ("#card-cvc", card.code),
            ("#card-name", "Ada Lovelace"),
            ("#card-country", "United States"),
            ("#card-postal-code", "10001"),
        ] {
            field.wait(&format!("document.activeElement.matches('{input}')")).await?;
            tab.type_text(keys).await?;
            tab.press("Tab").await?;
        }
        page.wait("document.activeElement === buy").await?;
        tab.press("Enter").await?;
        page.shows("#result", "mtok_").await
    })
    .await
}

#[tokio::test]
async fn a_secret_key_is_rejected_before_any_request() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let html = format!(
        r#"<!doctype html><title>Page</title><div id="card"></div><script src="{}"></script>"#,
        script_url().await?
    );
    let site = site_of(&shop).await?.page("/", &html);
    shop.visit(async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.localhost_origin()).await?;
        let page = tab.top();
        page.wait("typeof UnifiedPayments === 'function'").await?;
        let before = browser.requests().len();
        for key in [&shop.account.secret_key, "svc_sk_test_x", "", "nonsense"] {
            let attempt =
                format!("(() => {{ try {{ UnifiedPayments({}) }} catch (e) {{ return e.message }} }})()", json!(key));
            let thrown = page.value(&attempt).await?;
            ensure!(thrown.as_str().is_some_and(|message| message.contains("key")), "{key}: {thrown}");
        }
        let sent: Vec<_> = browser.requests()[before..].iter().map(|request| request.url.clone()).collect();
        ensure!(sent.iter().all(|url| url.ends_with("/favicon.ico")), "{sent:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_origin_that_is_not_allowed_gets_no_field() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let site = site_of(&shop).await?.page("/", &checkout(&script_url().await?, &shop.account.publishable_key));
    shop.visit(async |browser| {
        browser.expect_console_error("401");
        browser.expect_console_error("is not on the account's allow-list");
        let tab = browser.tab().await?;
        // The same page under another host name has another origin.
        tab.open(&site.origin()).await?;
        tab.top().click("#buy").await?;
        tab.top().shows("#result", "error: Paying by card is not available").await?;
        // A developer reads which origin came and where to allow it.
        tab.top().shows("#card [role=alert]", &site.origin()).await?;
        tab.top().shows("#card [role=alert]", "in the portal under Developers, API keys").await?;
        ensure!(tab.top().count("iframe").await? == 0);
        Ok(())
    })
    .await
}

/// The field grows with its errors, and has the page's language and colors.
#[tokio::test]
async fn a_field_has_the_language_and_colors_of_its_page() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let options = r##"{language: "fr", appearance: {theme: "dark", variables: {accent: "#00ffaa", background: "#001020", evil: "1"}}}"##;
    let page = checkout_with(&script_url().await?, &shop.account.publishable_key, options);
    let site = site_of(&shop).await?.page("/", &page);
    shop.visit(async |browser| {
        let tab = browser.tab().await?;
        tab.resize(Device::SmallPhone).await?;
        tab.open(&site.localhost_origin()).await?;
        let (page, field) = (tab.top(), tab.frame("#card iframe"));
        field.shows("label[for=card-number]", "Numéro de carte").await?;
        ensure!(page.attribute("#card iframe", "title").await?.is_some_and(|title| title.contains("carte")));
        field.wait("getComputedStyle(document.body).backgroundColor === 'rgb(0, 16, 32)'").await?;
        let variable = async |name: &str| {
            field
                .value(&format!("getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()"))
                .await
        };
        ensure!((variable("accent").await?, variable("text").await?) == ("#00ffaa".into(), "#e6eaf1".into()));
        ensure!(variable("evil").await? == "", "any property can be set");
        let whole = "innerHeight >= document.documentElement.scrollHeight";
        field.wait(whole).await?;
        let before = field.value("innerHeight").await?.as_u64().context("a height")?;
        page.click("#buy").await?;
        field.shows("#card-number-error", "carte").await?;
        field.wait(&format!("innerHeight > {before} && {whole}")).await?;
        tab.screenshot_at_current_size("errors").await
    })
    .await
}

/// The cardholder confirms a payment at the bank and returns to the merchant.
#[tokio::test]
async fn a_merchants_payment_is_confirmed_at_the_bank() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let site = site_of(&shop).await?.page("/", &checkout(&script_url().await?, &shop.account.publishable_key));
    site.put("/done", "<!doctype html><title>Done</title><h1>Thank you</h1>");
    let mut id = String::new();
    shop.visit(async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.localhost_origin()).await?;
        let page = tab.top();
        card("4000002500003155").enter(browser, &tab.frame("#card iframe")).await?;
        page.click("#buy").await?;
        page.shows("#result", "mtok_").await?;
        let (token, return_url) = (page.text("#result").await?, format!("{}/done", site.localhost_origin()));
        let body = json!({"amount": 2800, "currency": "USD", "paymentToken": token, "returnUrl": return_url});
        let payment = shop.create("/v1/payments", body).await?;
        ensure!(payment["status"] == "requires_action", "{payment}");
        id = payment["id"].as_str().unwrap_or_default().to_owned();
        let action = payment["nextAction"]["url"].as_str().context("nextAction.url")?;
        // Redirects as a merchant's script does.
        page.value(&format!("void (location.href = {})", json!(action))).await?;
        page.shows("button", "Confirm").await?;
        page.click("button[value=confirm]").await?;
        page.shows("h1", "Thank you").await?;
        ensure!(tab.url().await?.contains(&format!("paymentId={id}")), "{}", tab.url().await?);
        Ok(())
    })
    .await?;
    let payment = shop.get(&format!("/v1/payments/{id}")).await?;
    assert_eq!(payment["status"], "pending_settlement", "{payment}");
    Ok(())
}
