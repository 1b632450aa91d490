//! Payment tokens: single use, expiry, and their account.

use anyhow::Result;
use serde_json::json;

use super::shop;
use crate::support::{concurrently, conflict, created, id, ids, invalid, not_found, payment, sale, with};

#[tokio::test]
async fn concurrent_charges_and_saves_use_a_token_once() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let token = browser.token("tok_ok").await?;
    let customer = merchant.customer().await?;
    // Saving the card uses the token as well.
    let responses = concurrently(30, async |i| match i % 5 {
        0 => merchant.save_card(&customer, &token).await,
        1 => merchant.pay_with_key(&format!("key-{i}"), payment(100, &token)).await,
        _ => merchant.api.post("/v1/payments", payment(100, &token)).await,
    })
    .await?;
    let (succeeded, conflicts): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 201);
    assert_eq!(succeeded.len(), 1, "{:?}", responses.iter().map(|response| response.status).collect::<Vec<_>>());
    conflicts.into_iter().for_each(conflict);
    let charged = i64::from(succeeded[0].body["object"] == "payment");
    assert_eq!(merchant.books.charges().await?, charged);
    assert_eq!(merchant.books.operations().await?, 1);
    Ok(())
}

#[tokio::test]
async fn concurrent_charges_with_one_token_charge_once() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let token = browser.token("tok_ok").await?;
    let responses = concurrently(30, async |_| merchant.api.post("/v1/payments", payment(100, &token)).await).await?;
    let (succeeded, conflicts): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 201);
    assert_eq!(succeeded.len(), 1);
    conflicts.into_iter().for_each(conflict);
    assert_eq!(merchant.books.charges().await?, 1);
    assert_eq!(merchant.stored_upstream_tokens().await?, 0);
    merchant.books.audit().await
}

#[tokio::test]
async fn tokens_expire_and_are_scoped_to_their_account() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let (other_merchant, _) = shop().await?;
    let token = browser.token("tok_ok").await?;
    invalid(&other_merchant.api.post("/v1/payments", payment(100, &token)).await?, "paymentToken");
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
async fn rejected_requests_leave_the_token_unused_and_declines_use_it() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let token = browser.token("tok_insufficient").await?;
    let body = payment(100, &token);
    let customer = merchant.customer().await?;
    invalid(&merchant.api.post("/v1/payments", with(body.clone(), "amount", 0)).await?, "amount");
    invalid(&merchant.api.post("/v1/payments", with(body.clone(), "currency", "XXX")).await?, "currency");
    merchant.pay_with_key("used", sale(5)).await?;
    invalid(&merchant.pay_with_key("used", body.clone()).await?, "Idempotency-Key");
    not_found(&merchant.save_card("cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", &token).await?);
    assert_eq!(created(&merchant.api.post("/v1/payments", body.clone()).await?)["status"], "declined");
    conflict(&merchant.api.post("/v1/payments", body).await?);
    conflict(&merchant.save_card(&customer, &token).await?);
    Ok(())
}

#[tokio::test]
async fn saving_a_card_uses_the_token_and_the_card_can_be_charged() -> Result<()> {
    let (merchant, browser) = shop().await?;
    let (token, customer) = (browser.token("tok_ok").await?, merchant.customer().await?);
    let saved = merchant.save_card(&customer, &token).await?;
    let card = id(created(&saved))?;
    conflict(&merchant.api.post("/v1/payments", payment(100, &token)).await?);
    conflict(&merchant.save_card(&customer, &token).await?);
    for amount in [100, 200] {
        let body = json!({"amount": amount, "currency": "USD", "paymentMethodId": card});
        let response = merchant.api.post("/v1/payments", body).await?;
        let paid = created(&response);
        assert_eq!(paid["status"], "pending_settlement");
        assert_eq!((&paid["paymentMethodId"], &paid["customerId"]), (&json!(card), &json!(customer)));
    }
    let cards = merchant.api.get(&format!("/v1/payment_methods?customerId={customer}")).await?;
    assert_eq!(ids(&cards), [card]);
    merchant.books.audit().await
}
