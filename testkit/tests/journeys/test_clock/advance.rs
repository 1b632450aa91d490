//! Concurrent advances, and advances that wait for slow operations.

use anyhow::Result;
use futures_util::future::try_join;
use serde_json::json;

use super::{CAPTURED, SETTLED, assert_ended_after, wait_for_request_in_flight};
use crate::support::{cluster, concurrently, conflict, created, eventually, merchant, ok};

#[tokio::test]
async fn equal_advances_join_and_others_conflict() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let captured = merchant.charge(1000).await?;
    merchant.mock(cluster, &["--latency-ms", "8000"]).await?;
    let to = merchant.later(&merchant.now().await?, "1 hour").await?;
    let later = merchant.later(&to, "1 second").await?;
    // The clock stands still until the charge in flight ends.
    let advances = async {
        wait_for_request_in_flight(&merchant).await?;
        let (first, second) = (merchant.request_advance(&to), async {
            eventually("a pending advance", async || Ok((merchant.clock().await?["pending"] == true).then_some(())))
                .await?;
            let clock = merchant.clock().await?;
            assert_eq!(clock, merchant.clock().await?);
            assert!(clock["now"].as_str() < Some(&to));
            conflict(&merchant.request_advance(&later).await?);
            merchant.request_advance(&to).await
        });
        try_join(first, second).await
    };
    let (slow, (first, second)) = try_join(merchant.pay(500), advances).await?;
    // The response may be read after the clock has moved.
    let status = &created(&slow)["status"];
    assert!(status == "pending_settlement" || status == "settled", "{status}");
    for response in [first, second] {
        assert!(
            ok(&response)["now"].as_str() >= Some(&to) && response.body.get("pending").is_none(),
            "{}",
            response.body
        );
    }
    assert_ended_after(&merchant, &captured, CAPTURED, "1 minute", SETTLED).await?;
    let slow = slow.body["id"].as_str().unwrap_or_default();
    assert_ended_after(&merchant, slow, CAPTURED, "1 minute", SETTLED).await?;
    ok(&merchant.request_advance(&merchant.later(&later, "1 hour").await?).await?);
    Ok(())
}

#[tokio::test]
async fn concurrent_equal_advances_run_once() -> Result<()> {
    let merchant = merchant().await?;
    let mut captured = Vec::new();
    for _ in 0..5 {
        captured.push(merchant.charge(1000).await?);
    }
    for _ in 0..3 {
        let to = merchant.later(&merchant.now().await?, "1 day").await?;
        let (merchant, to) = (&merchant, &to);
        for response in concurrently(6, |_| merchant.request_advance(to)).await? {
            // A request after the end of the advance is rejected.
            assert!(response.status == 200 || response.body["error"]["param"] == "to", "{}", response.body);
        }
        assert!(merchant.now().await? >= *to);
        assert!(merchant.now().await? < merchant.later(to, "1 hour").await?);
    }
    for payment in &captured {
        assert_ended_after(&merchant, payment, CAPTURED, "1 minute", SETTLED).await?;
    }
    Ok(())
}

#[tokio::test]
async fn long_advances_continue_after_the_response() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let captured = merchant.charge(1000).await?;
    // Longer than the provider timeout: the outcome is unknown and polled.
    merchant.mock(cluster, &["--latency-ms", "60000"]).await?;
    let to = merchant.later(&merchant.now().await?, "1 hour").await?;
    let advances = async {
        wait_for_request_in_flight(&merchant).await?;
        merchant.request_advance(&to).await
    };
    let (slow, advance) = try_join(merchant.pay(500), advances).await?;
    assert_eq!(created(&slow)["status"], "processing");
    assert_eq!(ok(&advance)["pending"], true);
    assert!(advance.body["now"].as_str() < Some(&to), "{}", advance.body);
    merchant.mock(cluster, &["--latency-ms", "0"]).await?;
    assert!(merchant.wait_for_clock().await? >= to);
    assert_ended_after(&merchant, &captured, CAPTURED, "1 minute", SETTLED).await?;
    let slow = slow.body["id"].as_str().unwrap_or_default();
    assert_ended_after(&merchant, slow, CAPTURED, "1 minute", SETTLED).await?;
    merchant.books.audit().await
}

/// Operations that need manual review do not stop an advance.
#[tokio::test]
async fn clocks_do_not_wait_for_manual_review() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let held = merchant.hold(1000).await?;
    merchant.mock(cluster, &["--class", "C", "--lose-responses", "1"]).await?;
    let path = format!("/v1/payments/{held}/capture");
    let capture = merchant.api.post(&path, json!({}));
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
        response = capture => panic!("the capture returned first: {}", response?.body),
    }
    assert_eq!(merchant.payment(&held).await?["pendingOperation"], "capture", "the capture is still pending");
    Ok(())
}
