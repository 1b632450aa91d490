//! The secrets of a run, and the search for them wherever data is stored or logged.

use std::fs;

use anyhow::Result;
use sqlx::{AssertSqlSafe, PgPool};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    access::{Access, Traces},
    journal::Entry,
    shop::Shop,
    test_cards::{APPROVES, CHALLENGED, CVV, INSUFFICIENT, LOST},
};

const CODE_NAMES: [&str; 5] = ["cvv", "cvc", "security_code", "securitycode", "card_code"];
/// Characters searched after the field name.
const CODE_DISTANCE: usize = 16;

/// Values that must not appear in clear text anywhere.
pub(super) fn words(secrets: &[String]) -> Vec<String> {
    let mut words: Vec<String> = [APPROVES, INSUFFICIENT, LOST, CHALLENGED].map(str::to_owned).to_vec();
    words.extend(secrets.iter().cloned());
    words
}

/// Whether a text contains the security code next to one of its field names, in any notation.
pub(super) fn contains_security_code(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    CODE_NAMES.iter().any(|name| {
        lower.match_indices(name).any(|(at, _)| {
            let after_name: String = lower[at + name.len()..].chars().take(CODE_DISTANCE).collect();
            let parts = after_name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
            // Only `Some(` may come between.
            parts.take_while(|part| ["some", CVV].contains(part)).any(|part| part == CVV)
        })
    })
}

/// The words contained in a text.
pub(super) fn contained_words<'a>(text: &str, words: &'a [String]) -> Vec<&'a str> {
    words.iter().map(String::as_str).filter(|word| text.contains(word)).collect()
}

#[derive(Debug, Default)]
pub(super) struct Search {
    /// Where a secret was found.
    pub(super) leaks: Vec<String>,
    /// The number of texts searched.
    pub(super) searched: u64,
}

/// Searches logs, rows, Redis and responses.
pub(super) async fn search(access: &Access<'_>, traces: &Traces, requests: &[Entry]) -> Result<Search> {
    let words = words(&access.shops.iter().flat_map(Shop::secrets).collect::<Vec<_>>());
    let mut search = Search::default();
    // No response may contain a secret. The response with an endpoint's secret is not in this log.
    for entry in requests {
        if contains_security_code(&entry.response) {
            search.leaks.push(format!("the response to {} contains the security code", entry.request));
        }
        let matches = contained_words(&entry.response, &words);
        search
            .leaks
            .extend(matches.iter().map(|word| format!("the response to {} contains {}", entry.request, masked(word))));
    }
    search.searched += requests.len() as u64;
    for file in fs::read_dir(&traces.logs)?.flatten() {
        let text = String::from_utf8_lossy(&fs::read(file.path())?).into_owned();
        let matches = contained_words(&text, &words);
        search.leaks.extend(matches.iter().map(|word| format!("{} contains {}", file.path().display(), masked(word))));
        if let Some(line) = text.lines().position(contains_security_code) {
            search.leaks.push(format!("{}:{} contains the security code", file.path().display(), line + 1));
        }
        search.searched += text.lines().count() as u64;
    }
    rows(access.db, &words, &mut search).await?;
    let in_redis = contained_words(&traces.redis, &words);
    search.leaks.extend(in_redis.iter().map(|word| format!("Redis contains {}", masked(word))));
    search.searched += traces.redis.lines().count() as u64;
    Ok(search)
}

/// Enough of a word to identify it.
fn masked(word: &str) -> String {
    format!("{}…", word.chars().take(8).collect::<String>())
}

/// Searches the text form of every row of every table, also for the hexadecimal form of the words.
async fn rows(db: &PgPool, words: &[String], search: &mut Search) -> Result<()> {
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
        let query = format!("SELECT t::text FROM {table} t WHERE t::text ~* '(cvv|cvc|security_code|card_code)'");
        let rows_with_code_names: Vec<String> = sqlx::query_scalar(AssertSqlSafe(query)).fetch_all(db).await?;
        if rows_with_code_names.iter().any(|row| contains_security_code(row)) {
            search.leaks.push(format!("a row of {table} contains the security code"));
        }
        // The browser's key is public and a publishable key is stored in clear text; neither is among the words.
        if count > 0 {
            search.leaks.push(format!("{count} rows of {table} contain {}", masked(&word)));
        }
        let statement = format!("SELECT count(*) FROM {table}");
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(statement)).fetch_one(db).await?;
        search.searched += rows.unsigned_abs();
    }
    Ok(())
}

/// A script that returns all keys and values in Redis.
pub(super) const REDIS_CONTENTS: &str = "local out = {} \
     for _, key in ipairs(redis.call('KEYS', '*')) do out[#out + 1] = key \
     local kind = redis.call('TYPE', key).ok \
     if kind == 'string' then out[#out + 1] = redis.call('GET', key) \
     elseif kind == 'list' then for _, v in ipairs(redis.call('LRANGE', key, 0, -1)) do out[#out + 1] = v end \
     elseif kind == 'stream' then for _, v in ipairs(redis.call('XRANGE', key, '-', '+')) do \
     for _, f in ipairs(v[2]) do out[#out + 1] = f end end \
     elseif kind == 'hash' then for _, v in ipairs(redis.call('HGETALL', key)) do out[#out + 1] = v end \
     elseif kind == 'zset' then for _, v in ipairs(redis.call('ZRANGE', key, 0, -1)) do out[#out + 1] = v end \
     end end return out";

/// All keys and values in Redis.
pub(super) async fn redis(url: &str) -> Result<String> {
    let (password, address) = url.trim_start_matches("redis://:").split_once('@').unwrap_or_default();
    let mut stream = TcpStream::connect(address.trim_end_matches('/')).await?;
    let script = REDIS_CONTENTS;
    let command =
        format!("AUTH {password}\r\n*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\nQUIT\r\n", script.len());
    stream.write_all(command.as_bytes()).await?;
    let mut contents = Vec::new();
    stream.read_to_end(&mut contents).await?;
    let contents = String::from_utf8_lossy(&contents).into_owned();
    let refused = contents.starts_with('-') || contents.contains("\r\n-");
    anyhow::ensure!(!refused, "Redis rejected the query: {contents}");
    Ok(contents)
}
