//! Checkout sessions: their fields, and the single exchange.

use anyhow::Result;
use serde_json::json;
use testkit::Client;

use super::{SESSIONS, TOKENS, shop};
use crate::support::{Browser, Merchant, ORIGIN, cluster, concurrently, conflict, created, invalid, not_found};

#[tokio::test]
async fn sessions_do_not_reveal_the_provider() -> Result<()> {
    let modifiers = r#"{"tax":{"type":"percent","value":825}}"#;
    let options = ["--mode", "test", "--provider", "mock", "--origin", ORIGIN, "--modifiers", modifiers];
    let merchant = Merchant::with(cluster().await?, &options).await?;
    let browser = Browser::for_account(cluster().await?, &merchant.account)?;
    for body in [json!({}), json!({"intent": "one_time"}), json!({"intent": "store"}), json!({"intent": null})] {
        let response = browser.api.post(SESSIONS, body).await?;
        let session = created(&response);
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
async fn sessions_are_exchanged_once_by_their_account() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let (_, other_browser) = shop().await?;
    let session = browser.session().await?;
    not_found(&other_browser.exchange(&session, "tok_ok").await?);
    not_found(&browser.exchange("cs_0000000000000000000000000000000000000000", "tok_ok").await?);
    invalid(&browser.exchange(&session, "tok_unknown").await?, "upstreamToken");
    invalid(&browser.api.post(TOKENS, json!({"sessionId": session})).await?, "upstreamToken");
    invalid(&browser.api.post(TOKENS, json!({"upstreamToken": "tok_ok"})).await?, "sessionId");
    // The exchange needs no Origin: the session is the capability.
    let bare = Client::new(browser.api.base())?.bearer(&merchant.account.publishable_key)?;
    let response = bare.post(TOKENS, json!({"sessionId": session, "upstreamToken": "tok_ok"})).await?;
    let token = created(&response);
    assert_eq!(token["object"], "token");
    assert!(token["paymentToken"].as_str().is_some_and(|t| t.starts_with("mtok_") && t.len() >= 5 + 32));
    assert!(token["expiresAt"].is_string());
    conflict(&browser.exchange(&session, "tok_ok").await?);
    Ok(())
}

#[tokio::test]
async fn concurrent_exchanges_of_a_session_give_one_token() -> Result<()> {
    let (_, browser) = shop().await?;
    let session = browser.session().await?;
    let responses = concurrently(12, async |_| browser.exchange(&session, "tok_ok").await).await?;
    let (succeeded, conflicts): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 201);
    assert_eq!(succeeded.len(), 1);
    conflicts.into_iter().for_each(conflict);
    Ok(())
}

#[tokio::test]
async fn expired_sessions_return_409() -> Result<()> {
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
async fn test_cards_are_for_test_accounts() -> Result<()> {
    let options = ["--mode", "live", "--provider", "mock", "--allow-mock", "--origin", ORIGIN];
    let live = Merchant::with(cluster().await?, &options).await?;
    let browser = Browser::for_account(cluster().await?, &live.account)?;
    let session = browser.session().await?;
    for token in ["tok_ok", "tok_partial", "tok_insufficient"] {
        invalid(&browser.exchange(&session, token).await?, "upstreamToken");
    }
    Ok(())
}
