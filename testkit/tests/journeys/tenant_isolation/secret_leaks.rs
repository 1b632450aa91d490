//! A database dump, recorded Redis traffic and the logs contain no usable secret.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use testkit::Cluster;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use crate::{
    signing::{Signed, live},
    support::{Browser, Merchant, Receiver, Reply, created, eventually, id, ok, payment},
};

/// Records all commands to a Redis.
struct RedisMonitor {
    recorded: Arc<Mutex<Vec<u8>>>,
    _listening: JoinSet<()>,
}

impl RedisMonitor {
    async fn of(cluster: &Cluster) -> Result<Self> {
        let url = reqwest::Url::parse(&cluster.redis.url())?;
        let password = url.password().context("a password")?;
        let mut stream = TcpStream::connect(("127.0.0.1", cluster.redis.port())).await?;
        stream.write_all(format!("AUTH {password}\r\nMONITOR\r\n").as_bytes()).await?;
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let (output, mut listening) = (Arc::clone(&recorded), JoinSet::new());
        listening.spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                output.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..read]);
            }
        });
        Ok(Self { recorded, _listening: listening })
    }

    fn recorded(&self) -> String {
        String::from_utf8_lossy(&self.recorded.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Every row of every table, as in a dump.
async fn dump(merchant: &Merchant) -> Result<String> {
    let db = &merchant.books.db;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind = 'r' AND n.nspname IN ('public', 'mock')",
    )
    .fetch_all(db)
    .await?;
    assert!(tables.len() >= 30, "{tables:?}");
    let mut rows = String::new();
    for table in tables {
        let query = format!("SELECT coalesce(string_agg(to_jsonb(t)::text, E'\\n'), '') FROM {table} t");
        rows += &sqlx::query_scalar::<_, String>(AssertSqlSafe(query)).fetch_one(db).await?;
    }
    Ok(rows)
}

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
    let redis_traffic = eventually("commands of the money queue and of a limit", async || {
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
