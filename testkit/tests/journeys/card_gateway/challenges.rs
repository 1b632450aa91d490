//! 3-D Secure through /v1: the cardholder is asked, and what counts is what the report says.

use anyhow::Result;
use serde_json::{Value, json};

use super::{CHALLENGED, shop};
use crate::support::{Cardholder, Shop, conflict, created, id, payment_made};

async fn asked(shop: &Shop, extra: Value) -> Result<Value> {
    let mut body = json!({"amount": 800, "currency": "USD", "paymentToken": shop.token(CHALLENGED).await?});
    body.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
    let payment = created(&shop.pay_with(body).await?).clone();
    assert_eq!((&payment["status"], &payment["nextAction"]["type"]), (&json!("requires_action"), &json!("redirect")));
    Ok(payment)
}

async fn told(shop: &Shop, payment: &Value) -> Result<Vec<String>> {
    let events = shop.merchant.books.events(&id(payment)?).await?;
    Ok(events.into_iter().map(|(kind, _)| kind).collect())
}

#[tokio::test]
async fn who_confirms_pays_and_comes_back_to_the_merchant() -> Result<()> {
    let (shop, cardholder) = (shop().await?, Cardholder::new()?);
    let payment = asked(&shop, json!({"returnUrl": "https://shop.example/done?order=7"})).await?;
    let bank = cardholder.reach_the_bank(&payment).await?;
    let back = cardholder.decide(&bank, "confirm").await?;
    let stop = cardholder.open(&back).await?;
    let wanted = format!("https://shop.example/done?order=7&paymentId={}", id(&payment)?);
    assert_eq!((stop.status, stop.to), (303, Some(wanted)));
    let paid = shop.merchant.payment(&id(&payment)?).await?;
    assert_eq!((&paid["status"], &paid["nextAction"]), (&json!("pending_settlement"), &Value::Null));
    assert_eq!(told(&shop, &payment).await?, ["payment.requires_action", "payment.captured"]);
    assert_eq!(shop.records().await?, "sale 800 approved");
    Ok(())
}

#[tokio::test]
async fn who_refuses_is_declined() -> Result<()> {
    let (shop, cardholder) = (shop().await?, Cardholder::new()?);
    let payment = asked(&shop, json!({"capture": false})).await?;
    let bank = cardholder.reach_the_bank(&payment).await?;
    let back = cardholder.decide(&bank, "refuse").await?;
    let stop = cardholder.open(&back).await?;
    assert_eq!(stop.status, 200, "nobody has said where to go, so there is a page");
    assert!(stop.html.contains("declined"), "{}", stop.html);
    let declined = shop.merchant.payment(&id(&payment)?).await?;
    assert_eq!(
        (&declined["status"], &declined["declineCode"], &declined["declineType"]),
        (&json!("declined"), &json!("authentication_failed"), &json!("soft"))
    );
    assert_eq!(told(&shop, &payment).await?, ["payment.requires_action", "payment.declined"]);
    Ok(())
}

/// The way back is a hint: whatever it says, the report decides.
#[tokio::test]
async fn a_forged_return_changes_nothing() -> Result<()> {
    let (shop, cardholder) = (shop().await?, Cardholder::new()?);
    let payment = asked(&shop, json!({})).await?;
    let url = payment["nextAction"]["url"].as_str().expect("an address");
    let stop = cardholder.open(&format!("{url}/return?transaction_id=1&code=00&description=Success")).await?;
    assert_eq!(stop.status, 200);
    assert_eq!(shop.merchant.payment(&id(&payment)?).await?["status"], "requires_action");
    conflict(&shop.merchant.capture(&id(&payment)?, None).await?);
    conflict(&shop.merchant.refund(&id(&payment)?, None).await?);
    conflict(&shop.merchant.void(&id(&payment)?).await?);
    let bank = cardholder.reach_the_bank(&payment).await?;
    cardholder.decide(&bank, "refuse").await?;
    // Nobody comes back from the bank, and it is found out all the same.
    let declined = shop.merchant.becomes(&id(&payment)?, "declined").await?;
    assert_eq!(declined["declineCode"], "authentication_failed");
    let forged = cardholder.open(&format!("{url}/return?code=00")).await?;
    assert!(forged.html.contains("declined"), "{}", forged.html);
    assert_eq!(cardholder.open(&format!("{url}0")).await?.status, 404);
    Ok(())
}

/// The question stands for half a minute.
#[tokio::test]
async fn who_says_nothing_is_declined_in_the_end() -> Result<()> {
    let shop = shop().await?;
    let key = shop.merchant.api.header("idempotency-key", "asked")?;
    let body = json!({"amount": 800, "currency": "USD", "paymentToken": shop.token(CHALLENGED).await?});
    let first = key.post("/v1/payments", body.clone()).await?;
    assert_eq!(created(&first)["status"], "requires_action");
    shop.merchant.becomes(&id(&first.body)?, "declined").await?;
    let replay = key.post("/v1/payments", body).await?;
    assert_eq!((&replay.body, replay.header("idempotent-replayed")), (&first.body, Some("true")));
    assert_eq!(shop.records().await?, "sale 800 declined");
    Ok(())
}

#[tokio::test]
async fn a_page_is_paid_through_a_challenge() -> Result<()> {
    let (shop, cardholder) = (shop().await?, Cardholder::new()?);
    let link = json!({"amount": 800, "currency": "USD", "description": "Tea"});
    let link = created(&shop.merchant.api.post("/v1/payment_links", link).await?).clone();
    let payer = crate::support::Payer::of(&link, &crate::support::cluster().await?.api_url(0))?;
    for (decision, shown) in [("refuse", "declined"), ("confirm", "Paid on")] {
        let upstream = shop.upstream(CHALLENGED).await?;
        let answer = payer.submit(&upstream).await?;
        assert_eq!(answer.status, 303);
        let to = answer.header("location").unwrap_or_default().to_owned();
        assert!(payment_made(&answer).is_none() && to.starts_with("../a/"), "{to}");
        let api = crate::support::cluster().await?.api_url(0);
        let stop = cardholder.open(&format!("{api}/pay/{}", to.trim_start_matches("../"))).await?;
        let back = cardholder.decide(&stop.to.expect("the bank"), decision).await?;
        let page = cardholder.open(&back).await?.to.expect("the page");
        let page = cardholder.open(&format!("{api}{page}")).await?;
        assert!(page.html.contains(shown), "{}", page.html);
    }
    let link = shop.merchant.api.get(&format!("/v1/payment_links/{}", id(&link)?)).await?.body;
    assert_eq!(link["status"], "paid");
    Ok(())
}
