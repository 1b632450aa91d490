//! What must hold after a history, written from the documentation of the API and of the mock provider.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::client::Response;
use crate::history::History;

/// Each query counts violations.
const QUERIES: &[(&str, &str)] = &[
    (
        "an approved charge at the provider has no payment that shows it",
        "SELECT count(*) FROM mock.transactions t WHERE t.approved AND t.kind IN ('sale', 'authorize')
         AND t.voided_at IS NULL AND NOT EXISTS (SELECT FROM payments p WHERE p.provider_account_id = t.account
             AND p.provider_ref = t.id AND p.amount = t.amount AND p.status NOT IN ('processing', 'declined', 'failed'))
         AND NOT EXISTS (SELECT FROM operations o WHERE o.reference = t.reference
             AND o.provider_account_id = t.account AND o.state = 'unknown' AND o.next_push_at IS NULL)",
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
             AND t.kind = 'refund' AND t.approved)
         AND NOT EXISTS (SELECT FROM operations o WHERE o.payment_id = p.id
             AND o.state = 'unknown' AND o.next_push_at IS NULL)",
    ),
    ("a second charge was recorded", "SELECT count(*) FROM charge_anomalies"),
    (
        "an invoice has other than one payment that paid it",
        "SELECT count(*) FROM invoices i WHERE i.status = 'paid' AND 1 <> (SELECT count(*) FROM payments p
             WHERE p.invoice_id = i.id AND p.status NOT IN ('processing', 'declined', 'failed', 'cancelled'))",
    ),
    (
        "an invoice that is not paid has a payment",
        "SELECT count(*) FROM invoices i WHERE i.status <> 'paid' AND EXISTS (SELECT FROM payments p
             WHERE p.invoice_id = i.id AND p.status NOT IN ('processing', 'declined', 'failed', 'cancelled', 'refunded'))",
    ),
    (
        "the numbers of the invoices have gaps",
        "SELECT max(number) - count(number) FROM invoices HAVING max(number) <> count(number)",
    ),
    (
        "a subscription has two invoices for one period",
        "SELECT count(*) FROM (SELECT FROM invoices WHERE subscription_id IS NOT NULL
             GROUP BY subscription_id, billing_period HAVING count(*) > 1) twice",
    ),
];

/// What a history leaves besides the database.
pub struct Evidence<'a> {
    /// What was requested.
    pub history: &'a History,
    /// The responses, in the order of the requests.
    pub responses: &'a [Option<Response>],
    /// How often the endpoint acknowledged each event.
    pub acknowledged: BTreeMap<String, u64>,
}

/// Counts what is not final yet, except what only a person can finish: the outcome at a provider of class C is unknown,
/// and a refund waits for it.
pub const UNFINISHED: &str = "WITH review AS (
        SELECT payment_id FROM operations WHERE state = 'unknown' AND next_push_at IS NULL)
    SELECT (SELECT count(*) FROM payments p WHERE status = 'processing'
               AND NOT EXISTS (SELECT FROM review r WHERE r.payment_id = p.id))
         + (SELECT count(*) FROM webhook_pending)
         + (SELECT count(*) FROM operations o WHERE state NOT IN ('succeeded', 'failed', 'declined')
               AND NOT EXISTS (SELECT FROM review r WHERE r.payment_id = o.payment_id))";

/// Returns a sentence for each violation.
///
/// # Errors
/// If the database cannot be read.
pub async fn check(evidence: &Evidence<'_>, database_url: &str) -> Result<Vec<String>> {
    let mut db = PgConnection::connect(database_url).await?;
    let mut violations = Vec::new();
    for (sentence, query) in QUERIES {
        let count: i64 = sqlx::query_scalar(*query).fetch_optional(&mut db).await?.unwrap_or(0);
        if count > 0 {
            violations.push(format!("{sentence} ({count})"));
        }
    }
    let events: Vec<Uuid> = sqlx::query_scalar("SELECT id FROM events").fetch_all(&mut db).await?;
    for id in events.into_iter().map(|id| api_id("evt_", id)) {
        if !evidence.acknowledged.contains_key(&id) {
            violations.push(format!("the endpoint has not acknowledged {id}"));
        }
    }
    let payments: Vec<(Uuid, i64)> =
        sqlx::query_as("SELECT id, amount_requested FROM payments").fetch_all(&mut db).await?;
    let mut of_key: BTreeMap<&str, &str> = BTreeMap::new();
    for (timed, response) in evidence.history.requests.iter().zip(evidence.responses) {
        let (request, Some(Response::Received(status, body))) = (&timed.request, response) else { continue };
        if *status == 500 && !evidence.history.breaks_postgres() {
            violations.push(format!("{request} returned 500: {body}"));
        }
        if request.path != "/payments" || *status >= 300 {
            continue;
        }
        let (Some(id), Some(sent)) = (body["id"].as_str(), &request.body) else { continue };
        match payments.iter().find(|(uuid, _)| api_id("pay_", *uuid) == id) {
            None => violations.push(format!("{id} was acknowledged and does not exist")),
            Some((_, requested)) if sent["amount"] != *requested => {
                violations.push(format!("{id} is a payment of {requested} instead of {}", sent["amount"]));
            }
            Some(_) => {}
        }
        if let Some(first) = request.key.as_ref().and_then(|key| of_key.insert(key, id))
            && first != id
        {
            violations.push(format!("one key made the payments {first} and {id}"));
        }
    }
    Ok(violations)
}

fn api_id(prefix: &str, uuid: Uuid) -> String {
    format!("{prefix}{}", ulid::Ulid::from_bytes(*uuid.as_bytes()))
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
