//! Outcomes of collection attempts and their effect on the invoice.

use anyhow::Result;
use serde_json::json;

use super::{
    LONG_AGO, attempts, customer_with, ended_attempts, event_types, get_invoice, invoice, ledger, make_due, schedule,
    wait_for_status,
};
use crate::support::{conflict, eventually, id, merchant, ok};

#[tokio::test]
async fn due_invoices_are_charged_and_paid() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, card) = customer_with(&merchant, "tok_ok").await?;
    let invoice_id = invoice(&merchant, &customer, 500).await?;
    ok(&schedule(&merchant, &invoice_id, LONG_AGO).await?);
    let paid = wait_for_status(&merchant, &invoice_id, "paid").await?;
    assert_eq!((&paid["amountPaid"], &paid["amount"]), (&json!(500), &json!(500)));
    for absent in ["collectAt", "nextAttemptAt", "collectionExhausted"] {
        assert!(paid.get(absent).is_none(), "{absent}");
    }
    let payment = merchant.payment(paid["paymentId"].as_str().expect("a payment id")).await?;
    assert_eq!((&payment["invoiceId"], &payment["customerId"]), (&json!(invoice_id), &json!(customer)));
    assert_eq!((&payment["paymentMethodId"], &payment["status"]), (&json!(card), &json!("pending_settlement")));
    let attempts = ended_attempts(&merchant, &invoice_id, 1).await?;
    let one = &attempts[0];
    assert_eq!((&one["object"], &one["number"]), (&json!("collection_attempt"), &json!(1)));
    assert_eq!((&one["status"], &one["amount"], &one["paymentId"]), (&json!("succeeded"), &json!(500), &payment["id"]));
    assert!(one.get("declineCode").is_none() && one.get("nextAttemptAt").is_none() && one["attemptedAt"].is_string());
    assert_eq!(event_types(&merchant, &invoice_id).await?, ["invoice.issued", "invoice.scheduled", "invoice.paid"]);
    let events = merchant.books.events(&invoice_id).await?;
    assert_eq!(events.last().map(|(_, object)| object), Some(&paid), "the event shows the current invoice");
    assert_eq!(event_types(&merchant, &id(&payment)?).await?, ["payment.captured"]);
    assert_eq!(ledger(&merchant, &invoice_id).await?, ["sale 500"]);
    conflict(&schedule(&merchant, &invoice_id, LONG_AGO).await?);
    merchant.books.audit().await
}

#[tokio::test]
async fn soft_declines_are_retried_until_exhausted_and_can_be_rescheduled() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_insufficient").await?;
    let invoice_id = invoice(&merchant, &customer, 500).await?;
    ok(&schedule(&merchant, &invoice_id, LONG_AGO).await?);
    for number in 1..=5 {
        let attempts = ended_attempts(&merchant, &invoice_id, number).await?;
        let last = &attempts[number - 1];
        assert_eq!((&last["number"], &last["status"]), (&json!(number), &json!("failed")));
        assert_eq!((&last["declineCode"], &last["declineType"]), (&json!("insufficient_funds"), &json!("soft")));
        let invoice = get_invoice(&merchant, &invoice_id).await?;
        assert_eq!(invoice.get("nextAttemptAt"), last.get("nextAttemptAt"));
        assert_eq!(invoice["status"], if number < 5 { "scheduled" } else { "open" });
        assert_eq!(invoice.get("collectionExhausted"), (number == 5).then_some(&json!(true)));
        make_due(&merchant, &invoice_id).await?;
    }
    let events = event_types(&merchant, &invoice_id).await?;
    let count = |kind: &str| events.iter().filter(|event| *event == kind).count();
    assert_eq!((count("invoice.payment_failed"), count("invoice.collection_exhausted")), (5, 1));
    let again = schedule(&merchant, &invoice_id, LONG_AGO).await?;
    assert!(ok(&again).get("collectionExhausted").is_none());
    let attempts = ended_attempts(&merchant, &invoice_id, 6).await?;
    let numbers: Vec<_> = attempts.iter().map(|one| one["number"].as_i64()).collect();
    assert_eq!(numbers, (1..=6).map(Some).collect::<Vec<_>>(), "numbering continues");
    assert!(attempts[5]["nextAttemptAt"].is_string(), "retries start over");
    assert!(ledger(&merchant, &invoice_id).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_partial_approval_is_voided_and_pays_nothing() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_partial").await?;
    let invoice_id = invoice(&merchant, &customer, 501).await?;
    ok(&schedule(&merchant, &invoice_id, LONG_AGO).await?);
    let attempts = ended_attempts(&merchant, &invoice_id, 1).await?;
    assert_eq!(
        (&attempts[0]["declineCode"], &attempts[0]["declineType"]),
        (&json!("partial_authorization"), &json!("soft"))
    );
    let payment = attempts[0]["paymentId"].as_str().expect("a payment");
    let payment = merchant.wait_for_status(payment, "cancelled").await?;
    assert_eq!((&payment["amount"], &payment["amountRequested"]), (&json!(250), &json!(501)));
    assert_eq!(ledger(&merchant, &invoice_id).await?, ["sale 250 voided, void 250"]);
    let invoice = get_invoice(&merchant, &invoice_id).await?;
    assert_eq!((&invoice["status"], &invoice["amountPaid"]), (&json!("scheduled"), &json!(0)));
    // The same happens with each attempt until they are exhausted.
    make_due(&merchant, &invoice_id).await?;
    ended_attempts(&merchant, &invoice_id, 2).await?;
    eventually("both voids", async || {
        Ok((ledger(&merchant, &invoice_id).await? == ["sale 250 voided, void 250"; 2]).then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_partial_approval_that_settled_is_refunded() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_partial").await?;
    let invoice_id = invoice(&merchant, &customer, 500).await?;
    // Slow enough to settle the charge at the mock before the void, which follows the response.
    merchant.mock(crate::support::cluster().await?, &["--latency-ms", "4000"]).await?;
    ok(&schedule(&merchant, &invoice_id, LONG_AGO).await?);
    merchant.settle_when_booked().await?;
    let attempts = ended_attempts(&merchant, &invoice_id, 1).await?;
    let payment = attempts[0]["paymentId"].as_str().expect("a payment").to_owned();
    let refunded = eventually("the refund", async || {
        let payment = merchant.payment(&payment).await?;
        Ok((payment["amountRefunded"] == 250).then_some(payment))
    })
    .await?;
    assert_eq!(refunded["refunds"][0]["status"], "succeeded", "{refunded}");
    // The refund does not block further attempts.
    merchant.mock(crate::support::cluster().await?, &["--latency-ms", "0"]).await?;
    make_due(&merchant, &invoice_id).await?;
    ended_attempts(&merchant, &invoice_id, 2).await.map(drop)
}

#[tokio::test]
async fn a_refused_void_of_a_partial_approval_is_retried() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_partial").await?;
    let invoice_id = invoice(&merchant, &customer, 500).await?;
    let cluster = crate::support::cluster().await?;
    merchant.mock(cluster, &["--latency-ms", "9000"]).await?;
    ok(&schedule(&merchant, &invoice_id, LONG_AGO).await?);
    // The mock books the charge half-way through its latency. From then on it rejects everything.
    eventually("the charge", async || Ok((merchant.books.charges().await? == 1).then_some(()))).await?;
    merchant.mock(cluster, &["--latency-ms", "0", "--reject"]).await?;
    let attempts = ended_attempts(&merchant, &invoice_id, 1).await?;
    let payment = attempts[0]["paymentId"].as_str().expect("a payment").to_owned();
    eventually("a refusal", async || {
        let payment = merchant.payment(&payment).await?;
        Ok((payment.get("pendingOperation").is_none()).then_some(()))
    })
    .await?;
    merchant.mock(cluster, &[]).await?;
    merchant.wait_for_status(&payment, "cancelled").await?;
    assert_eq!(ledger(&merchant, &invoice_id).await?, ["sale 250 voided, void 250"]);
    Ok(())
}

#[tokio::test]
async fn an_attempt_with_a_lost_response_is_unknown_until_recovered() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_ok").await?;
    let invoice_id = invoice(&merchant, &customer, 500).await?;
    let cluster = crate::support::cluster().await?;
    merchant.mock(cluster, &["--class", "B", "--lose-responses", "1"]).await?;
    ok(&schedule(&merchant, &invoice_id, LONG_AGO).await?);
    eventually("an attempt with an unknown outcome", async || {
        let attempts = attempts(&merchant, &invoice_id).await?;
        Ok(attempts.first().is_some_and(|one| one["status"] == "unknown").then_some(()))
    })
    .await?;
    for action in ["void", "cancel_schedule"] {
        conflict(&super::post_action(&merchant, &invoice_id, action).await?);
    }
    wait_for_status(&merchant, &invoice_id, "paid").await?;
    assert_eq!(ended_attempts(&merchant, &invoice_id, 1).await?.len(), 1);
    assert_eq!(ledger(&merchant, &invoice_id).await?, ["sale 500"]);
    merchant.books.audit().await
}
