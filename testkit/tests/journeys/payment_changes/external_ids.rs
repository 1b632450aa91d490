//! Repeated refund requests with the merchant's own `externalId` make one refund.

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Response;

use super::{CAPTURED, REFUNDED};
use crate::support::{Merchant, accepted, concurrently, conflict, id, invalid, is_replay, merchant};

async fn refund(merchant: &Merchant, payment: &str, body: Value) -> Result<Response> {
    merchant.api.post(&format!("/v1/payments/{payment}/refund"), body).await
}

#[tokio::test]
async fn thirty_concurrent_refunds_with_one_external_id_refund_once() -> Result<()> {
    let merchant = merchant().await?;
    let sold = merchant.charge(1000).await?;
    let body = json!({"amount": 300, "externalId": "return-1"});
    let responses = concurrently(30, async |_| refund(&merchant, &sold, body.clone()).await).await?;
    let first = id(accepted(&responses[0]))?;
    for response in &responses {
        let refund = accepted(response);
        assert_eq!(
            (&refund["id"], &refund["amount"], &refund["externalId"]),
            (&json!(first), &json!(300), &json!("return-1"))
        );
    }
    assert_eq!(responses.iter().filter(|response| !is_replay(response)).count(), 1);
    merchant.wait_for_status(&sold, "partially_refunded").await?;
    let later = refund(&merchant, &sold, body).await?;
    assert!(is_replay(&later));
    assert_eq!((&accepted(&later)["id"], &later.body["status"]), (&json!(first), &json!("succeeded")));
    let payment = merchant.assert_consistent(&sold, "sale 1000, refund 300", &[CAPTURED, REFUNDED]).await?;
    assert_eq!(payment["refunds"][0]["externalId"], "return-1");
    Ok(())
}

#[tokio::test]
async fn an_external_id_has_one_amount_per_payment() -> Result<()> {
    let merchant = merchant().await?;
    let (one, other) = (merchant.charge(1000).await?, merchant.charge(1000).await?);
    accepted(&refund(&merchant, &one, json!({"amount": 300, "externalId": "r"})).await?);
    conflict(&refund(&merchant, &one, json!({"amount": 301, "externalId": "r"})).await?);
    // The remaining amount is a different amount.
    conflict(&refund(&merchant, &one, json!({"externalId": "r"})).await?);
    let second = refund(&merchant, &other, json!({"externalId": "r"})).await?;
    assert!(!is_replay(&second) && accepted(&second)["amount"] == 1000);
    // Nothing is left to refund, but the same request is still replayed.
    for body in [json!({"externalId": "r"}), json!({"amount": 1000, "externalId": "r"})] {
        let again = refund(&merchant, &other, body).await?;
        assert!(is_replay(&again) && accepted(&again)["id"] == second.body["id"], "{}", again.body);
    }
    for bad in [json!(""), json!("x".repeat(129)), json!(1), json!("a\u{7}")] {
        invalid(&refund(&merchant, &one, json!({"amount": 1, "externalId": bad})).await?, "externalId");
    }
    merchant.wait_for_status(&other, "refunded").await?;
    merchant.wait_for_status(&one, "partially_refunded").await?;
    merchant.assert_consistent(&other, "sale 1000, refund 1000", &[CAPTURED, REFUNDED]).await?;
    merchant.assert_consistent(&one, "sale 1000, refund 300", &[CAPTURED, REFUNDED]).await?;
    Ok(())
}
