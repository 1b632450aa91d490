//! Secrets of this run, and the search for them wherever something is kept.

use std::fs;

use anyhow::Result;
use sqlx::{AssertSqlSafe, PgPool};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::chaos::{
    evidence::Evidence,
    world::{Stage, World},
};

/// Test cards of the gateway.
pub(in crate::chaos) const APPROVES: &str = "4242424242424242";
pub(in crate::chaos) const INSUFFICIENT: &str = "4000000000009995";
pub(in crate::chaos) const LOST: &str = "4000000000009987";
pub(in crate::chaos) const CHALLENGED: &str = "4000002500003155";
/// It is short, so it is looked for with its name.
pub(in crate::chaos) const CVV: &str = "739";
const CODE_NAMES: [&str; 5] = ["cvv", "cvc", "security_code", "securitycode", "card_code"];
/// Characters after its name.
const CODE_WITHIN: usize = 16;

/// What may stand nowhere in clear.
pub(super) fn words(secrets: &[String]) -> Vec<String> {
    let mut words: Vec<String> = [APPROVES, INSUFFICIENT, LOST, CHALLENGED].map(str::to_owned).to_vec();
    words.extend(secrets.iter().cloned());
    words
}

/// Whether a text has the security code beside one of its names, however it is written.
pub(super) fn tells_the_code(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    CODE_NAMES.iter().any(|name| {
        lower.match_indices(name).any(|(at, _)| {
            let near: String = lower[at + name.len()..].chars().take(CODE_WITHIN).collect();
            let parts = near.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
            // `Some(` may stand between, and nothing else.
            parts.take_while(|part| ["some", CVV].contains(part)).any(|part| part == CVV)
        })
    })
}

/// The words that a text has.
pub(super) fn found<'a>(text: &str, words: &'a [String]) -> Vec<&'a str> {
    words.iter().map(String::as_str).filter(|word| text.contains(word)).collect()
}

/// Logs, rows, Redis and answers.
pub(in crate::chaos) async fn search(stage: &mut Stage, world: &World, evidence: &mut Evidence) -> Result<()> {
    let words = words(&world.secrets());
    // A merchant is told of his endpoint's secret once, which this log does not have; no other answer has any.
    for entry in &evidence.requests {
        if tells_the_code(&entry.answer) {
            evidence.leaks.push(format!("the answer to {} has the security code", entry.request));
        }
        let hits = found(&entry.answer, &words);
        evidence.leaks.extend(hits.iter().map(|word| format!("the answer to {} has {}", entry.request, masked(word))));
    }
    evidence.searched += evidence.requests.len() as u64;
    for file in fs::read_dir(stage.cluster.logs())?.flatten() {
        let text = String::from_utf8_lossy(&fs::read(file.path())?).into_owned();
        let hits = found(&text, &words);
        evidence.leaks.extend(hits.iter().map(|word| format!("{} has {}", file.path().display(), masked(word))));
        if let Some(line) = text.lines().position(tells_the_code) {
            evidence.leaks.push(format!("{}:{} has the security code", file.path().display(), line + 1));
        }
        evidence.searched += text.lines().count() as u64;
    }
    rows(&stage.db, &words, evidence).await?;
    let kept = redis(&stage.cluster.redis.url()).await?;
    evidence.leaks.extend(found(&kept, &words).iter().map(|word| format!("Redis has {}", masked(word))));
    evidence.searched += kept.lines().count() as u64;
    Ok(())
}

/// Enough of a word to know which it is.
fn masked(word: &str) -> String {
    format!("{}…", word.chars().take(8).collect::<String>())
}

/// Every table, each row as text; bytes are looked at as such.
async fn rows(db: &PgPool, words: &[String], evidence: &mut Evidence) -> Result<()> {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT format('%I.%I', table_schema, table_name) FROM information_schema.tables
         WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')",
    )
    .fetch_all(db)
    .await?;
    let hex = |word: &String| word.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let all: Vec<String> = words.iter().flat_map(|word| [word.clone(), hex(word)]).collect();
    for table in tables {
        let statement = format!(
            "SELECT count(*), coalesce(min(w.word), '') FROM {table} t JOIN unnest($1::text[]) w(word)
             ON strpos(t::text, w.word) > 0"
        );
        let (count, word): (i64, String) = sqlx::query_as(AssertSqlSafe(statement)).bind(&all).fetch_one(db).await?;
        let coded = format!("SELECT t::text FROM {table} t WHERE t::text ~* '(cvv|cvc|security_code|card_code)'");
        let coded: Vec<String> = sqlx::query_scalar(AssertSqlSafe(coded)).fetch_all(db).await?;
        if coded.iter().any(|row| tells_the_code(row)) {
            evidence.leaks.push(format!("a row of {table} has the security code"));
        }
        // The key of a browser is public, and a publishable key is kept; neither is among the words.
        if count > 0 {
            evidence.leaks.push(format!("{count} rows of {table} have {}", masked(&word)));
        }
        let statement = format!("SELECT count(*) FROM {table}");
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(statement)).fetch_one(db).await?;
        evidence.searched += rows.unsigned_abs();
    }
    Ok(())
}

/// Keys and what is in them, as Redis prints them.
async fn redis(url: &str) -> Result<String> {
    let (password, place) = url.trim_start_matches("redis://:").split_once('@').unwrap_or_default();
    let mut stream = TcpStream::connect(place.trim_end_matches('/')).await?;
    let script = "local out = {} for _, key in ipairs(redis.call('KEYS', '*')) do out[#out + 1] = key \
                  local kind = redis.call('TYPE', key).ok \
                  if kind == 'string' then out[#out + 1] = redis.call('GET', key) \
                  elseif kind == 'list' then for _, v in ipairs(redis.call('LRANGE', key, 0, -1)) do out[#out + 1] = v end \
                  elseif kind == 'stream' then for _, v in ipairs(redis.call('XRANGE', key, '-', '+')) do \
                  for _, f in ipairs(v[2]) do out[#out + 1] = f end end \
                  elseif kind == 'hash' then for _, v in ipairs(redis.call('HGETALL', key)) do out[#out + 1] = v end \
                  elseif kind == 'zset' then for _, v in ipairs(redis.call('ZRANGE', key, 0, -1)) do out[#out + 1] = v end \
                  end end return out";
    let command =
        format!("AUTH {password}\r\n*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\nQUIT\r\n", script.len());
    stream.write_all(command.as_bytes()).await?;
    let mut kept = Vec::new();
    stream.read_to_end(&mut kept).await?;
    let kept = String::from_utf8_lossy(&kept).into_owned();
    let refused = kept.starts_with('-') || kept.contains("\r\n-");
    anyhow::ensure!(!refused, "Redis would not tell what it keeps: {kept}");
    Ok(kept)
}
