//! Endpoints that ask for time get it.

use anyhow::Result;

use super::Endpoint;
use crate::support::{Receiver, Reply, merchant};

/// More than the first retry waits for by itself.
const SECONDS: u64 = 7;

async fn gets_its_time(status: u16) -> Result<()> {
    let receiver = Receiver::start(move |request| match request.path.as_str() {
        "/busy" if request.nth == 0 => Reply::with_header(status, "Retry-After", SECONDS),
        _ => Reply::ok(),
    })
    .await?;
    let merchant = merchant().await?;
    let busy = Endpoint::new(&merchant, &receiver, "/busy", &[]).await?;
    let other = Endpoint::new(&merchant, &receiver, "/other", &[]).await?;
    merchant.customer().await?;
    let first = format!("1 failed status {status}");
    let asked = busy.tells(&[&first, "2 pending"]).await?.remove(0);
    for _ in 0..3 {
        merchant.customer().await?;
    }
    let deliveries = busy.done(5).await?;
    let (until, began) = (asked["nextAttemptAt"].as_str(), asked["attemptedAt"].as_str());
    let asked_for = "SELECT $1::timestamptz >= $2::timestamptz + make_interval(secs => $3)";
    let query = sqlx::query_scalar::<_, bool>(asked_for).bind(until).bind(began).bind(SECONDS as f64);
    assert!(query.fetch_one(&merchant.books.db).await?, "{asked}");
    for delivery in deliveries.iter().filter(|delivery| delivery["status"] == "succeeded") {
        assert!(delivery["attemptedAt"].as_str() >= until, "{delivery} before {until:?}");
    }
    assert_eq!(receiver.count("/busy"), 5);
    other.done(4).await?;
    Ok(())
}

#[tokio::test]
async fn who_asks_for_time_is_left_alone_until_then() -> Result<()> {
    tokio::try_join!(gets_its_time(429), gets_its_time(503)).map(drop)
}
