//! The log of requests that merchants see, and what operators see of the requests for pages.

use std::time::Duration;

use anyhow::{Context, Result};
use testkit::ProcessKind;
use tokio::time::timeout;

use super::Visitor;
use crate::support::{cluster, created, eventually, merchant, metric, sale};

#[tokio::test]
async fn requests_are_found_by_their_id_also_refused_ones() -> Result<()> {
    let (merchant, other) = (merchant().await?, merchant().await?);
    let paid = merchant.api.post("/v1/payments", sale(700)).await?;
    created(&paid);
    let refused = merchant.api.post("/v1/payments?x=ada@shop.example", sale(-1)).await?;
    assert_eq!(refused.status, 422);
    let ids = [&paid, &refused].map(|response| response.header("request-id").unwrap_or_default().to_owned());
    let by_address = merchant.api.get("/v1/customers/ada@shop.example").await?;
    assert_eq!(by_address.status, 404);
    let visitor = Visitor::signed_in(&merchant, "viewer").await?;
    let is_shown = async || {
        let page = visitor.open("/test/requests").await?;
        Ok(ids.iter().all(|id| page.html.contains(&format!("/test/requests/{id}"))).then_some(page))
    };
    let shown = eventually("both requests are in the log", is_shown);
    let page = timeout(Duration::from_secs(30), shown).await.context("within 30 s")??;
    assert!(!page.html.contains("ada@shop.example"), "{}", page.html);
    assert!(!page.html.contains("/v1/events"), "pages are no requests: {}", page.html);
    assert!(page.html.contains("GET /v1/customers/{id}<"), "{}", page.html);
    let page = visitor.open("/test/requests?refused=yes").await?;
    assert!(page.html.contains(&ids[1]) && !page.html.contains(&ids[0]), "{}", page.html);
    let page = visitor.open(&format!("/test/requests?q={}", ids[0])).await?;
    assert!(page.html.contains(&ids[0]) && !page.html.contains(&ids[1]), "{}", page.html);
    let page = visitor.open(&format!("/test/requests/{}", ids[1])).await?;
    for part in ["POST /v1/payments<", "422", &merchant.account.secret_key_id] {
        assert!(page.html.contains(part), "{part} in {}", page.html);
    }
    let foreign = Visitor::signed_in(&other, "owner").await?;
    assert_eq!(foreign.open(&format!("/test/requests/{}", ids[1])).await?.status, 404);
    let first = merchant.account.secret_key.get(..20).context("a key")?;
    let leaked: i64 = sqlx::query_scalar("SELECT count(*) FROM requests r WHERE position($1 IN r::text) > 0")
        .bind(first)
        .fetch_one(&merchant.books.db)
        .await?;
    assert_eq!(leaked, 0);
    Ok(())
}

#[tokio::test]
async fn pages_are_logged_and_counted_without_what_is_secret() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let visitor = Visitor::signed_in(&merchant, "viewer").await?;
    let searched = format!("canary-{}", merchant.account.id);
    let page = visitor.open(&format!("/test/customers?q={searched}")).await?;
    assert_eq!(page.status, 200, "{}", page.html);
    let id = page.headers["request-id"].to_str()?;
    let log = async || {
        let log = std::fs::read_to_string(cluster.logs().join("portal-0.log"))?;
        let is_its = |line: &&str| line.contains("request completed") && line.contains(id);
        let lines: Vec<_> = log.lines().filter(is_its).map(str::to_owned).collect();
        let has = |route: &str| lines.iter().any(|line| line.contains(&format!("route=\"{route}\"")));
        Ok((has("/{mode}/{page}") && has("/v1/customers")).then_some((log, lines)))
    };
    let (log, lines) = eventually("the page and what it has requested are logged", log).await?;
    let line = lines.iter().find(|line| line.contains("/{mode}/{page}")).context("a line")?;
    for part in ["method=\"GET\"", "status=200", "duration_ms=", "client=127.0.0.1"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!log.contains(&searched) && !log.contains(&visitor.cookie), "{line}");
    for name in [
        r#"http_requests_total{method="GET",route="/{mode}/{page}",status="200"}"#,
        r#"http_requests_total{method="POST",route="/sign-in",status="303"}"#,
        r#"http_request_duration_seconds_count{method="GET",route="/{mode}/{page}"}"#,
    ] {
        assert!(metric(cluster, ProcessKind::Portal, name).await? >= 1.0, "{name}");
    }
    Ok(())
}
