//! Scheduling and what refuses it.

use anyhow::Result;
use serde_json::json;

use super::{IN_A_LONG_TIME, INVOICES, ask, attempts, customer_with, invoice, schedule, shown, told};
use crate::support::{conflict, created, id, invalid, merchant, not_found, ok, with};

#[tokio::test]
async fn a_schedule_is_shown_and_taken_back() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_ok").await?;
    let made = invoice(&merchant, &customer, 500).await?;
    let before = shown(&merchant, &made).await?;
    let answer = schedule(&merchant, &made, "2999-01-01T01:00:00+01:00").await?;
    let scheduled = ok(&answer);
    let at = "2999-01-01T00:00:00.000Z";
    let expected = with(with(with(before.clone(), "status", "scheduled"), "collectAt", at), "nextAttemptAt", at);
    assert_eq!(scheduled, &expected, "the instant in UTC, and nothing else changes");
    conflict(&schedule(&merchant, &made, IN_A_LONG_TIME).await?);
    assert_eq!(ok(&ask(&merchant, &made, "cancel_schedule").await?), &before, "as if nothing had been");
    conflict(&ask(&merchant, &made, "cancel_schedule").await?);
    assert_eq!(told(&merchant, &made).await?, ["invoice.issued", "invoice.scheduled"]);
    ok(&schedule(&merchant, &made, IN_A_LONG_TIME).await?);
    assert!(attempts(&merchant, &made).await?.is_empty());
    let voided = ask(&merchant, &made, "void").await?;
    assert!(ok(&voided).get("collectAt").is_none() && voided.body.get("nextAttemptAt").is_none());
    conflict(&schedule(&merchant, &made, IN_A_LONG_TIME).await?);
    conflict(&ask(&merchant, &made, "cancel_schedule").await?);
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_is_named_in_the_order_of_checks() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let (customer, card) = customer_with(&merchant, "tok_ok").await?;
    let (_, of_another) = customer_with(&merchant, "tok_ok").await?;
    let (_, of_stranger) = customer_with(&stranger, "tok_ok").await?;
    let made = invoice(&merchant, &customer, 500).await?;
    let path = format!("{INVOICES}/{made}/schedule");
    for wrong in [json!({}), json!({"collectAt": null}), json!({"collectAt": "tomorrow"}), json!({"collectAt": 1})] {
        invalid(&merchant.api.post(&path, wrong).await?, "collectAt");
    }
    let at = json!({"collectAt": IN_A_LONG_TIME});
    for unknown in [of_stranger.as_str(), "pm_01ARZ3NDEKTSV4RRFFQ69G5FAV", "pm_1", &customer] {
        not_found(&merchant.api.post(&path, with(at.clone(), "paymentMethodId", unknown)).await?);
    }
    invalid(&merchant.api.post(&path, with(at.clone(), "paymentMethodId", of_another)).await?, "paymentMethodId");
    for unknown in ["inv_01ARZ3NDEKTSV4RRFFQ69G5FAV", "inv_1", &card] {
        let unknown = format!("{INVOICES}/{unknown}");
        not_found(&merchant.api.post(&format!("{unknown}/schedule"), at.clone()).await?);
        not_found(&merchant.api.get(&format!("{unknown}/attempts")).await?);
        not_found(&merchant.api.send(reqwest::Method::POST, &format!("{unknown}/cancel_schedule"), None).await?);
    }
    not_found(&stranger.api.post(&path, at.clone()).await?);
    not_found(&stranger.api.get(&format!("{INVOICES}/{made}/attempts")).await?);
    assert_eq!(shown(&merchant, &made).await?["status"], "open", "none of these did anything");
    ok(&merchant.api.post(&path, with(at, "paymentMethodId", card)).await?);
    Ok(())
}

#[tokio::test]
async fn attempts_are_listed_in_pages() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, _) = customer_with(&merchant, "tok_insufficient").await?;
    let (made, other) = (invoice(&merchant, &customer, 500).await?, invoice(&merchant, &customer, 500).await?);
    for invoice in [&made, &other] {
        ok(&schedule(&merchant, invoice, super::LONG_AGO).await?);
    }
    super::ended(&merchant, &made, 1).await?;
    super::is_due(&merchant, &made).await?;
    let both = super::ended(&merchant, &made, 2).await?;
    let of_other = super::ended(&merchant, &other, 1).await?;
    let path = format!("{INVOICES}/{made}/attempts");
    let first = merchant.api.get(&format!("{path}?limit=1")).await?;
    assert_eq!((&ok(&first)["data"][0], &first.body["hasMore"]), (&both[0], &json!(true)));
    let second = merchant.api.get(&format!("{path}?limit=1&startingAfter={}", id(&both[0])?)).await?;
    assert_eq!((&ok(&second)["data"][0], &second.body["hasMore"]), (&both[1], &json!(false)));
    for cursor in [&id(&of_other[0])?, "att_1", &made] {
        invalid(&merchant.api.get(&format!("{path}?startingAfter={cursor}")).await?, "startingAfter");
    }
    invalid(&merchant.api.get(&format!("{path}?limit=0")).await?, "limit");
    let draft =
        created(&merchant.api.post(INVOICES, json!({"customerId": customer, "currency": "USD", "amount": 1})).await?)
            .clone();
    assert!(super::attempts(&merchant, &id(&draft)?).await?.is_empty());
    Ok(())
}
