//! `Retry-After` is respected.

use anyhow::Result;

use super::{Endpoint, summary};
use crate::support::{Receiver, Reply, eventually, merchant};

/// Longer than the delay of the first retry.
const SECONDS: u64 = 7;

async fn check_retry_after(status: u16) -> Result<()> {
    let receiver = Receiver::start(move |request| match request.path.as_str() {
        "/busy" if request.nth == 0 => Reply::with_header(status, "Retry-After", SECONDS),
        _ => Reply::ok(),
    })
    .await?;
    let merchant = merchant().await?;
    let busy = Endpoint::new(&merchant, &receiver, "/busy", &[]).await?;
    let other = Endpoint::new(&merchant, &receiver, "/other", &[]).await?;
    // By the clock that decides when a delivery is due; `attemptedAt` is by the worker's.
    let now = sqlx::query_scalar::<_, String>("SELECT date_trunc('milliseconds', clock_timestamp())::text");
    let before = now.fetch_one(&merchant.books.db).await?;
    merchant.customer().await?;
    let first = format!("1 failed status {status}");
    let failed = eventually("the failed attempt", async || {
        Ok(busy.deliveries().await?.into_iter().find(|delivery| summary(delivery) == first))
    });
    let failed = failed.await?;
    for _ in 0..3 {
        merchant.customer().await?;
    }
    let deliveries = busy.done(5).await?;
    let until = failed["nextAttemptAt"].as_str();
    let respected = "SELECT $1::timestamptz >= $2::timestamptz + make_interval(secs => $3)";
    let query = sqlx::query_scalar::<_, bool>(respected).bind(until).bind(before).bind(SECONDS as f64);
    assert!(query.fetch_one(&merchant.books.db).await?, "{failed}");
    for delivery in deliveries.iter().filter(|delivery| delivery["status"] == "succeeded") {
        assert!(delivery["attemptedAt"].as_str() >= until, "{delivery} before {until:?}");
    }
    assert_eq!(receiver.count("/busy"), 5);
    other.done(4).await?;
    Ok(())
}

#[tokio::test]
async fn retry_after_pauses_an_endpoint() -> Result<()> {
    tokio::try_join!(check_retry_after(429), check_retry_after(503)).map(drop)
}
