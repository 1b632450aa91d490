//! Pages that show markup of attackers: elements with a `name` or `id` replace properties of `document` and `window`.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use testkit::browser::{Browser, Secret, Site};

use super::{script_url, site_of};
use crate::support::{Provider, Shop, cluster};

const PICTURE: &str = "/elements/x.png";

/// A page with an image of `attacker` named after each word of the script, and then the script. Afterwards `code` runs,
/// and removes the images when it calls `done` with a result.
async fn page(attacker: &Site, script: &str, code: &str) -> Result<String> {
    let text = reqwest::get(script).await?.error_for_status()?.text().await?;
    let words: BTreeSet<&str> =
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let address = format!("{}{PICTURE}", attacker.origin());
    let images: String =
        words.iter().map(|word| format!(r#"<img id="{word}" name="{word}" src="{address}" alt="">"#)).collect();
    Ok(format!(
        r##"<!doctype html><html lang="en"><title>Checkout</title><div id="field"></div><p id="result"></p>
<div id="attackers-markup">{images}</div><script src="{script}"></script>
<script>
    const byId = (id) => Document.prototype.getElementById.call(document, id);
    function done(...result) {{
        byId("result").textContent = result.join(" ");
        byId("attackers-markup").remove();
    }}
    {code}
</script></html>"##
    ))
}

/// Fails if a request other than that for the image was sent to the attacker.
fn assert_only_picture_requested(browser: &Browser, attacker: &Site) -> Result<()> {
    let requests = browser.requests();
    let sent: Vec<_> = requests
        .iter()
        .filter(|request| request.origin() == attacker.origin() && request.path() != PICTURE)
        .map(|request| format!("{} {}", request.method, request.url))
        .collect();
    ensure!(sent.is_empty(), "the script sent {sent:?}");
    Ok(())
}

/// A site of an attacker that serves its image.
fn attacker() -> Result<Site> {
    Ok(Site::start()?.page(PICTURE, ""))
}

#[tokio::test]
async fn the_card_field_comes_from_the_address_of_the_script() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let attacker = attacker()?;
    let key = &shop.account.publishable_key;
    let code = format!(
        r##"const field = UnifiedPayments("{key}").mount("#field");
        field.ready.then(() => done("ready"), (error) => done("error: " + error.message));"##
    );
    let site = site_of(&shop).await?.page("/", &page(&attacker, &script_url().await?, &code).await?);
    shop.visit(async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.localhost_origin()).await?;
        let shown = tab.top().shows("#result", "ready").await;
        assert_only_picture_requested(browser, &attacker)?;
        shown?;
        tab.frame("#field iframe").text("label").await.map(drop)
    })
    .await
}

#[tokio::test]
async fn card_numbers_are_sent_to_the_gateway_that_served_the_script() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let (attacker, gateway) = (attacker()?, cluster().await?.gateway_url(0));
    let number = "4242424242424242";
    let proxy = format!(r##"GatewayProxynizationAPI.process("{number}", "done");"##);
    // `process` must not throw: the browser would then submit the form.
    let field = r##"done("false is " + GatewayProxynizationAPI.process("#none", "unused"));"##;
    let wallet = format!(
        r##"gatewayWalletPay.testCard = "{number}";
        gatewayWalletPay.paymentResponse = done;
        gatewayWalletPay.paymentRequest("{}", "Shop", "25.00", "USD");"##,
        "0".repeat(32)
    );
    let site = Site::start()?;
    for (script, code, result) in [
        ("proxynization_api.js", proxy.as_str(), "A01"),
        ("proxynization_api.js", &format!("function unused() {{}} {field}"), "false is false"),
        ("walletPaySandbox.js", &wallet, "F "),
    ] {
        site.put("/", &page(&attacker, &format!("{gateway}/services/{script}"), code).await?);
        shop.visit(async |browser| {
            browser.add_secret(Secret::CardNumber(number.to_owned()));
            let tab = browser.tab().await?;
            tab.open(&site.localhost_origin()).await?;
            let shown = tab.top().shows("#result", result).await;
            assert_only_picture_requested(browser, &attacker)?;
            shown
        })
        .await?;
    }
    Ok(())
}
