//! What is kept of a subscription, and what is refused.

use anyhow::Result;
use serde_json::{Value, json};

use super::{SUBSCRIPTIONS, invoices, payer, plan, subscribed, told, wanted};
use crate::support::{Merchant, created, id, invalid, merchant, not_found, uuid, walk, with, without};

/// A zone in which it is about noon, so that no day ends while a test looks; and the day it is there, so many days later.
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
async fn what_is_sent_is_kept_and_billed_at_once() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, plan) = (payer(&merchant).await?, plan(&merchant, "day").await?);
    let (zone, today) = noon(&merchant, 0).await?;
    let (_, tomorrow) = noon(&merchant, 1).await?;
    let sent = with(wanted(&customer, &plan), "timezone", zone.to_lowercase());
    let made = subscribed(&merchant, sent).await?;
    assert!(id(&made)?.starts_with("sub_"));
    for instant in ["createdAt", "currentPeriodStart", "currentPeriodEnd", "nextBillingAt"] {
        assert!(made[instant].is_string(), "{instant}: {made}");
    }
    assert_eq!(made["nextBillingAt"], made["currentPeriodEnd"]);
    let instants = ["id", "createdAt", "currentPeriodStart", "currentPeriodEnd", "nextBillingAt"];
    let expected = json!({
        "object": "subscription", "livemode": false, "customerId": customer, "planId": plan, "status": "active",
        "startAt": today, "timezone": zone,
    });
    assert_eq!(instants.into_iter().fold(made.clone(), without), expected);
    let right: bool = sqlx::query_scalar(
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
    assert!(right, "{made}");
    let [invoice] = &invoices(&merchant, &id(&made)?).await?[..] else { panic!("one invoice") };
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
    let told = merchant.books.events(&id(&made)?).await?;
    assert_eq!(told, [("subscription.created".to_owned(), made)], "as it was answered");
    Ok(())
}

#[tokio::test]
async fn a_start_is_kept_wherever_it_lies() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, plan) = (payer(&merchant).await?, plan(&merchant, "week").await?);
    for (days, next, status) in [(-70, 0, "active"), (-72, 5, "scheduled"), (0, 0, "active"), (1, 1, "scheduled")] {
        let (zone, start_at) = noon(&merchant, days).await?;
        let (_, next) = noon(&merchant, next).await?;
        let sent = with(with(wanted(&customer, &plan), "startAt", start_at.clone()), "timezone", zone.clone());
        let made = subscribed(&merchant, sent).await?;
        assert_eq!((&made["status"], &made["startAt"]), (&json!(status), &json!(start_at)), "{days}");
        let first = if status == "active" { "currentPeriodStart" } else { "nextBillingAt" };
        let query = "SELECT $1::text::timestamptz = $2::text::timestamp AT TIME ZONE $3";
        let right: bool = sqlx::query_scalar(query)
            .bind(made[first].as_str())
            .bind(&next)
            .bind(&zone)
            .fetch_one(&merchant.books.db)
            .await?;
        assert!(right, "{days}: {made}");
        let billed = invoices(&merchant, &id(&made)?).await?.len();
        assert_eq!(billed, usize::from(status == "active"), "no backlog: {made}");
        assert_eq!(made.get("currentPeriodStart").is_some(), status == "active");
        assert_eq!(made.get("currentPeriodEnd").is_some(), status == "active");
        assert_eq!(told(&merchant, &id(&made)?).await?, ["subscription.created"]);
    }
    for (zone, start_at, begins) in [
        ("America/New_York", "2099-01-31", "2099-01-31T05:00:00.000Z"),
        ("America/New_York", "2099-07-31", "2099-07-31T04:00:00.000Z"),
        ("Asia/Kolkata", "2099-01-31", "2099-01-30T18:30:00.000Z"),
        ("UTC", "2096-02-29", "2096-02-29T00:00:00.000Z"),
    ] {
        let sent = with(with(wanted(&customer, &plan), "startAt", start_at), "timezone", zone);
        assert_eq!(subscribed(&merchant, sent).await?["nextBillingAt"], begins, "{zone}");
    }
    Ok(())
}

#[tokio::test]
async fn fields_are_strict() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, plan) = (merchant.customer().await?, plan(&merchant, "month").await?);
    let sound = wanted(&customer, &plan);
    for name in ["customerId", "planId"] {
        invalid(&merchant.api.post(SUBSCRIPTIONS, without(sound.clone(), name)).await?, name);
        invalid(&merchant.api.post(SUBSCRIPTIONS, with(sound.clone(), name, Value::Null)).await?, name);
    }
    let no_day = ["", "2099-02-29", "2099-2-1", "2099-01-01T00:00:00Z", "99-01-01", "today", "10000-01-01"];
    let no_zone = ["", "Mars/Olympus", "EST5", "+02:00", "America", "UTC ", "Factory", "../zoneinfo/UTC"];
    let texts = |values: &[&str]| values.iter().map(|text| json!(text)).collect::<Vec<_>>();
    let wrong = [
        ("customerId", vec![json!(1), json!({})]),
        ("planId", vec![json!(true), json!([])]),
        ("paymentMethodId", vec![json!(1)]),
        ("startAt", [texts(&no_day), vec![json!(20_990_101), json!({})]].concat()),
        ("timezone", [texts(&no_zone), vec![json!(2), json!(["UTC"])]].concat()),
    ];
    for (name, values) in wrong {
        for value in values {
            invalid(&merchant.api.post(SUBSCRIPTIONS, with(sound.clone(), name, value)).await?, name);
        }
    }
    invalid(&merchant.api.post(SUBSCRIPTIONS, with(sound, "startAt", "9999-12-31")).await?, "startAt");
    assert!(walk(&merchant.api, &format!("{SUBSCRIPTIONS}?"), 100).await?.is_empty(), "what is refused is not kept");
    assert!(walk(&merchant.api, "/v1/invoices?", 100).await?.is_empty(), "nor billed");
    Ok(())
}

#[tokio::test]
async fn null_is_as_good_as_nothing() -> Result<()> {
    let merchant = merchant().await?;
    let sent = wanted(&payer(&merchant).await?, &plan(&merchant, "month").await?);
    let sent =
        ["paymentMethodId", "startAt", "timezone"].into_iter().fold(sent, |body, name| with(body, name, Value::Null));
    let made = subscribed(&merchant, sent).await?;
    assert_eq!((&made["timezone"], &made["status"]), (&json!("UTC"), &json!("active")));
    assert!(made.get("paymentMethodId").is_none(), "{made}");
    Ok(())
}

#[tokio::test]
async fn what_is_named_must_be_there() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let (customer, plan_id) = (merchant.customer().await?, plan(&merchant, "month").await?);
    let theirs = (payer(&stranger).await?, plan(&stranger, "month").await?);
    let their_card = id(created(&stranger.save_card(&theirs.0, "tok_ok").await?))?;
    let sound = wanted(&customer, &plan_id);
    for (name, unknown) in [
        ("customerId", [theirs.0.as_str(), "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", ""]),
        ("planId", [theirs.1.as_str(), "plan_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", ""]),
        ("paymentMethodId", [their_card.as_str(), "pm_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", &customer]),
    ] {
        for unknown in unknown {
            not_found(&merchant.api.post(SUBSCRIPTIONS, with(sound.clone(), name, unknown)).await?);
            // What the body says wrong comes before whom it names.
            let wrong = with(with(sound.clone(), name, unknown), "timezone", "Mars/Olympus");
            invalid(&merchant.api.post(SUBSCRIPTIONS, wrong).await?, "timezone");
        }
    }
    assert!(walk(&merchant.api, &format!("{SUBSCRIPTIONS}?"), 100).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_card_must_be_the_customers_and_saved() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, other, plan) =
        (payer(&merchant).await?, merchant.customer().await?, plan(&merchant, "month").await?);
    let second = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let made = subscribed(&merchant, with(wanted(&customer, &plan), "paymentMethodId", second.clone())).await?;
    assert_eq!(made["paymentMethodId"], second);
    let card: Option<uuid::Uuid> =
        sqlx::query_scalar("SELECT collect_payment_method_id FROM invoices WHERE subscription_id = $1")
            .bind(uuid(&id(&made)?)?)
            .fetch_one(&merchant.books.db)
            .await?;
    // Once it is paid the invoice has left collection.
    assert!(card.is_none_or(|card| uuid(&second).ok() == Some(card)));

    let named = with(wanted(&other, &plan), "paymentMethodId", second.clone());
    invalid(&merchant.api.post(SUBSCRIPTIONS, named).await?, "paymentMethodId");
    for status in ["processing", "failed"] {
        let unsaved = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
        sqlx::query("UPDATE payment_methods SET status = $2::payment_method_status WHERE id = $1")
            .bind(uuid(&unsaved)?)
            .bind(status)
            .execute(&merchant.books.db)
            .await?;
        let named = with(wanted(&customer, &plan), "paymentMethodId", unsaved);
        invalid(&merchant.api.post(SUBSCRIPTIONS, named).await?, "paymentMethodId");
    }
    let without_any = subscribed(&merchant, wanted(&other, &plan)).await?;
    assert_eq!(without_any["status"], "active", "a customer without a card is billed all the same");
    assert_eq!(invoices(&merchant, &id(&without_any)?).await?.len(), 1);
    Ok(())
}
