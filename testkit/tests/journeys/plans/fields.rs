//! What is kept of a plan, what is refused, and how plans are found again.

use anyhow::Result;
use serde_json::{Value, json};

use super::{PLANS, monthly};
use crate::support::{
    created, id, invalid, is_listed, merchant, not_found, ok, refuses_what_is_no_page, walk, with, without,
};

#[tokio::test]
async fn what_is_sent_is_kept() -> Result<()> {
    let merchant = merchant().await?;
    let answer = merchant.api.post(PLANS, monthly(2900)).await?;
    let made = created(&answer);
    assert!(id(made)?.starts_with("plan_"));
    let plain = without(without(made.clone(), "id"), "createdAt");
    let expected = json!({
        "object": "plan", "livemode": false, "name": "Gold", "amount": 2900, "currency": "USD", "interval": "month",
        "intervalCount": 1,
    });
    assert_eq!(plain, expected);
    assert_eq!(ok(&merchant.api.get(&format!("{PLANS}/{}", id(made)?)).await?), made);
    let full = json!({"name": "é", "amount": 9_007_199_254_740_991_i64, "currency": "jpy", "interval": "day", "intervalCount": 7});
    let answer = merchant.api.post(PLANS, full.clone()).await?;
    for (name, value) in with(full, "currency", "JPY").as_object().expect("an object") {
        assert_eq!(&created(&answer)[name], value);
    }
    Ok(())
}

#[tokio::test]
async fn fields_are_strict() -> Result<()> {
    let merchant = merchant().await?;
    for name in ["name", "amount", "currency", "interval"] {
        invalid(&merchant.api.post(PLANS, without(monthly(100), name)).await?, name);
        invalid(&merchant.api.post(PLANS, with(monthly(100), name, Value::Null)).await?, name);
    }
    let no_number = [json!(0), json!(-1), json!(1.5), json!(10.0), json!("10"), json!(true), json!([1])];
    let wrong = [
        ("name", vec![json!(1), json!(""), json!("a\nb"), json!("x".repeat(256))]),
        ("amount", [&no_number[..], &[json!(9_007_199_254_740_992_i64)]].concat()),
        ("currency", vec![json!("XXX"), json!("US"), json!(""), json!(840)]),
        ("interval", vec![json!("monthly"), json!("Month"), json!("hour"), json!(""), json!(1)]),
        ("intervalCount", [&no_number[..], &[json!(1096), json!(u64::MAX)]].concat()),
    ];
    for (name, values) in wrong {
        for value in values {
            invalid(&merchant.api.post(PLANS, with(monthly(100), name, value)).await?, name);
        }
    }
    let answer = merchant.api.send(reqwest::Method::POST, PLANS, Some(br#"{"amount":1e3}"#.to_vec())).await?;
    invalid(&answer, "amount");
    assert!(walk(&merchant.api, &format!("{PLANS}?"), 100).await?.is_empty(), "what is refused is not kept");
    Ok(())
}

#[tokio::test]
async fn at_most_three_years_lie_between_two_charges() -> Result<()> {
    let merchant = merchant().await?;
    for (interval, most) in [("day", 1095), ("week", 156), ("month", 36), ("year", 3)] {
        let of = |count: i32| with(with(monthly(100), "interval", interval), "intervalCount", count);
        assert_eq!(created(&merchant.api.post(PLANS, of(most)).await?)["intervalCount"], most);
        invalid(&merchant.api.post(PLANS, of(most + 1)).await?, "intervalCount");
    }
    Ok(())
}

#[tokio::test]
async fn plans_are_listed_newest_first() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let theirs = id(created(&stranger.api.post(PLANS, monthly(1)).await?))?;
    let list = format!("{PLANS}?");
    let mut made = Vec::new();
    for amount in 1..=5 {
        made.insert(0, id(created(&merchant.api.post(PLANS, monthly(amount)).await?))?);
    }
    ok(&merchant.api.post(PLANS, monthly(2)).await?);
    is_listed(&merchant.api, &list, &made).await?;
    let foreign = [&theirs, "plan_01ARZ3NDEKTSV4RRFFQ69G5FAV", &merchant.customer().await?];
    refuses_what_is_no_page(&merchant.api, &list, &foreign).await?;
    for unknown in [theirs.as_str(), "plan_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"] {
        not_found(&merchant.api.get(&format!("{PLANS}/{unknown}")).await?);
    }
    Ok(())
}
