//! From the page to the payment: origins, sessions, and tokens that are good once.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use testkit::Client;

use crate::support::{
    Browser, Merchant, ORIGIN, cluster, conflict, created, id, ids, invalid, merchant, not_found, payment, refused,
    sale, together, with,
};

const SESSIONS: &str = "/v1/checkout_sessions";
const TOKENS: &str = "/v1/tokens";

async fn shop() -> Result<(Merchant, Browser)> {
    let merchant = merchant().await?;
    let browser = Browser::of(cluster().await?, &merchant.account)?;
    Ok((merchant, browser))
}

#[tokio::test]
async fn the_origin_is_read_before_the_key_and_must_be_allowed() -> Result<()> {
    let merchant = merchant().await?;
    let bare = Client::new(merchant.api.base())?;
    // Before anything else: neither key nor body is looked at.
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
        let answer = page.header("origin", origin)?.post(SESSIONS, json!({})).await?;
        refused(&answer, 401, "authentication_failed");
    }
    created(&page.header("origin", ORIGIN)?.post(SESSIONS, json!({})).await?);
    Ok(())
}

#[tokio::test]
async fn an_empty_allow_list_refuses_every_origin() -> Result<()> {
    let merchant = Merchant::with(cluster().await?, &["--mode", "test", "--provider", "mock"]).await?;
    let page = Client::new(merchant.api.base())?.bearer(&merchant.account.publishable_key)?;
    for origin in [ORIGIN, "null"] {
        refused(&page.header("origin", origin)?.post(SESSIONS, json!({})).await?, 401, "authentication_failed");
    }
    Ok(())
}

#[tokio::test]
async fn a_preflight_carries_no_key() -> Result<()> {
    let (_, browser) = shop().await?;
    for path in [SESSIONS, TOKENS] {
        let ask = Client::new(browser.api.base())?
            .header("origin", ORIGIN)?
            .header("access-control-request-method", "POST")?
            .header("access-control-request-headers", "authorization,content-type")?;
        let answer = ask.send(Method::OPTIONS, path, None).await?;
        assert!((200..300).contains(&answer.status), "{path}: {}", answer.status);
        let header = |name: &str| answer.header(name).unwrap_or_default().to_ascii_lowercase();
        assert!([ORIGIN, "*"].contains(&header("access-control-allow-origin").as_str()));
        assert!(header("access-control-allow-methods").contains("post"));
        let headers = header("access-control-allow-headers");
        assert!(headers.contains("authorization") && headers.contains("content-type"));
    }
    // The page must be able to read what it is told, a refusal too.
    for answer in [
        browser.api.post(SESSIONS, json!({})).await?,
        browser.api.post(SESSIONS, json!({"intent": "nonsense"})).await?,
        browser.exchange("cs_unknown", "tok_ok").await?,
    ] {
        assert!(answer.header("access-control-allow-origin").is_some(), "{}", answer.body);
    }
    Ok(())
}

#[tokio::test]
async fn each_kind_of_key_has_its_own_routes() -> Result<()> {
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

#[tokio::test]
async fn a_session_says_nothing_of_the_provider() -> Result<()> {
    let modifiers = r#"{"tax":{"type":"percent","value":825}}"#;
    let options = ["--mode", "test", "--provider", "mock", "--origin", ORIGIN, "--modifiers", modifiers];
    let merchant = Merchant::with(cluster().await?, &options).await?;
    let browser = Browser::of(cluster().await?, &merchant.account)?;
    for body in [json!({}), json!({"intent": "one_time"}), json!({"intent": "store"}), json!({"intent": null})] {
        let answer = browser.api.post(SESSIONS, body).await?;
        let session = created(&answer);
        assert_eq!(session["modifiers"], json!({"tax": {"type": "percent", "value": 825}}));
        let text = |field: &str| session[field].as_str().unwrap_or_default();
        assert!(text("sessionId").starts_with("cs_") && text("sessionId").len() >= 3 + 32, "{session}");
        assert!(text("mountUrl").starts_with("http"), "{session}");
        assert!(!session.to_string().contains("mock"), "{session}");
    }
    for intent in [json!("other"), json!(1), json!(true)] {
        invalid(&browser.api.post(SESSIONS, json!({"intent": intent})).await?, "intent");
    }
    Ok(())
}

#[tokio::test]
async fn a_session_is_exchanged_once_and_by_its_own_account() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let (_, stranger) = shop().await?;
    let session = browser.session().await?;
    not_found(&stranger.exchange(&session, "tok_ok").await?);
    not_found(&browser.exchange("cs_0000000000000000000000000000000000000000", "tok_ok").await?);
    invalid(&browser.exchange(&session, "tok_unknown").await?, "upstreamToken");
    invalid(&browser.api.post(TOKENS, json!({"sessionId": session})).await?, "upstreamToken");
    invalid(&browser.api.post(TOKENS, json!({"upstreamToken": "tok_ok"})).await?, "sessionId");
    // The exchange needs no Origin: the session is the capability.
    let bare = Client::new(browser.api.base())?.bearer(&merchant.account.publishable_key)?;
    let answer = bare.post(TOKENS, json!({"sessionId": session, "upstreamToken": "tok_ok"})).await?;
    let token = created(&answer);
    assert_eq!(token["object"], "token");
    assert!(token["paymentToken"].as_str().is_some_and(|t| t.starts_with("mtok_") && t.len() >= 5 + 32));
    assert!(token["expiresAt"].is_string());
    conflict(&browser.exchange(&session, "tok_ok").await?);
    Ok(())
}

#[tokio::test]
async fn a_session_exchanged_by_many_gives_one_token() -> Result<()> {
    let (_, browser) = shop().await?;
    let session = browser.session().await?;
    let answers = together(12, async |_| browser.exchange(&session, "tok_ok").await).await?;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!(won.len(), 1);
    lost.into_iter().for_each(conflict);
    Ok(())
}

#[tokio::test]
async fn an_expired_session_is_a_conflict() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let session = browser.session().await?;
    sqlx::query("UPDATE checkout_sessions SET expires_at = now() - interval '1 second' WHERE account_id = $1")
        .bind(merchant.books.account)
        .execute(&merchant.books.db)
        .await?;
    conflict(&browser.exchange(&session, "tok_ok").await?);
    Ok(())
}

#[tokio::test]
async fn thirty_spends_of_one_token_make_one_charge() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let token = browser.token("tok_ok").await?;
    let customer = merchant.customer().await?;
    // Some want to keep the card instead: that spends the token as well.
    let answers = together(30, async |i| match i % 5 {
        0 => merchant.save_card(&customer, &token).await,
        1 => merchant.pay_once(&format!("key-{i}"), payment(100, &token)).await,
        _ => merchant.api.post("/v1/payments", payment(100, &token)).await,
    })
    .await?;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!(won.len(), 1, "{:?}", answers.iter().map(|answer| answer.status).collect::<Vec<_>>());
    lost.into_iter().for_each(conflict);
    let charged = i64::from(won[0].body["object"] == "payment");
    assert_eq!(merchant.books.charges().await?, charged);
    assert_eq!(merchant.books.operations().await?, 1);
    Ok(())
}

#[tokio::test]
async fn thirty_charges_of_one_token_make_one_charge() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let token = browser.token("tok_ok").await?;
    let answers = together(30, async |_| merchant.api.post("/v1/payments", payment(100, &token)).await).await?;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!(won.len(), 1);
    lost.into_iter().for_each(conflict);
    assert_eq!(merchant.books.charges().await?, 1);
    merchant.books.audit().await
}

#[tokio::test]
async fn a_token_ends_and_belongs_to_its_account() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let (stranger, _) = shop().await?;
    let token = browser.token("tok_ok").await?;
    invalid(&stranger.api.post("/v1/payments", payment(100, &token)).await?, "paymentToken");
    sqlx::query("UPDATE payment_tokens SET expires_at = now() - interval '1 second' WHERE account_id = $1")
        .bind(merchant.books.account)
        .execute(&merchant.books.db)
        .await?;
    invalid(&merchant.api.post("/v1/payments", payment(100, &token)).await?, "paymentToken");
    let customer = merchant.customer().await?;
    invalid(&merchant.save_card(&customer, &token).await?, "paymentToken");
    assert_eq!(merchant.books.operations().await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_refusal_spends_no_token_and_a_decline_does() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let token = browser.token("tok_insufficient").await?;
    let body = payment(100, &token);
    let customer = merchant.customer().await?;
    invalid(&merchant.api.post("/v1/payments", with(body.clone(), "amount", 0)).await?, "amount");
    invalid(&merchant.api.post("/v1/payments", with(body.clone(), "currency", "XXX")).await?, "currency");
    merchant.pay_once("used", sale(5)).await?;
    invalid(&merchant.pay_once("used", body.clone()).await?, "Idempotency-Key");
    not_found(&merchant.save_card("cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", &token).await?);
    assert_eq!(created(&merchant.api.post("/v1/payments", body.clone()).await?)["status"], "declined");
    conflict(&merchant.api.post("/v1/payments", body).await?);
    conflict(&merchant.save_card(&customer, &token).await?);
    Ok(())
}

#[tokio::test]
async fn a_token_saved_as_a_card_is_spent_and_the_card_is_charged() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let (token, customer) = (browser.token("tok_ok").await?, merchant.customer().await?);
    let saved = merchant.save_card(&customer, &token).await?;
    let card = id(created(&saved))?;
    conflict(&merchant.api.post("/v1/payments", payment(100, &token)).await?);
    conflict(&merchant.save_card(&customer, &token).await?);
    for amount in [100, 200] {
        let body = json!({"amount": amount, "currency": "USD", "paymentMethodId": card});
        let answer = merchant.api.post("/v1/payments", body).await?;
        let paid = created(&answer);
        assert_eq!(paid["status"], "pending_settlement");
        assert_eq!((&paid["paymentMethodId"], &paid["customerId"]), (&json!(card), &json!(customer)));
    }
    let cards = merchant.api.get(&format!("/v1/payment_methods?customerId={customer}")).await?;
    assert_eq!(ids(&cards), [card]);
    merchant.books.audit().await
}

#[tokio::test]
async fn test_cards_are_for_test_accounts() -> Result<()> {
    let options = ["--mode", "live", "--provider", "mock", "--origin", ORIGIN];
    let live = Merchant::with(cluster().await?, &options).await?;
    let browser = Browser::of(cluster().await?, &live.account)?;
    let session = browser.session().await?;
    for token in ["tok_ok", "tok_partial", "tok_insufficient"] {
        invalid(&browser.exchange(&session, token).await?, "upstreamToken");
    }
    Ok(())
}
