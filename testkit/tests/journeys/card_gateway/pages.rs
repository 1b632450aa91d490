//! Payment pages and card fields of a merchant at the card gateway.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::{Client, Cluster};

use super::{APPROVES, CHALLENGED, DECLINED, shop};
use crate::support::{Cardholder, ORIGIN, Payer, Shop, cluster, created, id, ok};

const LINKS: &str = "/v1/payment_links";

/// A new link of the shop, and a payer who has its address.
async fn link(shop: &Shop) -> Result<(String, Payer)> {
    link_at(cluster().await?, shop).await
}

async fn link_at(cluster: &Cluster, shop: &Shop) -> Result<(String, Payer)> {
    let answer = shop.merchant.api.post(LINKS, json!({"amount": 800, "currency": "USD"})).await?;
    let link = created(&answer);
    Ok((format!("{LINKS}/{}", id(link)?), Payer::of(link, &cluster.api_url(0))?))
}

#[tokio::test]
async fn a_card_may_go_to_the_gateway_and_nowhere_else() -> Result<()> {
    let shop = shop().await?;
    let gateway = cluster().await?.gateway_url(0);
    let (_, payer) = link(&shop).await?;
    let page = payer.open().await?;
    let token_url = format!("data-provider=\"processor\" data-token-url=\"{gateway}/services/field_token\"");
    page.shows(200, &[&token_url, "data-app-key=\"", "straight to the card processor"]);
    let policy: Vec<_> = page.answer.header("content-security-policy").context("a policy")?.split("; ").collect();
    let (connect, form) = (format!("connect-src 'self' {gateway}"), format!("form-action 'self' {gateway}"));
    assert_eq!(policy[2..5], ["script-src 'self'", &connect, &form]);
    // The field speaks to nobody else, not even to us.
    let field_connect = format!("connect-src {gateway}");

    let answer = shop.browser.api.send(reqwest::Method::POST, "/v1/checkout_sessions", None).await?;
    let url = created(&answer)["mountUrl"].as_str().context("no mountUrl")?.to_owned();
    let path = &url[url.find("/elements/").context("a field")?..];
    let field = Client::new(&cluster().await?.api_url(0))?.get(path).await?;
    let policy: Vec<_> = field.header("content-security-policy").context("a policy")?.split("; ").collect();
    let frame = format!("frame-ancestors {ORIGIN}");
    assert_eq!(policy[2..], ["script-src 'self'", &field_connect, "form-action 'none'", "base-uri 'none'", &frame]);
    assert!(String::from_utf8(field.bytes)?.contains(&token_url));
    Ok(())
}

#[tokio::test]
async fn a_link_is_paid_with_what_the_card_is_worth_there() -> Result<()> {
    let shop = shop().await?;
    let (path, payer) = link(&shop).await?;
    // A token of the mock, or one that the gateway never gave, pays nothing here.
    for token in ["tok_ok", "fld_00000000000000000000000000000000"] {
        let answer = payer.submit(token).await?;
        assert_eq!(answer.status, 422);
        assert!(String::from_utf8(answer.bytes)?.contains("could not be used"));
    }
    payer.pay(&shop.upstream(DECLINED).await?).await?.shows(200, &["declined by its bank", "<button"]);
    let token = shop.upstream(APPROVES).await?;
    payer.pay(&token).await?.shows(200, &["Paid on", "id=\"receipt\"", "Visa ending in 4242"]);
    assert_eq!(ok(&shop.merchant.api.get(&path).await?)["status"], "paid");
    assert_eq!(shop.records().await?, "sale 800 declined, sale 800 approved");
    let (_, other) = link(&shop).await?;
    assert_eq!(other.submit(&token).await?.status, 409, "it was spent before");
    Ok(())
}

#[tokio::test]
async fn who_is_asked_is_led_to_his_bank_and_back() -> Result<()> {
    let (shop, cardholder) = (shop().await?, Cardholder::new()?);
    for (decision, says, status) in [("refuse", "not confirmed with its bank", "open"), ("confirm", "Paid on", "paid")]
    {
        let (path, payer) = link(&shop).await?;
        let answer = payer.submit(&shop.upstream(CHALLENGED).await?).await?;
        let place = answer.header("location").context("a place")?.to_owned();
        let action = place.strip_prefix("../").with_context(|| format!("{place} is no challenge"))?;
        let url = format!("{}/pay/{action}", cluster().await?.api_url(0));
        payer.open().await?.shows(200, &["being processed"]);
        let bank = cardholder.open(&url).await?.to.context("no bank")?;
        let back = cardholder.decide(&bank, decision).await?;
        let page = cardholder.open(&back).await?.to.context("no way back")?;
        let seen = payer.at(&page).open().await?;
        seen.shows(200, &[says]);
        assert_eq!(seen.html.contains("id=\"receipt\""), status == "paid");
        assert_eq!(ok(&shop.merchant.api.get(&path).await?)["status"], status);
    }
    Ok(())
}

#[tokio::test]
async fn a_currency_that_the_gateway_lacks_is_told_of() -> Result<()> {
    let shop = shop().await?;
    let invoice = json!({"customerId": shop.merchant.customer().await?, "amount": 800, "currency": "BHD"});
    let answer = shop.merchant.api.post("/v1/invoices", invoice).await?;
    let payer = Payer::of(created(&answer), &cluster().await?.api_url(0))?;
    let answer = payer.submit(&shop.upstream(APPROVES).await?).await?;
    assert_eq!(answer.status, 422);
    assert!(String::from_utf8(answer.bytes)?.contains("in this currency"));
    assert_eq!(shop.records().await?, "");
    Ok(())
}

#[tokio::test]
async fn the_gateway_counts_payers_by_their_address() -> Result<()> {
    let trusting = Cluster::builder().env("TRUSTED_PROXIES", "127.0.0.0/8");
    let cluster = trusting.api(1).worker(1).gateway(1).start().await?;
    let shop = Shop::new(&cluster, &["--hourly-per-address", "2"]).await?;
    let pays = async |address: &str| {
        let (_, payer) = link_at(&cluster, &shop).await?;
        payer.from(address)?.pay(&shop.upstream(APPROVES).await?).await
    };
    for address in ["1.1.1.1", "2606:4700::1111"] {
        for _ in 0..2 {
            pays(address).await?.shows(200, &["Paid on"]);
        }
        pays(address).await?.shows(200, &["too many payments from your network", "Nothing was charged"]);
    }
    // One that is nobody's on the internet says nothing of the payer: it may be a balancer's, and so everybody's.
    for _ in 0..3 {
        pays("10.0.0.7").await?.shows(200, &["Paid on"]);
    }
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM operations WHERE payer_address IS NOT NULL")
        .fetch_one(&shop.merchant.books.db)
        .await?;
    assert_eq!((kept, shop.merchant.books.operations().await?), (0, 9), "it is forgotten with the end of each");
    Ok(())
}
