//! The outcome of a payment with each of the mock's cards.

use anyhow::Result;
use serde_json::{Value, json};

use crate::support::{self, created, error_text, id, merchant, not_found, ok, payment, sale, with};

/// RFC 3339 in UTC, to the millisecond.
fn is_timestamp(value: &Value) -> bool {
    value.as_str().is_some_and(|text| {
        let shape = text.bytes().map(|b| if b.is_ascii_digit() { b'0' } else { b }).collect::<Vec<_>>();
        shape == b"0000-00-00T00:00:00.000Z"
    })
}

#[tokio::test]
async fn approvals_are_captured_by_default() -> Result<()> {
    let merchant = merchant().await?;
    let response = merchant.api.post("/v1/payments", with(sale(1999), "currency", "usd")).await?;
    let made = created(&response);
    assert!(made["id"].as_str().is_some_and(|id| id.starts_with("pay_") && id.len() == 30));
    assert!(is_timestamp(&made["createdAt"]), "{made}");
    let mut without_generated = made.clone();
    let fields = without_generated.as_object_mut().expect("an object");
    fields.remove("id");
    fields.remove("createdAt");
    assert_eq!(
        without_generated,
        json!({
            "object": "payment", "livemode": false, "version": 2, "status": "pending_settlement", "settled": false, "capture": true,
            "currency": "USD", "amount": 1999, "amountRequested": 1999, "amountCaptured": 1999, "amountRefunded": 0,
            "amountDisputed": 0,
            "card": {"brand": "visa", "last4": "4242", "expMonth": 12, "expYear": 2034}, "refunds": [],
        }),
        "fields without a value are absent"
    );
    let read = merchant.api.get(&format!("/v1/payments/{}", id(made)?)).await?;
    assert_eq!(ok(&read), made);
    assert_eq!(merchant.books.charges().await?, 1);
    merchant.books.audit().await
}

#[tokio::test]
async fn authorizations_capture_nothing() -> Result<()> {
    let merchant = merchant().await?;
    let response = merchant.api.post("/v1/payments", with(sale(700), "capture", false)).await?;
    let held = created(&response);
    assert_eq!(held["status"], "authorized");
    assert_eq!((&held["amount"], &held["amountCaptured"]), (&json!(700), &json!(0)));
    assert_eq!(held["capture"], false);
    merchant.books.audit().await
}

#[tokio::test]
async fn partial_approvals_are_half_rounded_down() -> Result<()> {
    let merchant = merchant().await?;
    for (capture, captured) in [(true, 500), (false, 0)] {
        let body = with(payment(1001, "tok_partial"), "capture", capture);
        let response = merchant.api.post("/v1/payments", body).await?;
        let half = created(&response);
        assert_eq!(half["status"], "partially_authorized");
        assert_eq!(half["amount"], 500);
        assert_eq!(half["amountRequested"], 1001);
        assert_eq!(half["amountCaptured"], captured);
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn declines_return_201_with_their_code() -> Result<()> {
    let merchant = merchant().await?;
    // Half of 1 rounds down to 0, which is declined.
    for body in [payment(500, "tok_insufficient"), payment(1, "tok_partial")] {
        let response = merchant.api.post("/v1/payments", body.clone()).await?;
        let declined = created(&response);
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
async fn payments_of_other_accounts_are_not_found() -> Result<()> {
    let (merchant, other_merchant) = (support::merchant().await?, support::merchant().await?);
    let payment = id(created(&merchant.pay(100).await?))?;
    let foreign = other_merchant.api.get(&format!("/v1/payments/{payment}")).await?;
    not_found(&foreign);
    let mut unknown = payment.clone();
    unknown.replace_range(payment.len() - 4.., "0000");
    for path in [unknown.as_str(), "pay_", "nonsense", "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", &payment.to_lowercase()] {
        let response = other_merchant.api.get(&format!("/v1/payments/{path}")).await?;
        not_found(&response);
        assert_eq!(error_text(&response, path), error_text(&foreign, &payment), "{path}");
    }
    Ok(())
}
