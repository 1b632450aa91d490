//! Authentication by API key.

use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::Method;
use testkit::{Client, Cluster};

use crate::support::{Merchant, ORIGIN, cluster, merchant, ok, refused};

#[tokio::test]
async fn invalid_keys_are_rejected() -> Result<()> {
    let merchant = merchant().await?;
    let bare = Client::new(merchant.api.base())?;
    let secret = &merchant.account.secret_key;
    let mut forged = secret.clone();
    let last = if forged.pop() == Some('0') { '1' } else { '0' };
    forged.push(last);
    let bearer = |key: &str| format!("Bearer {key}");
    for authorization in [
        bearer(""),
        bearer("nonsense"),
        bearer(&forged),
        bearer(&secret[..secret.len() - 1]),
        bearer(&secret.replace("_test_", "_live_")),
        bearer(&secret.replace("_sk_", "_pk_")),
        bearer(&merchant.account.secret_key_id),
        secret.clone(),
        format!("Basic {secret}"),
        String::new(),
    ] {
        let response = bare.header("authorization", &authorization)?.get("/v1/payments").await?;
        refused(&response, 401, "authentication_failed");
    }
    refused(&bare.get("/v1/payments").await?, 401, "authentication_failed");
    ok(&bare.header("authorization", &format!("bearer {secret}"))?.get("/v1/payments").await?);
    Ok(())
}

#[tokio::test]
async fn revoked_keys_are_rejected_on_the_next_request() -> Result<()> {
    let merchant = merchant().await?;
    for (kind, path) in [("secret", "/v1/payments"), ("publishable", "/v1/checkout_sessions")] {
        let arguments = ["keys", "create", "--account", &merchant.account.id, "--kind", kind];
        let key = cluster().await?.ctl(&arguments).await?;
        let (id, key) = (key["id"].as_str().context("id")?, key["key"].as_str().context("key")?);
        let api = Client::new(merchant.api.base())?.bearer(key)?.header("origin", ORIGIN)?;
        let method = if kind == "secret" { Method::GET } else { Method::POST };
        assert!(api.send(method.clone(), path, None).await?.status < 300);
        cluster().await?.ctl(&["keys", "revoke", id]).await?;
        refused(&api.send(method, path, None).await?, 401, "authentication_failed");
    }
    ok(&merchant.api.get("/v1/payments").await?);
    Ok(())
}

#[tokio::test]
async fn cached_keys_are_rejected_within_a_second_of_their_revocation() -> Result<()> {
    let cluster = Cluster::builder().api(2).env("KEY_CACHE_MS", "1000").start().await?;
    let account = cluster.account().await?;
    let apis =
        [0, 1].map(|api| Client::new(&cluster.api_url(api)).and_then(|client| client.bearer(&account.secret_key)));
    for api in &apis {
        ok(&api.as_ref().expect("a client").get("/v1/payments").await?);
    }
    cluster.ctl(&["keys", "revoke", &account.secret_key_id]).await?;
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    for api in &apis {
        refused(&api.as_ref().expect("a client").get("/v1/payments").await?, 401, "authentication_failed");
    }
    Ok(())
}

#[tokio::test]
async fn live_keys_must_sign_requests() -> Result<()> {
    let live = Merchant::with(cluster().await?, &["--mode", "live", "--provider", "mock", "--allow-mock"]).await?;
    assert!(live.account.secret_key.starts_with("svc_sk_live_"));
    assert!(live.account.signing_secret.is_some());
    for response in [live.pay(100).await?, live.api.get("/v1/payments").await?, live.api.get("/v1/capabilities").await?]
    {
        let error = refused(&response, 401, "authentication_failed");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains("requires request signing"), "{message}");
    }
    assert_eq!(live.books.operations().await?, 0);
    Ok(())
}
