//! No card, a dead card, and another one.

use anyhow::Result;
use serde_json::json;

use super::{INVOICES, LONG_AGO, attempts, becomes, customer_with, ended, invoice, ledger, schedule, shown};
use crate::support::{cluster, created, eventually, id, merchant, ok};

#[tokio::test]
async fn without_a_card_it_waits_for_the_first_one() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let made = invoice(&merchant, &customer, 500).await?;
    ok(&schedule(&merchant, &made, LONG_AGO).await?);
    let attempts = ended(&merchant, &made, 1).await?;
    assert_eq!(
        (&attempts[0]["declineCode"], &attempts[0]["declineType"]),
        (&json!("no_payment_method"), &json!("hard"))
    );
    assert!(attempts[0].get("paymentId").is_none() && attempts[0].get("nextAttemptAt").is_none());
    let waiting = shown(&merchant, &made).await?;
    assert_eq!(waiting["status"], "scheduled");
    assert!(waiting.get("nextAttemptAt").is_none(), "{waiting}");
    created(&merchant.save_card(&customer, "tok_ok").await?);
    becomes(&merchant, &made, "paid").await?;
    assert_eq!(ended(&merchant, &made, 2).await?[1]["number"], 2);
    Ok(())
}

#[tokio::test]
async fn a_dead_card_waits_until_another_one_is_the_default() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, dead) = customer_with(&merchant, "tok_lost").await?;
    let made = invoice(&merchant, &customer, 500).await?;
    ok(&schedule(&merchant, &made, LONG_AGO).await?);
    let attempts = ended(&merchant, &made, 1).await?;
    assert_eq!((&attempts[0]["declineCode"], &attempts[0]["declineType"]), (&json!("lost_card"), &json!("hard")));
    assert!(shown(&merchant, &made).await?.get("nextAttemptAt").is_none());
    let path = |card: &str| format!("/v1/payment_methods/{card}/default");
    let post = reqwest::Method::POST;
    ok(&merchant.api.send(post.clone(), &path(&dead), None).await?);
    let another = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let still = shown(&merchant, &made).await?;
    assert_eq!(still["status"], "scheduled");
    assert!(still.get("nextAttemptAt").is_none(), "neither the same card nor one that is not the default: {still}");
    ok(&merchant.api.send(post, &path(&another), None).await?);
    let paid = becomes(&merchant, &made, "paid").await?;
    let payment = merchant.payment(paid["paymentId"].as_str().expect("what paid it")).await?;
    assert_eq!(payment["paymentMethodId"], another);
    Ok(())
}

#[tokio::test]
async fn a_named_card_is_charged_and_once_it_is_dead_the_default_one() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, default) = customer_with(&merchant, "tok_ok").await?;
    let named = id(created(&merchant.save_card(&customer, "tok_insufficient").await?))?;
    let dead = id(created(&merchant.save_card(&customer, "tok_lost").await?))?;
    for (card, status, charged) in [(&named, "scheduled", vec![&named]), (&dead, "paid", vec![&dead, &default])] {
        let made = invoice(&merchant, &customer, 500).await?;
        let body = json!({"collectAt": LONG_AGO, "paymentMethodId": card});
        ok(&merchant.api.post(&format!("{INVOICES}/{made}/schedule"), body).await?);
        let attempts = ended(&merchant, &made, charged.len()).await?;
        for (attempt, card) in attempts.iter().zip(charged) {
            let payment = merchant.payment(attempt["paymentId"].as_str().expect("a payment")).await?;
            assert_eq!(&payment["paymentMethodId"], card);
        }
        assert_eq!(shown(&merchant, &made).await?["status"], status);
    }
    Ok(())
}

/// The card is declined for good while the customer makes another one the default: whoever comes first, it is tried.
#[tokio::test]
async fn another_default_card_while_a_hard_decline_is_on_its_way_is_tried_at_once() -> Result<()> {
    let merchant = merchant().await?;
    merchant.mock(cluster().await?, &["--latency-ms", "100"]).await?;
    for round in 0..30_u64 {
        let (customer, _) = customer_with(&merchant, "tok_lost").await?;
        let another = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
        let made = invoice(&merchant, &customer, 500).await?;
        ok(&schedule(&merchant, &made, LONG_AGO).await?);
        let change = async {
            eventually("the attempt", async || Ok((!attempts(&merchant, &made).await?.is_empty()).then_some(())))
                .await?;
            tokio::time::sleep(std::time::Duration::from_millis(round * 5)).await;
            merchant.api.send(reqwest::Method::POST, &format!("/v1/payment_methods/{another}/default"), None).await
        };
        let (answer, _) = tokio::try_join!(change, super::run(&merchant))?;
        ok(&answer);
        becomes(&merchant, &made, "paid").await?;
        assert_eq!(ledger(&merchant, &made).await?, ["sale 500"]);
        assert_eq!(ended(&merchant, &made, 2).await?.len(), 2);
    }
    Ok(())
}
