//! Valid signatures are accepted; changed or incomplete signatures and those of another key are rejected.

use anyhow::{Context, Result};
use reqwest::Method;

use super::{Signed, customers, digest, live};
use crate::support::{Browser, Merchant, cluster, created, invalid, merchant, not_found, ok, refused, unix_time};

const ADA: &str = r#"{"email":"ada@example.com"}"#;

/// A valid, unsigned request that creates a customer.
fn customer(merchant: &Merchant) -> Result<Signed> {
    Signed::new(merchant, Method::POST, "/v1/customers", Some(ADA))
}

#[tokio::test]
async fn valid_signatures_are_accepted() -> Result<()> {
    let merchant = live(cluster().await?).await?;
    let get = async |target: &str| Signed::new(&merchant, Method::GET, target, None)?.sign().send(&merchant.api).await;
    ok(&get("/v1/payments").await?);
    ok(&get("/v1/payments?limit=1").await?);
    ok(&get("/v1/customers?externalId=a%20b%2Fc&limit=5").await?);
    ok(&get("/v1/capabilities").await?);
    invalid(&get("/v1/payments?limit=0").await?, "limit");

    let made = customer(&merchant)?.sign().send(&merchant.api).await?;
    assert_eq!(created(&made)["livemode"], true);
    let mut keyed = customer(&merchant)?;
    keyed.header("idempotency-key", "one");
    keyed.header("content-type", "application/json");
    created(&keyed.sign().send(&merchant.api).await?);
    assert_eq!(customers(&merchant).await?, 2);

    // Requests without a body need no digest. Live accounts reject test tokens, even if signed.
    let void = Signed::new(&merchant, Method::POST, "/v1/payments/pay_1/void", None)?;
    not_found(&void.sign().send(&merchant.api).await?);
    let sale = r#"{"amount":100,"currency":"USD","paymentToken":"tok_ok"}"#;
    let mut pay = Signed::new(&merchant, Method::POST, "/v1/payments", Some(sale))?;
    pay.header("idempotency-key", "one");
    invalid(&pay.sign().send(&merchant.api).await?, "paymentToken");
    assert_eq!(merchant.books.charges().await?, 0);

    // The tolerance is 300 seconds either way; 10 seconds are for transport.
    for offset in [-290, 290] {
        let mut early = customer(&merchant)?;
        early.created = unix_time()? + offset;
        created(&early.sign().send(&merchant.api).await?);
    }
    Ok(())
}

#[tokio::test]
async fn test_keys_and_publishable_keys_need_no_signature() -> Result<()> {
    let cluster = cluster().await?;
    let (test, live) = (merchant().await?, live(cluster).await?);
    let nonsense = test.api.header("signature", "nonsense")?.header("signature-input", "nonsense")?;
    ok(&nonsense.get("/v1/payments").await?);
    let browser = Browser::for_account(cluster, &live.account)?;
    browser.session().await?;
    Ok(())
}

/// Signs a request, tampers with it, and sends it.
async fn send_tampered(merchant: &Merchant, tamper: impl FnOnce(&mut Signed)) -> Result<testkit::Response> {
    let mut request = Signed::new(merchant, Method::POST, "/v1/customers?a=b", Some(ADA))?;
    request.header("idempotency-key", "one");
    let mut request = request.sign();
    tamper(&mut request);
    request.send(&merchant.api).await
}

#[tokio::test]
async fn changes_after_signing_are_rejected() -> Result<()> {
    let merchant = live(cluster().await?).await?;
    let set = |name: &'static str, value: &'static str| {
        move |request: &mut Signed| drop(request.headers.insert(name.into(), value.into()))
    };
    let body = |body: &'static str| move |request: &mut Signed| request.body = Some(body.into());
    let remove = |name: &'static str| move |request: &mut Signed| drop(request.headers.remove(name));
    let responses = [
        send_tampered(&merchant, body(r#"{"email":"eve@example.com"}"#)).await?,
        send_tampered(&merchant, body(r#"{"email":"ada@example.com"} "#)).await?,
        send_tampered(&merchant, |request| request.body = None).await?,
        send_tampered(&merchant, |request| {
            request.body = Some("{}".into());
            request.headers.insert("content-digest".into(), digest("{}"));
        })
        .await?,
        send_tampered(&merchant, |request| request.path = "/v1/payments".into()).await?,
        send_tampered(&merchant, |request| request.query = Some("a=c".into())).await?,
        send_tampered(&merchant, |request| request.query = None).await?,
        send_tampered(&merchant, |request| request.method = Method::GET).await?,
        send_tampered(&merchant, set("idempotency-key", "two")).await?,
        send_tampered(&merchant, remove("idempotency-key")).await?,
        send_tampered(&merchant, remove("content-digest")).await?,
        send_tampered(&merchant, remove("signature")).await?,
        send_tampered(&merchant, remove("signature-input")).await?,
        send_tampered(&merchant, set("signature", "sig1=:AAAA:")).await?,
        send_tampered(&merchant, set("signature", "sig2=:AAAA:")).await?,
        send_tampered(&merchant, set("signature", "nonsense")).await?,
        send_tampered(&merchant, set("signature-input", "nonsense")).await?,
        send_tampered(&merchant, set("signature-input", "sig1=()")).await?,
        send_tampered(&merchant, |request| {
            let input = request.headers["signature-input"].replace("nonce=\"", "nonce=\"x");
            request.headers.insert("signature-input".into(), input);
        })
        .await?,
    ];
    for response in &responses {
        let error = refused(response, 401, "authentication_failed");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(!message.contains("one") && !message.contains("eve"), "the error does not repeat the input: {message}");
    }
    assert_eq!(customers(&merchant).await?, 0);
    Ok(())
}

#[tokio::test]
async fn incomplete_or_stale_signatures_are_rejected() -> Result<()> {
    let merchant = live(cluster().await?).await?;
    for omitted in ["@method", "@path", "@query", "content-digest", "idempotency-key"] {
        let mut request = customer(&merchant)?;
        request.header("idempotency-key", "one");
        request.covered.retain(|name| name != omitted);
        refused(&request.sign().send(&merchant.api).await?, 401, "authentication_failed");
    }
    let mut twice = customer(&merchant)?;
    twice.covered.push("@method".into());
    refused(&twice.sign().send(&merchant.api).await?, 401, "authentication_failed");
    for offset in [-310, 310, -86_400] {
        let mut old = customer(&merchant)?;
        old.created = unix_time()? + offset;
        refused(&old.sign().send(&merchant.api).await?, 401, "authentication_failed");
    }
    for nonce in [String::new(), "n".repeat(129)] {
        let mut request = customer(&merchant)?;
        request.nonce = nonce;
        refused(&request.sign().send(&merchant.api).await?, 401, "authentication_failed");
    }
    let unsigned = customer(&merchant)?.send(&merchant.api).await?;
    let error = refused(&unsigned, 401, "authentication_failed");
    assert!(error["message"].as_str().unwrap_or_default().contains("requires request signing"), "{error}");
    assert_eq!(customers(&merchant).await?, 0);
    Ok(())
}

#[tokio::test]
async fn signatures_need_the_signing_secret_of_their_key() -> Result<()> {
    let cluster = cluster().await?;
    let (merchant, other) = (live(cluster).await?, live(cluster).await?);
    let second = cluster.ctl(&["keys", "create", "--account", &merchant.account.id, "--kind", "secret"]).await?;
    let second = |field: &str| second[field].as_str().map(str::to_owned).context("a second key");
    let signing_secret = merchant.account.signing_secret.clone().context("a signing secret")?;
    for secret in [
        merchant.account.secret_key.clone(),
        merchant.account.publishable_key.clone(),
        other.account.signing_secret.clone().context("a signing secret")?,
        second("signing_secret")?,
        signing_secret.trim_start_matches("svc_ss_").to_owned(),
        String::new(),
    ] {
        let mut request = customer(&merchant)?;
        request.secret = secret;
        refused(&request.sign().send(&merchant.api).await?, 401, "authentication_failed");
    }
    // A complete signature of another account with this key, then one of another key of the same account.
    refused(&customer(&other)?.sign().send(&merchant.api).await?, 401, "authentication_failed");
    let mut request = customer(&merchant)?;
    (request.key_id, request.secret) = (second("id")?, second("signing_secret")?);
    let request = request.sign();
    refused(&request.send(&merchant.api).await?, 401, "authentication_failed");
    assert_eq!((customers(&merchant).await?, customers(&other).await?), (0, 0));
    created(&request.send(&merchant.api.bearer(&second("key")?)?).await?);
    Ok(())
}
