//! Scheduling an invoice, and what is rejected.

use anyhow::Result;
use serde_json::json;

use super::{FAR_FUTURE, INVOICES, attempts, customer_with, event_types, get_invoice, invoice, post_action, schedule};
use crate::support::{conflict, created, id, invalid, merchant, not_found, ok, with};

#[tokio::test]
async fn a_schedule_can_be_cancelled() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_ok").await?;
    let invoice_id = invoice(&merchant, &customer, 500).await?;
    let before = get_invoice(&merchant, &invoice_id).await?;
    let response = schedule(&merchant, &invoice_id, "2999-01-01T01:00:00+01:00").await?;
    let scheduled = ok(&response);
    let at = "2999-01-01T00:00:00.000Z";
    let expected = with(with(with(before.clone(), "status", "scheduled"), "collectAt", at), "nextAttemptAt", at);
    assert_eq!(scheduled, &with(expected, "version", 3), "the time is in UTC, and nothing else changes");
    conflict(&schedule(&merchant, &invoice_id, FAR_FUTURE).await?);
    assert_eq!(
        ok(&post_action(&merchant, &invoice_id, "cancel_schedule").await?),
        &with(before, "version", 4),
        "cancelling restores the invoice"
    );
    conflict(&post_action(&merchant, &invoice_id, "cancel_schedule").await?);
    assert_eq!(event_types(&merchant, &invoice_id).await?, ["invoice.issued", "invoice.scheduled"]);
    ok(&schedule(&merchant, &invoice_id, FAR_FUTURE).await?);
    assert!(attempts(&merchant, &invoice_id).await?.is_empty());
    let voided = post_action(&merchant, &invoice_id, "void").await?;
    assert!(ok(&voided).get("collectAt").is_none() && voided.body.get("nextAttemptAt").is_none());
    conflict(&schedule(&merchant, &invoice_id, FAR_FUTURE).await?);
    conflict(&post_action(&merchant, &invoice_id, "cancel_schedule").await?);
    Ok(())
}

#[tokio::test]
async fn errors_are_reported_in_the_order_of_checks() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let (customer, card) = customer_with(&merchant, "tok_ok").await?;
    let (_, of_other_customer) = customer_with(&merchant, "tok_ok").await?;
    let (_, of_other_merchant) = customer_with(&other_merchant, "tok_ok").await?;
    let invoice_id = invoice(&merchant, &customer, 500).await?;
    let path = format!("{INVOICES}/{invoice_id}/schedule");
    for wrong in [json!({}), json!({"collectAt": null}), json!({"collectAt": "tomorrow"}), json!({"collectAt": 1})] {
        invalid(&merchant.api.post(&path, wrong).await?, "collectAt");
    }
    let at = json!({"collectAt": FAR_FUTURE});
    for unknown in [of_other_merchant.as_str(), "pm_01ARZ3NDEKTSV4RRFFQ69G5FAV", "pm_1", &customer] {
        not_found(&merchant.api.post(&path, with(at.clone(), "paymentMethodId", unknown)).await?);
    }
    invalid(
        &merchant.api.post(&path, with(at.clone(), "paymentMethodId", of_other_customer)).await?,
        "paymentMethodId",
    );
    for unknown in ["inv_01ARZ3NDEKTSV4RRFFQ69G5FAV", "inv_1", &card] {
        let unknown = format!("{INVOICES}/{unknown}");
        not_found(&merchant.api.post(&format!("{unknown}/schedule"), at.clone()).await?);
        not_found(&merchant.api.get(&format!("{unknown}/attempts")).await?);
        not_found(&merchant.api.send(reqwest::Method::POST, &format!("{unknown}/cancel_schedule"), None).await?);
    }
    not_found(&other_merchant.api.post(&path, at.clone()).await?);
    not_found(&other_merchant.api.get(&format!("{INVOICES}/{invoice_id}/attempts")).await?);
    assert_eq!(get_invoice(&merchant, &invoice_id).await?["status"], "open", "rejected requests have no effect");
    ok(&merchant.api.post(&path, with(at, "paymentMethodId", card)).await?);
    Ok(())
}

#[tokio::test]
async fn attempts_are_listed_in_pages() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_insufficient").await?;
    let (invoice_id, other) = (invoice(&merchant, &customer, 500).await?, invoice(&merchant, &customer, 500).await?);
    for invoice in [&invoice_id, &other] {
        ok(&schedule(&merchant, invoice, super::LONG_AGO).await?);
    }
    super::ended_attempts(&merchant, &invoice_id, 1).await?;
    super::make_due(&merchant, &invoice_id).await?;
    let both = super::ended_attempts(&merchant, &invoice_id, 2).await?;
    let of_other = super::ended_attempts(&merchant, &other, 1).await?;
    let path = format!("{INVOICES}/{invoice_id}/attempts");
    let first = merchant.api.get(&format!("{path}?limit=1")).await?;
    assert_eq!((&ok(&first)["data"][0], &first.body["hasMore"]), (&both[0], &json!(true)));
    let second = merchant.api.get(&format!("{path}?limit=1&startingAfter={}", id(&both[0])?)).await?;
    assert_eq!((&ok(&second)["data"][0], &second.body["hasMore"]), (&both[1], &json!(false)));
    for cursor in [&id(&of_other[0])?, "att_1", &invoice_id] {
        invalid(&merchant.api.get(&format!("{path}?startingAfter={cursor}")).await?, "startingAfter");
    }
    invalid(&merchant.api.get(&format!("{path}?limit=0")).await?, "limit");
    let draft =
        created(&merchant.api.post(INVOICES, json!({"customerId": customer, "currency": "USD", "amount": 1})).await?)
            .clone();
    assert!(super::attempts(&merchant, &id(&draft)?).await?.is_empty());
    Ok(())
}
