//! What a thief has who carries off a dump of the database, or listens to Redis, or reads the logs: nothing that opens anything.

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

/// All that was ever said to a Redis, from now on.
struct Listener {
    heard: Arc<Mutex<Vec<u8>>>,
    _listening: JoinSet<()>,
}

impl Listener {
    async fn of(cluster: &Cluster) -> Result<Self> {
        let url = reqwest::Url::parse(&cluster.redis.url())?;
        let password = url.password().context("a password")?;
        let mut stream = TcpStream::connect(("127.0.0.1", cluster.redis.port())).await?;
        stream.write_all(format!("AUTH {password}\r\nMONITOR\r\n").as_bytes()).await?;
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (kept, mut listening) = (Arc::clone(&heard), JoinSet::new());
        listening.spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..read]);
            }
        });
        Ok(Self { heard, _listening: listening })
    }

    fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Every row of every table, as a dump has it.
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

/// A secret as it may be written: as it is, and the bytes of it in hexadecimal, as a dump writes bytes.
fn written(secret: &str) -> [String; 2] {
    [secret.to_owned(), secret.bytes().map(|byte| format!("{byte:02x}")).collect()]
}

/// Whether it stands there by itself, and not by chance within an id or the time of day.
fn stands_in(text: &str, word: &str) -> bool {
    let goes_on = |neighbour: Option<char>| neighbour.is_some_and(char::is_alphanumeric);
    text.match_indices(word)
        .any(|(at, _)| !goes_on(text[..at].chars().next_back()) && !goes_on(text[at + word.len()..].chars().next()))
}

#[tokio::test]
async fn a_dump_a_redis_and_a_log_open_nothing() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).env("RUST_LOG", "debug").start().await?;
    let listener = Listener::of(&cluster).await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let merchant = Merchant::new(&cluster).await?;
    let browser = Browser::of(&cluster, &merchant.account)?;
    let hook = merchant.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/in")})).await?;
    let text = |value: &Value, field: &str| value[field].as_str().map(str::to_owned).context("a text");
    let whsec = text(created(&hook), "secret")?;
    let (session, token) = (browser.session().await?, browser.token("tok_ok").await?);
    let customer = json!({"email": "canary@example.com", "name": "Canary Bird", "phone": "+15550100999"});
    let customer = id(created(&merchant.api.post("/v1/customers", customer).await?))?;
    created(&merchant.api.post("/v1/payments", payment(100, &token)).await?);
    created(&merchant.save_card(&customer, "tok_ok").await?);
    receiver.hears("/in", 3).await?;
    let live = live(&cluster).await?;
    let listed = Signed::new(&live, Method::GET, "/v1/payments", None)?.sign().send(&live.api).await?;
    ok(&listed);

    let keys = [&merchant.account.secret_key, &live.account.secret_key].map(String::as_str);
    let signing = live.account.signing_secret.as_deref().context("a signing secret")?;
    let [first, second] = keys;
    // A secret is what follows its prefix: an id of a key, which stands before it, is none.
    let bare = whsec.strip_prefix("whsec_").context("a prefix")?;
    let secrets = [first, second, signing, bare, session.as_str(), token.as_str()];

    let dump = dump(&merchant).await?;
    assert!(dump.contains("canary@example.com") && dump.contains("4242"), "the dump is whole");
    let heard = eventually("the money queue and a limit", async || {
        let heard = listener.heard();
        Ok((heard.contains("queue:{money}") && heard.contains("limit:")).then_some(heard))
    })
    .await?;
    let mut logs = String::new();
    for process in cluster.processes() {
        logs += &process.log();
    }
    assert!(logs.contains("answered"), "there are logs");
    for (place, kept) in [("the dump", &dump), ("Redis", &heard), ("the logs", &logs)] {
        for secret in secrets {
            for form in written(secret) {
                assert!(
                    !kept.contains(&form),
                    "{place} has a secret that begins with {}",
                    &secret[..8.min(secret.len())]
                );
            }
        }
    }
    // Of people, only Postgres knows. Redis hears names of rows and of keys, and of what nothing can be done with.
    for person in ["canary@example.com", "Canary Bird", "+15550100999"] {
        assert!(!heard.contains(person), "Redis heard {person}");
    }
    assert!(!stands_in(&heard, "4242"), "Redis heard the end of a card number");
    for person in ["canary@example.com", "Canary Bird", "+15550100999"] {
        assert!(!logs.contains(person), "the logs have {person}");
    }
    Ok(())
}
