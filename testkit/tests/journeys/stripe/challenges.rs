//! 3-D Secure by redirect: Stripe's page, and the return or an event of Stripe.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::stripe::CardBehavior;

use super::{Shop, shop};
use crate::support::{Cardholder, created, id};

async fn challenged(shop: &Shop<'_>, amount: i64) -> Result<Value> {
    let url = json!({"returnUrl": "https://shop.example/done"});
    let payment = created(&shop.pay(CardBehavior::Challenge, amount, url).await?).clone();
    assert_eq!((&payment["status"], &payment["nextAction"]["type"]), (&json!("requires_action"), &json!("redirect")));
    Ok(payment)
}

#[tokio::test]
async fn the_cardholder_returns_to_the_merchant() -> Result<()> {
    let shop = shop().await?;
    let cardholder = Cardholder::new()?;
    for (answer, status) in [("pass", "pending_settlement"), ("fail", "declined")] {
        let payment = challenged(&shop, 900).await?;
        let bank = cardholder.open_bank_page(&payment).await?;
        assert!(bank.starts_with(shop.stripe.url()), "{bank}");
        let back = cardholder.press(&bank, "answer", answer).await?;
        let page = cardholder.open(&back).await?;
        let to = format!("https://shop.example/done?paymentId={}", id(&payment)?);
        assert_eq!((page.status, page.location), (303, Some(to)));
        assert_eq!(shop.merchant.payment(&id(&payment)?).await?["status"], status);
    }
    Ok(())
}

#[tokio::test]
async fn a_test_token_can_require_a_challenge() -> Result<()> {
    let shop = shop().await?;
    let body = json!({"amount": 920, "currency": "USD", "paymentToken": "pm_card_authenticationRequired",
        "returnUrl": "https://shop.example/done"});
    let payment = created(&shop.merchant.api.post("/v1/payments", body).await?).clone();
    assert_eq!((&payment["status"], &payment["nextAction"]["type"]), (&json!("requires_action"), &json!("redirect")));
    Ok(())
}

#[tokio::test]
async fn an_event_ends_a_challenge_from_which_nobody_returns() -> Result<()> {
    let shop = shop().await?;
    let payment = challenged(&shop, 950).await?;
    let intent = shop.intent(950)?;
    // So late that only the event can be the cause.
    let later = "UPDATE operations SET next_push_at = now() + interval '1 hour' WHERE account_id = $1";
    crate::support::eventually("the operation to be left alone", async || {
        let moved = sqlx::query(later).bind(shop.merchant.books.account).execute(&shop.merchant.books.db).await?;
        let idle: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM operations WHERE account_id = $1 AND next_push_at > now() + interval '50 minutes'
                AND (lease_until IS NULL OR lease_until < now())",
        )
        .bind(shop.merchant.books.account)
        .fetch_one(&shop.merchant.books.db)
        .await?;
        Ok((moved.rows_affected() == 1 && idle == 1).then_some(()))
    })
    .await?;
    shop.stripe.answer_challenge(&shop.keys, intent["id"].as_str().context("an id")?, true);
    assert_eq!(shop.merchant.payment(&id(&payment)?).await?["status"], "requires_action");
    shop.deliver_events().await?;
    shop.merchant.wait_for_status(&id(&payment)?, "pending_settlement").await?;
    Ok(())
}
