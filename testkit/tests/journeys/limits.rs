//! Rate limits: one bucket for each key, whichever process it meets; strangers by their address.

use anyhow::{Context, Result};
use testkit::{Account, Answer, Client, Cluster, Kind};
use tokio::time::Instant;

use crate::support::{Books, eventually, ok, refused, sale, together};

const PATH: &str = "/v1/capabilities";

/// An account with a second of its own for each request, so that tests need not hurry.
async fn account(cluster: &Cluster, burst: &str) -> Result<Account> {
    let mode = ["--mode", "test", "--provider", "mock", "--origin", crate::support::ORIGIN];
    cluster.account_with(&[&mode[..], &["--rate-limit", "1", "--burst", burst]].concat()).await
}

fn at(cluster: &Cluster, api: usize, key: &str) -> Result<Client> {
    Client::new(&cluster.api_url(api))?.bearer(key)
}

/// The fields of `RateLimit`, whose policy is this.
#[track_caller]
fn state(answer: &Answer, policy: &str) -> (u64, u64) {
    assert_eq!(answer.header("ratelimit-policy"), Some(policy), "{:?}", answer.headers);
    let state = answer.header("ratelimit").and_then(|state| state.strip_prefix("\"key\";r=")?.split_once(";t="));
    let (remaining, reset) = state.expect("RateLimit is well-formed");
    (remaining.parse().expect("a number"), reset.parse().expect("a number"))
}

/// 429 that says when to come again.
#[track_caller]
fn limited(answer: &Answer) -> u64 {
    refused(answer, 429, "rate_limited");
    let after = answer.header("retry-after").and_then(|after| after.parse().ok()).expect("Retry-After is a number");
    assert!((1..=60).contains(&after), "{after}");
    after
}

fn allowed(answers: &[Answer]) -> usize {
    answers.iter().filter(|answer| answer.status != 429).count()
}

/// What a bucket of one a second may have got back since then, and one for the edges.
fn refilled(since: Instant) -> usize {
    usize::try_from(since.elapsed().as_secs()).expect("seconds fit") + 1
}

#[tokio::test]
async fn a_key_has_one_bucket_for_all_processes() -> Result<()> {
    let cluster = Cluster::builder().api(2).worker(1).scheduler(1).start().await?;
    let account = account(&cluster, "20").await?;
    let apis = [at(&cluster, 0, &account.secret_key)?, at(&cluster, 1, &account.secret_key)?];
    let began = Instant::now();
    let answers = together(40, async |i| apis[i % 2].get(PATH).await).await?;
    let through = allowed(&answers);
    assert!((20..=20 + refilled(began)).contains(&through), "{through} of 40 were let in");
    for answer in &answers {
        let (remaining, reset) = state(answer, "\"key\";q=20;w=20");
        if answer.status == 429 {
            assert_eq!((remaining, limited(answer)), (0, reset.max(1)));
        } else {
            assert!(ok(answer)["data"].is_array() && remaining < 20 && (1..=20).contains(&reset));
        }
    }

    // Another key of the account has its own; so has another account.
    let other = cluster.ctl(&["keys", "create", "--account", &account.id, "--kind", "secret"]).await?;
    let other = at(&cluster, 0, other["key"].as_str().context("a key")?)?;
    assert_eq!(state(&other.get(PATH).await?, "\"key\";q=20;w=20").0, 19);
    let unlimited = cluster.account().await?;
    ok(&cluster.client(&unlimited)?.get(PATH).await?);
    Ok(())
}

#[tokio::test]
async fn a_request_too_many_does_nothing() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let account = account(&cluster, "3").await?;
    let (api, books) = (at(&cluster, 0, &account.secret_key)?, Books::open(cluster.database_url(), &account)?);
    let keyed = api.header("idempotency-key", "one")?;
    // What a secret key asks for counts though it is refused for its own sake.
    assert_eq!(api.post("/v1/payments", sale(0)).await?.status, 422);
    let exhausted = async || Ok((api.post("/v1/payments", sale(0)).await?.status == 429).then_some(()));
    eventually("the end of the bucket", exhausted).await?;
    let answer = keyed.post("/v1/payments", sale(100)).await?;
    if answer.status == 429 {
        limited(&answer);
        assert_eq!((books.operations().await?, books.charges().await?), (0, 0));
    }
    // Whoever comes again as told has used up neither the key nor the token.
    let paid = eventually("a turn", async || {
        let answer = keyed.post("/v1/payments", sale(100)).await?;
        Ok((answer.status != 429).then_some(answer))
    })
    .await?;
    assert_eq!((paid.status, paid.header("idempotent-replayed").is_some()), (201, answer.status == 201));
    assert_eq!(books.charges().await?, 1);
    Ok(())
}

#[tokio::test]
async fn without_redis_each_process_limits_by_itself() -> Result<()> {
    let mut cluster = Cluster::builder().api(2).worker(1).scheduler(1).start().await?;
    let account = account(&cluster, "5").await?;
    let apis = [at(&cluster, 0, &account.secret_key)?, at(&cluster, 1, &account.secret_key)?];
    ok(&apis[0].get(PATH).await?);
    cluster.redis.kill9()?;
    for api in &apis {
        let began = Instant::now();
        let answers = together(15, async |_| api.get(PATH).await).await?;
        let through = allowed(&answers);
        // The first has let one in before.
        assert!((4..=5 + refilled(began)).contains(&through), "{through} of 15 were let in");
        for answer in &answers {
            state(answer, "\"key\";q=5;w=5");
            if answer.status == 429 {
                limited(answer);
            } else {
                ok(answer);
            }
        }
    }
    let metrics = Client::new(&cluster.metrics_url(Kind::Api, 0))?.get("/metrics").await?;
    assert!(String::from_utf8(metrics.bytes)?.contains("rate_limits_unshared_total"));

    // Redis comes back empty, and the bucket is one again.
    cluster.redis.restart().await?;
    eventually("a shared bucket", async || {
        let fresh = cluster.ctl(&["keys", "create", "--account", &account.id, "--kind", "secret"]).await?;
        let key = fresh["key"].as_str().context("a key")?;
        let (first, second) = (at(&cluster, 0, key)?.get(PATH).await?, at(&cluster, 1, key)?.get(PATH).await?);
        let remaining = [state(&first, "\"key\";q=5;w=5").0, state(&second, "\"key\";q=5;w=5").0];
        Ok((remaining == [4, 3]).then_some(()))
    })
    .await
}

#[tokio::test]
async fn strangers_are_limited_by_their_address() -> Result<()> {
    let builder = Cluster::builder().env("UNAUTHENTICATED_RATE_LIMIT", "50");
    let cluster = builder.api(1).worker(1).scheduler(1).start().await?;
    let known = cluster.client(&cluster.account().await?)?;
    ok(&known.get("/v1/payments").await?);
    let live = cluster.account_with(&["--mode", "live", "--provider", "mock"]).await?;
    let (bare, forged) = (Client::new(&cluster.api_url(0))?, at(&cluster, 0, "svc_sk_test_nonsense")?);
    let strangers = [bare, forged, cluster.client(&live)?];
    let began = Instant::now();
    let answers = together(500, async |i| strangers[i % 3].get("/v1/payments").await).await?;
    let (through, most) = (allowed(&answers), 200 + 50 * refilled(began));
    assert!(
        (200..=most).contains(&through) && (through < 500 || most >= 500),
        "{through} of 500 were told what is wrong"
    );
    for answer in &answers {
        match answer.status {
            429 => drop(limited(answer)),
            _ => drop(refused(answer, 401, "authentication_failed")),
        }
    }
    // Who is known is let in from the same address all the same, and a path that is not there needs no key.
    ok(&known.get("/v1/payments").await?);
    assert_eq!(strangers[0].get("/v1/nonsense").await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn no_visitor_of_a_shop_shuts_its_checkout_for_the_others() -> Result<()> {
    let trusting = Cluster::builder().env("TRUSTED_PROXIES", "127.0.0.0/8").env("PAGE_RATE_LIMIT", "1");
    let cluster = trusting.api(1).worker(1).start().await?;
    let account = account(&cluster, "30").await?;
    let page = at(&cluster, 0, &account.publishable_key)?.header("origin", crate::support::ORIGIN)?;
    let visitor = |address: &str| page.header("x-forwarded-for", address);
    let nothing = || serde_json::json!({"sessionId": "none", "upstreamToken": "tok_ok"});
    for (address, path) in [("192.0.2.7", "/v1/checkout_sessions"), ("192.0.2.8", "/v1/tokens")] {
        let greedy = visitor(address)?;
        let answers = together(60, async |_| greedy.post(path, nothing()).await).await?;
        let told: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
        assert!(!told.is_empty() && told.len() < 60, "{} of 60 were refused", told.len());
        for answer in told {
            limited(answer);
            let policy = answer.header("ratelimit-policy").unwrap_or_default();
            assert!(policy.starts_with("\"address\""), "{path}: {policy}");
            assert!(answer.header("access-control-allow-origin").is_some(), "the page is told too");
        }
    }
    let started = visitor("192.0.2.9")?.post("/v1/checkout_sessions", serde_json::json!({})).await?;
    assert_eq!(started.status, 201, "{:?}", started.headers);
    Ok(())
}
