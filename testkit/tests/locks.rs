//! Every statement that the compiler has checked: one that writes or locks several rows takes them in the order of their ids, or
//! waits for none (docs/architecture.md, Lock order).

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

/// What names one row of a table, beside its `id`.
const KEYS: [(&str, &[&str]); 16] = [
    ("checkout_sessions", &["id_hash"]),
    ("collection_attempts", &["account_id", "payment_id"]),
    ("idempotency_keys", &["account_id", "payment_id"]),
    ("payment_tokens", &["token_hash"]),
    ("provider_accounts", &["account_id", "provider"]),
    ("creation_keys", &["account_id", "payment_method_id"]),
    ("creation_keys", &["account_id", "webhook_endpoint_id"]),
    ("test_clocks", &["account_id"]),
    ("gateway.accounts", &["username"]),
    ("gateway.cards", &["token_hash"]),
    ("gateway.duplicate_guards", &["account_id", "fingerprint"]),
    ("provider_breakers", &["provider_account_id"]),
    ("gateway.field_tokens", &["token_hash"]),
    ("gateway.former_keys", &["account_id"]),
    ("gateway.proxy_numbers", &["proxy_hash"]),
    ("gateway.volumes", &["account_id", "month", "currency"]),
];

/// Rows that another statement of the same transaction has locked.
const LOCKED_BEFORE: [&str; 1] = ["UPDATE invoices i SET attempt_count = due.number"];

const LOCKS: [&str; 4] = ["FOR NO KEY UPDATE", "FOR UPDATE", "FOR SHARE", "FOR KEY SHARE"];

/// The text of each statement, without comments and in one line.
fn statements() -> Result<Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no parent")?.join(".sqlx");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let described: Value = serde_json::from_slice(&fs::read(entry?.path())?)?;
        let text = described["query"].as_str().context("no query")?;
        let lines = text.lines().map(|line| line.split("--").next().unwrap_or_default());
        found.push(lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" "));
    }
    assert!(found.len() > 200, "only {} statements", found.len());
    Ok(found)
}

/// The part of a statement that begins here, up to the parenthesis that closes it.
fn part(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth < 0 {
            return &text[..at];
        }
    }
    text
}

/// What a column is compared with.
#[derive(Clone, Copy)]
enum With {
    /// A parameter, or the one payment that another part of the statement has found.
    OneValue,
    /// That too, or a column of the row that a lateral part is evaluated for.
    OneValueAtATime,
}

/// The columns that are compared for equality with one value.
fn compared(text: &str, with: With) -> BTreeSet<&str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_one = |value: &str| match with {
        With::OneValue => value.starts_with('$') || value.starts_with("payment.id"),
        With::OneValueAtATime => !value.starts_with("ANY"),
    };
    let equal = words.windows(3).filter(|three| three[1] == "=" && is_one(three[2]));
    equal.map(|three| three[0].trim_start_matches('(')).map(|name| name.rsplit('.').next().unwrap_or(name)).collect()
}

/// Whether a condition lets one row of a table through at most.
fn is_one_row(table: &str, condition: &str, with: With) -> bool {
    let compared = compared(condition, with);
    let mut keys = KEYS.iter().filter(|(known, _)| *known == table).map(|(_, columns)| *columns);
    compared.contains("id") || keys.any(|columns| columns.iter().all(|column| compared.contains(column)))
}

/// Tables that are written, each with what follows its name.
fn writes(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for verb in ["UPDATE ", "DELETE FROM "] {
        for (at, _) in text.match_indices(verb) {
            let is_lock = text[..at].ends_with("FOR ") || text[..at].ends_with("KEY ") || text[..at].ends_with("DO ");
            let rest = part(&text[at + verb.len()..]);
            if !is_lock {
                found.push((rest.split_whitespace().next().unwrap_or_default(), rest));
            }
        }
    }
    found
}

#[test]
fn whatever_writes_several_rows_has_locked_them_before() -> Result<()> {
    let mut wrong = Vec::new();
    for text in statements()? {
        // A lock that takes what is free, or goes by ids that are in order; the next test looks at those.
        let locks_before = LOCKS[..2].iter().any(|lock| text.contains(lock));
        let known = LOCKED_BEFORE.iter().any(|known| text.contains(known));
        for (table, rest) in writes(&text) {
            let condition = rest.split_once(" WHERE ").map_or("", |(_, condition)| condition);
            if !locks_before && !known && !is_one_row(table, condition, With::OneValue) {
                wrong.push(text.clone());
            }
        }
    }
    assert!(wrong.is_empty(), "several rows, in any order:\n{}", wrong.join("\n\n"));
    Ok(())
}

#[test]
fn whatever_waits_for_locks_waits_for_one_row_or_goes_by_ordered_ids() -> Result<()> {
    let mut wrong = Vec::new();
    for text in statements()? {
        for lock in LOCKS {
            for (at, _) in text.match_indices(lock) {
                let skips = part(&text[at..]).split_whitespace().take(8).any(|word| word == "SKIP");
                // The SELECT that it ends.
                let select = text[..at].rfind("SELECT ").map_or("", |begin| &text[begin..at]);
                let table = select.split(" FROM ").nth(1).and_then(|rest| rest.split_whitespace().next());
                let condition = select.split_once(" WHERE ").map_or("", |(_, condition)| condition);
                if !skips && !is_one_row(table.unwrap_or_default(), condition, With::OneValueAtATime) {
                    wrong.push(text.clone());
                }
            }
        }
        // One by one, in the order of the ids that are given.
        for (at, _) in text.match_indices(" CROSS JOIN LATERAL (SELECT ") {
            let locks = LOCKS.iter().any(|lock| part(&text[at + 21..]).contains(lock));
            if locks && !text.contains("SKIP LOCKED") && !text[..at].contains("unnest(") {
                wrong.push(text.clone());
            }
        }
    }
    assert!(wrong.is_empty(), "locks in any order:\n{}", wrong.join("\n\n"));
    Ok(())
}

#[test]
fn one_row_is_told_from_several() {
    let one = |table, condition| is_one_row(table, condition, With::OneValue);
    assert!(one("payments", "account_id = $1 AND p.id = $2"));
    assert!(!one("payments", "account_id = $1 AND p.id = ANY ($2)"));
    assert!(!one("payments", "p.id = c.id") && is_one_row("payments", "p.id = c.id", With::OneValueAtATime));
    assert!(!one("invoices", "i.account_id = $1 AND i.customer_id = $2"));
    assert!(one("test_clocks", "account_id = $1") && !one("payments", "account_id = $1"));
    assert_eq!(writes("SELECT 1 FROM t WHERE id = $1 FOR NO KEY UPDATE"), []);
    let two = writes("WITH a AS (DELETE FROM t WHERE x = $1) UPDATE u SET y = 1");
    assert_eq!(two, [("u", "u SET y = 1"), ("t", "t WHERE x = $1")]);
}
