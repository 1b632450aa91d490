//! What must hold after a history, written from the documentation of the API and of the mock provider.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;
use sqlx::{Connection as _, PgConnection};

use crate::client::Response;
use crate::history::{History, Request};

/// Each query counts violations.
const QUERIES: &[(&str, &str)] = &[
    (
        "an approved charge at the provider has no payment that shows it",
        "SELECT count(*) FROM mock.transactions t WHERE t.approved AND t.kind IN ('sale', 'authorize')
         AND t.voided_at IS NULL AND NOT EXISTS (SELECT FROM payments p WHERE p.provider_account_id = t.account
             AND p.provider_ref = t.id AND p.amount = t.amount AND p.status NOT IN ('processing', 'declined', 'failed'))",
    ),
    (
        "a payment has more than one approved charge",
        "SELECT count(*) FROM payments p WHERE 1 < (SELECT count(*) FROM mock.transactions t JOIN operations o
             ON o.reference = t.reference AND o.provider_account_id = t.account
         WHERE o.payment_id = p.id AND t.approved AND t.kind IN ('sale', 'authorize') AND t.voided_at IS NULL)",
    ),
    (
        "a payment shows money that the provider has not charged",
        "SELECT count(*) FROM payments p WHERE p.status NOT IN ('processing', 'declined', 'failed', 'cancelled')
         AND NOT EXISTS (SELECT FROM mock.transactions t WHERE t.account = p.provider_account_id
             AND t.id = p.provider_ref AND t.approved)",
    ),
    (
        "the refunds of a payment differ from the provider's",
        "SELECT count(*) FROM payments p WHERE p.amount_refunded <> (SELECT coalesce(sum(t.amount), 0)
             FROM mock.transactions t WHERE t.account = p.provider_account_id AND t.parent = p.provider_ref
             AND t.kind = 'refund' AND t.approved)",
    ),
    ("a second charge was recorded", "SELECT count(*) FROM charge_anomalies"),
];

/// What is not final yet.
const UNFINISHED: &str = "SELECT (SELECT count(*) FROM payments WHERE status = 'processing')
    + (SELECT count(*) FROM operations WHERE state NOT IN ('succeeded', 'failed', 'declined'))";

/// Whether all work is finished.
///
/// # Errors
/// If the database cannot be read.
pub async fn is_quiet(database_url: &str) -> Result<bool> {
    let mut db = PgConnection::connect(database_url).await?;
    let unfinished: i64 = sqlx::query_scalar(UNFINISHED).fetch_one(&mut db).await?;
    db.close().await?;
    Ok(unfinished == 0)
}

/// Returns a sentence for each violation.
///
/// # Errors
/// If the database cannot be read.
pub async fn check(history: &History, responses: &[Option<Response>], database_url: &str) -> Result<Vec<String>> {
    let mut db = PgConnection::connect(database_url).await?;
    let mut violations = Vec::new();
    for (sentence, query) in QUERIES {
        let count: i64 = sqlx::query_scalar(*query).fetch_one(&mut db).await?;
        if count > 0 {
            violations.push(format!("{sentence} ({count})"));
        }
    }
    let payments: Vec<(uuid::Uuid, i64)> =
        sqlx::query_as("SELECT id, amount_requested FROM payments").fetch_all(&mut db).await?;
    let mut of_key: BTreeMap<u64, &str> = BTreeMap::new();
    for (timed, response) in history.requests.iter().zip(responses) {
        let Some(Response::Received(status, body)) = response else { continue };
        if *status == 500 && !history.breaks_postgres() {
            violations.push(format!("{:?} returned 500: {body}", timed.request));
        }
        let Request::Pay { amount, key, .. } = &timed.request else { continue };
        let Some(id) = body["id"].as_str().filter(|_| *status < 300) else { continue };
        let found = payments.iter().find(|(uuid, _)| api_id(*uuid) == id);
        match found {
            None => violations.push(format!("{id} was acknowledged and does not exist")),
            Some((_, requested)) if u64::try_from(*requested) != Ok(*amount) => {
                violations.push(format!("{id} is a payment of {requested} instead of {amount}"));
            }
            Some(_) => {}
        }
        if let Some(first) = key.and_then(|key| of_key.insert(key, id))
            && first != id
        {
            violations.push(format!("one key made the payments {first} and {id}"));
        }
    }
    Ok(violations)
}

fn api_id(uuid: uuid::Uuid) -> String {
    format!("pay_{}", ulid::Ulid::from_bytes(*uuid.as_bytes()))
}

/// The statuses of all responses, for the report.
pub fn statuses(responses: &[Option<Response>]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for response in responses {
        let name = match response {
            Some(Response::Received(status, Value::Object(_))) => status.to_string(),
            Some(Response::Received(status, _)) => format!("{status} without an object"),
            Some(Response::Lost) => "lost".to_owned(),
            Some(Response::Skipped) => "skipped".to_owned(),
            None => "none".to_owned(),
        };
        *counts.entry(name).or_default() += 1;
    }
    counts
}
