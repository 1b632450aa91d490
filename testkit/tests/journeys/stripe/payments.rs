//! Declines, saved cards and settlements. The simulation has captures, voids and refunds.

use anyhow::Result;
use serde_json::json;
use testkit::stripe::CardBehavior;

use super::shop;
use crate::support::{conflict, created, id, invalid};

#[tokio::test]
async fn declines_have_the_issuers_reason() -> Result<()> {
    let shop = shop().await?;
    for (decline_code, code, kind) in [
        ("generic_decline", "declined", "soft"),
        ("insufficient_funds", "insufficient_funds", "soft"),
        ("lost_card", "lost_card", "hard"),
        ("expired_card", "expired_card", "hard"),
        ("authentication_required", "authentication_required", "hard"),
    ] {
        let declined = created(&shop.pay(CardBehavior::Decline(decline_code), 700, json!({})).await?).clone();
        let shown = (&declined["status"], &declined["declineCode"], &declined["declineType"]);
        assert_eq!(shown, (&json!("declined"), &json!(code), &json!(kind)), "{decline_code}");
        assert_eq!(declined["card"]["last4"], "0002", "{declined}");
    }
    Ok(())
}

#[tokio::test]
async fn a_saved_card_is_charged_without_the_cardholder() -> Result<()> {
    let shop = shop().await?;
    let merchant = &shop.merchant;
    let customer = merchant.customer().await?;
    let card = created(&merchant.save_card(&customer, &shop.token(CardBehavior::Approve).await?).await?).clone();
    assert_eq!(card["brand"], "visa", "{card}");
    for amount in [300, 400] {
        let body = json!({"amount": amount, "currency": "EUR", "paymentMethodId": id(&card)?});
        assert_eq!(created(&merchant.api.post("/v1/payments", body).await?)["status"], "pending_settlement");
    }
    // The id of a saved card is no token.
    let body = json!({"amount": 500, "currency": "EUR", "paymentToken": id(&card)?});
    invalid(&merchant.api.post("/v1/payments", body).await?, "paymentToken");
    let declined = shop.token(CardBehavior::Decline("lost_card")).await?;
    conflict(&merchant.save_card(&customer, &declined).await?);
    assert_eq!(shop.records(), "300 succeeded, 400 succeeded");
    Ok(())
}

#[tokio::test]
async fn a_settlement_is_recorded_when_the_money_is_available() -> Result<()> {
    let shop = shop().await?;
    let payment = shop.sale(1500).await?;
    // The double's clock is shared by all tests, so the day is taken from what it says.
    sqlx::query("UPDATE payments SET inquiry_at = now() WHERE account_id = $1")
        .bind(shop.merchant.books.account)
        .execute(&shop.merchant.books.db)
        .await?;
    let until = crate::support::eventually("the inquiry", async || {
        let next: Option<f64> = sqlx::query_scalar(
            "SELECT extract(epoch FROM inquiry_at - now())::float8 FROM payments WHERE account_id = $1",
        )
        .bind(shop.merchant.books.account)
        .fetch_one(&shop.merchant.books.db)
        .await?;
        Ok(next.filter(|seconds| *seconds > 3600.0))
    });
    assert!((until.await? - 2.0 * 86_400.0).abs() < 3600.0);
    assert_eq!(shop.merchant.payment(&payment).await?["settled"], json!(false));
    Ok(())
}

#[tokio::test]
async fn tokens_that_are_not_of_stripe_are_refused_by_name() -> Result<()> {
    let shop = shop().await?;
    for wrong in ["tok_ok", "pm_", "pm_a'; --", "fld_1"] {
        let session = shop.browser.session().await?;
        invalid(&shop.browser.exchange(&session, wrong).await?, "upstreamToken");
    }
    Ok(())
}
