//! The baseline: the throughput of pgbench on the same Postgres with the rows and commits of a payment and nothing
//! else. No system that writes these rows durably can be faster on this machine.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use sqlx::{Connection, PgConnection};
use tokio::process::Command;

use crate::tools;

/// Payments per second with `clients`.
pub(super) async fn per_second(database_url: &str, directory: &Path, clients: usize, seconds: u64) -> Result<f64> {
    let (account, provider_account) = any_account(database_url).await?;
    pgbench(database_url, directory, &payment(&account, &provider_account), clients, seconds).await
}

/// Reads of one payment per second with `clients`: the table access of a retrieval and nothing else.
pub(super) async fn reads_per_second(
    database_url: &str,
    directory: &Path,
    clients: usize,
    seconds: u64,
) -> Result<f64> {
    let mut connection = PgConnection::connect(database_url).await?;
    let id: String = sqlx::query_scalar("SELECT max(id::text) FROM payments").fetch_one(&mut connection).await?;
    let read =
        format!("SELECT p.*, a.mode FROM payments p JOIN accounts a ON a.id = p.account_id WHERE p.id = '{id}';\n");
    pgbench(database_url, directory, &read, clients, seconds).await
}

/// Runs a script with `clients` and returns its rate per second.
async fn pgbench(database_url: &str, directory: &Path, script: &str, clients: usize, seconds: u64) -> Result<f64> {
    let file = directory.join("baseline.sql");
    fs::write(&file, script)?;
    let output = Command::from(tools::postgres_programs()?.program("pgbench"))
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2"])
        .args([format!("--client={clients}"), format!("--time={seconds}"), format!("--define=n={}", random_start())])
        .arg(format!("--file={}", file.display()))
        .arg(database_url)
        .output()
        .await
        .context("cannot start pgbench")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
    let tps = stdout.lines().find_map(|line| line.strip_prefix("tps = ")).context("pgbench printed no rate")?;
    Ok(tps.split_whitespace().next().unwrap_or_default().parse()?)
}

/// A random start for the ids, so that they differ from those of earlier runs.
fn random_start() -> u64 {
    let mut bytes = [0u8; 4];
    let _ = getrandom::fill(&mut bytes);
    u64::from(u32::from_be_bytes(bytes)) << 15
}

async fn any_account(database_url: &str) -> Result<(String, String)> {
    let mut connection = PgConnection::connect(database_url).await?;
    let row = sqlx::query_as("SELECT id::text, provider_account_id::text FROM accounts LIMIT 1");
    Ok(row.fetch_one(&mut connection).await?)
}

/// The four commits of a payment: intent, claim, the provider's own record, outcome. Ids increase with time, like ours.
fn payment(account: &str, provider_account: &str) -> String {
    let id = "(lpad(to_hex(:n::bigint), 16, '0') || lpad(to_hex(:client_id::bigint), 16, '0'))::uuid";
    let payload = "x".repeat(550);
    format!(
        r#"\set n :n + 1
WITH payment AS (INSERT INTO payments (id, account_id, provider_account_id, status, capture, currency, amount_requested, amount, created_at)
    VALUES ({id}, '{account}', '{provider_account}', 'processing', true, 'USD', 1250, 1250, now()))
INSERT INTO operations (id, account_id, payment_id, provider_account_id, kind, reference, amount, currency, upstream_token, next_push_at, reply_to, request_id, created_at)
    VALUES ({id}, '{account}', {id}, '{provider_account}', 'sale', 'op_' || {id}, 1250, 'USD', 'tok_ok', now() + interval '3 seconds', 'api-0123456789abcdef', 'req_01M7Y0XVFMMH2ZAH81RQRJA8EH', now());
UPDATE operations SET state = 'sending', fence = fence + 1, lease_until = now() + interval '20 seconds', next_push_at = now() + interval '21 seconds',
    first_sent_at = now(), last_sent_at = now() WHERE id = {id};
INSERT INTO mock.transactions (id, account, kind, reference, approved, amount, currency, nature, occurred_at, unique_reference)
    VALUES ('mock_' || {id}, '{provider_account}', 'sale', 'op_' || {id}, true, 1250, 'USD', 'tok_ok', now(), 'op_' || {id});
WITH payment AS (UPDATE payments SET status = 'pending_settlement', amount_captured = 1250, card_brand = 'visa', card_last4 = '4242', card_exp_month = 12,
    card_exp_year = 2034, provider_ref = 'mock_' || {id}, captured_at = now(), inquiry_at = now() + interval '60 seconds' WHERE id = {id} RETURNING id),
operation AS (UPDATE operations o SET state = 'succeeded', provider_ref = 'mock_' || {id}, finished_at = now(), next_push_at = NULL, lease_until = NULL,
    upstream_token = NULL FROM payment WHERE o.id = {id})
INSERT INTO events (id, account_id, type, payload, created_at) SELECT {id}, '{account}', 'payment.captured', '{payload}', now() FROM payment;
"#
    )
}
