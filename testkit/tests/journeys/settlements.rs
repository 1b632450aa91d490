//! Daily settlements: what settled and was returned on a day of the account's time zone and clock.

use anyhow::Result;
use serde_json::{Value, json};

use crate::support::{Merchant, cluster, created, eventually, id, invalid, merchant, ok, payment, refused, with};

/// A test account in New York.
async fn in_new_york() -> Result<Merchant> {
    Merchant::with(cluster().await?, &["--mode", "test", "--provider", "mock", "--timezone", "America/New_York"]).await
}

/// The data of a day.
pub(crate) async fn settled_on(merchant: &Merchant, day: &str) -> Result<Value> {
    let found = merchant.api.get(&format!("/v1/settlements?day={day}")).await?;
    assert_eq!((&ok(&found)["object"], &found.body["day"]), (&json!("settlement"), &json!(day)), "{}", found.body);
    assert_eq!(found.body.as_object().map(serde_json::Map::len), Some(3), "{}", found.body);
    Ok(found.body["data"].clone())
}

/// An entry of a day, from the count and amount of its payments, refunds and disputes.
pub(crate) fn entry(currency: &str, payments: [i64; 2], refunds: [i64; 2], disputes: [i64; 2]) -> Value {
    let total = |[count, amount]: [i64; 2]| json!({"count": count, "amount": amount});
    json!({"currency": currency, "payments": total(payments), "refunds": total(refunds), "disputes": total(disputes),
        "net": payments[1] - refunds[1] - disputes[1]})
}

async fn refund(merchant: &Merchant, payment: &str, amount: i64) -> Result<()> {
    let before = merchant.payment(payment).await?["amountRefunded"].as_i64().unwrap_or_default();
    assert_eq!(merchant.refund(payment, Some(amount)).await?.status, 202);
    eventually("the refund", async || {
        Ok((merchant.payment(payment).await?["amountRefunded"] == before + amount).then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_day_has_what_settled_and_was_returned_by_currency() -> Result<()> {
    let merchant = in_new_york().await?;
    // A minute before midnight in New York, which is at 04:00 UTC in July.
    merchant.advance_to("2027-07-10T03:59:00.000Z").await?;
    let first = merchant.charge(500).await?;
    let in_euros = with(payment(300, "tok_ok"), "currency", "EUR");
    created(&merchant.api.post("/v1/payments", in_euros).await?);
    created(&merchant.api.post("/v1/payments", payment(900, "tok_insufficient")).await?);
    let half = id(created(&merchant.api.post("/v1/payments", payment(1001, "tok_partial")).await?))?;
    let held = merchant.hold(400).await?;
    ok(&merchant.capture(&held, Some(150)).await?);
    merchant.hold(70).await?;
    refund(&merchant, &first, 40).await?;
    assert_eq!(settled_on(&merchant, "2027-07-09").await?, json!([entry("USD", [0, 0], [1, 40], [0, 0])]));

    merchant.advance_to("2027-07-10T04:10:00.000Z").await?;
    refund(&merchant, &first, 60).await?;
    refund(&merchant, &half, 500).await?;
    let day = json!([entry("EUR", [1, 300], [0, 0], [0, 0]), entry("USD", [3, 500 + 500 + 150], [2, 560], [0, 0]),]);
    assert_eq!(settled_on(&merchant, "2027-07-10").await?, day);
    assert_eq!(settled_on(&merchant, "2027-07-09").await?, json!([entry("USD", [0, 0], [1, 40], [0, 0])]));

    merchant.advance_to("2027-07-11T04:00:00.000Z").await?;
    refund(&merchant, &first, 400).await?;
    assert_eq!(settled_on(&merchant, "2027-07-11").await?, json!([entry("USD", [0, 0], [1, 400], [0, 0])]));
    assert_eq!(settled_on(&merchant, "2027-07-10").await?, day);
    for nothing in ["2027-07-12", "2027-07-08", "2099-01-01", "9999-12-31", "0001-01-01", "0000-01-01"] {
        assert_eq!(settled_on(&merchant, nothing).await?, json!([]), "{nothing}");
    }
    assert_eq!(settled_on(&in_new_york().await?, "2027-07-10").await?, json!([]));
    Ok(())
}

#[tokio::test]
async fn refunds_that_failed_or_are_pending_are_not_counted() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let payment = merchant.charge(500).await?;
    let day = merchant.advance("1 hour").await?[..10].to_owned();
    merchant.mock(cluster, &["--reject"]).await?;
    assert_eq!(merchant.refund(&payment, Some(100)).await?.status, 202);
    eventually("the refusal", async || {
        Ok((merchant.payment(&payment).await?["refunds"][0]["status"] == "failed").then_some(()))
    })
    .await?;
    merchant.mock(cluster, &["--refuse"]).await?;
    assert_eq!(merchant.refund(&payment, Some(100)).await?.status, 202);
    let found = settled_on(&merchant, &day).await?;
    assert!(found.as_array().is_none_or(|data| data.iter().all(|entry| entry["refunds"]["count"] == 0)), "{found}");
    Ok(())
}

#[tokio::test]
async fn a_sum_may_exceed_64_bits() -> Result<()> {
    let merchant = merchant().await?;
    let (amount, copies) = (9_007_199_254_740_991_i64, 1_100);
    let charged = merchant.charge(amount).await?;
    let day = merchant.advance("2 minutes").await?[..10].to_owned();
    merchant.copy_payment(&charged, copies).await?;
    let found = merchant.api.get(&format!("/v1/settlements?day={day}")).await?;
    assert_eq!(ok(&found)["data"][0]["payments"]["count"], i64::from(copies) + 1);
    let sum = i128::from(amount) * i128::from(copies + 1);
    assert!(sum > i128::from(i64::MAX));
    let text = String::from_utf8(found.bytes.clone())?;
    assert_eq!(text.matches(&format!(":{sum}")).count(), 2, "the sum and the net amount: {text}");
    let volume = cluster().await?.ctl(&["accounts", "volume", &merchant.account.id, "--last", "1d"]).await?;
    assert_eq!(volume["volume"][0]["captured"].as_f64(), Some(sum as f64), "{volume}");
    Ok(())
}

#[tokio::test]
async fn the_day_is_required_and_must_exist() -> Result<()> {
    let merchant = merchant().await?;
    for (query, param) in [
        ("", "day"),
        ("?day", "day"),
        ("?day=", "day"),
        ("?day=today", "day"),
        ("?day=2026-02-30", "day"),
        ("?day=2026-2-3", "day"),
        ("?day=2026-11-21T00:00:00Z", "day"),
        ("?day=+2026-11-21", "day"),
        ("?day=2026-11-21&day=2026-11-22", "day"),
        ("?day=%ff", "day"),
        ("?date=2026-11-21", "date"),
        ("?day=2026-11-21&currency=USD", "currency"),
        ("?day=2026-11-21&limit=1", "limit"),
    ] {
        invalid(&merchant.api.get(&format!("/v1/settlements{query}")).await?, param);
    }
    let limited =
        ["keys", "create", "--account", &merchant.account.id, "--kind", "secret", "--entitlement", "refunds.list"];
    let key = cluster().await?.ctl(&limited).await?["key"].as_str().unwrap_or_default().to_owned();
    let limited = testkit::Client::new(&cluster().await?.api_url(0))?.bearer(&key)?;
    let response = limited.get("/v1/settlements?day=2026-11-21").await?;
    refused(&response, 403, "capability_not_enabled");
    assert_eq!(response.body["error"]["capability"], "settlements.retrieve");
    Ok(())
}
