//! 3-D Secure through /v1: the cardholder is challenged, and only the gateway's report decides the outcome.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{CHALLENGED, shop};
use crate::support::{Cardholder, Shop, conflict, created, id, redirect_payment_id, uuid};

async fn challenged_payment(shop: &Shop, extra: Value) -> Result<Value> {
    let mut body = json!({"amount": 800, "currency": "USD", "paymentToken": shop.token(CHALLENGED).await?});
    body.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
    let payment = created(&shop.pay_with(body).await?).clone();
    assert_eq!((&payment["status"], &payment["nextAction"]["type"]), (&json!("requires_action"), &json!("redirect")));
    Ok(payment)
}

async fn event_types(shop: &Shop, payment: &Value) -> Result<Vec<String>> {
    let events = shop.merchant.books.events(&id(payment)?).await?;
    Ok(events.into_iter().map(|(kind, _)| kind).collect())
}

#[tokio::test]
async fn confirming_a_challenge_pays_and_returns_to_the_merchant() -> Result<()> {
    let (shop, cardholder) = (shop().await?, Cardholder::new()?);
    let payment = challenged_payment(&shop, json!({"returnUrl": "https://shop.example/done?order=7"})).await?;
    let bank = cardholder.open_bank_page(&payment).await?;
    let back = cardholder.decide(&bank, "confirm").await?;
    let page = cardholder.open(&back).await?;
    let return_url = format!("https://shop.example/done?order=7&paymentId={}", id(&payment)?);
    assert_eq!((page.status, page.location), (303, Some(return_url)));
    let paid = shop.merchant.payment(&id(&payment)?).await?;
    assert_eq!((&paid["status"], &paid["nextAction"]), (&json!("pending_settlement"), &Value::Null));
    assert_eq!(event_types(&shop, &payment).await?, ["payment.requires_action", "payment.captured"]);
    assert_eq!(shop.records().await?, "sale 800 approved");
    Ok(())
}

#[tokio::test]
async fn refusing_a_challenge_declines_the_payment() -> Result<()> {
    let (shop, cardholder) = (shop().await?, Cardholder::new()?);
    let books = &shop.merchant.books;
    let contact = "UPDATE accounts SET support_contact = 'help@shop.example' WHERE id = $1";
    sqlx::query(contact).bind(books.account).execute(&books.db).await?;
    let payment = challenged_payment(&shop, json!({"capture": false})).await?;
    let bank = cardholder.open_bank_page(&payment).await?;
    let back = cardholder.decide(&bank, "refuse").await?;
    let page = cardholder.open(&back).await?;
    assert_eq!(page.status, 200, "without a returnUrl there is a page");
    assert!(page.html.contains("declined") && page.html.contains("help@shop.example"), "{}", page.html);
    let declined = shop.merchant.payment(&id(&payment)?).await?;
    assert_eq!(
        (&declined["status"], &declined["declineCode"], &declined["declineType"]),
        (&json!("declined"), &json!("authentication_failed"), &json!("soft"))
    );
    assert_eq!(event_types(&shop, &payment).await?, ["payment.requires_action", "payment.declined"]);
    Ok(())
}

/// The return from the bank only triggers a lookup: the gateway's report decides, whatever the query string says.
#[tokio::test]
async fn a_forged_return_changes_nothing() -> Result<()> {
    let (shop, cardholder) = (shop().await?, Cardholder::new()?);
    let payment = challenged_payment(&shop, json!({})).await?;
    let url = payment["nextAction"]["url"].as_str().expect("an address");
    let page = cardholder.open(&format!("{url}/return?transaction_id=1&code=00&description=Success")).await?;
    assert_eq!(page.status, 200);
    assert_eq!(shop.merchant.payment(&id(&payment)?).await?["status"], "requires_action");
    conflict(&shop.merchant.capture(&id(&payment)?, None).await?);
    conflict(&shop.merchant.refund(&id(&payment)?, None).await?);
    conflict(&shop.merchant.void(&id(&payment)?).await?);
    let bank = cardholder.open_bank_page(&payment).await?;
    cardholder.decide(&bank, "refuse").await?;
    // The browser never returns from the bank, and the outcome is found by polling.
    let declined = shop.merchant.wait_for_status(&id(&payment)?, "declined").await?;
    assert_eq!(declined["declineCode"], "authentication_failed");
    let forged = cardholder.open(&format!("{url}/return?code=00")).await?;
    assert!(forged.html.contains("declined"), "{}", forged.html);
    assert_eq!(cardholder.open(&format!("{url}0")).await?.status, 404);
    Ok(())
}

/// Anyone who knows the URL can open it, without a session at the bank.
#[tokio::test]
async fn a_flood_of_returns_is_not_kept_waiting_and_not_passed_on_to_the_gateway() -> Result<()> {
    let (shop, cardholder) = (shop().await?, Cardholder::new()?);
    let payment = challenged_payment(&shop, json!({})).await?;
    let url = format!("{}/return", payment["nextAction"]["url"].as_str().expect("an address"));
    let claims = async || -> Result<i64> {
        let query = sqlx::query_scalar("SELECT fence FROM operations WHERE payment_id = $1");
        Ok(query.bind(uuid(&id(&payment)?)?).fetch_one(&shop.merchant.books.db).await?)
    };
    let before = claims().await?;
    // In waves, because a lookup in progress also absorbs wake-ups.
    let returns = (0..60_u64).map(async |i| {
        tokio::time::sleep(Duration::from_millis(40 * i)).await;
        let start = Instant::now();
        ensure!(cardholder.open(&url).await?.status == 200);
        Ok(start.elapsed() > Duration::from_secs(2))
    });
    let waited = futures_util::future::try_join_all(returns).await?.into_iter().filter(|waited| *waited).count();
    ensure!(waited <= 8, "{waited} of 60 requests waited");
    let looked_up = claims().await? - before;
    ensure!(looked_up <= 10, "the gateway was queried {looked_up} times within 8 seconds");
    // The cardholder's own return is still noticed.
    let back = cardholder.decide(&cardholder.open_bank_page(&payment).await?, "confirm").await?;
    cardholder.open(&back).await?;
    shop.merchant.wait_for_status(&id(&payment)?, "pending_settlement").await.map(drop)
}

/// A challenge times out after 30 seconds.
#[tokio::test]
async fn an_unanswered_challenge_is_declined_after_its_timeout() -> Result<()> {
    let shop = shop().await?;
    let key = shop.merchant.api.header("idempotency-key", "challenge")?;
    let body = json!({"amount": 800, "currency": "USD", "paymentToken": shop.token(CHALLENGED).await?});
    let first = key.post("/v1/payments", body.clone()).await?;
    assert_eq!(created(&first)["status"], "requires_action");
    shop.merchant.wait_for_status(&id(&first.body)?, "declined").await?;
    let replay = key.post("/v1/payments", body).await?;
    assert_eq!((&replay.body, replay.header("idempotent-replayed")), (&first.body, Some("true")));
    assert_eq!(shop.records().await?, "sale 800 declined");
    Ok(())
}

#[tokio::test]
async fn a_payment_page_can_be_paid_through_a_challenge() -> Result<()> {
    let (shop, cardholder) = (shop().await?, Cardholder::new()?);
    let link = json!({"amount": 800, "currency": "USD", "description": "Tea"});
    let link = created(&shop.merchant.api.post("/v1/payment_links", link).await?).clone();
    let payer = crate::support::Payer::for_object(&link, &crate::support::cluster().await?.api_url(0))?;
    for (decision, expected) in [("refuse", "declined"), ("confirm", "Paid on")] {
        let upstream = shop.upstream_token(CHALLENGED).await?;
        let response = payer.submit(&upstream).await?;
        assert_eq!(response.status, 303);
        let location = response.header("location").unwrap_or_default().to_owned();
        assert!(redirect_payment_id(&response).is_none() && location.starts_with("../a/"), "{location}");
        let api = crate::support::cluster().await?.api_url(0);
        let action = cardholder.open(&format!("{api}/pay/{}", location.trim_start_matches("../"))).await?;
        let back = cardholder.decide(&action.location.expect("a redirect to the bank"), decision).await?;
        let path = cardholder.open(&back).await?.location.expect("a redirect to the payment page");
        let page = cardholder.open(&format!("{api}{path}")).await?;
        assert!(page.html.contains(expected), "{}", page.html);
    }
    let link = shop.merchant.api.get(&format!("/v1/payment_links/{}", id(&link)?)).await?.body;
    assert_eq!(link["status"], "paid");
    Ok(())
}
