//! A database dump, recorded Redis traffic and the logs contain no usable secret.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Cluster;

use crate::{
    signing::{Signed, live},
    support::{Browser, Merchant, Receiver, RedisMonitor, Reply, created, dump, eventually, id, ok, payment},
};

/// The forms of a secret in a dump: as text, and as hexadecimal bytes.
fn encodings(secret: &str) -> [String; 2] {
    [secret.to_owned(), secret.bytes().map(|byte| format!("{byte:02x}")).collect()]
}

/// Whether the text contains the word by itself, not as part of an id or a time.
fn contains_word(text: &str, word: &str) -> bool {
    let is_alphanumeric = |neighbour: Option<char>| neighbour.is_some_and(char::is_alphanumeric);
    text.match_indices(word).any(|(at, _)| {
        !is_alphanumeric(text[..at].chars().next_back()) && !is_alphanumeric(text[at + word.len()..].chars().next())
    })
}

#[tokio::test]
async fn database_dumps_redis_traffic_and_logs_contain_no_secrets() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).env("RUST_LOG", "debug").start().await?;
    let monitor = RedisMonitor::of(&cluster).await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let merchant = Merchant::new(&cluster).await?;
    let browser = Browser::for_account(&cluster, &merchant.account)?;
    let hook = merchant.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/in")})).await?;
    let text = |value: &Value, field: &str| value[field].as_str().map(str::to_owned).context("a text");
    let whsec = text(created(&hook), "secret")?;
    let (session, token) = (browser.session().await?, browser.token("tok_ok").await?);
    let customer = json!({"email": "canary@example.com", "name": "Canary Bird", "phone": "+15550100999"});
    let customer = id(created(&merchant.api.post("/v1/customers", customer).await?))?;
    created(&merchant.api.post("/v1/payments", payment(100, &token)).await?);
    created(&merchant.save_card(&customer, "tok_ok").await?);
    receiver.wait_for_requests("/in", 3).await?;
    let live = live(&cluster).await?;
    let listed = Signed::new(&live, Method::GET, "/v1/payments", None)?.sign().send(&live.api).await?;
    ok(&listed);

    let keys = [&merchant.account.secret_key, &live.account.secret_key].map(String::as_str);
    let signing = live.account.signing_secret.as_deref().context("a signing secret")?;
    let [first, second] = keys;
    // Search for the secret without its prefix.
    let bare = whsec.strip_prefix("whsec_").context("a prefix")?;
    let secrets = [first, second, signing, bare, session.as_str(), token.as_str()];

    let dump = dump(&merchant).await?;
    assert!(dump.contains("canary@example.com") && dump.contains("4242"), "the dump is complete");
    let redis_traffic = eventually("commands of the payment queue and of a limit", async || {
        let redis_traffic = monitor.recorded();
        Ok((redis_traffic.contains("queue:{money}") && redis_traffic.contains("limit:")).then_some(redis_traffic))
    })
    .await?;
    let mut logs = String::new();
    for process in cluster.processes() {
        logs += &process.log();
    }
    assert!(logs.contains("request completed"), "the logs are not empty");
    for (place, content) in [("the dump", &dump), ("Redis", &redis_traffic), ("the logs", &logs)] {
        for secret in secrets {
            for form in encodings(secret) {
                assert!(
                    !content.contains(&form),
                    "{place} contains a secret that starts with {}",
                    &secret[..8.min(secret.len())]
                );
            }
        }
    }
    // Personal data is only in Postgres; Redis gets ids and key hashes.
    for person in ["canary@example.com", "Canary Bird", "+15550100999"] {
        assert!(!redis_traffic.contains(person), "Redis got {person}");
    }
    assert!(!contains_word(&redis_traffic, "4242"), "Redis got the last digits of a card");
    for person in ["canary@example.com", "Canary Bird", "+15550100999"] {
        assert!(!logs.contains(person), "the logs contain {person}");
    }
    Ok(())
}
