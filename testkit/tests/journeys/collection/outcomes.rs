//! How attempts end, and what they make of their invoice.

use anyhow::Result;
use serde_json::json;

use super::{LONG_AGO, attempts, becomes, customer_with, ended, invoice, is_due, ledger, schedule, shown, told};
use crate::support::{conflict, eventually, id, merchant, ok};

#[tokio::test]
async fn what_is_due_is_charged_and_paid() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, card) = customer_with(&merchant, "tok_ok").await?;
    let made = invoice(&merchant, &customer, 500).await?;
    ok(&schedule(&merchant, &made, LONG_AGO).await?);
    let paid = becomes(&merchant, &made, "paid").await?;
    assert_eq!((&paid["amountPaid"], &paid["amount"]), (&json!(500), &json!(500)));
    for absent in ["collectAt", "nextAttemptAt", "collectionExhausted"] {
        assert!(paid.get(absent).is_none(), "{absent}");
    }
    let payment = merchant.payment(paid["paymentId"].as_str().expect("what paid it")).await?;
    assert_eq!((&payment["invoiceId"], &payment["customerId"]), (&json!(made), &json!(customer)));
    assert_eq!((&payment["paymentMethodId"], &payment["status"]), (&json!(card), &json!("pending_settlement")));
    let attempts = ended(&merchant, &made, 1).await?;
    let one = &attempts[0];
    assert_eq!((&one["object"], &one["number"]), (&json!("collection_attempt"), &json!(1)));
    assert_eq!((&one["status"], &one["amount"], &one["paymentId"]), (&json!("succeeded"), &json!(500), &payment["id"]));
    assert!(one.get("declineCode").is_none() && one.get("nextAttemptAt").is_none() && one["attemptedAt"].is_string());
    assert_eq!(told(&merchant, &made).await?, ["invoice.issued", "invoice.scheduled", "invoice.paid"]);
    let events = merchant.books.events(&made).await?;
    assert_eq!(events.last().map(|(_, object)| object), Some(&paid), "the event shows it as it stands");
    assert_eq!(told(&merchant, &id(&payment)?).await?, ["payment.captured"]);
    assert_eq!(ledger(&merchant, &made).await?, ["sale 500"]);
    conflict(&schedule(&merchant, &made, LONG_AGO).await?);
    merchant.books.audit().await
}

#[tokio::test]
async fn a_soft_decline_is_retried_until_the_last_has_failed_and_may_be_scheduled_again() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_insufficient").await?;
    let made = invoice(&merchant, &customer, 500).await?;
    ok(&schedule(&merchant, &made, LONG_AGO).await?);
    for number in 1..=5 {
        let attempts = ended(&merchant, &made, number).await?;
        let last = &attempts[number - 1];
        assert_eq!((&last["number"], &last["status"]), (&json!(number), &json!("failed")));
        assert_eq!((&last["declineCode"], &last["declineType"]), (&json!("insufficient_funds"), &json!("soft")));
        let invoice = shown(&merchant, &made).await?;
        assert_eq!(invoice.get("nextAttemptAt"), last.get("nextAttemptAt"));
        assert_eq!(invoice["status"], if number < 5 { "scheduled" } else { "open" });
        assert_eq!(invoice.get("collectionExhausted"), (number == 5).then_some(&json!(true)));
        is_due(&merchant, &made).await?;
    }
    let events = told(&merchant, &made).await?;
    let count = |kind: &str| events.iter().filter(|told| *told == kind).count();
    assert_eq!((count("invoice.payment_failed"), count("invoice.collection_exhausted")), (5, 1));
    let again = schedule(&merchant, &made, LONG_AGO).await?;
    assert!(ok(&again).get("collectionExhausted").is_none());
    let attempts = ended(&merchant, &made, 6).await?;
    let numbers: Vec<_> = attempts.iter().map(|one| one["number"].as_i64()).collect();
    assert_eq!(numbers, (1..=6).map(Some).collect::<Vec<_>>(), "counted on");
    assert!(attempts[5]["nextAttemptAt"].is_string(), "and retried anew");
    assert!(ledger(&merchant, &made).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn half_of_it_pays_nothing_and_goes_back() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_partial").await?;
    let made = invoice(&merchant, &customer, 501).await?;
    ok(&schedule(&merchant, &made, LONG_AGO).await?);
    let attempts = ended(&merchant, &made, 1).await?;
    assert_eq!(
        (&attempts[0]["declineCode"], &attempts[0]["declineType"]),
        (&json!("partial_authorization"), &json!("soft"))
    );
    let payment = attempts[0]["paymentId"].as_str().expect("a payment");
    let payment = merchant.becomes(payment, "cancelled").await?;
    assert_eq!((&payment["amount"], &payment["amountRequested"]), (&json!(250), &json!(501)));
    assert_eq!(ledger(&merchant, &made).await?, ["sale 250 voided, void 250"]);
    let invoice = shown(&merchant, &made).await?;
    assert_eq!((&invoice["status"], &invoice["amountPaid"]), (&json!("scheduled"), &json!(0)));
    // And so each time, until it is given up.
    is_due(&merchant, &made).await?;
    ended(&merchant, &made, 2).await?;
    eventually("both halves went back", async || {
        Ok((ledger(&merchant, &made).await? == ["sale 250 voided, void 250"; 2]).then_some(()))
    })
    .await
}

#[tokio::test]
async fn half_that_settled_before_it_could_be_voided_is_refunded() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_partial").await?;
    let made = invoice(&merchant, &customer, 500).await?;
    // Slow enough to settle the charge at the mock while the void is on its way.
    merchant.mock(crate::support::cluster().await?, &["--latency-ms", "3000"]).await?;
    ok(&schedule(&merchant, &made, LONG_AGO).await?);
    let attempts = ended(&merchant, &made, 1).await?;
    let payment = attempts[0]["paymentId"].as_str().expect("a payment").to_owned();
    sqlx::query(
        "UPDATE mock.transactions t SET occurred_at = occurred_at - interval '1 hour', settled_at = now()
         FROM payments p WHERE p.id = $1 AND t.id = p.provider_ref",
    )
    .bind(crate::support::uuid(&payment)?)
    .execute(&merchant.books.db)
    .await?;
    let refunded = eventually("the refund", async || {
        let payment = merchant.payment(&payment).await?;
        Ok((payment["amountRefunded"] == 250).then_some(payment))
    })
    .await?;
    assert_eq!(refunded["refunds"][0]["status"], "succeeded", "{refunded}");
    // It stands in nobody's way any more.
    merchant.mock(crate::support::cluster().await?, &["--latency-ms", "0"]).await?;
    is_due(&merchant, &made).await?;
    ended(&merchant, &made, 2).await.map(drop)
}

#[tokio::test]
async fn half_that_the_provider_would_not_take_back_is_given_back_later() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_partial").await?;
    let made = invoice(&merchant, &customer, 500).await?;
    let cluster = crate::support::cluster().await?;
    merchant.mock(cluster, &["--latency-ms", "3000"]).await?;
    ok(&schedule(&merchant, &made, LONG_AGO).await?);
    // Its books are written half-way, and from then on it refuses everything.
    eventually("the charge", async || Ok((merchant.books.charges().await? == 1).then_some(()))).await?;
    merchant.mock(cluster, &["--latency-ms", "0", "--reject"]).await?;
    let attempts = ended(&merchant, &made, 1).await?;
    let payment = attempts[0]["paymentId"].as_str().expect("a payment").to_owned();
    eventually("a refusal", async || {
        let payment = merchant.payment(&payment).await?;
        Ok((payment.get("pendingOperation").is_none()).then_some(()))
    })
    .await?;
    merchant.mock(cluster, &[]).await?;
    merchant.becomes(&payment, "cancelled").await?;
    assert_eq!(ledger(&merchant, &made).await?, ["sale 250 voided, void 250"]);
    Ok(())
}

#[tokio::test]
async fn an_attempt_whose_answer_is_lost_is_unknown_and_then_known() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_ok").await?;
    let made = invoice(&merchant, &customer, 500).await?;
    let cluster = crate::support::cluster().await?;
    merchant.mock(cluster, &["--class", "B", "--lose-answer", "1"]).await?;
    ok(&schedule(&merchant, &made, LONG_AGO).await?);
    eventually("unknown", async || {
        let attempts = attempts(&merchant, &made).await?;
        Ok(attempts.first().is_some_and(|one| one["status"] == "unknown").then_some(()))
    })
    .await?;
    for what in ["void", "cancel_schedule"] {
        conflict(&super::ask(&merchant, &made, what).await?);
    }
    becomes(&merchant, &made, "paid").await?;
    assert_eq!(ended(&merchant, &made, 1).await?.len(), 1);
    assert_eq!(ledger(&merchant, &made).await?, ["sale 500"]);
    merchant.books.audit().await
}
