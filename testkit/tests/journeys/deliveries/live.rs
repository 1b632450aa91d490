//! Live accounts deliver only to public addresses and only over HTTPS.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use super::summary;
use crate::{
    signing::{Signed, live},
    support::{Merchant, Receiver, Reply, cluster, created, eventually, id, invalid, ok, uuid},
};

async fn send(merchant: &Merchant, method: Method, target: &str, body: Option<Value>) -> Result<testkit::Response> {
    let body = body.map(|body| body.to_string());
    Signed::new(merchant, method, target, body.as_deref())?.sign().send(&merchant.api).await
}

#[tokio::test]
async fn live_deliveries_are_never_sent_to_loopback_or_unencrypted() -> Result<()> {
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let merchant = live(cluster().await?).await?;
    let (endpoints, customers) = ("/v1/webhook_endpoints", "/v1/customers");
    invalid(&send(&merchant, Method::POST, endpoints, Some(json!({"url": receiver.url("/in")}))).await?, "url");

    for url in [receiver.url("/in"), receiver.url("/in").replace("http:", "https:")] {
        let response =
            send(&merchant, Method::POST, endpoints, Some(json!({"url": "https://shop.example/in"}))).await?;
        let endpoint = id(created(&response))?;
        // As if the endpoint had been created under earlier rules.
        sqlx::query("UPDATE webhook_endpoints SET url = $2 WHERE id = $1")
            .bind(uuid(&endpoint)?)
            .bind(&url)
            .execute(&merchant.books.db)
            .await?;
        created(&send(&merchant, Method::POST, customers, Some(json!({"email": "ada@example.com"}))).await?);
        let target = format!("/v1/webhook_deliveries?endpointId={endpoint}&status=failed");
        let failed = eventually("a failure", async || {
            let page = send(&merchant, Method::GET, &target, None).await?;
            Ok(ok(&page)["data"].as_array().and_then(|rows| rows.first().cloned()))
        })
        .await?;
        assert_eq!(summary(&failed), "1 failed address_refused", "{url}");
        assert_eq!(failed["livemode"], true);
        ok(&send(&merchant, Method::DELETE, &format!("{endpoints}/{endpoint}"), None).await?);
    }
    assert_eq!(receiver.connections(), 0, "no connection may be opened");
    Ok(())
}
