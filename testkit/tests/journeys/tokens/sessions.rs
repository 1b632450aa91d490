//! Checkout sessions: what they say, and that each is exchanged once.

use anyhow::Result;
use serde_json::json;
use testkit::Client;

use super::{SESSIONS, TOKENS, shop};
use crate::support::{Browser, Merchant, ORIGIN, cluster, conflict, created, invalid, not_found, together};

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
