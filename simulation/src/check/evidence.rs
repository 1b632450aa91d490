//! What a history leaves.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::Value;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::auditor::State;
use crate::client::{ReceivedResponse, Response};
use crate::history::{Fault, History, Request};
use crate::receiver::Delivery;
use crate::system::Role;

/// Counts what is not final yet, except payments that wait for a manual review.
pub const UNFINISHED: &str = "WITH review AS (
        SELECT payment_id FROM operations WHERE state = 'unknown' AND next_push_at IS NULL)
    SELECT (SELECT count(*) FROM payments p WHERE NOT EXISTS (SELECT FROM review r WHERE r.payment_id = p.id)
            AND (status = 'processing' OR (amount_captured > 0 AND NOT settled AND status <> 'cancelled')))
        + (SELECT count(*) FROM webhook_pending)
        + (SELECT count(*) FROM test_clocks WHERE target IS NOT NULL)
        + (SELECT count(*) FROM operations o WHERE state NOT IN ('succeeded', 'failed', 'declined')
            AND NOT EXISTS (SELECT FROM review r WHERE r.payment_id = o.payment_id))";

/// The payments whose outcome at a provider of class C only a person can find out.
const IN_REVIEW: &str = "SELECT DISTINCT payment_id FROM operations
    WHERE state = 'unknown' AND next_push_at IS NULL AND payment_id IS NOT NULL";

/// Counts the events.
pub const EVENTS: &str = "SELECT count(*) FROM events";

/// All that the checks use.
pub struct Evidence<'a> {
    /// What was requested.
    pub history: &'a History,
    /// The responses, in the order of the requests.
    pub responses: &'a [Option<Response>],
    /// What the API shows at the end.
    pub state: State,
    /// What arrived at the webhook endpoint, in order.
    pub deliveries: Vec<Delivery>,
    /// The secret of the endpoint.
    pub secret: String,
    /// The mock provider's ledger.
    pub ledger: Vec<Line>,
    /// What only the database shows.
    pub books: Books,
}

/// A transaction in the ledger of the mock provider.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The provider's name for it.
    pub id: String,
    /// `sale`, `authorize`, `capture`, `void` or `refund`.
    pub kind: String,
    /// The charge that it belongs to.
    pub parent: Option<String>,
    /// The payment whose operation has its reference.
    pub payment: Option<String>,
    /// Otherwise declined.
    pub approved: bool,
    /// Why it was declined.
    pub decline_code: Option<String>,
    /// In minor units.
    pub amount: i64,
    /// The currency.
    pub currency: String,
    /// Of a charge.
    pub settled: bool,
    /// Of a charge.
    pub expired: bool,
    /// Of a charge.
    pub voided: bool,
    /// By the clock of the account, in milliseconds since 1970.
    pub occurred_ms: i64,
}

impl Line {
    /// Whether it is an approved sale or authorization.
    pub fn is_charge(&self) -> bool {
        self.approved && ["sale", "authorize"].contains(&self.kind.as_str())
    }
}

/// What only the database shows.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// The payloads of all events.
    pub events: Vec<Value>,
    /// Charges that were recorded a second time, that belong to no operation, or that differ from the payment.
    pub differences: i64,
    /// The payments that wait for a manual review.
    pub in_review: BTreeSet<String>,
}

impl Evidence<'_> {
    /// The requests with the responses that were received.
    pub fn responses(&self) -> impl Iterator<Item = (&Request, &ReceivedResponse)> {
        self.history.requests.iter().zip(self.responses).filter_map(|(timed, response)| match response {
            Some(Response::Received(response)) => Some((&timed.request, response)),
            Some(Response::Lost | Response::Skipped) | None => None,
        })
    }

    /// Whether the outcome of a payment, at a provider of class C, is left to a person.
    pub fn is_in_review(&self, payment: &Value) -> bool {
        payment["id"].as_str().is_some_and(|id| self.books.in_review.contains(id))
    }

    /// Whether an invoice or a payment link has a payment in review.
    pub fn awaits_review(&self, payable: &Value) -> bool {
        self.state.all("payment").any(|payment| {
            self.is_in_review(payment) && [&payment["invoiceId"], &payment["paymentLinkId"]].contains(&&payable["id"])
        })
    }

    /// Whether the clock of a process that this concerns may have been wrong.
    pub fn has_wrong_clock(&self, concerned: impl Fn(Role) -> bool) -> bool {
        let faults = &self.history.faults;
        faults.iter().any(|step| matches!(step.fault, Fault::WallClock { role, .. } if concerned(role)))
    }
}

type Row = (String, String, Option<String>, Option<Uuid>, bool, Option<String>, i64, String, bool, bool, bool, i64);

const LEDGER: &str = "SELECT t.id, t.kind, t.parent, o.payment_id, t.approved, t.decline_code, t.amount, t.currency,
        t.settled_at IS NOT NULL, t.expired_at IS NOT NULL, t.voided_at IS NOT NULL,
        (extract(epoch FROM t.occurred_at) * 1000)::bigint
    FROM mock.transactions t LEFT JOIN operations o ON o.reference = t.reference AND o.provider_account_id = t.account
    ORDER BY t.created_at, t.id";

const DIFFERENCES: &str = "SELECT (SELECT count(*) FROM charge_anomalies) + (SELECT count(*) FROM orphans)
    + (SELECT count(*) FROM book_differences)";

/// Reads the database.
///
/// # Errors
/// If it cannot be read.
pub async fn read_books(database_url: &str) -> Result<(Vec<Line>, Books)> {
    let mut db = PgConnection::connect(database_url).await?;
    let rows: Vec<Row> = sqlx::query_as(LEDGER).fetch_all(&mut db).await?;
    let ledger = rows.into_iter().map(|row| {
        let (id, kind, parent, payment, approved, decline_code, amount, currency, settled, expired, voided, at) = row;
        let payment = payment.map(payment_id);
        #[rustfmt::skip]
        let line = Line {
            id, kind, parent, payment, approved, decline_code, amount, currency, settled, expired, voided, occurred_ms: at,
        };
        line
    });
    let ledger = ledger.collect();
    let payloads: Vec<String> = sqlx::query_scalar("SELECT payload FROM events ORDER BY id").fetch_all(&mut db).await?;
    let events = payloads.iter().map(|payload| serde_json::from_str(payload).unwrap_or_default()).collect();
    let differences = sqlx::query_scalar(DIFFERENCES).fetch_one(&mut db).await?;
    let in_review: Vec<Uuid> = sqlx::query_scalar(IN_REVIEW).fetch_all(&mut db).await?;
    let in_review = in_review.into_iter().map(payment_id).collect();
    Ok((ledger, Books { events, differences, in_review }))
}

fn payment_id(uuid: Uuid) -> String {
    format!("pay_{}", ulid::Ulid::from_bytes(*uuid.as_bytes()))
}
