//! Invalid bodies of captures and refunds are rejected with the name of the field, and have no effect.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;

use super::{AUTHORIZED, CAPTURED, REFUNDED};
use crate::support::{Merchant, accepted, conflict, eventually, invalid, merchant, not_found, ok, refused};

const UNKNOWN: &str = "pay_01ARZ3NDEKTSV4RRFFQ69G5FAV";

async fn send(merchant: &Merchant, path: &str, body: &[u8]) -> Result<testkit::Response> {
    merchant.api.send(Method::POST, path, Some(body.to_vec())).await
}

#[tokio::test]
async fn amounts_are_strict_and_bodies_are_objects() -> Result<()> {
    let merchant = merchant().await?;
    let (held, sold) = (merchant.hold(1000).await?, merchant.charge(1000).await?);
    for path in [format!("/v1/payments/{held}/capture"), format!("/v1/payments/{sold}/refund")] {
        for amount in [
            "10.0",
            "1e2",
            "\"10\"",
            "true",
            "0",
            "-1",
            "-0",
            "9007199254740992",
            "99999999999999999999",
            "[10]",
            "{}",
            "\"\"",
            "10.5",
            "\"\\u0000\"",
        ] {
            let response = send(&merchant, &path, format!("{{\"amount\": {amount}}}").as_bytes()).await?;
            assert_eq!(response.status, 422, "{path} {amount}");
            invalid(&response, "amount");
        }
        invalid(&send(&merchant, &path, b"{\"amount\": 1001}").await?, "amount");
        invalid(&send(&merchant, &path, b"{\"amount\": 9007199254740991}").await?, "amount");
        for body in ["[", "[]", "[{\"amount\": 1}]", "\"1\"", "1", "null", "{\"amount\": 1,}", "{\"amount\" 1}", "\0"] {
            let response = send(&merchant, &path, body.as_bytes()).await?;
            let error = refused(&response, 422, "invalid_request");
            assert!(error.get("param").is_none(), "{path} {body:?}: {error}");
        }
        invalid(&send(&merchant, &path, br#"{"note": ["a", "b\u0000"]}"#).await?, "note");
        let huge = format!("{{}}{}", " ".repeat(70_000));
        refused(&send(&merchant, &path, huge.as_bytes()).await?, 413, "invalid_request");
        let plain = merchant.api.header("content-type", "text/plain")?;
        invalid(&plain.send(Method::POST, &path, Some(b"{\"amount\": 1}".to_vec())).await?, "Content-Type");
        refused(&merchant.api.get(&path).await?, 405, "invalid_request");
    }
    merchant.assert_consistent(&held, "authorize 1000", &[AUTHORIZED]).await?;
    merchant.assert_consistent(&sold, "sale 1000", &[CAPTURED]).await?;

    // A missing body and a null amount both mean the full amount.
    ok(&merchant.api.send(Method::POST, &format!("/v1/payments/{held}/capture"), None).await?);
    merchant.assert_consistent(&held, "authorize 1000, capture 1000", &[AUTHORIZED, CAPTURED]).await?;
    let all = send(&merchant, &format!("/v1/payments/{sold}/refund"), b"{\"amount\": null}").await?;
    assert_eq!(accepted(&all)["amount"], 1000);
    merchant.wait_for_status(&sold, "refunded").await?;
    merchant.assert_consistent(&sold, "sale 1000, refund 1000", &[CAPTURED, REFUNDED]).await?;
    Ok(())
}

#[tokio::test]
async fn another_accounts_payments_do_not_exist() -> Result<()> {
    let (merchant_a, merchant_b) = (merchant().await?, merchant().await?);
    let (held, sold) = (merchant_b.hold(1000).await?, merchant_b.charge(1000).await?);
    for payment in [held.as_str(), &sold, UNKNOWN, "nonsense", "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", &held.to_lowercase()] {
        for response in [
            merchant_a.capture(payment, None).await?,
            merchant_a.capture(payment, Some(1)).await?,
            merchant_a.void(payment).await?,
            merchant_a.refund(payment, None).await?,
            merchant_a.refund(payment, Some(1)).await?,
        ] {
            not_found(&response);
        }
        // The body is validated before the payment is looked up.
        invalid(&merchant_a.api.post(&format!("/v1/payments/{payment}/refund"), json!({"amount": 0})).await?, "amount");
    }
    merchant_b.assert_consistent(&held, "authorize 1000", &[AUTHORIZED]).await?;
    merchant_b.assert_consistent(&sold, "sale 1000", &[CAPTURED]).await?;
    Ok(())
}

#[tokio::test]
async fn idempotency_keys_have_no_effect_on_changes() -> Result<()> {
    let merchant = merchant().await?;
    let keyed = merchant.api.header("idempotency-key", "one")?;
    let held = merchant.hold(1000).await?;
    let path = format!("/v1/payments/{held}");
    let once = keyed.post(&format!("{path}/capture"), json!({"amount": 400})).await?;
    assert_eq!(ok(&once)["amountCaptured"], 400);
    conflict(&keyed.post(&format!("{path}/capture"), json!({"amount": 400})).await?);
    for _ in 0..2 {
        let refund = keyed.post(&format!("{path}/refund"), json!({"amount": 100})).await?;
        assert!(accepted(&refund)["id"].is_string() && refund.header("idempotent-replayed").is_none());
    }
    let refunds = async || Ok((merchant.payment(&held).await?["amountRefunded"] == 200).then_some(()));
    eventually("two refunds", refunds).await?;
    let ledger = "authorize 1000, capture 400, refund 100, refund 100";
    merchant.assert_consistent(&held, ledger, &[AUTHORIZED, CAPTURED, REFUNDED, REFUNDED]).await?;
    Ok(())
}
