//! What is stored: a dump of the database, and recorded Redis traffic.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use sqlx::AssertSqlSafe;
use testkit::Cluster;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use super::Merchant;

/// Records all commands to a Redis.
pub(crate) struct RedisMonitor {
    recorded: Arc<Mutex<Vec<u8>>>,
    _listening: JoinSet<()>,
}

impl RedisMonitor {
    pub(crate) async fn of(cluster: &Cluster) -> Result<Self> {
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

    pub(crate) fn recorded(&self) -> String {
        String::from_utf8_lossy(&self.recorded.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Every row of every table, as in a dump.
pub(crate) async fn dump(merchant: &Merchant) -> Result<String> {
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
