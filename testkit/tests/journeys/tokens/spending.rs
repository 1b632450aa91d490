//! Payment tokens: each is good once, for a while, and for its own account.

use anyhow::Result;
use serde_json::json;

use super::shop;
use crate::support::{conflict, created, id, ids, invalid, not_found, payment, sale, together, with};

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
