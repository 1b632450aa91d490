//! What becomes of a payment with each of the mock's cards.

use anyhow::Result;
use serde_json::{Value, json};

use crate::support::{self, created, id, merchant, not_found, ok, payment, said_of, sale, with};

/// RFC 3339 in UTC, to the millisecond.
fn is_timestamp(value: &Value) -> bool {
    value.as_str().is_some_and(|text| {
        let shape = text.bytes().map(|b| if b.is_ascii_digit() { b'0' } else { b }).collect::<Vec<_>>();
        shape == b"0000-00-00T00:00:00.000Z"
    })
}

#[tokio::test]
async fn an_approval_is_captured_unless_told_otherwise() -> Result<()> {
    let merchant = merchant().await?;
    let answer = merchant.api.post("/v1/payments", with(sale(1999), "currency", "usd")).await?;
    let made = created(&answer);
    assert!(made["id"].as_str().is_some_and(|id| id.starts_with("pay_") && id.len() == 30));
    assert!(is_timestamp(&made["createdAt"]), "{made}");
    let mut plain = made.clone();
    let fields = plain.as_object_mut().expect("an object");
    fields.remove("id");
    fields.remove("createdAt");
    assert_eq!(
        plain,
        json!({
            "object": "payment", "livemode": false, "status": "pending_settlement", "settled": false, "capture": true,
            "currency": "USD", "amount": 1999, "amountRequested": 1999, "amountCaptured": 1999, "amountRefunded": 0,
            "card": {"brand": "visa", "last4": "4242", "expMonth": 12, "expYear": 2034}, "refunds": [],
        }),
        "and no field without a value"
    );
    let read = merchant.api.get(&format!("/v1/payments/{}", id(made)?)).await?;
    assert_eq!(ok(&read), made);
    assert_eq!(merchant.books.charges().await?, 1);
    merchant.books.audit().await
}

#[tokio::test]
async fn an_authorization_takes_nothing() -> Result<()> {
    let merchant = merchant().await?;
    let answer = merchant.api.post("/v1/payments", with(sale(700), "capture", false)).await?;
    let held = created(&answer);
    assert_eq!(held["status"], "authorized");
    assert_eq!((&held["amount"], &held["amountCaptured"]), (&json!(700), &json!(0)));
    assert_eq!(held["capture"], false);
    merchant.books.audit().await
}

#[tokio::test]
async fn a_partial_approval_is_for_half_rounded_down() -> Result<()> {
    let merchant = merchant().await?;
    for (capture, captured) in [(true, 500), (false, 0)] {
        let body = with(payment(1001, "tok_partial"), "capture", capture);
        let answer = merchant.api.post("/v1/payments", body).await?;
        let half = created(&answer);
        assert_eq!(half["status"], "partially_authorized");
        assert_eq!(half["amount"], 500);
        assert_eq!(half["amountRequested"], 1001);
        assert_eq!(half["amountCaptured"], captured);
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn a_decline_is_an_answer() -> Result<()> {
    let merchant = merchant().await?;
    // Half of 1 is nothing, which no issuer approves.
    for body in [payment(500, "tok_insufficient"), payment(1, "tok_partial")] {
        let answer = merchant.api.post("/v1/payments", body.clone()).await?;
        let declined = created(&answer);
        assert_eq!(declined["status"], "declined", "{body}");
        assert_eq!(declined["declineType"], "soft");
        assert_eq!(declined["declineCode"], "insufficient_funds");
        assert_eq!(declined["amountRequested"], body["amount"]);
        assert_eq!((&declined["amountCaptured"], &declined["settled"]), (&json!(0), &json!(false)));
        assert_eq!(ok(&merchant.api.get(&format!("/v1/payments/{}", id(declined)?)).await?), declined);
    }
    Ok(())
}

#[tokio::test]
async fn another_accounts_payment_is_as_unknown_as_any() -> Result<()> {
    let (merchant, stranger) = (support::merchant().await?, support::merchant().await?);
    let payment = id(created(&merchant.pay(100).await?))?;
    let foreign = stranger.api.get(&format!("/v1/payments/{payment}")).await?;
    not_found(&foreign);
    let mut unknown = payment.clone();
    unknown.replace_range(payment.len() - 4.., "0000");
    for path in [unknown.as_str(), "pay_", "nonsense", "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", &payment.to_lowercase()] {
        let answer = stranger.api.get(&format!("/v1/payments/{path}")).await?;
        not_found(&answer);
        assert_eq!(said_of(&answer, path), said_of(&foreign, &payment), "{path}");
    }
    Ok(())
}
