//! Checks every statement in `.sqlx`: a statement that writes or locks several rows locks them in the order of their
//! ids or skips locked rows (docs/architecture.md, Lock order).

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

/// The columns, besides `id`, that identify a single row of a table. A table may have several such keys.
const KEYS: [(&str, &[&str]); 26] = [
    ("checkout_sessions", &["id_hash"]),
    ("collection_attempts", &["account_id", "payment_id"]),
    ("idempotency_keys", &["account_id", "payment_id"]),
    ("logos", &["account_id"]),
    ("payments", &["provider_account_id", "provider_ref"]),
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
    ("creation_keys", &["account_id", "operation", "key"]),
    ("figure_cursors", &["account_id"]),
    ("user_actions", &["nonce"]),
    ("user_invitations", &["token_hash"]),
    ("user_passkey_challenges", &["cookie_hash"]),
    ("user_sessions", &["cookie_hash"]),
    ("user_sign_ins", &["cookie_hash"]),
    ("gateway.volumes", &["account_id", "month", "currency"]),
    ("receipt_refusals", &["account_id", "customer_id"]),
];

/// Tables with a single row.
const SINGLE_ROW: [&str; 2] = ["sealing", "gateway.key_hashes"];

/// Statements whose rows an earlier statement of the same transaction has locked; or which only the deletion of their
/// customer, whose row is locked, locks several of; or passkeys of a user, which only a transaction that has locked the
/// user's row locks.
const ROWS_ALREADY_LOCKED: [&str; 10] = [
    "UPDATE invoices i SET attempt_count = due.number",
    "UPDATE subscriptions s SET status = n.status",
    "UPDATE recurring_invoices r SET status = n.status",
    "UPDATE webhook_pending SET erased = true WHERE account_id = $1 AND event_id = ANY ($2)",
    "UPDATE events v SET payload = split_part(",
    "UPDATE webhook_deliveries d SET response_body = NULL",
    "UPDATE payment_methods SET status = 'failed', detached_at = coalesce(detached_at, $3)",
    "DELETE FROM addresses WHERE account_id = $1 AND customer_id = $2",
    "DELETE FROM creation_keys c USING k WHERE c.id = k.id",
    "DELETE FROM user_passkeys WHERE user_id = $1",
];

/// Locks several sessions of a user whose row is locked; all other statements wait for one session at most.
const ONLY_ONE_LOCKS_SEVERAL: &str =
    "SELECT cookie_hash FROM user_sessions WHERE user_id = $1 AND cookie_hash <> $2 ORDER BY cookie_hash FOR UPDATE";

const LOCKS: [&str; 4] = ["FOR NO KEY UPDATE", "FOR UPDATE", "FOR SHARE", "FOR KEY SHARE"];

/// The text of each statement on one line, without comments.
fn statements() -> Result<Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no parent")?.join(".sqlx");
    let mut statements = Vec::new();
    for entry in fs::read_dir(folder)? {
        let described: Value = serde_json::from_slice(&fs::read(entry?.path())?)?;
        let text = described["query"].as_str().context("no query")?;
        let lines = text.lines().map(|line| line.split("--").next().unwrap_or_default());
        statements.push(lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" "));
    }
    assert!(statements.len() > 200, "only {} statements", statements.len());
    Ok(statements)
}

/// The text up to the parenthesis that closes it.
fn until_closing_parenthesis(text: &str) -> &str {
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

/// The operand of a comparison with a column.
#[derive(Clone, Copy)]
enum Operand {
    /// A parameter, a scalar subquery, or the one payment that another part of the statement selects.
    SingleValue,
    /// That, or a column of the row that a lateral subquery is evaluated for.
    SingleValuePerRow,
}

/// The columns that are compared for equality with a single value.
fn compared(text: &str, operand: Operand) -> BTreeSet<&str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_single = |value: &str| match operand {
        Operand::SingleValue => ["$", "payment.id", "(SELECT"].iter().any(|start| value.starts_with(start)),
        Operand::SingleValuePerRow => !value.starts_with("ANY"),
    };
    let equal = words.windows(3).filter(|three| three[1] == "=" && is_single(three[2]));
    equal.map(|three| three[0].trim_start_matches('(')).map(|name| name.rsplit('.').next().unwrap_or(name)).collect()
}

/// Whether a condition matches at most one row of a table.
fn is_one_row(table: &str, condition: &str, operand: Operand) -> bool {
    let compared = compared(condition, operand);
    let mut keys = KEYS.iter().filter(|(name, _)| *name == table).map(|(_, columns)| *columns);
    SINGLE_ROW.contains(&table)
        || compared.contains("id")
        || keys.any(|columns| columns.iter().all(|column| compared.contains(column)))
}

/// The tables that a statement writes, each with the text from its name on.
fn writes(text: &str) -> Vec<(&str, &str)> {
    let mut writes = Vec::new();
    for verb in ["UPDATE ", "DELETE FROM "] {
        for (at, _) in text.match_indices(verb) {
            let is_lock = text[..at].ends_with("FOR ") || text[..at].ends_with("KEY ") || text[..at].ends_with("DO ");
            let rest = until_closing_parenthesis(&text[at + verb.len()..]);
            if !is_lock {
                writes.push((rest.split_whitespace().next().unwrap_or_default(), rest));
            }
        }
    }
    writes
}

#[test]
fn writes_of_several_rows_lock_them_first() -> Result<()> {
    let mut wrong = Vec::new();
    for text in statements()? {
        // A lock that skips locked rows or follows ordered ids: the next test checks those.
        let locks_first = LOCKS[..2].iter().any(|lock| text.contains(lock));
        let already_locked = ROWS_ALREADY_LOCKED.iter().any(|statement| text.contains(statement));
        for (table, rest) in writes(&text) {
            let condition = rest.split_once(" WHERE ").map_or("", |(_, condition)| condition);
            if !locks_first && !already_locked && !is_one_row(table, condition, Operand::SingleValue) {
                wrong.push(text.clone());
            }
        }
    }
    assert!(wrong.is_empty(), "these write several rows without locking them in order:\n{}", wrong.join("\n\n"));
    Ok(())
}

#[test]
fn locks_that_wait_lock_one_row_or_follow_ordered_ids() -> Result<()> {
    let mut wrong = Vec::new();
    for text in statements()?.into_iter().filter(|text| !text.contains(ONLY_ONE_LOCKS_SEVERAL)) {
        for lock in LOCKS {
            for (at, _) in text.match_indices(lock) {
                let skips =
                    until_closing_parenthesis(&text[at..]).split_whitespace().take(8).any(|word| word == "SKIP");
                // The SELECT that this lock clause ends.
                let select = text[..at].rfind("SELECT ").map_or("", |begin| &text[begin..at]);
                let table = select.split(" FROM ").nth(1).and_then(|rest| rest.split_whitespace().next());
                let condition = select.split_once(" WHERE ").map_or("", |(_, condition)| condition);
                if !skips && !is_one_row(table.unwrap_or_default(), condition, Operand::SingleValuePerRow) {
                    wrong.push(text.clone());
                }
            }
        }
        // A lateral subquery locks row by row, in the order of the ids passed to unnest.
        for (at, _) in text.match_indices(" CROSS JOIN LATERAL (SELECT ") {
            let subquery = until_closing_parenthesis(&text[at + 21..]);
            let locks = LOCKS.iter().any(|lock| subquery.contains(lock));
            if locks && !text.contains("SKIP LOCKED") && !text[..at].contains("unnest(") {
                wrong.push(text.clone());
            }
        }
    }
    assert!(wrong.is_empty(), "these lock several rows in no fixed order:\n{}", wrong.join("\n\n"));
    Ok(())
}

/// An insert waits for a concurrent one that has the same key: of two that insert the same keys in different orders, each
/// would wait for the other.
#[test]
fn inserts_of_several_rows_that_may_conflict_are_ordered() -> Result<()> {
    let mut wrong = Vec::new();
    for text in statements()? {
        for (at, _) in text.match_indices("INSERT INTO ") {
            let insert = until_closing_parenthesis(&text[at..]);
            let Some((rows, _)) = insert.split_once(" ON CONFLICT") else { continue };
            let Some((_, source)) = rows.split_once(" SELECT ").and_then(|(_, select)| select.split_once(" FROM "))
            else {
                continue;
            };
            let table = source.split_whitespace().next().unwrap_or_default();
            let condition = source.split_once(" WHERE ").map_or("", |(_, condition)| condition);
            if !source.contains(" ORDER BY ") && !is_one_row(table, condition, Operand::SingleValue) {
                wrong.push(text.clone());
            }
        }
    }
    assert!(wrong.is_empty(), "these insert several rows in no fixed order:\n{}", wrong.join("\n\n"));
    Ok(())
}

#[test]
fn conditions_for_one_row_are_recognized() {
    let one = |table, condition| is_one_row(table, condition, Operand::SingleValue);
    assert!(one("payments", "account_id = $1 AND p.id = $2"));
    assert!(!one("payments", "account_id = $1 AND p.id = ANY ($2)"));
    assert!(!one("payments", "p.id = c.id") && is_one_row("payments", "p.id = c.id", Operand::SingleValuePerRow));
    assert!(!one("invoices", "i.account_id = $1 AND i.customer_id = $2"));
    assert!(one("test_clocks", "account_id = $1") && !one("payments", "account_id = $1"));
    assert_eq!(writes("SELECT 1 FROM t WHERE id = $1 FOR NO KEY UPDATE"), []);
    let two = writes("WITH a AS (DELETE FROM t WHERE x = $1) UPDATE u SET y = 1");
    assert_eq!(two, [("u", "u SET y = 1"), ("t", "t WHERE x = $1")]);
}
