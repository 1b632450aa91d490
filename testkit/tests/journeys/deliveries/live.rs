//! Live accounts deliver to the public internet, encrypted, and nowhere else.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use super::story;
use crate::{
    signing::{Signed, live},
    support::{Merchant, Receiver, Reply, cluster, created, eventually, id, invalid, ok, uuid},
};

async fn send(merchant: &Merchant, method: Method, target: &str, body: Option<Value>) -> Result<testkit::Answer> {
    let body = body.map(|body| body.to_string());
    Signed::new(merchant, method, target, body.as_deref())?.sign().send(&merchant.api).await
}

#[tokio::test]
async fn a_live_delivery_never_goes_to_loopback_nor_unencrypted() -> Result<()> {
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let merchant = live(cluster().await?).await?;
    let (endpoints, customers) = ("/v1/webhook_endpoints", "/v1/customers");
    invalid(&send(&merchant, Method::POST, endpoints, Some(json!({"url": receiver.url("/in")}))).await?, "url");

    for url in [receiver.url("/in"), receiver.url("/in").replace("http:", "https:")] {
        let made = send(&merchant, Method::POST, endpoints, Some(json!({"url": "https://shop.example/in"}))).await?;
        let endpoint = id(created(&made))?;
        // As if the rules had been others when it was made.
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
        assert_eq!(story(&failed), "1 failed address_refused", "{url}");
        assert_eq!(failed["livemode"], true);
        ok(&send(&merchant, Method::DELETE, &format!("{endpoints}/{endpoint}"), None).await?);
    }
    assert_eq!(receiver.connections(), 0, "nobody even knocked");
    Ok(())
}
