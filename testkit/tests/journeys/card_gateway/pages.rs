//! Payment pages and card fields of a merchant at the card gateway.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::{Client, Cluster};

use super::{APPROVES, CHALLENGED, DECLINED, shop};
use crate::subscriptions::{plan, subscription_body};
use crate::support::{Cardholder, ORIGIN, Payer, Shop, cluster, created, id, ok};

const LINKS: &str = "/v1/payment_links";

/// The API path of a new link, and a payer on its page.
pub(super) async fn link(shop: &Shop) -> Result<(String, Payer)> {
    link_at(cluster().await?, shop).await
}

pub(super) async fn link_at(cluster: &Cluster, shop: &Shop) -> Result<(String, Payer)> {
    let response = shop.merchant.api.post(LINKS, json!({"amount": 800, "currency": "USD"})).await?;
    let link = created(&response);
    Ok((format!("{LINKS}/{}", id(link)?), Payer::for_object(link, &cluster.api_url(0))?))
}

#[tokio::test]
async fn card_data_can_only_be_sent_to_the_gateway() -> Result<()> {
    let shop = shop().await?;
    let gateway = cluster().await?.gateway_url(0);
    let (_, payer) = link(&shop).await?;
    let page = payer.open().await?;
    let token_url = format!("data-provider=\"gateway\" data-token-url=\"{gateway}/services/field_token\"");
    page.assert_shows(200, &[&token_url, "data-app-key=\"", "straight to the card processor"]);
    let policy: Vec<_> = page.response.header("content-security-policy").context("a policy")?.split("; ").collect();
    let (connect, form) = (format!("connect-src 'self' {gateway}"), format!("form-action 'self' {gateway}"));
    assert_eq!(policy[2..5], ["script-src 'self'", &connect, &form]);
    // The card field connects only to the gateway, not to our API.
    let field_connect = format!("connect-src {gateway}");

    let response = shop.browser.api.send(reqwest::Method::POST, "/v1/checkout_sessions", None).await?;
    let url = created(&response)["mountUrl"].as_str().context("no mountUrl")?.to_owned();
    let path = &url[url.find("/elements/").context("a field")?..];
    let field = Client::new(&cluster().await?.api_url(0))?.get(path).await?;
    let policy: Vec<_> = field.header("content-security-policy").context("a policy")?.split("; ").collect();
    let frame = format!("frame-ancestors {ORIGIN}");
    assert_eq!(policy[2..], ["script-src 'self'", &field_connect, "form-action 'none'", "base-uri 'none'", &frame]);
    assert!(String::from_utf8(field.bytes)?.contains(&token_url));
    Ok(())
}

#[tokio::test]
async fn a_link_accepts_only_tokens_of_the_gateway() -> Result<()> {
    let shop = shop().await?;
    let (path, payer) = link(&shop).await?;
    // Neither a token of the mock nor one that the gateway never issued is accepted.
    for token in ["tok_ok", "fld_00000000000000000000000000000000"] {
        let response = payer.submit(token).await?;
        assert_eq!(response.status, 422);
        assert!(String::from_utf8(response.bytes)?.contains("could not be used"));
    }
    payer.pay(&shop.upstream_token(DECLINED).await?).await?.assert_shows(200, &["declined by its bank", "<button"]);
    let token = shop.upstream_token(APPROVES).await?;
    payer.pay(&token).await?.assert_shows(200, &["Paid on", "id=\"receipt\"", "Visa ending in 4242"]);
    assert_eq!(ok(&shop.merchant.api.get(&path).await?)["status"], "paid");
    assert_eq!(shop.records().await?, "sale 800 declined, sale 800 approved");
    let (_, other) = link(&shop).await?;
    assert_eq!(other.submit(&token).await?.status, 409, "the token is already used");
    Ok(())
}

#[tokio::test]
async fn a_challenged_cardholder_is_redirected_to_the_bank_and_back() -> Result<()> {
    let (shop, cardholder) = (shop().await?, Cardholder::new()?);
    for (decision, text, status) in [("refuse", "not confirmed with its bank", "open"), ("confirm", "Paid on", "paid")]
    {
        let (path, payer) = link(&shop).await?;
        let response = payer.submit(&shop.upstream_token(CHALLENGED).await?).await?;
        let location = response.header("location").context("no Location")?.to_owned();
        let action = location.strip_prefix("../").with_context(|| format!("{location} is not a challenge"))?;
        let url = format!("{}/pay/{action}", cluster().await?.api_url(0));
        payer.open().await?.assert_shows(200, &["being processed"]);
        let bank = cardholder.open(&url).await?.location.context("no redirect to the bank")?;
        let back = cardholder.decide(&bank, decision).await?;
        let page = cardholder.open(&back).await?.location.context("no redirect to the payment page")?;
        let shown = payer.at(&page).open().await?;
        shown.assert_shows(200, &[text]);
        assert_eq!(shown.html.contains("id=\"receipt\""), status == "paid");
        assert_eq!(ok(&shop.merchant.api.get(&path).await?)["status"], status);
    }
    Ok(())
}

/// The bank's page is in the language that the payer chose, and so is the page after it, although the bank's redirect does
/// not repeat it.
#[tokio::test]
async fn the_chosen_language_is_kept_at_the_bank_and_after_it() -> Result<()> {
    let (shop, cardholder) = (shop().await?, Cardholder::new()?);
    let api = cluster().await?.api_url(0);
    let (_, payer) = link(&shop).await?;
    let german = payer.at(&format!("{}?lang=de", payer.path()));
    let response = german.submit(&shop.upstream_token(CHALLENGED).await?).await?;
    let location = response.header("location").context("no Location")?.to_owned();
    let action = location.strip_prefix("../").with_context(|| format!("{location} is not a challenge"))?;
    let bank = cardholder.open(&format!("{api}/pay/{action}")).await?.location.context("no redirect to the bank")?;
    assert!(bank.ends_with("?lang=de"), "{bank}");
    let shown = cardholder.open(&bank).await?.html;
    assert!(shown.contains("Bestätigen") && shown.contains("8,00\u{a0}$"), "{shown}");
    let back = cardholder.decide(&bank, "confirm").await?;
    assert!(!back.contains("lang="), "{back}");
    let page = cardholder.open(&back).await?.location.context("no redirect to the payment page")?;
    assert!(page.contains("?payment=pay_") && page.ends_with("&lang=de"), "{page}");
    payer.at(&page).open().await?.assert_shows(200, &["Bezahlt am", "lang=\"de\""]);
    Ok(())
}

#[tokio::test]
async fn a_challenged_card_is_used_for_renewals_once_it_is_confirmed() -> Result<()> {
    let (shop, cardholder) = (shop().await?, Cardholder::new()?);
    let (merchant, api) = (&shop.merchant, cluster().await?.api_url(0));
    let customer = merchant.customer().await?;
    let body = subscription_body(&customer, &plan(merchant, "month").await?);
    let response = merchant.api.post("/v1/subscriptions", body).await?;
    let invoice = created(&response)["latestInvoiceId"].as_str().context("an invoice")?.to_owned();
    let payer = Payer::for_object(ok(&merchant.api.get(&format!("/v1/invoices/{invoice}")).await?), &api)?;
    let cards = format!("/v1/payment_methods?customerId={customer}");
    for (decision, text, saved) in [("refuse", "not confirmed with its bank", 0), ("confirm", "Paid on", 1)] {
        let token = shop.upstream_token(CHALLENGED).await?;
        let response = payer.send(&format!("token={token}&renewals=1")).await?;
        let location = response.header("location").context("no Location")?.to_owned();
        let action = location.strip_prefix("../").with_context(|| format!("{location} is not a challenge"))?;
        assert_eq!(ok(&merchant.api.get(&cards).await?)["data"], json!([]), "not before the approval");
        let bank =
            cardholder.open(&format!("{api}/pay/{action}")).await?.location.context("no redirect to the bank")?;
        let back = cardholder.decide(&bank, decision).await?;
        let page = cardholder.open(&back).await?.location.context("no redirect to the payment page")?;
        payer.at(&page).open().await?.assert_shows(200, &[text]);
        let response = merchant.api.get(&cards).await?;
        let data = ok(&response)["data"].as_array().context("a list")?;
        assert_eq!(data.iter().filter(|card| card["isDefault"] == true).count(), saved, "{data:?}");
        assert_eq!(data.len(), saved);
    }
    assert_eq!(shop.records().await?, "sale 2900 declined, sale 2900 approved");
    Ok(())
}

#[tokio::test]
async fn an_unsupported_currency_shows_an_error() -> Result<()> {
    let shop = shop().await?;
    let invoice = json!({"customerId": shop.merchant.customer().await?, "amount": 800, "currency": "BHD"});
    let response = shop.merchant.api.post("/v1/invoices", invoice).await?;
    let payer = Payer::for_object(created(&response), &cluster().await?.api_url(0))?;
    let response = payer.submit(&shop.upstream_token(APPROVES).await?).await?;
    assert_eq!(response.status, 422);
    assert!(String::from_utf8(response.bytes)?.contains("in this currency"));
    assert_eq!(shop.records().await?, "");
    Ok(())
}

#[tokio::test]
async fn the_gateway_limits_payers_by_address() -> Result<()> {
    let builder = Cluster::builder().env("TRUSTED_PROXIES", "127.0.0.0/8");
    let cluster = builder.api(1).worker(1).gateway(1).start().await?;
    let shop = Shop::new(&cluster, &["--hourly-per-address", "2"]).await?;
    let pay_from = async |address: &str| {
        let (_, payer) = link_at(&cluster, &shop).await?;
        payer.with_address(address)?.pay(&shop.upstream_token(APPROVES).await?).await
    };
    for address in ["1.1.1.1", "2606:4700::1111"] {
        for _ in 0..2 {
            pay_from(address).await?.assert_shows(200, &["Paid on"]);
        }
        pay_from(address).await?.assert_shows(200, &["too many payments from your network", "Nothing was charged"]);
    }
    // A private address does not identify a payer: it may be a balancer's and shared by all of them.
    for _ in 0..3 {
        pay_from("10.0.0.7").await?.assert_shows(200, &["Paid on"]);
    }
    let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM operations WHERE payer_address IS NOT NULL")
        .fetch_one(&shop.merchant.books.db)
        .await?;
    assert_eq!(
        (stored, shop.merchant.books.operations().await?),
        (0, 9),
        "the address is erased when the operation ends"
    );
    Ok(())
}
