//! Stored recurring invoice fields and their validation.

use anyhow::Result;
use serde_json::{Value, json};

use super::{RECURRING, cadence, current, day, make, merchant, recurring, row, starting_in_2090, template};
use crate::support::{Merchant, created, id, invalid, list_all, not_found, with, without};

/// The body with another value of a nested field.
fn with_nested(body: &Value, object: &str, field: &str, value: impl Into<Value>) -> Value {
    with(body.clone(), object, with(body[object].clone(), field, value))
}

async fn assert_rejected(merchant: &Merchant, body: Value, param: &str) -> Result<()> {
    let response = merchant.api.post(RECURRING, body).await?;
    invalid(&response, param);
    assert!(!response.body.to_string().contains("secret"), "{}", response.body);
    Ok(())
}

#[tokio::test]
async fn recurring_invoices_store_the_sent_fields() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let today = day(&merchant, 0).await?;
    let minimal = json!({"customerId": customer, "cadence": {"unit": "daily"},
        "template": {"currency": "usd", "items": [row("Rent", 1, 500)]}});
    let made = make(&merchant, minimal).await?;
    assert!(id(&made)?.starts_with("rinv_"));
    let without_generated = ["id", "createdAt"].into_iter().fold(made.clone(), without);
    let expected = json!({
        "object": "recurring_invoice", "livemode": false, "version": 1, "customerId": customer, "status": "active",
        "cadence": {"unit": "daily", "interval": 1}, "lastDayOfMonth": false, "startDate": today, "mode": "auto_send",
        "template": {"currency": "USD", "paymentTerms": "due_on_receipt", "items": [row("Rent", 1, 500)]},
        "nextInvoiceDate": today, "occurrenceCount": 0,
    });
    assert_eq!(without_generated, expected);

    let full = json!({
        "customerId": customer, "name": "é Rent", "cadence": {"unit": "monthly", "interval": 36, "dayOfMonth": 31},
        "lastDayOfMonth": false, "startDate": "2090-02-01", "endDate": "2091-02-01", "mode": "draft_for_review",
        "template": {
            "currency": "JPY", "paymentTerms": "net_60", "description": "Flat 3",
            "items": [row("Rent", 1, 95_000), row("Tea", 3, 0)], "amountTax": 0, "amountDiscount": 7,
        },
    });
    let response = merchant.api.post(RECURRING, full.clone()).await?;
    for (name, value) in full.as_object().expect("an object") {
        assert_eq!(&created(&response)[name], value, "{name}");
    }
    assert_eq!(response.body["nextInvoiceDate"], "2090-02-28");
    assert_eq!(current(&merchant, &id(&response.body)?).await?, response.body);
    let last = with(starting_in_2090(&customer, cadence("yearly", 2)), "lastDayOfMonth", true);
    let made = make(&merchant, last).await?;
    assert_eq!((&made["lastDayOfMonth"], &made["nextInvoiceDate"]), (&json!(true), &json!("2090-01-31")));
    assert!(made["cadence"].get("dayOfMonth").is_none(), "{made}");
    Ok(())
}

#[tokio::test]
async fn invalid_fields_are_rejected() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let body = starting_in_2090(&customer, cadence("monthly", 1));
    for name in ["customerId", "cadence", "template"] {
        assert_rejected(&merchant, without(body.clone(), name), name).await?;
        assert_rejected(&merchant, with(body.clone(), name, Value::Null), name).await?;
    }
    let not_an_object = || vec![json!("secret"), json!(1), json!(true), json!([]), json!(["secret"])];
    let not_a_date = ["", "2090-02-30", "2090-1-1", "2090-01-01T00:00:00Z", "tomorrow"].map(Value::from).to_vec();
    let not_a_date = [not_a_date, vec![json!(20_900_101), json!({})]].concat();
    for (name, values) in [
        ("customerId", vec![json!(1), json!({})]),
        ("name", vec![json!(1), json!(""), json!("a\nb"), json!("x".repeat(256))]),
        ("cadence", not_an_object()),
        ("lastDayOfMonth", vec![json!("true"), json!(1)]),
        ("startDate", not_a_date.clone()),
        ("endDate", not_a_date),
        ("mode", vec![json!("auto"), json!(""), json!(true)]),
        ("template", not_an_object()),
    ] {
        for value in values {
            assert_rejected(&merchant, with(body.clone(), name, value), name).await?;
        }
    }
    let not_an_interval = vec![json!(0), json!(-1), json!(37), json!(1.0), json!("1"), json!(true)];
    let not_a_month_day = vec![json!(0), json!(-1), json!(32), json!(1.0), json!("last"), json!([1])];
    for (name, values) in [
        ("unit", vec![Value::Null, json!("month"), json!("Monthly"), json!(""), json!(1)]),
        ("interval", not_an_interval),
        ("dayOfMonth", not_a_month_day),
    ] {
        for value in values {
            assert_rejected(&merchant, with_nested(&body, "cadence", name, value), &format!("cadence.{name}")).await?;
        }
    }
    assert_rejected(&merchant, with(body.clone(), "cadence", json!({"interval": 1})), "cadence.unit").await?;
    assert!(
        list_all(&merchant.api, &format!("{RECURRING}?"), 100).await?.is_empty(),
        "rejected recurring invoices are not stored"
    );
    Ok(())
}

#[tokio::test]
async fn templates_are_validated_like_invoices() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let body = starting_in_2090(&customer, cadence("monthly", 1));
    for name in ["currency", "items"] {
        let without = with(body.clone(), "template", without(template(500), name));
        assert_rejected(&merchant, without, &format!("template.{name}")).await?;
        assert_rejected(&merchant, with_nested(&body, "template", name, Value::Null), &format!("template.{name}"))
            .await?;
    }
    let not_a_part =
        vec![json!(-1), json!(1.5), json!(10.0), json!("10"), json!(true), json!(9_007_199_254_740_992_i64)];
    for (name, values) in [
        ("currency", vec![json!("XXX"), json!("US"), json!(840)]),
        ("paymentTerms", vec![json!("net_45"), json!("Net_7"), json!(30)]),
        ("description", vec![json!(1), json!(""), json!("a\nb"), json!("x".repeat(256))]),
        ("items", vec![json!({}), json!("secret"), json!([]), json!(vec![row("Same", 1, 1); 101])]),
        ("amountTax", not_a_part.clone()),
        ("amountDiscount", not_a_part),
    ] {
        for value in values {
            assert_rejected(&merchant, with_nested(&body, "template", name, value), &format!("template.{name}"))
                .await?;
        }
    }
    let rows = |third: Value| json!([row("One", 1, 1), row("Two", 2, 2), third]);
    for (name, value) in [("description", json!("")), ("quantity", json!(0)), ("unitAmount", json!(-1))] {
        let param = format!("template.items[2].{name}");
        for third in [with(row("Three", 3, 3), name, value), without(row("Three", 3, 3), name)] {
            assert_rejected(&merchant, with_nested(&body, "template", "items", rows(third)), &param).await?;
        }
    }
    assert_rejected(&merchant, with_nested(&body, "template", "items", rows(json!("secret"))), "template.items[2]")
        .await?;
    let max = 9_007_199_254_740_991_i64;
    for (changed, param) in [
        (json!({"items": [row("Nothing", 5, 0)]}), "template.items"),
        (json!({"items": [row("All", max, max)]}), "template.items"),
        (json!({"items": [row("Most", 1, max)], "amountTax": 1}), "template.amountTax"),
        (json!({"items": [row("Hours", 1, 5)], "amountDiscount": 5}), "template.amountDiscount"),
    ] {
        let changed = changed.as_object().into_iter().flatten();
        let template = changed.fold(template(500), |template, (name, value)| with(template, name, value.clone()));
        assert_rejected(&merchant, with(body.clone(), "template", template), param).await?;
    }
    Ok(())
}

#[tokio::test]
async fn cadence_fields_must_be_consistent() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    for unit in ["daily", "weekly"] {
        let body = starting_in_2090(&customer, cadence(unit, 1));
        assert_rejected(&merchant, with_nested(&body, "cadence", "dayOfMonth", 1), "cadence.dayOfMonth").await?;
        assert_rejected(&merchant, with(body.clone(), "lastDayOfMonth", true), "lastDayOfMonth").await?;
        make(&merchant, with(body, "lastDayOfMonth", false)).await?;
    }
    for unit in ["monthly", "yearly"] {
        let body = with_nested(&starting_in_2090(&customer, cadence(unit, 1)), "cadence", "dayOfMonth", 31);
        assert_rejected(&merchant, with(body.clone(), "lastDayOfMonth", true), "lastDayOfMonth").await?;
        make(&merchant, with(body, "lastDayOfMonth", false)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn null_equals_an_absent_field() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let body = recurring(&customer, cadence("daily", 2));
    let optional = ["name", "lastDayOfMonth", "startDate", "endDate", "mode"];
    let body = optional.into_iter().fold(body, |body, name| with(body, name, Value::Null));
    let body =
        ["interval", "dayOfMonth"].iter().fold(body, |body, name| with_nested(&body, "cadence", name, Value::Null));
    let optional = ["paymentTerms", "description", "amountTax", "amountDiscount"];
    let body = optional.iter().fold(body, |body, name| with_nested(&body, "template", name, Value::Null));
    let made = make(&merchant, body).await?;
    assert_eq!(made["cadence"], cadence("daily", 1));
    assert_eq!(
        made["template"],
        json!({"currency": "USD", "paymentTerms": "due_on_receipt", "items": [row("Rent", 1, 500)]})
    );
    assert_eq!(made["startDate"], day(&merchant, 0).await?.as_str());
    Ok(())
}

#[tokio::test]
async fn customers_of_other_accounts_are_not_found() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let foreign = other_merchant.customer().await?;
    for unknown in [foreign.as_str(), "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", ""] {
        let body = starting_in_2090(unknown, cadence("monthly", 1));
        not_found(&merchant.api.post(RECURRING, body.clone()).await?);
        // Syntax errors in the body come before unknown customers.
        assert_rejected(&merchant, with(body.clone(), "endDate", "2089-01-01"), "endDate").await?;
        assert_rejected(&merchant, with_nested(&body, "template", "items", json!([])), "template.items").await?;
    }
    assert!(list_all(&merchant.api, &format!("{RECURRING}?"), 100).await?.is_empty());
    Ok(())
}
