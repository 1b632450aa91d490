//! Paying on a page: a payment updates everything in one transaction; a failed payment leaves the object open.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{current, event_types, invoice, ledgers, link, wait_for_status};
use crate::support::{Browser, Merchant, Payer, cluster, eventually, id, merchant, ok, redirect_payment_id};

/// A link and an invoice of this amount, each with its payer.
async fn both(merchant: &Merchant, amount: i64) -> Result<[(Value, Payer); 2]> {
    Ok([link(merchant, amount).await?, invoice(merchant, amount).await?])
}

#[tokio::test]
async fn payment_and_object_are_updated_in_one_transaction() -> Result<()> {
    let merchant = merchant().await?;
    for (made, payer) in both(&merchant, 500).await? {
        assert!(payer.open().await?.has_pay_button());
        let response = payer.submit("tok_ok").await?;
        let payment = redirect_payment_id(&response).context("a payment")?;
        let page = payer.follow(&response).await?;
        page.assert_shows(200, &["Paid on", "Thank you"]);
        assert!(!page.has_pay_button() && page.response.header("refresh").is_none());

        let paid = current(&merchant, &made).await?;
        assert_eq!((&paid["status"], &paid["paymentId"]), (&json!("paid"), &json!(payment)));
        assert!(paid["paidAt"].is_string(), "{paid}");
        let payment_object = merchant.assert_consistent(&payment, "sale 500", &["payment.captured"]).await?;
        assert_eq!((&payment_object["amount"], &payment_object["status"]), (&json!(500), &json!("pending_settlement")));
        let reference_field = if made["object"] == "invoice" { "invoiceId" } else { "paymentLinkId" };
        assert_eq!(
            (&payment_object[reference_field], &payment_object["customerId"]),
            (&made["id"], &made["customerId"])
        );
        let (kind, object) = merchant.books.events(&id(&made)?).await?.pop().context("an event")?;
        assert_eq!((kind, &object), (format!("{}.paid", made["object"].as_str().unwrap_or_default()), &paid));
        let transactions: i64 = sqlx::query_scalar(
            "SELECT count(DISTINCT xmin::text) FROM events WHERE account_id = $1 AND (payload::json -> 'data' -> 'object' ->> 'id' = $2
             OR (payload::json -> 'data' -> 'object' ->> 'id' = $3 AND type LIKE '%.paid'))",
        )
        .bind(merchant.books.account)
        .bind(&payment)
        .bind(id(&made)?)
        .fetch_one(&merchant.books.db)
        .await?;
        assert_eq!(transactions, 1, "one transaction wrote the events of the payment and of the paid object");

        // A second submission finds the object paid.
        let again = payer.submit("tok_ok").await?;
        assert_eq!(redirect_payment_id(&again), None);
        payer.follow(&again).await?.assert_shows(200, &["Paid on"]);
        assert_eq!(ledgers(&merchant, &made).await?, ["sale 500"]);
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn declines_show_the_reason_and_allow_another_card() -> Result<()> {
    let merchant = merchant().await?;
    for (made, payer) in both(&merchant, 500).await? {
        let before = current(&merchant, &made).await?;
        for _ in 0..2 {
            let response = payer.submit("tok_insufficient").await?;
            let page = payer.follow(&response).await?;
            page.assert_shows(200, &["role=\"alert\"", "insufficient funds", "try again"]);
            assert!(page.has_pay_button());
            let payment = merchant.payment(&redirect_payment_id(&response).context("a payment")?).await?;
            assert_eq!(payment["status"], "declined");
        }
        assert_eq!(current(&merchant, &made).await?, before, "a decline does not change the object");
        assert!(!payer.open().await?.html.contains("insufficient funds"), "only the payer sees the reason");
        payer.pay("tok_ok").await?.assert_shows(200, &["Paid on"]);
        assert_eq!(current(&merchant, &made).await?["status"], "paid");
        assert_eq!(ledgers(&merchant, &made).await?, ["sale 500"]);
    }
    Ok(())
}

#[tokio::test]
async fn failed_payments_leave_the_link_open() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    merchant.mock(cluster().await?, &["--refuse"]).await?;
    let page = payer.pay("tok_ok").await?;
    page.assert_shows(200, &["could not be made", "Nothing was charged"]);
    assert!(page.has_pay_button());
    assert_eq!(current(&merchant, &made).await?["status"], "open");
    assert!(ledgers(&merchant, &made).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn partial_approvals_are_voided_and_pay_nothing() -> Result<()> {
    let merchant = merchant().await?;
    for (made, payer) in both(&merchant, 501).await? {
        let response = payer.submit("tok_partial").await?;
        let payment = redirect_payment_id(&response).context("a payment")?;
        payer.follow(&response).await?.assert_shows(200, &["only part"]);
        merchant.wait_for_status(&payment, "cancelled").await?;
        let page = payer.follow(&response).await?;
        page.assert_shows(200, &["only part", "was returned"]);
        assert!(page.has_pay_button(), "once it is voided, another card can pay");
        assert_eq!(ledgers(&merchant, &made).await?, ["sale 250 voided, void 250"]);
        assert_eq!(current(&merchant, &made).await?["status"], "open");
        payer.pay("tok_ok").await?.assert_shows(200, &["Paid on"]);
        assert_eq!(ledgers(&merchant, &made).await?, ["sale 250 voided, void 250", "sale 501"]);
        let paid = current(&merchant, &made).await?;
        assert_eq!((&paid["status"], &paid["amount"]), (&json!("paid"), &json!(501)));
    }
    Ok(())
}

#[tokio::test]
async fn partial_approvals_settled_before_the_void_are_refunded() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    // Slow enough to settle the charge at the mock before the void, which follows the response.
    merchant.mock(cluster().await?, &["--latency-ms", "4000"]).await?;
    let (response, ()) = tokio::try_join!(payer.submit("tok_partial"), merchant.settle_when_booked())?;
    let payment = redirect_payment_id(&response).context("a payment")?;
    assert_eq!(redirect_payment_id(&payer.submit("tok_ok").await?), None, "during the reversal no other card can pay");
    let refunded = merchant.wait_for_status(&payment, "refunded").await?;
    assert_eq!((&refunded["amountRefunded"], &refunded["settled"]), (&json!(250), &json!(true)));
    assert_eq!(ledgers(&merchant, &made).await?, ["sale 250 settled, refund 250"]);
    merchant.mock(cluster().await?, &["--latency-ms", "0"]).await?;
    payer.pay("tok_ok").await?.assert_shows(200, &["Paid on"]);
    assert_eq!(current(&merchant, &made).await?["status"], "paid");
    Ok(())
}

#[tokio::test]
async fn payment_tokens_pay_only_once() -> Result<()> {
    let merchant = merchant().await?;
    let token = Browser::for_account(cluster().await?, &merchant.account)?.token("tok_ok").await?;
    let [(first, payer), (second, other)] = both(&merchant, 500).await?;
    payer.pay(&token).await?.assert_shows(200, &["Paid on"]);
    let response = other.submit(&token).await?;
    assert_eq!(response.status, 409, "the token was already used");
    assert_eq!(current(&merchant, &first).await?["status"], "paid");
    assert_eq!(current(&merchant, &second).await?["status"], "open");
    assert!(ledgers(&merchant, &second).await?.is_empty());
    other.pay("tok_ok").await?.assert_shows(200, &["Paid on"]);
    Ok(())
}

#[tokio::test]
async fn lost_responses_are_recovered_while_the_page_waits() -> Result<()> {
    let merchant = merchant().await?;
    for class in ["A", "B"] {
        for (made, payer) in both(&merchant, 500).await? {
            merchant.mock(cluster().await?, &["--class", class, "--lose-responses", "1"]).await?;
            let paying = async { payer.pay("tok_ok").await };
            let watching = async {
                eventually("the page to show the payment as being processed", async || {
                    let page = payer.open().await?;
                    let waits = page.html.contains("being processed") && page.response.header("refresh") == Some("3");
                    Ok((waits && !page.has_pay_button()).then_some(()))
                })
                .await?;
                assert_eq!(redirect_payment_id(&payer.submit("tok_ok").await?), None);
                anyhow::Ok(())
            };
            tokio::try_join!(paying, watching)?;
            wait_for_status(&merchant, &made, "paid").await?;
            assert_eq!(ledgers(&merchant, &made).await?, ["sale 500"], "class {class}");
        }
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn scheduled_invoices_can_be_paid_before_collection() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = invoice(&merchant, 500).await?;
    let schedule = format!("{}/{}/schedule", super::INVOICES, id(&made)?);
    ok(&merchant.api.post(&schedule, json!({"collectAt": "2031-01-01T00:00:00Z"})).await?);
    payer.pay("tok_ok").await?.assert_shows(200, &["Paid on"]);
    let paid = current(&merchant, &made).await?;
    assert_eq!((&paid["status"], &paid["amountPaid"]), (&json!("paid"), &json!(500)));
    assert!(paid.get("nextAttemptAt").is_none(), "{paid}");
    assert_eq!(event_types(&merchant, &made).await?, ["invoice.issued", "invoice.scheduled", "invoice.paid"]);
    Ok(())
}

#[tokio::test]
async fn payments_of_other_objects_are_not_displayed() -> Result<()> {
    let merchant = merchant().await?;
    let [(_, payer), (_, other)] = both(&merchant, 500).await?;
    let declined = redirect_payment_id(&payer.submit("tok_insufficient").await?).context("a payment")?;
    let direct_payment = merchant.charge(500).await?;
    for payment in [declined.as_str(), &direct_payment, "pay_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", "%00", ""] {
        let page = other.at(&format!("{}?payment={payment}", other.path())).open().await?;
        page.assert_shows(200, &["$5.00"]);
        assert!(page.has_pay_button() && !page.html.contains("role=\"alert\"><p>"), "{payment}");
    }
    Ok(())
}

#[tokio::test]
async fn voided_payments_leave_the_link_paid() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    let payment = redirect_payment_id(&payer.submit("tok_ok").await?).context("a payment")?;
    ok(&merchant.void(&payment).await?);
    assert_eq!(current(&merchant, &made).await?["status"], "paid");
    assert_eq!(redirect_payment_id(&payer.submit("tok_ok").await?), None);
    payer.open().await?.assert_shows(200, &["Paid on"]);
    assert_eq!(event_types(&merchant, &made).await?, ["payment_link.paid"]);
    Ok(())
}
