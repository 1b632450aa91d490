//! Collection without a card, after a hard decline, and with a new default card.

use anyhow::Result;
use serde_json::json;

use super::{
    INVOICES, LONG_AGO, attempts, customer_with, ended_attempts, get_invoice, invoice, ledger, make_due, schedule,
    wait_for_status,
};
use crate::support::{cluster, created, eventually, id, merchant, ok};

#[tokio::test]
async fn an_invoice_without_a_card_waits_for_one() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let invoice_id = invoice(&merchant, &customer, 500).await?;
    ok(&schedule(&merchant, &invoice_id, LONG_AGO).await?);
    let attempts = ended_attempts(&merchant, &invoice_id, 1).await?;
    assert_eq!(
        (&attempts[0]["declineCode"], &attempts[0]["declineType"]),
        (&json!("no_payment_method"), &json!("hard"))
    );
    assert!(attempts[0].get("paymentId").is_none() && attempts[0].get("nextAttemptAt").is_none());
    let waiting = get_invoice(&merchant, &invoice_id).await?;
    assert_eq!(waiting["status"], "scheduled");
    assert!(waiting.get("nextAttemptAt").is_none(), "{waiting}");
    created(&merchant.save_card(&customer, "tok_ok").await?);
    wait_for_status(&merchant, &invoice_id, "paid").await?;
    assert_eq!(ended_attempts(&merchant, &invoice_id, 2).await?[1]["number"], 2);
    Ok(())
}

#[tokio::test]
async fn after_a_hard_decline_collection_waits_for_a_new_default_card() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, declined) = customer_with(&merchant, "tok_lost").await?;
    let invoice_id = invoice(&merchant, &customer, 500).await?;
    ok(&schedule(&merchant, &invoice_id, LONG_AGO).await?);
    let attempts = ended_attempts(&merchant, &invoice_id, 1).await?;
    assert_eq!((&attempts[0]["declineCode"], &attempts[0]["declineType"]), (&json!("lost_card"), &json!("hard")));
    assert!(get_invoice(&merchant, &invoice_id).await?.get("nextAttemptAt").is_none());
    let path = |card: &str| format!("/v1/payment_methods/{card}/default");
    let post = reqwest::Method::POST;
    ok(&merchant.api.send(post.clone(), &path(&declined), None).await?);
    let another = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let unchanged = get_invoice(&merchant, &invoice_id).await?;
    assert_eq!(unchanged["status"], "scheduled");
    assert!(
        unchanged.get("nextAttemptAt").is_none(),
        "neither the declined card nor a card that is not the default causes an attempt: {unchanged}"
    );
    ok(&merchant.api.send(post, &path(&another), None).await?);
    let paid = wait_for_status(&merchant, &invoice_id, "paid").await?;
    let payment = merchant.payment(paid["paymentId"].as_str().expect("a payment id")).await?;
    assert_eq!(payment["paymentMethodId"], another);
    Ok(())
}

#[tokio::test]
async fn the_named_card_is_charged_before_the_default_card() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, default) = customer_with(&merchant, "tok_ok").await?;
    let named = id(created(&merchant.save_card(&customer, "tok_insufficient").await?))?;
    let declined = id(created(&merchant.save_card(&customer, "tok_lost").await?))?;
    for (card, status, charged) in [(&named, "scheduled", vec![&named]), (&declined, "paid", vec![&declined, &default])]
    {
        let invoice_id = invoice(&merchant, &customer, 500).await?;
        let body = json!({"collectAt": LONG_AGO, "paymentMethodId": card});
        ok(&merchant.api.post(&format!("{INVOICES}/{invoice_id}/schedule"), body).await?);
        let attempts = ended_attempts(&merchant, &invoice_id, charged.len()).await?;
        for (attempt, card) in attempts.iter().zip(charged) {
            let payment = merchant.payment(attempt["paymentId"].as_str().expect("a payment")).await?;
            assert_eq!(&payment["paymentMethodId"], card);
        }
        assert_eq!(get_invoice(&merchant, &invoice_id).await?["status"], status);
    }
    Ok(())
}

#[tokio::test]
async fn instead_of_a_detached_card_the_default_card_is_charged() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, default) = customer_with(&merchant, "tok_ok").await?;
    let named = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let invoice_id = invoice(&merchant, &customer, 500).await?;
    let body = json!({"collectAt": "2090-01-01T00:00:00Z", "paymentMethodId": named});
    ok(&merchant.api.post(&format!("{INVOICES}/{invoice_id}/schedule"), body).await?);
    ok(&merchant.api.delete(&format!("/v1/payment_methods/{named}")).await?);
    make_due(&merchant, &invoice_id).await?;
    let attempts = ended_attempts(&merchant, &invoice_id, 1).await?;
    let payment = merchant.payment(attempts[0]["paymentId"].as_str().expect("a payment")).await?;
    assert_eq!(payment["paymentMethodId"], default);
    wait_for_status(&merchant, &invoice_id, "paid").await?;
    Ok(())
}

/// A card gets a hard decline while the customer makes another one the default. In either order, the new card is
/// charged.
#[tokio::test]
async fn a_default_changed_during_a_hard_decline_is_charged_at_once() -> Result<()> {
    let merchant = merchant().await?;
    merchant.mock(cluster().await?, &["--latency-ms", "100"]).await?;
    for round in 0..15_u64 {
        let (customer, _) = customer_with(&merchant, "tok_lost").await?;
        let another = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
        let invoice_id = invoice(&merchant, &customer, 500).await?;
        ok(&schedule(&merchant, &invoice_id, LONG_AGO).await?);
        let change = async {
            eventually("the attempt", async || Ok((!attempts(&merchant, &invoice_id).await?.is_empty()).then_some(())))
                .await?;
            tokio::time::sleep(std::time::Duration::from_millis(round * 10)).await;
            merchant.api.send(reqwest::Method::POST, &format!("/v1/payment_methods/{another}/default"), None).await
        };
        let (response, _) = tokio::try_join!(change, super::run(&merchant))?;
        ok(&response);
        wait_for_status(&merchant, &invoice_id, "paid").await?;
        assert_eq!(ledger(&merchant, &invoice_id).await?, ["sale 500"]);
        assert_eq!(ended_attempts(&merchant, &invoice_id, 2).await?.len(), 2);
    }
    Ok(())
}
