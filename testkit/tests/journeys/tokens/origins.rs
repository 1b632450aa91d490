//! Requests from browsers: origins, preflights, and the two kinds of keys.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use testkit::Client;

use super::{SESSIONS, TOKENS, shop};
use crate::support::{Merchant, ORIGIN, cluster, created, merchant, refused, sale};

#[tokio::test]
async fn the_origin_is_checked_before_the_key() -> Result<()> {
    let merchant = merchant().await?;
    let bare = Client::new(merchant.api.base())?;
    // The origin is checked before the key and the body.
    for api in [&bare, &bare.bearer("nonsense")?, &bare.bearer(&merchant.account.publishable_key)?, &merchant.api] {
        refused(&api.send(Method::POST, SESSIONS, Some(b"{".to_vec())).await?, 401, "no_origin_header");
    }
    refused(&bare.header("origin", ORIGIN)?.post(SESSIONS, json!({})).await?, 401, "authentication_failed");
    let page = bare.bearer(&merchant.account.publishable_key)?;
    for origin in [
        "null",
        "",
        "https://shop.example/",
        "https://shop.example:443",
        "https://shop.example:8443",
        "http://shop.example",
        "https://SHOP.example",
        "https://shop.example.evil.example",
        "https://evil.example",
    ] {
        let response = page.header("origin", origin)?.post(SESSIONS, json!({})).await?;
        refused(&response, 401, "authentication_failed");
    }
    created(&page.header("origin", ORIGIN)?.post(SESSIONS, json!({})).await?);
    Ok(())
}

#[tokio::test]
async fn empty_allow_lists_reject_every_origin() -> Result<()> {
    let merchant = Merchant::with(cluster().await?, &["--mode", "test", "--provider", "mock"]).await?;
    let page = Client::new(merchant.api.base())?.bearer(&merchant.account.publishable_key)?;
    for origin in [ORIGIN, "null"] {
        refused(&page.header("origin", origin)?.post(SESSIONS, json!({})).await?, 401, "authentication_failed");
    }
    Ok(())
}

#[tokio::test]
async fn preflights_need_no_key() -> Result<()> {
    let (_, browser) = shop().await?;
    for path in [SESSIONS, TOKENS] {
        let preflight = Client::new(browser.api.base())?
            .header("origin", ORIGIN)?
            .header("access-control-request-method", "POST")?
            .header("access-control-request-headers", "authorization,content-type")?;
        let response = preflight.send(Method::OPTIONS, path, None).await?;
        assert!((200..300).contains(&response.status), "{path}: {}", response.status);
        let header = |name: &str| response.header(name).unwrap_or_default().to_ascii_lowercase();
        assert!([ORIGIN, "*"].contains(&header("access-control-allow-origin").as_str()));
        assert!(header("access-control-allow-methods").contains("post"));
        let headers = header("access-control-allow-headers");
        assert!(headers.contains("authorization") && headers.contains("content-type"));
    }
    // The page must be able to read every response, including errors.
    for response in [
        browser.api.post(SESSIONS, json!({})).await?,
        browser.api.post(SESSIONS, json!({"intent": "nonsense"})).await?,
        browser.exchange("cs_unknown", "tok_ok").await?,
    ] {
        assert!(response.header("access-control-allow-origin").is_some(), "{}", response.body);
    }
    Ok(())
}

#[tokio::test]
async fn publishable_and_secret_keys_have_separate_routes() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let secret = merchant.api.header("origin", ORIGIN)?;
    refused(&secret.post(SESSIONS, json!({})).await?, 403, "permission_denied");
    refused(&secret.post(TOKENS, json!({})).await?, 403, "permission_denied");
    for path in ["/v1/payments", "/v1/customers", "/v1/capabilities", "/v1/payments/pay_1", "/v1/payment_methods"] {
        refused(&browser.api.get(path).await?, 403, "permission_denied");
    }
    refused(&browser.api.post("/v1/payments", sale(100)).await?, 403, "permission_denied");
    refused(&browser.api.post("/v1/customers", json!({})).await?, 403, "permission_denied");
    Ok(())
}
