//! A refund under an id of the merchant's own is one refund, however often it is asked for.

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Answer;

use super::{CAPTURED, REFUNDED};
use crate::support::{Merchant, accepted, conflict, id, invalid, merchant, together};

async fn refund(merchant: &Merchant, payment: &str, body: Value) -> Result<Answer> {
    merchant.api.post(&format!("/v1/payments/{payment}/refund"), body).await
}

fn is_replay(answer: &Answer) -> bool {
    answer.header("idempotent-replayed") == Some("true")
}

#[tokio::test]
async fn thirty_at_once_give_the_money_back_once() -> Result<()> {
    let merchant = merchant().await?;
    let sold = merchant.sold(1000).await?;
    let body = json!({"amount": 300, "externalId": "return-1"});
    let answers = together(30, async |_| refund(&merchant, &sold, body.clone()).await).await?;
    let first = id(accepted(&answers[0]))?;
    for answer in &answers {
        let shown = accepted(answer);
        assert_eq!(
            (&shown["id"], &shown["amount"], &shown["externalId"]),
            (&json!(first), &json!(300), &json!("return-1"))
        );
    }
    assert_eq!(answers.iter().filter(|answer| !is_replay(answer)).count(), 1);
    merchant.becomes(&sold, "partially_refunded").await?;
    let later = refund(&merchant, &sold, body).await?;
    assert!(is_replay(&later));
    assert_eq!((&accepted(&later)["id"], &later.body["status"]), (&json!(first), &json!("succeeded")));
    let payment = merchant.all_agree(&sold, "sale 1000, refund 300", &[CAPTURED, REFUNDED]).await?;
    assert_eq!(payment["refunds"][0]["externalId"], "return-1");
    Ok(())
}

#[tokio::test]
async fn another_amount_is_refused_and_another_payment_is_free() -> Result<()> {
    let merchant = merchant().await?;
    let (one, other) = (merchant.sold(1000).await?, merchant.sold(1000).await?);
    accepted(&refund(&merchant, &one, json!({"amount": 300, "externalId": "r"})).await?);
    conflict(&refund(&merchant, &one, json!({"amount": 301, "externalId": "r"})).await?);
    // All that is left is another amount.
    conflict(&refund(&merchant, &one, json!({"externalId": "r"})).await?);
    let second = refund(&merchant, &other, json!({"externalId": "r"})).await?;
    assert!(!is_replay(&second) && accepted(&second)["amount"] == 1000);
    // Nothing is left by now, and the same request is answered all the same.
    for body in [json!({"externalId": "r"}), json!({"amount": 1000, "externalId": "r"})] {
        let again = refund(&merchant, &other, body).await?;
        assert!(is_replay(&again) && accepted(&again)["id"] == second.body["id"], "{}", again.body);
    }
    for bad in [json!(""), json!("x".repeat(129)), json!(1), json!("a\u{7}")] {
        invalid(&refund(&merchant, &one, json!({"amount": 1, "externalId": bad})).await?, "externalId");
    }
    merchant.becomes(&other, "refunded").await?;
    merchant.becomes(&one, "partially_refunded").await?;
    merchant.all_agree(&other, "sale 1000, refund 1000", &[CAPTURED, REFUNDED]).await?;
    merchant.all_agree(&one, "sale 1000, refund 300", &[CAPTURED, REFUNDED]).await?;
    Ok(())
}
