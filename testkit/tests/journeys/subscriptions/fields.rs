//! Stored subscription fields and their validation.

use anyhow::Result;
use serde_json::{Value, json};

use super::{SUBSCRIPTIONS, customer_with_card, invoices, plan, subscribe, subscription_body};
use crate::support::{Merchant, created, id, invalid, list_all, merchant, not_found, uuid, with, without};

/// A time zone where it is about noon, so that no day ends during a test, and the date there in `days`.
async fn noon(merchant: &Merchant, days: i32) -> Result<(String, String)> {
    let row: (String, String) = sqlx::query_as(
        "WITH zone AS (SELECT 'Etc/GMT' || to_char(extract(hour FROM now() AT TIME ZONE 'UTC') - 12, 'FMSG99') AS name)
         SELECT name, to_char((now() AT TIME ZONE name) + make_interval(days => $1), 'YYYY-MM-DD') FROM zone",
    )
    .bind(days)
    .fetch_one(&merchant.books.db)
    .await?;
    Ok(row)
}

#[tokio::test]
async fn subscriptions_store_the_sent_fields_and_bill_immediately() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, plan) = (customer_with_card(&merchant).await?, plan(&merchant, "day").await?);
    let (zone, today) = noon(&merchant, 0).await?;
    let (_, tomorrow) = noon(&merchant, 1).await?;
    let sent = with(subscription_body(&customer, &plan), "timezone", zone.to_lowercase());
    let made = subscribe(&merchant, sent).await?;
    assert!(id(&made)?.starts_with("sub_"));
    for field in ["createdAt", "currentPeriodStart", "currentPeriodEnd", "nextBillingAt"] {
        assert!(made[field].is_string(), "{field}: {made}");
    }
    assert_eq!(made["nextBillingAt"], made["currentPeriodEnd"]);
    let generated = ["id", "createdAt", "currentPeriodStart", "currentPeriodEnd", "nextBillingAt", "latestInvoiceId"];
    let expected = json!({
        "object": "subscription", "livemode": false, "version": 1, "customerId": customer, "planId": plan, "status": "active",
        "startAt": today, "timezone": zone,
    });
    assert_eq!(generated.into_iter().fold(made.clone(), without), expected);
    let is_correct: bool = sqlx::query_scalar(
        "SELECT $1::text::timestamptz = $3::text::timestamp AT TIME ZONE $5
            AND $2::text::timestamptz = $4::text::timestamp AT TIME ZONE $5",
    )
    .bind(made["currentPeriodStart"].as_str())
    .bind(made["currentPeriodEnd"].as_str())
    .bind(&today)
    .bind(&tomorrow)
    .bind(&zone)
    .fetch_one(&merchant.books.db)
    .await?;
    assert!(is_correct, "{made}");
    let [invoice] = &invoices(&merchant, &id(&made)?).await?[..] else { panic!("one invoice") };
    assert_eq!(made["latestInvoiceId"], invoice["id"]);
    for (field, expected) in [
        ("customerId", json!(customer)),
        ("subscriptionId", made["id"].clone()),
        ("billingPeriod", json!(format!("{today}/{today}"))),
        ("amount", json!(2900)),
        ("currency", json!("USD")),
        ("description", json!("Gold")),
        ("items", json!([{"description": "Gold", "quantity": 1, "unitAmount": 2900}])),
        ("paymentTerms", json!("due_on_receipt")),
        ("issuedAt", made["createdAt"].clone()),
        ("dueAt", made["createdAt"].clone()),
    ] {
        assert_eq!(invoice[field], expected, "{field}");
    }
    let events = merchant.books.events(&id(&made)?).await?;
    assert_eq!(events, [("subscription.created".to_owned(), made)], "the event has the returned object");
    Ok(())
}

#[tokio::test]
async fn invalid_fields_are_rejected() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, plan) = (merchant.customer().await?, plan(&merchant, "month").await?);
    let valid = subscription_body(&customer, &plan);
    for name in ["customerId", "planId"] {
        invalid(&merchant.api.post(SUBSCRIPTIONS, without(valid.clone(), name)).await?, name);
        invalid(&merchant.api.post(SUBSCRIPTIONS, with(valid.clone(), name, Value::Null)).await?, name);
    }
    let not_a_date = ["", "2099-02-29", "2099-2-1", "2099-01-01T00:00:00Z", "99-01-01", "today", "10000-01-01"];
    let not_a_zone = ["", "Mars/Olympus", "EST5", "+02:00", "America", "UTC ", "Factory", "../zoneinfo/UTC"];
    let texts = |values: &[&str]| values.iter().map(|text| json!(text)).collect::<Vec<_>>();
    let wrong = [
        ("customerId", vec![json!(1), json!({})]),
        ("planId", vec![json!(true), json!([])]),
        ("paymentMethodId", vec![json!(1)]),
        ("startAt", [texts(&not_a_date), vec![json!(20_990_101), json!({})]].concat()),
        ("timezone", [texts(&not_a_zone), vec![json!(2), json!(["UTC"])]].concat()),
    ];
    for (name, values) in wrong {
        for value in values {
            invalid(&merchant.api.post(SUBSCRIPTIONS, with(valid.clone(), name, value)).await?, name);
        }
    }
    invalid(&merchant.api.post(SUBSCRIPTIONS, with(valid, "startAt", "9999-12-31")).await?, "startAt");
    assert!(
        list_all(&merchant.api, &format!("{SUBSCRIPTIONS}?"), 100).await?.is_empty(),
        "rejected subscriptions are not stored"
    );
    assert!(list_all(&merchant.api, "/v1/invoices?", 100).await?.is_empty(), "rejected subscriptions are not billed");
    Ok(())
}

#[tokio::test]
async fn null_equals_an_absent_field() -> Result<()> {
    let merchant = merchant().await?;
    let sent = subscription_body(&customer_with_card(&merchant).await?, &plan(&merchant, "month").await?);
    let sent =
        ["paymentMethodId", "startAt", "timezone"].into_iter().fold(sent, |body, name| with(body, name, Value::Null));
    let made = subscribe(&merchant, sent).await?;
    assert_eq!((&made["timezone"], &made["status"]), (&json!("UTC"), &json!("active")));
    assert!(made.get("paymentMethodId").is_none(), "{made}");
    Ok(())
}

#[tokio::test]
async fn referenced_objects_must_exist() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let (customer, plan_id) = (merchant.customer().await?, plan(&merchant, "month").await?);
    let foreign = (customer_with_card(&other_merchant).await?, plan(&other_merchant, "month").await?);
    let foreign_card = id(created(&other_merchant.save_card(&foreign.0, "tok_ok").await?))?;
    let valid = subscription_body(&customer, &plan_id);
    for (name, unknown) in [
        ("customerId", [foreign.0.as_str(), "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", ""]),
        ("planId", [foreign.1.as_str(), "plan_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", ""]),
        ("paymentMethodId", [foreign_card.as_str(), "pm_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", &customer]),
    ] {
        for unknown in unknown {
            not_found(&merchant.api.post(SUBSCRIPTIONS, with(valid.clone(), name, unknown)).await?);
            // Syntax errors in the body come before unknown objects.
            let wrong = with(with(valid.clone(), name, unknown), "timezone", "Mars/Olympus");
            invalid(&merchant.api.post(SUBSCRIPTIONS, wrong).await?, "timezone");
        }
    }
    assert!(list_all(&merchant.api, &format!("{SUBSCRIPTIONS}?"), 100).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn cards_must_be_saved_by_the_customer() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, other, plan) =
        (customer_with_card(&merchant).await?, merchant.customer().await?, plan(&merchant, "month").await?);
    let second = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let made =
        subscribe(&merchant, with(subscription_body(&customer, &plan), "paymentMethodId", second.clone())).await?;
    assert_eq!(made["paymentMethodId"], second);
    let card: Option<uuid::Uuid> =
        sqlx::query_scalar("SELECT collect_payment_method_id FROM invoices WHERE subscription_id = $1")
            .bind(uuid(&id(&made)?)?)
            .fetch_one(&merchant.books.db)
            .await?;
    // Once the invoice is paid, the column is null.
    assert!(card.is_none_or(|card| uuid(&second).ok() == Some(card)));

    let body = with(subscription_body(&other, &plan), "paymentMethodId", second.clone());
    invalid(&merchant.api.post(SUBSCRIPTIONS, body).await?, "paymentMethodId");
    for status in ["processing", "failed"] {
        let unsaved = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
        sqlx::query("UPDATE payment_methods SET status = $2::payment_method_status WHERE id = $1")
            .bind(uuid(&unsaved)?)
            .bind(status)
            .execute(&merchant.books.db)
            .await?;
        let body = with(subscription_body(&customer, &plan), "paymentMethodId", unsaved);
        invalid(&merchant.api.post(SUBSCRIPTIONS, body).await?, "paymentMethodId");
    }
    let without_card = subscribe(&merchant, subscription_body(&other, &plan)).await?;
    assert_eq!(without_card["status"], "past_due", "a customer without a card is billed as well");
    assert_eq!(invoices(&merchant, &id(&without_card)?).await?.len(), 1);
    Ok(())
}
