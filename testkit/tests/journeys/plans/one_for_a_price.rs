//! One plan for each amount, currency, interval and count of intervals.

use anyhow::Result;
use serde_json::Value;

use super::{PLANS, monthly};
use crate::support::{created, ids, merchant, ok, together, with};

#[tokio::test]
async fn the_same_price_again_is_the_same_plan() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let made = merchant.api.post(PLANS, monthly(2900)).await?;
    created(&made);
    for same in [
        monthly(2900),
        with(monthly(2900), "name", "Silver"),
        with(monthly(2900), "currency", "usd"),
        with(monthly(2900), "intervalCount", 1),
        with(monthly(2900), "intervalCount", Value::Null),
    ] {
        assert_eq!(ok(&merchant.api.post(PLANS, same).await?), &made.body, "with the name that it was given first");
    }
    let others = [
        monthly(2901),
        with(monthly(2900), "currency", "EUR"),
        with(monthly(2900), "interval", "year"),
        with(monthly(2900), "intervalCount", 2),
        // A week has seven days, and is another interval.
        with(monthly(2900), "interval", "week"),
        with(with(monthly(2900), "interval", "day"), "intervalCount", 7),
    ];
    for other in others.clone() {
        created(&merchant.api.post(PLANS, other).await?);
    }
    assert_eq!(ids(&merchant.api.get(&format!("{PLANS}?limit=100")).await?).len(), 1 + others.len());
    let theirs = stranger.api.post(PLANS, monthly(2900)).await?;
    assert_ne!(created(&theirs)["id"], made.body["id"], "another account has its own");
    Ok(())
}

#[tokio::test]
async fn of_many_that_ask_at_once_one_makes_it() -> Result<()> {
    let merchant = merchant().await?;
    // Several prices, for one race alone may be won before the others begin.
    for amount in 1..=5 {
        let named = |i: usize| with(monthly(amount), "name", format!("Plan {i}"));
        let answers = together(30, async |i| merchant.api.post(PLANS, named(i)).await).await?;
        let (made, found): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
        let [made] = made[..] else { panic!("{} were made", made.len()) };
        assert_eq!(found.len(), 29);
        for answer in found {
            assert_eq!(ok(answer), &made.body);
        }
    }
    assert_eq!(ids(&merchant.api.get(PLANS).await?).len(), 5);
    Ok(())
}
