//! One plan per amount, currency, interval and interval count.

use anyhow::Result;
use serde_json::Value;

use super::{PLANS, monthly};
use crate::support::{concurrently, created, ids, merchant, ok, with};

#[tokio::test]
async fn equal_prices_return_the_same_plan() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let made = merchant.api.post(PLANS, monthly(2900)).await?;
    created(&made);
    for same in [
        monthly(2900),
        with(monthly(2900), "name", "Silver"),
        with(monthly(2900), "currency", "usd"),
        with(monthly(2900), "intervalCount", 1),
        with(monthly(2900), "intervalCount", Value::Null),
    ] {
        assert_eq!(ok(&merchant.api.post(PLANS, same).await?), &made.body, "the plan keeps its first name");
    }
    let others = [
        monthly(2901),
        with(monthly(2900), "currency", "EUR"),
        with(monthly(2900), "interval", "year"),
        with(monthly(2900), "intervalCount", 2),
        // A week and seven days are different intervals.
        with(monthly(2900), "interval", "week"),
        with(with(monthly(2900), "interval", "day"), "intervalCount", 7),
    ];
    for other in others.clone() {
        created(&merchant.api.post(PLANS, other).await?);
    }
    assert_eq!(ids(&merchant.api.get(&format!("{PLANS}?limit=100")).await?).len(), 1 + others.len());
    let foreign_plan = other_merchant.api.post(PLANS, monthly(2900)).await?;
    assert_ne!(created(&foreign_plan)["id"], made.body["id"], "another account has its own plan");
    Ok(())
}

#[tokio::test]
async fn concurrent_equal_prices_create_one_plan() -> Result<()> {
    let merchant = merchant().await?;
    // Several prices, because in a single race the first request may finish before the others start.
    for amount in 1..=5 {
        let body = |i: usize| with(monthly(amount), "name", format!("Plan {i}"));
        let responses = concurrently(30, async |i| merchant.api.post(PLANS, body(i)).await).await?;
        let (made, existing): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 201);
        let [made] = made[..] else { panic!("{} plans were created", made.len()) };
        assert_eq!(existing.len(), 29);
        for response in existing {
            assert_eq!(ok(response), &made.body);
        }
    }
    assert_eq!(ids(&merchant.api.get(PLANS).await?).len(), 5);
    Ok(())
}
