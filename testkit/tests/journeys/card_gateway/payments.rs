//! Payments, saved cards and collections at the card gateway. The simulation has captures, voids and refunds.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use super::{APPROVES, DECLINED, INSUFFICIENT, shop};
use crate::support::{accepted, created, eventually, id, ok};

#[tokio::test]
async fn a_payment_does_not_reveal_its_provider() -> Result<()> {
    let shop = shop().await?;
    let response = shop.pay(APPROVES, 1_234).await?;
    let payment = created(&response).clone();
    assert_eq!(payment["status"], "pending_settlement");
    assert_eq!((&payment["amount"], &payment["amountCaptured"]), (&json!(1_234), &json!(1_234)));
    let card = json!({"brand": "visa", "last4": "4242", "expMonth": 12, "expYear": 2034});
    assert_eq!(payment["card"], card);
    for (number, code, kind) in [
        (DECLINED, "declined", "soft"),
        (INSUFFICIENT, "insufficient_funds", "soft"),
        ("4000000000009987", "lost_card", "hard"),
    ] {
        let response = shop.pay(number, 500).await?;
        let declined = created(&response);
        assert_eq!(
            (&declined["status"], &declined["declineCode"], &declined["declineType"]),
            (&json!("declined"), &json!(code), &json!(kind))
        );
        assert_eq!(declined["card"]["last4"], number[12..]);
    }
    // Nothing that the merchant sees names the provider.
    let payments = shop.merchant.api.get("/v1/payments").await?;
    let events: Vec<String> = sqlx::query_scalar("SELECT payload FROM events WHERE account_id = $1")
        .bind(shop.merchant.books.account)
        .fetch_all(&shop.merchant.books.db)
        .await?;
    assert_eq!(events.len(), 4);
    for text in events.into_iter().chain([payments.body.to_string()]) {
        assert!(!text.to_lowercase().contains("gateway"), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn saved_cards_can_be_charged_repeatedly() -> Result<()> {
    let shop = shop().await?;
    let (customer, card) = shop.saved_card(APPROVES).await?;
    for amount in [100, 200] {
        let body = json!({"amount": amount, "currency": "USD", "paymentMethodId": card});
        let response = shop.pay_with(body).await?;
        assert_eq!(created(&response)["status"], "pending_settlement");
        assert_eq!((&response.body["customerId"], &response.body["card"]["last4"]), (&json!(customer), &json!("4242")));
    }
    assert_eq!(shop.records().await?, "sale 100 approved, sale 200 approved");
    let email: String = sqlx::query_scalar("SELECT details ->> 'email' FROM gateway.transactions t JOIN gateway.accounts a ON a.id = t.account_id WHERE a.username = $1 LIMIT 1")
        .bind(&shop.gateway_account.username).fetch_one(&shop.merchant.books.db).await?;
    assert_eq!(email, "ada@example.com", "the email is the customer's");
    Ok(())
}

/// The invoice and its first attempt, after a collection from a customer with a saved card.
pub(super) async fn collected_from(shop: &crate::support::Shop, customer: &str) -> Result<(Value, Value)> {
    let invoice = json!({"customerId": customer, "currency": "USD", "amount": 700});
    let invoice = id(created(&shop.merchant.api.post("/v1/invoices", invoice).await?))?;
    let schedule = json!({"collectAt": "2020-01-01T00:00:00Z"});
    ok(&shop.merchant.api.post(&format!("/v1/invoices/{invoice}/schedule"), schedule).await?);
    ok(&shop.merchant.api.send(Method::POST, "/v1/invoices/scheduler/run", None).await?);
    let attempts = eventually("the attempt to end", async || {
        let list = shop.merchant.api.get(&format!("/v1/invoices/{invoice}/attempts")).await?.body;
        Ok((list["data"][0]["status"] != "processing" && list["data"][0].is_object()).then_some(list))
    });
    let attempts = attempts.await?;
    let invoice = shop.merchant.api.get(&format!("/v1/invoices/{invoice}")).await?.body;
    Ok((invoice, attempts["data"][0].clone()))
}

/// The gateway settles at the end of its account's day; the payment settles by the test clock.
#[tokio::test]
async fn charges_settle_and_authorizations_expire_by_the_test_clock() -> Result<()> {
    let shop = shop().await?;
    let api = &shop.merchant.api;
    let sold = id(created(&shop.pay(APPROVES, 500).await?))?;
    let body = json!({"amount": 500, "currency": "USD", "capture": false, "paymentToken": shop.token(APPROVES).await?});
    let held = id(created(&shop.pay_with(body).await?))?;
    let now = api.get("/v1/test_clock").await?.body["now"].as_str().unwrap_or_default().to_owned();
    let advance = async |days: i64| {
        let to: String = sqlx::query_scalar(
            "SELECT to_char($1::timestamptz AT TIME ZONE 'UTC' + make_interval(days => $2::int), 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')")
            .bind(now.parse::<String>()?).bind(days).fetch_one(&shop.merchant.books.db).await?;
        eventually("the clock to advance", async || {
            let response = api.post("/v1/test_clock/advance", json!({"to": to})).await?;
            Ok((response.status == 422 || ok(&response)["pending"] != true).then_some(()))
        })
        .await
    };
    advance(2).await?;
    let settled = shop.merchant.payment(&sold).await?;
    assert_eq!((&settled["status"], &settled["settled"]), (&json!("settled"), &json!(true)));
    assert_eq!(shop.merchant.payment(&held).await?["status"], "authorized");
    advance(8).await?;
    assert_eq!(shop.merchant.payment(&held).await?["status"], "expired");
    accepted(&shop.merchant.refund(&sold, Some(200)).await?);
    shop.merchant.wait_for_status(&sold, "partially_refunded").await?;
    Ok(())
}

/// A charge voided at the gateway, bypassing /v1, is detected by an inquiry.
#[tokio::test]
async fn a_void_at_the_gateway_cancels_the_payment() -> Result<()> {
    let shop = shop().await?;
    let payment = id(created(&shop.pay(APPROVES, 500).await?))?;
    let charge: String = sqlx::query_scalar("SELECT provider_ref FROM payments WHERE account_id = $1")
        .bind(shop.merchant.books.account)
        .fetch_one(&shop.merchant.books.db)
        .await?;
    let voided = shop.gateway_request("void", &[("transaction_id", &charge)]).await?;
    assert_eq!(voided["response"]["code"], "00", "{voided}");
    shop.merchant.age_charges("0 s").await?;
    shop.merchant.wait_for_status(&payment, "cancelled").await?;
    let events = shop.merchant.books.events(&payment).await?;
    assert_eq!(events.last().map(|(kind, _)| kind.as_str()), Some("payment.cancelled"));
    Ok(())
}
