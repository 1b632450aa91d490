//! Stored plan fields, their validation, and listing.

use anyhow::Result;
use serde_json::{Value, json};

use super::{PLANS, monthly};
use crate::support::{
    assert_invalid_pages_rejected, assert_listed, created, id, invalid, list_all, merchant, not_found, ok, with,
    without,
};

#[tokio::test]
async fn plans_store_the_sent_fields() -> Result<()> {
    let merchant = merchant().await?;
    let response = merchant.api.post(PLANS, monthly(2900)).await?;
    let made = created(&response);
    assert!(id(made)?.starts_with("plan_"));
    let without_generated = without(without(made.clone(), "id"), "createdAt");
    let expected = json!({
        "object": "plan", "livemode": false, "version": 1, "name": "Gold", "amount": 2900, "currency": "USD", "interval": "month",
        "intervalCount": 1,
    });
    assert_eq!(without_generated, expected);
    assert_eq!(ok(&merchant.api.get(&format!("{PLANS}/{}", id(made)?)).await?), made);
    let full = json!({"name": "é", "amount": 9_007_199_254_740_991_i64, "currency": "jpy", "interval": "day", "intervalCount": 7});
    let response = merchant.api.post(PLANS, full.clone()).await?;
    for (name, value) in with(full, "currency", "JPY").as_object().expect("an object") {
        assert_eq!(&created(&response)[name], value);
    }
    Ok(())
}

#[tokio::test]
async fn invalid_fields_are_rejected() -> Result<()> {
    let merchant = merchant().await?;
    for name in ["name", "amount", "currency", "interval"] {
        invalid(&merchant.api.post(PLANS, without(monthly(100), name)).await?, name);
        invalid(&merchant.api.post(PLANS, with(monthly(100), name, Value::Null)).await?, name);
    }
    let not_a_number = [json!(0), json!(-1), json!(1.5), json!(10.0), json!("10"), json!(true), json!([1])];
    let wrong = [
        ("name", vec![json!(1), json!(""), json!("a\nb"), json!("x".repeat(256))]),
        ("amount", [&not_a_number[..], &[json!(9_007_199_254_740_992_i64)]].concat()),
        ("currency", vec![json!("XXX"), json!("US"), json!(""), json!(840)]),
        ("interval", vec![json!("monthly"), json!("Month"), json!("hour"), json!(""), json!(1)]),
        ("intervalCount", [&not_a_number[..], &[json!(1096), json!(u64::MAX)]].concat()),
    ];
    for (name, values) in wrong {
        for value in values {
            invalid(&merchant.api.post(PLANS, with(monthly(100), name, value)).await?, name);
        }
    }
    let response = merchant.api.send(reqwest::Method::POST, PLANS, Some(br#"{"amount":1e3}"#.to_vec())).await?;
    invalid(&response, "amount");
    assert!(list_all(&merchant.api, &format!("{PLANS}?"), 100).await?.is_empty(), "rejected plans are not stored");
    Ok(())
}

#[tokio::test]
async fn intervals_are_at_most_three_years() -> Result<()> {
    let merchant = merchant().await?;
    for (interval, max) in [("day", 1095), ("week", 156), ("month", 36), ("year", 3)] {
        let plan = |count: i32| with(with(monthly(100), "interval", interval), "intervalCount", count);
        assert_eq!(created(&merchant.api.post(PLANS, plan(max)).await?)["intervalCount"], max);
        invalid(&merchant.api.post(PLANS, plan(max + 1)).await?, "intervalCount");
    }
    Ok(())
}

#[tokio::test]
async fn plans_are_listed_newest_first() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let foreign_id = id(created(&other_merchant.api.post(PLANS, monthly(1)).await?))?;
    let list = format!("{PLANS}?");
    let mut made = Vec::new();
    for amount in 1..=5 {
        made.insert(0, id(created(&merchant.api.post(PLANS, monthly(amount)).await?))?);
    }
    ok(&merchant.api.post(PLANS, monthly(2)).await?);
    assert_listed(&merchant.api, &list, &made).await?;
    let foreign = [&foreign_id, "plan_01ARZ3NDEKTSV4RRFFQ69G5FAV", &merchant.customer().await?];
    assert_invalid_pages_rejected(&merchant.api, &list, &foreign).await?;
    for unknown in [foreign_id.as_str(), "plan_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"] {
        not_found(&merchant.api.get(&format!("{PLANS}/{unknown}")).await?);
    }
    Ok(())
}
