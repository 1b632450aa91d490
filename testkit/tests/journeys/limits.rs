//! Rate limits: one bucket per key across all processes; unauthenticated clients are limited by address.

use anyhow::{Context, Result};
use testkit::limits::{self, refilled};
use testkit::{Account, Client, Cluster, ProcessKind, Response};
use tokio::time::Instant;

use crate::support::{Books, cluster, concurrently, eventually, ok, refused, sale};

const PATH: &str = "/v1/capabilities";

/// An account with a limit of one request per second, slow enough for tests to observe the bucket.
async fn account(cluster: &Cluster, burst: &str) -> Result<Account> {
    let mode = ["--mode", "test", "--provider", "mock", "--origin", crate::support::ORIGIN];
    cluster.account_with(&[&mode[..], &["--rate-limit", "1", "--burst", burst]].concat()).await
}

fn at(cluster: &Cluster, api: usize, key: &str) -> Result<Client> {
    Client::new(&cluster.api_url(api))?.bearer(key)
}

/// Remaining requests and seconds to reset of the `RateLimit` header, which must have this policy.
#[track_caller]
fn state(response: &Response, policy: &str) -> (u64, u64) {
    assert_eq!(response.header("ratelimit-policy"), Some(policy), "{:?}", response.headers);
    let state = response.header("ratelimit").and_then(|state| state.strip_prefix("\"key\";r=")?.split_once(";t="));
    let (remaining, reset) = state.expect("RateLimit is well-formed");
    (remaining.parse().expect("a number"), reset.parse().expect("a number"))
}

/// Asserts a 429 response and returns its `Retry-After`.
#[track_caller]
fn limited(response: &Response) -> u64 {
    refused(response, 429, "rate_limited");
    let after = response.header("retry-after").and_then(|after| after.parse().ok()).expect("Retry-After is a number");
    assert!((1..=60).contains(&after), "{after}");
    after
}

fn allowed(responses: &[Response]) -> usize {
    responses.iter().filter(|response| response.status != 429).count()
}

#[tokio::test]
async fn all_processes_share_the_bucket_of_a_key() -> Result<()> {
    let (name, value) = limits::SHARED;
    let cluster = Cluster::builder().env(name, value).api(2).start().await?;
    let account = account(&cluster, "20").await?;
    let apis = [at(&cluster, 0, &account.secret_key)?, at(&cluster, 1, &account.secret_key)?];
    let began = Instant::now();
    let responses = concurrently(40, async |i| apis[i % 2].get(PATH).await).await?;
    let accepted = allowed(&responses);
    assert!((20..=20 + refilled(began.elapsed())).contains(&accepted), "{accepted} of 40 were accepted");
    for response in &responses {
        let (remaining, reset) = state(response, "\"key\";q=20;w=20");
        if response.status == 429 {
            assert_eq!((remaining, limited(response)), (0, reset.max(1)));
        } else {
            assert!(ok(response)["data"].is_array() && remaining < 20 && (1..=20).contains(&reset));
        }
    }

    // Another key of the account has its own bucket, and so has another account.
    let other = cluster.ctl(&["keys", "create", "--account", &account.id, "--kind", "secret"]).await?;
    let other = at(&cluster, 0, other["key"].as_str().context("a key")?)?;
    assert_eq!(state(&other.get(PATH).await?, "\"key\";q=20;w=20").0, 19);
    let unlimited = cluster.account().await?;
    ok(&cluster.client(&unlimited)?.get(PATH).await?);
    Ok(())
}

#[tokio::test]
async fn rate_limited_requests_have_no_effect() -> Result<()> {
    let cluster = cluster().await?;
    let account = account(cluster, "3").await?;
    let (api, books) = (at(cluster, 0, &account.secret_key)?, Books::open(cluster.database_url(), &account)?);
    let keyed = api.header("idempotency-key", "one")?;
    // Invalid requests of a secret key count against its limit.
    assert_eq!(api.post("/v1/payments", sale(0)).await?.status, 422);
    let exhausted = async || Ok((api.post("/v1/payments", sale(0)).await?.status == 429).then_some(()));
    eventually("an empty bucket", exhausted).await?;
    let response = keyed.post("/v1/payments", sale(100)).await?;
    if response.status == 429 {
        limited(&response);
        assert_eq!((books.operations().await?, books.charges().await?), (0, 0));
    }
    // A limited request used neither its Idempotency-Key nor its payment token.
    let paid = eventually("a free token in the bucket", async || {
        let response = keyed.post("/v1/payments", sale(100)).await?;
        Ok((response.status != 429).then_some(response))
    })
    .await?;
    assert_eq!((paid.status, paid.header("idempotent-replayed").is_some()), (201, response.status == 201));
    assert_eq!(books.charges().await?, 1);
    Ok(())
}

#[tokio::test]
async fn without_redis_each_process_limits_separately() -> Result<()> {
    let mut cluster = Cluster::builder().api(2).start().await?;
    let account = account(&cluster, "5").await?;
    let apis = [at(&cluster, 0, &account.secret_key)?, at(&cluster, 1, &account.secret_key)?];
    ok(&apis[0].get(PATH).await?);
    cluster.redis.kill9()?;
    for api in &apis {
        let began = Instant::now();
        let responses = concurrently(15, async |_| api.get(PATH).await).await?;
        let accepted = allowed(&responses);
        // The first process has already accepted one request.
        assert!((4..=5 + refilled(began.elapsed())).contains(&accepted), "{accepted} of 15 were accepted");
        for response in &responses {
            state(response, "\"key\";q=5;w=5");
            if response.status == 429 {
                limited(response);
            } else {
                ok(response);
            }
        }
    }
    let metrics = Client::new(&cluster.metrics_url(ProcessKind::Api, 0))?.get("/metrics").await?;
    assert!(String::from_utf8(metrics.bytes)?.contains("rate_limits_unshared_total"));

    // Redis comes back empty, and the processes share the bucket again.
    cluster.redis.restart().await?;
    eventually("a shared bucket", async || {
        let fresh = cluster.ctl(&["keys", "create", "--account", &account.id, "--kind", "secret"]).await?;
        let key = fresh["key"].as_str().context("a key")?;
        let (apis, began) = ([at(&cluster, 0, key)?, at(&cluster, 1, key)?], Instant::now());
        let responses = concurrently(10, async |i| apis[i % 2].get(PATH).await).await?;
        // Each process by itself would accept all of its five.
        Ok((allowed(&responses) <= 5 + refilled(began.elapsed())).then_some(()))
    })
    .await
}

#[tokio::test]
async fn unauthenticated_requests_are_limited_by_address() -> Result<()> {
    let cluster = Cluster::builder().env("UNAUTHENTICATED_RATE_LIMIT", "50").api(1).start().await?;
    let authenticated = cluster.client(&cluster.account().await?)?;
    ok(&authenticated.get("/v1/payments").await?);
    let live = cluster.account_with(&["--mode", "live", "--provider", "mock", "--allow-mock"]).await?;
    let (bare, forged) = (Client::new(&cluster.api_url(0))?, at(&cluster, 0, "svc_sk_test_nonsense")?);
    let unauthenticated = [bare, forged, cluster.client(&live)?];
    let began = Instant::now();
    let responses = concurrently(500, async |i| unauthenticated[i % 3].get("/v1/payments").await).await?;
    let (accepted, max) = (allowed(&responses), 200 + 50 * refilled(began.elapsed()));
    assert!((200..=max).contains(&accepted) && (accepted < 500 || max >= 500), "{accepted} of 500 got 401");
    for response in &responses {
        match response.status {
            429 => drop(limited(response)),
            _ => drop(refused(response, 401, "authentication_failed")),
        }
    }
    // Valid keys are still accepted from the same address, and unknown paths need no key.
    ok(&authenticated.get("/v1/payments").await?);
    assert_eq!(unauthenticated[0].get("/v1/nonsense").await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn one_visitor_cannot_exhaust_the_checkout_of_a_shop() -> Result<()> {
    let trusting = Cluster::builder().env("TRUSTED_PROXIES", "127.0.0.0/8").env("PAGE_RATE_LIMIT", "1");
    let cluster = trusting.api(1).start().await?;
    let account = account(&cluster, "30").await?;
    let page = at(&cluster, 0, &account.publishable_key)?.header("origin", crate::support::ORIGIN)?;
    let visitor = |address: &str| page.header("x-forwarded-for", address);
    let invalid_body = || serde_json::json!({"sessionId": "none", "upstreamToken": "tok_ok"});
    for (address, path) in [("192.0.2.7", "/v1/checkout_sessions"), ("192.0.2.8", "/v1/tokens")] {
        let greedy = visitor(address)?;
        let responses = concurrently(60, async |_| greedy.post(path, invalid_body()).await).await?;
        let rejected: Vec<_> = responses.iter().filter(|response| response.status == 429).collect();
        assert!(!rejected.is_empty() && rejected.len() < 60, "{} of 60 were rejected", rejected.len());
        for response in rejected {
            limited(response);
            let policy = response.header("ratelimit-policy").unwrap_or_default();
            assert!(policy.starts_with("\"address\""), "{path}: {policy}");
            assert!(response.header("access-control-allow-origin").is_some(), "the page can read the response");
        }
    }
    let started = visitor("192.0.2.9")?.post("/v1/checkout_sessions", serde_json::json!({})).await?;
    assert_eq!(started.status, 201, "{:?}", started.headers);
    Ok(())
}
