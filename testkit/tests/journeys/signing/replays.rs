//! A signature is accepted once, across all processes and even if Redis loses its data.

use anyhow::{Context, Result};
use reqwest::Method;
use testkit::{Client, Cluster};

use super::{Signed, customers, live};
use crate::support::{Merchant, cluster, concurrently, created, eventually, refused};

const ADA: &str = r#"{"email":"ada@example.com"}"#;

#[tokio::test]
async fn replayed_signatures_are_rejected_by_every_process() -> Result<()> {
    let mut cluster = Cluster::builder().api(2).start().await?;
    let merchant = live(&cluster).await?;
    let second = Client::new(&cluster.api_url(1))?.bearer(&merchant.account.secret_key)?;
    let request = Signed::new(&merchant, Method::POST, "/v1/customers", Some(ADA))?.sign();
    created(&request.send(&merchant.api).await?);
    refused(&request.send(&merchant.api).await?, 401, "authentication_failed");
    refused(&request.send(&second).await?, 401, "authentication_failed");
    cluster.redis.flush_all().await?;
    refused(&request.send(&merchant.api).await?, 401, "authentication_failed");
    refused(&request.send(&second).await?, 401, "authentication_failed");
    cluster.redis.kill9()?;
    cluster.api(0).restart().await?;
    refused(&request.send(&merchant.api).await?, 401, "authentication_failed");
    // Without Redis, new signatures are still accepted once.
    let request = Signed::new(&merchant, Method::POST, "/v1/customers", Some(ADA))?.sign();
    created(&request.send(&second).await?);
    refused(&request.send(&merchant.api).await?, 401, "authentication_failed");
    assert_eq!(customers(&merchant).await?, 2);
    Ok(())
}

#[tokio::test]
async fn concurrent_uses_of_one_signature_are_accepted_once() -> Result<()> {
    let merchant = live(cluster().await?).await?;
    let request = Signed::new(&merchant, Method::POST, "/v1/customers", Some(ADA))?.sign();
    let responses = concurrently(30, async |_| request.send(&merchant.api).await).await?;
    assert_eq!(responses.iter().filter(|response| response.status == 201).count(), 1);
    for response in responses.iter().filter(|response| response.status != 201) {
        refused(response, 401, "authentication_failed");
    }
    assert_eq!(customers(&merchant).await?, 1);
    Ok(())
}

#[tokio::test]
async fn rejected_signatures_leave_the_nonce_unused() -> Result<()> {
    let merchant = live(cluster().await?).await?;
    let request = Signed::new(&merchant, Method::POST, "/v1/customers", Some(ADA))?.sign();
    let mut tampered = request.clone();
    tampered.body = Some(r#"{"email":"eve@example.com"}"#.into());
    refused(&tampered.send(&merchant.api).await?, 401, "authentication_failed");
    created(&request.send(&merchant.api).await?);
    // Nonces are scoped to a key: another key can use the same nonce.
    let other = live(cluster().await?).await?;
    let mut same = Signed::new(&other, Method::POST, "/v1/customers", Some(ADA))?;
    same.nonce.clone_from(&request.nonce);
    created(&same.sign().send(&other.api).await?);
    // With this key the nonce is used, for any request.
    let mut again = Signed::new(&merchant, Method::GET, "/v1/payments", None)?;
    again.nonce = request.nonce;
    refused(&again.sign().send(&merchant.api).await?, 401, "authentication_failed");
    Ok(())
}

#[tokio::test]
async fn rate_limited_requests_leave_the_nonce_unused() -> Result<()> {
    let cluster = cluster().await?;
    let options = ["--mode", "live", "--provider", "mock", "--allow-mock", "--rate-limit", "1", "--burst", "3"];
    let merchant = Merchant::for_account(cluster, cluster.account_with(&options).await?)?;
    let requests = (0..20)
        .map(|_| Ok(Signed::new(&merchant, Method::GET, "/v1/payments", None)?.sign()))
        .collect::<Result<Vec<_>>>()?;
    let statuses = concurrently(20, async |i| Ok(requests[i].send(&merchant.api).await?.status)).await?;
    let accepted = statuses.iter().filter(|status| **status == 200).count();
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    assert!((3..20).contains(&accepted), "{accepted} of 20 were accepted");
    let used: i64 = sqlx::query_scalar("SELECT count(*) FROM request_nonces WHERE account_id = $1")
        .bind(merchant.books.account)
        .fetch_one(&merchant.books.db)
        .await?;
    assert_eq!(usize::try_from(used)?, accepted);
    // A limited request can be sent again unchanged.
    let limited = statuses.iter().position(|status| *status == 429).context("a limited request")?;
    eventually("a free token in the bucket", async || {
        Ok((requests[limited].send(&merchant.api).await?.status == 200).then_some(()))
    })
    .await
}
