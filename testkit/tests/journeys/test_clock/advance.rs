//! Advances that meet each other, or something that takes its time.

use anyhow::Result;
use futures_util::future::try_join;
use serde_json::json;

use super::{CAPTURED, SETTLED, ends_after, is_under_way};
use crate::support::{cluster, conflict, created, eventually, merchant, ok, together};

#[tokio::test]
async fn whoever_asks_for_the_same_joins_and_for_something_else_has_to_wait() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let sold = merchant.sold(1000).await?;
    merchant.mock(cluster, &["--latency-ms", "3000"]).await?;
    let to = merchant.later(&merchant.now().await?, "1 hour").await?;
    let elsewhere = merchant.later(&to, "1 second").await?;
    // The clock waits for the charge that is under way, and stands still meanwhile.
    let asked = async {
        is_under_way(&merchant).await?;
        let (first, second) = (merchant.ask_to_advance(&to), async {
            eventually("a clock that stands", async || Ok((merchant.clock().await?["pending"] == true).then_some(())))
                .await?;
            let stands = merchant.clock().await?;
            assert_eq!(stands, merchant.clock().await?);
            assert!(stands["now"].as_str() < Some(&to));
            conflict(&merchant.ask_to_advance(&elsewhere).await?);
            merchant.ask_to_advance(&to).await
        });
        try_join(first, second).await
    };
    let (slow, (first, second)) = try_join(merchant.pay(500), asked).await?;
    // It may be read after the clock has moved.
    let status = &created(&slow)["status"];
    assert!(status == "pending_settlement" || status == "settled", "{status}");
    for answer in [first, second] {
        assert!(ok(&answer)["now"].as_str() >= Some(&to) && answer.body.get("pending").is_none(), "{}", answer.body);
    }
    ends_after(&merchant, &sold, CAPTURED, "1 minute", SETTLED).await?;
    let slow = slow.body["id"].as_str().unwrap_or_default();
    ends_after(&merchant, slow, CAPTURED, "1 minute", SETTLED).await?;
    ok(&merchant.ask_to_advance(&merchant.later(&elsewhere, "1 hour").await?).await?);
    Ok(())
}

#[tokio::test]
async fn advances_at_once_to_one_instant_are_one() -> Result<()> {
    let merchant = merchant().await?;
    let mut sold = Vec::new();
    for _ in 0..5 {
        sold.push(merchant.sold(1000).await?);
    }
    for _ in 0..3 {
        let to = merchant.later(&merchant.now().await?, "1 day").await?;
        let (merchant, to) = (&merchant, &to);
        for answer in together(6, |_| merchant.ask_to_advance(to)).await? {
            // Who comes when all is over is too late.
            assert!(answer.status == 200 || answer.body["error"]["param"] == "to", "{}", answer.body);
        }
        assert!(merchant.now().await? >= *to);
        assert!(merchant.now().await? < merchant.later(to, "1 hour").await?);
    }
    for payment in &sold {
        ends_after(&merchant, payment, CAPTURED, "1 minute", SETTLED).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_advance_that_takes_long_goes_on_when_it_has_been_answered() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let sold = merchant.sold(1000).await?;
    // Longer than a provider is waited for: the outcome is unknown, and asked for again.
    merchant.mock(cluster, &["--latency-ms", "60000"]).await?;
    let to = merchant.later(&merchant.now().await?, "1 hour").await?;
    let asked = async {
        is_under_way(&merchant).await?;
        merchant.ask_to_advance(&to).await
    };
    let (slow, advance) = try_join(merchant.pay(500), asked).await?;
    assert_eq!(created(&slow)["status"], "processing");
    assert_eq!(ok(&advance)["pending"], true);
    assert!(advance.body["now"].as_str() < Some(&to), "{}", advance.body);
    merchant.mock(cluster, &["--latency-ms", "0"]).await?;
    assert!(merchant.ticks().await? >= to);
    ends_after(&merchant, &sold, CAPTURED, "1 minute", SETTLED).await?;
    let slow = slow.body["id"].as_str().unwrap_or_default();
    ends_after(&merchant, slow, CAPTURED, "1 minute", SETTLED).await?;
    merchant.books.audit().await
}

/// What only a person can find out keeps no clock from going on, not even for years.
#[tokio::test]
async fn a_clock_does_not_wait_for_a_person() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let held = merchant.hold(1000).await?;
    merchant.mock(cluster, &["--class", "C", "--lose-answer", "1"]).await?;
    let path = format!("/v1/payments/{held}/capture");
    let lost = merchant.api.post(&path, json!({}));
    let advanced = async {
        eventually("an unknown outcome", async || {
            let query =
                "SELECT count(*) FROM operations WHERE account_id = $1 AND state = 'unknown' AND next_push_at IS NULL";
            let unknown: i64 =
                sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
            Ok((unknown == 1).then_some(()))
        })
        .await?;
        merchant.advance("2 years").await
    };
    tokio::select! {
        advanced = advanced => drop(advanced?),
        answer = lost => panic!("answered first: {}", answer?.body),
    }
    assert_eq!(merchant.payment(&held).await?["pendingOperation"], "capture", "as it was");
    Ok(())
}
