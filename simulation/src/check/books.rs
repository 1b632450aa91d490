//! The books of the provider, and what only the database shows of ours.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use serde_json::Value;
use sqlx::{Connection as _, FromRow, PgConnection};
use uuid::Uuid;

use crate::history::Provider;

/// A sentence for what is not final yet, except payments that wait for a manual review.
pub const UNFINISHED: &str = "WITH review AS (
        SELECT payment_id FROM operations WHERE state = 'unknown' AND next_push_at IS NULL)
    SELECT format('payment %s is %s', id, status) FROM payments p
    WHERE (status = 'processing' OR (amount_captured > 0 AND NOT settled AND status <> 'cancelled'))
        AND NOT EXISTS (SELECT FROM review r WHERE r.payment_id = p.id)
    UNION ALL SELECT format('event %s is not delivered', event_id) FROM webhook_pending
    UNION ALL SELECT format('the clock advances from %s to %s', frozen_at, target) FROM test_clocks WHERE target IS NOT NULL
    UNION ALL SELECT format('dispute %s is %s, and decided', m.id, coalesce(d.status::text, 'unknown'))
    FROM mock.disputes m JOIN payments p ON p.provider_account_id = m.account AND p.provider_ref = m.charge
        LEFT JOIN disputes d ON d.provider_account_id = m.account AND d.provider_ref = m.id
    WHERE (d.id IS NULL OR (d.closed_at IS NULL
            AND m.opened_at + interval '240 hours' <= account_now(p.account_id, clock_timestamp())))
        AND NOT EXISTS (SELECT FROM review r WHERE r.payment_id = p.id)
    UNION ALL SELECT format('disputed money is missing: %s', provider_ref) FROM book_differences
    WHERE resolved_at IS NULL AND difference = 'missing_with_us' AND entry IN ('dispute_withdrawn', 'dispute_reinstated')
    UNION ALL SELECT format('the gateway recovers %s', id) FROM gateway.transactions WHERE recover_at IS NOT NULL
    UNION ALL SELECT format('operation %s of payment %s is %s, due at %s', kind, payment_id, state, next_push_at)
    FROM operations o WHERE state NOT IN ('succeeded', 'failed', 'declined')
        AND NOT EXISTS (SELECT FROM review r WHERE r.payment_id = o.payment_id)
    LIMIT 20";

/// Counts what may be sent to the provider soon.
pub const SENDING: &str = "SELECT (SELECT count(*) FROM test_clocks WHERE target IS NOT NULL)
    + (SELECT count(*) FROM operations
        WHERE state NOT IN ('succeeded', 'failed', 'declined') AND next_push_at < clock_timestamp() + interval '1 minute')";

/// The time of a test clock that is advancing.
pub const CLOCK: &str = "SELECT frozen_at FROM test_clocks WHERE target IS NOT NULL";

/// Counts the events.
pub const EVENTS: &str = "SELECT count(*) FROM events";

/// The disputes that our books have: Stripe's id and the status.
pub const KNOWN_DISPUTES: &str = "SELECT provider_ref || ' ' || status::text FROM disputes";

/// The days of the account on which disputed money moved.
pub const DISPUTE_DAYS: &str = "SELECT DISTINCT to_char(m.moved_at AT TIME ZONE a.timezone, 'YYYY-MM-DD') AS day
    FROM disputes d JOIN accounts a ON a.id = d.account_id
        CROSS JOIN LATERAL (VALUES (d.created_at), (CASE WHEN d.status = 'won' THEN d.closed_at END)) m (moved_at)
    WHERE m.moved_at IS NOT NULL ORDER BY day";

/// A transaction in a provider's ledger.
#[derive(Clone, Debug, Default, FromRow)]
pub struct Line {
    /// Whose ledger.
    #[sqlx(skip)]
    pub provider: Provider,
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
    /// In minor units, with the provider's fee.
    pub amount: i64,
    /// The currency.
    pub currency: String,
    /// Whether a charge has settled.
    pub settled: bool,
    /// Whether a charge has expired.
    pub expired: bool,
    /// Whether a charge was voided.
    pub voided: bool,
    /// When it was processed, in milliseconds since 1970: at the mock by the clock of the account, elsewhere by its own.
    pub occurred_ms: i64,
    /// When the money moved, in microseconds since 1970.
    pub booked_us: i64,
    /// The state of the operation that has its reference.
    pub state: Option<String>,
    /// The provider's name for it that the operation has.
    pub recorded: Option<String>,
}

impl Line {
    /// Whether it is an approved sale or authorization.
    pub fn is_charge(&self) -> bool {
        self.approved && ["sale", "authorize"].contains(&self.kind.as_str())
    }
}

/// A charge that belongs to no payment and must be returned.
#[derive(Clone, Debug, Default, FromRow)]
pub struct Anomaly {
    /// The payment that was to be charged.
    pub payment: String,
    /// The provider's name for the charge.
    pub charge: String,
    /// Whether the provider charged another amount than requested; otherwise it is a second charge.
    pub is_mismatch: bool,
    /// Whether its reversal succeeded, or an operator returned it.
    pub is_returned: bool,
}

/// A request that charges a card was allowed to be sent, and certainly none had been before that could take effect.
#[derive(Clone, Debug, Default, FromRow)]
pub struct Sent {
    /// The payment.
    pub payment: String,
    /// In microseconds since 1970.
    pub at_us: i64,
}

/// A refund or a collection that nobody waits for, and that has failed.
#[derive(Clone, Debug, Default, FromRow)]
pub struct GivenUp {
    /// The payment.
    pub payment: String,
    /// `refund`, or that of a charge.
    pub kind: String,
    /// How long it was tried, in milliseconds.
    pub tried_ms: i64,
    /// Whether the provider has refused it; otherwise it has processed nothing.
    pub is_refused: bool,
}

/// A card that a payer's page saves with a payment, to be charged for renewals if that is approved.
#[derive(Clone, Debug, Default, FromRow)]
pub struct PageCard {
    /// Its id.
    pub card: String,
    /// The payment.
    pub payment: String,
    /// Our reference of the request to save it.
    pub reference: String,
    /// Its status at the end.
    pub status: String,
    /// When its payment began, in microseconds since 1970.
    pub begun_us: i64,
    /// When it became active, likewise.
    pub accepted_us: Option<i64>,
    /// How often the provider has saved it, if that can be seen there.
    pub stored: i64,
    /// How many charges of it are not of its payment.
    pub charged_again: i64,
}

/// A charge at the card gateway of a card whose issuer requires a challenge.
#[derive(Clone, Debug, Default, FromRow)]
pub struct Challenged {
    /// Its reference.
    pub reference: Option<String>,
    /// The SHA-256 of the secret in the address of the challenge, in hexadecimal digits; `None` without a challenge.
    pub page: Option<String>,
    /// Whether the acquirer has taken the money or reserved it.
    pub is_charged: bool,
}

/// A dispute in a provider's books.
#[derive(Clone, Debug, Default, FromRow)]
pub struct ProviderDispute {
    /// The provider's name for it.
    pub id: String,
    /// The payment of the charge.
    pub payment: Option<String>,
    /// In minor units.
    pub amount: i64,
    /// The currency.
    pub currency: String,
    /// `won` or `lost`, or `needs_response` until it is decided.
    pub status: String,
    /// At the mock, when its status begins, by the clock of the account, in milliseconds since 1970. It needs a response
    /// until then.
    pub decided_ms: Option<i64>,
    /// Whether its issuer decides twice: it is lost, and won later.
    pub is_decided_twice: bool,
    /// What the provider has withdrawn, without what it has given back.
    pub withdrawn: i64,
    /// The dispute of ours that has its name.
    pub ours: Option<String>,
}

/// What is read at Stripe.
#[derive(Clone, Debug, Default)]
pub struct AtStripe {
    /// The lines of its ledger, with our references.
    pub ledger: Vec<(String, Line)>,
    /// Our references of the cards that were saved, once for each time.
    pub saved: Vec<String>,
    /// The disputes, with our references of the charges.
    pub disputes: Vec<(String, ProviderDispute)>,
}

/// What only the database shows.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// The payloads of all events.
    pub events: Vec<Value>,
    /// The charges that belong to no payment.
    pub anomalies: Vec<Anomaly>,
    /// Transactions that belong to no operation, or differ from it.
    pub differences: i64,
    /// Transactions of the card gateway whose outcome is not that of its acquirer.
    pub acquirer_differences: i64,
    /// The first requests of charges.
    pub sent: Vec<Sent>,
    /// The failed refunds and collections.
    pub given_up: Vec<GivenUp>,
    /// The payments whose outcome an operator has entered.
    pub resolved: BTreeSet<String>,
    /// What operators noticed: differences that `ctl reconcile` reports, and outcomes that they could not enter.
    pub noticed: Vec<String>,
    /// The payments that wait for a manual review.
    pub in_review: BTreeSet<String>,
    /// The cards that were saved with a payment, in the order in which they became active.
    pub page_cards: Vec<PageCard>,
    /// How many more cards the card gateway has saved than there are operations that save one there.
    pub surplus_cards: i64,
    /// The disputes of all providers.
    pub disputes: Vec<ProviderDispute>,
    /// How many accounts are connected to an account at a provider that another one is connected to.
    pub shared_accounts: i64,
    /// The charges at the card gateway that need a challenge.
    pub challenged: Vec<Challenged>,
}

const MOCK_LEDGER: &str =
    "SELECT t.id, t.kind, t.parent, o.payment_id::text AS payment, t.approved, t.decline_code, t.amount,
        t.currency, t.settled_at IS NOT NULL AS settled, t.expired_at IS NOT NULL AS expired,
        t.voided_at IS NOT NULL AS voided, (extract(epoch FROM t.occurred_at) * 1000)::bigint AS occurred_ms,
        (extract(epoch FROM t.created_at) * 1000000)::bigint AS booked_us, o.state::text, o.provider_ref AS recorded
    FROM mock.transactions t LEFT JOIN operations o ON o.reference = t.reference AND o.provider_account_id = t.account
    ORDER BY t.created_at, t.id";

/// A transaction that was not processed has moved no money and is left out.
const GATEWAY_LEDGER: &str = "SELECT t.id::text, t.kind, t.parent_id::text AS parent, o.payment_id::text AS payment,
        t.state = 'approved' AS approved,
        CASE WHEN t.reason LIKE 'cardholder authentication %' THEN 'authentication_failed'
            WHEN t.state = 'declined' THEN replace(t.reason, ' ', '_') END AS decline_code,
        t.amount, t.currency, coalesce(NOT t.voided AND t.settles_at <= clock_timestamp(), false) AS settled,
        coalesce(NOT t.voided AND t.captured = 0 AND t.lapses_at <= clock_timestamp(), false) AS expired, t.voided,
        (extract(epoch FROM t.ended_at) * 1000)::bigint AS occurred_ms,
        coalesce((extract(epoch FROM a.created_at) * 1000000)::bigint, 0) AS booked_us, o.state::text,
        o.provider_ref AS recorded
    FROM gateway.transactions t LEFT JOIN gateway.acquirer_books a ON a.reference = t.id
    LEFT JOIN gateway.child_references c ON c.transaction_id = t.id
    LEFT JOIN operations o ON o.reference = CASE WHEN t.parent_id IS NULL THEN t.reference_id ELSE c.reference_id END
    WHERE t.state IN ('approved', 'declined') ORDER BY t.created_at, t.id";

/// The acquirer never hears of what a cardholder has refused or not answered.
const ACQUIRER_DIFFERENCES: &str = "SELECT count(*) FROM gateway.transactions t
    FULL JOIN gateway.acquirer_books a ON a.reference = t.id
    WHERE coalesce(CASE WHEN t.state = 'approved' THEN t.state
            WHEN t.state = 'declined' AND t.reason NOT LIKE 'cardholder authentication %' THEN t.state END, 'none')
        <> coalesce(CASE WHEN a.answer IN ('approved', 'declined') THEN a.answer END, 'none')";

const ANOMALIES: &str = "SELECT c.payment_id::text AS payment, c.provider_ref AS charge,
        c.kind::text = 'amount_mismatch' AS is_mismatch,
        c.returned_at IS NOT NULL OR o.state = 'succeeded' AS is_returned
    FROM charge_anomalies c JOIN operations o ON o.id = c.reversal_operation_id ORDER BY c.id";

const SENT: &str = "SELECT o.payment_id::text AS payment,
        (extract(epoch FROM s.sent_at) * 1000000)::bigint AS at_us
    FROM simulation.sent s JOIN operations o ON o.id = s.operation_id WHERE o.kind IN ('sale', 'authorize')";

const GIVEN_UP: &str = "SELECT o.payment_id::text AS payment, o.kind::text,
        (extract(epoch FROM o.finished_at - o.created_at) * 1000)::bigint AS tried_ms,
        o.failure_code = 'provider_refused' AND NOT EXISTS (
            SELECT FROM gateway.transactions t LEFT JOIN gateway.child_references c ON c.transaction_id = t.id
            WHERE o.reference = CASE WHEN t.parent_id IS NULL THEN t.reference_id ELSE c.reference_id END
                AND t.state = 'failed') AS is_refused
    FROM operations o
    WHERE o.state = 'failed' AND (o.kind = 'refund' OR o.background) AND o.payment_id IS NOT NULL
        AND o.failure_code IN ('provider_refused', 'provider_unavailable')
    ORDER BY o.id";

const RESOLVED: &str = "SELECT detail->>'payment' FROM audit_log
    WHERE action = 'operations.resolve' AND detail->>'payment' IS NOT NULL";

/// Disputed money that is read late is a difference until the dispute is recorded.
const DIFFERENCES: &str = "SELECT (SELECT count(*) FROM orphans)
    + (SELECT count(*) FROM book_differences WHERE resolved_at IS NULL)";

/// The payments whose outcome at a provider of class C only a person can find out.
const IN_REVIEW: &str = "SELECT DISTINCT payment_id::text FROM operations
    WHERE state = 'unknown' AND next_push_at IS NULL AND payment_id IS NOT NULL";

const PAGE_CARDS: &str = "SELECT c.card_id::text AS card, c.payment_id::text AS payment, o.reference,
        m.status::text AS status, (extract(epoch FROM c.changed_at) * 1000000)::bigint AS begun_us,
        (extract(epoch FROM a.changed_at) * 1000000)::bigint AS accepted_us,
        (SELECT count(*) FROM mock.cards k
            WHERE k.account = o.provider_account_id AND k.reference = o.reference) AS stored,
        (SELECT count(*) FROM operations s WHERE s.provider_account_id = o.provider_account_id
            AND s.card_ref = m.provider_ref AND s.payment_id <> c.payment_id) AS charged_again
    FROM simulation.page_cards c JOIN payment_methods m ON m.id = c.card_id
    JOIN operations o ON o.payment_method_id = c.card_id
    LEFT JOIN simulation.page_cards a ON a.card_id = c.card_id AND a.status = 'active'
    WHERE c.status = 'processing' ORDER BY a.id, c.id";

const SURPLUS_CARDS: &str = "SELECT greatest(0, (SELECT count(*) FROM gateway.cards)
    - (SELECT count(*) FROM operations o JOIN provider_accounts p ON p.id = o.provider_account_id
        WHERE o.kind = 'store_card' AND p.provider = 'card_gateway'))";

const MOCK_DISPUTES: &str = "SELECT m.id, o.payment_id::text AS payment, m.amount, t.currency,
        CASE m.nature WHEN 'tok_disputed_won' THEN 'won' ELSE 'lost' END AS status,
        (extract(epoch FROM m.opened_at + interval '240 hours') * 1000)::bigint AS decided_ms,
        false AS is_decided_twice, CASE WHEN m.reinstated_at IS NULL THEN m.amount ELSE 0 END AS withdrawn,
        d.id::text AS ours
    FROM mock.disputes m JOIN mock.transactions t ON t.id = m.charge
    LEFT JOIN operations o ON o.reference = t.reference AND o.provider_account_id = t.account
    LEFT JOIN disputes d ON d.provider_account_id = m.account AND d.provider_ref = m.id ORDER BY m.id";

/// A history has one account at each provider. That at the mock needs no credentials.
const SHARED_ACCOUNTS: &str = "SELECT coalesce(sum(connected - 1), 0)::bigint FROM (
        SELECT count(*) AS connected FROM provider_accounts WHERE credentials IS NOT NULL GROUP BY provider) of_provider";

/// Of the only test card that is challenged.
const CHALLENGED: &str = "SELECT t.reference_id AS reference, encode(t.challenge_hash, 'hex') AS page,
        coalesce(a.answer = 'approved', false) AS is_charged
    FROM gateway.transactions t LEFT JOIN gateway.acquirer_books a ON a.reference = t.id
    WHERE t.parent_id IS NULL AND t.masked LIKE '%3155' ORDER BY t.created_at, t.id";

const OURS: &str = "SELECT id::text FROM disputes WHERE provider_ref = $1";

/// What has this reference.
const OF_REFERENCE: &str = "SELECT payment_id::text, state::text, provider_ref FROM operations WHERE reference = $1 AND payment_id IS NOT NULL";

/// Reads the database.
///
/// # Errors
/// If it cannot be read.
pub async fn read_books(database_url: &str, at_stripe: AtStripe, noticed: Vec<String>) -> Result<(Vec<Line>, Books)> {
    let mut db = PgConnection::connect(database_url).await?;
    let mut ledger: Vec<Line> = sqlx::query_as(MOCK_LEDGER).fetch_all(&mut db).await?;
    for mut line in sqlx::query_as::<_, Line>(GATEWAY_LEDGER).fetch_all(&mut db).await? {
        line.id = ulid(&line.id)?;
        line.parent = line.parent.map(|parent| ulid(&parent)).transpose()?;
        ledger.push(Line { provider: Provider::CardGateway, ..line });
    }
    for (reference, line) in at_stripe.ledger {
        let operation: Option<(String, String, Option<String>)> =
            sqlx::query_as(OF_REFERENCE).bind(reference).fetch_optional(&mut db).await?;
        let (payment, state, recorded) =
            operation.map_or((None, None, None), |(payment, state, recorded)| (Some(payment), Some(state), recorded));
        ledger.push(Line { payment, state, recorded, ..line });
    }
    for line in &mut ledger {
        line.payment = line.payment.take().map(|id| payment_id(&id)).transpose()?;
    }
    let payloads: Vec<String> = sqlx::query_scalar("SELECT payload FROM events ORDER BY id").fetch_all(&mut db).await?;
    let events = payloads.iter().map(|payload| serde_json::from_str(payload).unwrap_or_default()).collect();
    let mut anomalies: Vec<Anomaly> = sqlx::query_as(ANOMALIES).fetch_all(&mut db).await?;
    for anomaly in &mut anomalies {
        anomaly.payment = payment_id(&anomaly.payment)?;
    }
    let mut sent: Vec<Sent> = sqlx::query_as(SENT).fetch_all(&mut db).await?;
    for sent in &mut sent {
        sent.payment = payment_id(&sent.payment)?;
    }
    let mut given_up: Vec<GivenUp> = sqlx::query_as(GIVEN_UP).fetch_all(&mut db).await?;
    for given_up in &mut given_up {
        given_up.payment = payment_id(&given_up.payment)?;
    }
    let resolved: Vec<String> = sqlx::query_scalar(RESOLVED).fetch_all(&mut db).await?;
    let resolved = resolved.into_iter().collect();
    let differences = sqlx::query_scalar(DIFFERENCES).fetch_one(&mut db).await?;
    let acquirer_differences = sqlx::query_scalar(ACQUIRER_DIFFERENCES).fetch_one(&mut db).await?;
    let in_review: Vec<String> = sqlx::query_scalar(IN_REVIEW).fetch_all(&mut db).await?;
    let in_review = in_review.iter().map(|id| payment_id(id)).collect::<Result<_>>()?;
    #[rustfmt::skip]
    let books = Books {
        events, anomalies, differences, acquirer_differences, sent, given_up, resolved, noticed,
        in_review,
        page_cards: page_cards(&mut db, &at_stripe.saved).await?,
        surplus_cards: sqlx::query_scalar(SURPLUS_CARDS).fetch_one(&mut db).await?,
        disputes: disputes(&mut db, at_stripe.disputes).await?,
        shared_accounts: sqlx::query_scalar(SHARED_ACCOUNTS).fetch_one(&mut db).await?,
        challenged: sqlx::query_as(CHALLENGED).fetch_all(&mut db).await?,
    };
    Ok((ledger, books))
}

async fn disputes(db: &mut PgConnection, at_stripe: Vec<(String, ProviderDispute)>) -> Result<Vec<ProviderDispute>> {
    let mut disputes: Vec<ProviderDispute> = sqlx::query_as(MOCK_DISPUTES).fetch_all(&mut *db).await?;
    for (reference, dispute) in at_stripe {
        let operation: Option<(String, String, Option<String>)> =
            sqlx::query_as(OF_REFERENCE).bind(reference).fetch_optional(&mut *db).await?;
        let ours = sqlx::query_scalar(OURS).bind(&dispute.id).fetch_optional(&mut *db).await?;
        disputes.push(ProviderDispute { payment: operation.map(|(payment, ..)| payment), ours, ..dispute });
    }
    for dispute in &mut disputes {
        dispute.payment = dispute.payment.take().map(|id| payment_id(&id)).transpose()?;
        dispute.ours = dispute.ours.take().map(|id| ulid(&id)).transpose()?.map(|id| format!("dp_{id}"));
    }
    Ok(disputes)
}

async fn page_cards(db: &mut PgConnection, saved_at_stripe: &[String]) -> Result<Vec<PageCard>> {
    let mut cards: Vec<PageCard> = sqlx::query_as(PAGE_CARDS).fetch_all(db).await?;
    for card in &mut cards {
        card.card = format!("pm_{}", ulid(&card.card)?);
        card.payment = payment_id(&card.payment)?;
        card.stored += saved_at_stripe.iter().filter(|reference| **reference == card.reference).count() as i64;
    }
    Ok(cards)
}

fn payment_id(uuid: &str) -> Result<String> {
    Ok(format!("pay_{}", ulid(uuid)?))
}

/// The form in which ids are shown.
fn ulid(uuid: &str) -> Result<String> {
    let uuid: Uuid = uuid.parse().context("an id")?;
    Ok(ulid::Ulid::from_bytes(*uuid.as_bytes()).to_string())
}
