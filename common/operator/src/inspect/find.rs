//! Finds what an identifier refers to: one of our ids, a provider reference, a `Request-Id`, an e-mail address, or the
//! last four digits of a card. Every look-up uses an index or is bounded; none scans a table that grows.

use serde::Serialize;
use sqlx::PgPool;
use uuid::Uuid;

use super::payment::requester;
use domain::accounts::Mode;
use foundation::error::{Error, Result};
use foundation::id::{
    AccountId, AddressId, AnomalyId, AuditId, CollectionAttemptId, CustomerId, DifferenceId, DisputeId, EventId,
    InvoiceId, KeyId, MerchantId, OperationId, PaymentId, PaymentLinkId, PaymentMethodId, PlanId, ProviderAccountId,
    RecurringInvoiceId, RefundId, RequestId, SubscriptionId, WebhookDeliveryId, WebhookEndpointId,
};
use foundation::time::Timestamp;

/// Number of newest payments that are shown for a card.
const MAX_PAYMENTS: usize = 100;

/// A row that was found.
#[derive(Debug, Serialize)]
pub struct Found {
    /// Its kind, such as `payment`.
    pub what: String,
    pub id: String,
    pub account: Option<AccountId>,
    account_name: Option<String>,
    mode: Option<Mode>,
    status: Option<String>,
    amount: Option<i64>,
    currency: Option<String>,
    created_at: Option<Timestamp>,
    /// The payment that it is or belongs to.
    pub payment: Option<PaymentId>,
    requested_by: Option<String>,
    request_id: Option<String>,
}

/// The rows found, and how far the search went if it ended before all were found.
#[derive(Debug)]
pub struct Findings {
    /// Ordered by time only within a kind.
    pub found: Vec<Found>,
    /// There may be older payments.
    pub searched_back_to: Option<Timestamp>,
}

/// Limits of a search.
#[derive(Clone, Copy, Debug, Default)]
pub struct Within {
    /// Only in this account.
    pub account: Option<AccountId>,
    /// For a card: only payments before this.
    pub before: Option<Timestamp>,
}

/// A row as all queries return it.
struct Row {
    what: String,
    id: Option<Uuid>,
    named: Option<String>,
    account: Option<Uuid>,
    account_name: Option<String>,
    mode: Option<Mode>,
    status: Option<String>,
    amount: Option<i64>,
    currency: Option<String>,
    created_at: Option<Timestamp>,
    payment: Option<Uuid>,
    key: Option<Uuid>,
    by_system: bool,
    background: bool,
    request_id: Option<String>,
}

/// Formats the id of a row of this kind with its prefix.
fn format_id(what: &str, id: Uuid) -> String {
    match what {
        "merchant" => MerchantId::from_uuid(id).to_string(),
        "account" => AccountId::from_uuid(id).to_string(),
        "provider account" => ProviderAccountId::from_uuid(id).to_string(),
        "key" => KeyId::from_uuid(id).to_string(),
        "customer" => CustomerId::from_uuid(id).to_string(),
        "payment method" => PaymentMethodId::from_uuid(id).to_string(),
        "payment" => PaymentId::from_uuid(id).to_string(),
        "dispute" => DisputeId::from_uuid(id).to_string(),
        "refund" => RefundId::from_uuid(id).to_string(),
        "operation" => OperationId::from_uuid(id).to_string(),
        "invoice" => InvoiceId::from_uuid(id).to_string(),
        "attempt" => CollectionAttemptId::from_uuid(id).to_string(),
        "subscription" => SubscriptionId::from_uuid(id).to_string(),
        "recurring invoice" => RecurringInvoiceId::from_uuid(id).to_string(),
        "payment link" => PaymentLinkId::from_uuid(id).to_string(),
        "address" => AddressId::from_uuid(id).to_string(),
        "plan" => PlanId::from_uuid(id).to_string(),
        "anomaly" => AnomalyId::from_uuid(id).to_string(),
        "difference" => DifferenceId::from_uuid(id).to_string(),
        "event" => EventId::from_uuid(id).to_string(),
        "webhook endpoint" => WebhookEndpointId::from_uuid(id).to_string(),
        "webhook delivery" => WebhookDeliveryId::from_uuid(id).to_string(),
        "record" => AuditId::from_uuid(id).to_string(),
        other => format!("{other} {id}"),
    }
}

impl From<Row> for Found {
    fn from(row: Row) -> Self {
        Self {
            id: row.named.unwrap_or_else(|| row.id.map(|id| format_id(&row.what, id)).unwrap_or_default()),
            what: row.what,
            account: row.account.map(AccountId::from_uuid),
            account_name: row.account_name,
            mode: row.mode,
            status: row.status,
            amount: row.amount,
            currency: row.currency,
            created_at: row.created_at,
            payment: row.payment.map(PaymentId::from_uuid),
            requested_by: requester(row.key.map(KeyId::from_uuid), row.by_system, row.background),
            request_id: row.request_id,
        }
    }
}

/// The columns that every query returns. A payment is joined with the operation that charges it, for its requester.
macro_rules! found {
    ($parts:literal $(+ $more:literal)* , $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Row,
            r#"SELECT f.what AS "what!", f.id AS "id?: Uuid", f.named AS "named?", a.id AS "account?: Uuid", a.name AS "account_name?",
                      a.mode AS "mode?: Mode", f.status AS "status?", f.amount AS "amount?", f.currency AS "currency?: String",
                      f.created_at AS "created_at?", coalesce(f.payment, o.payment_id,
                          (SELECT s.saved_for_payment_id FROM payment_methods s WHERE s.id = o.payment_method_id)) AS "payment?: Uuid",
                      coalesce(f.key, o.requested_by_key) AS "key?: Uuid", coalesce(o.by_system, false) AS "by_system!",
                      coalesce(o.background, false) AS "background!", o.request_id AS "request_id?"
               FROM ("# + $parts $(+ $more)* + r#") f (what, id, named, account, status, amount, currency, created_at, payment, operation, key)
               LEFT JOIN accounts a ON a.id = f.account LEFT JOIN operations o ON o.id = f.operation LIMIT 100"#,
            $($arg),*
        )
    };
}

/// Finds what this text refers to.
///
/// # Errors
/// [`Error::Invalid`] for text that cannot refer to anything; database errors.
pub async fn find(db: &PgPool, text: &str, within: Within) -> Result<Findings> {
    let text = text.trim();
    let all = |found| Findings { found, searched_back_to: None };
    if let Some(id) = any_id(text) {
        return by_id(db, text, id).await.map(all);
    }
    if text.parse::<RequestId>().is_ok() {
        return by_request(db, text).await.map(all);
    }
    if text.contains('@') {
        return by_email(db, text, within.account).await.map(all);
    }
    if text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return by_card(db, text, within).await;
    }
    if text.is_empty() || text.len() > 255 || text.contains('\0') {
        return Err(Error::invalid(
            "X",
            "give an id, a provider reference, a Request-Id, an e-mail address or four digits",
        ));
    }
    by_provider_ref(db, text, within.account).await.map(all)
}

/// Parses any of our id types to its UUID.
fn any_id(text: &str) -> Option<Uuid> {
    macro_rules! first_of {
        ($($id:ident),*) => { None$(.or_else(|| text.parse::<$id>().ok().map($id::uuid)))* };
    }
    first_of!(
        MerchantId,
        AccountId,
        ProviderAccountId,
        KeyId,
        CustomerId,
        PaymentMethodId,
        PaymentId,
        InvoiceId,
        CollectionAttemptId,
        SubscriptionId,
        RecurringInvoiceId,
        PaymentLinkId,
        AddressId,
        PlanId,
        RefundId,
        DisputeId,
        OperationId,
        AnomalyId,
        DifferenceId,
        EventId,
        WebhookEndpointId,
        WebhookDeliveryId,
        AuditId
    )
}

/// Looks an id up in the primary key of every table. Its prefix identifies the table, and UUIDs are unique across
/// tables.
async fn by_id(db: &PgPool, text: &str, id: Uuid) -> Result<Vec<Found>> {
    let rows = found!(
        r#"SELECT 'payment'::text, p.id, NULL::text, p.account_id, p.status::text, p.amount, p.currency, p.created_at, p.id,
                  (SELECT c.id FROM operations c WHERE c.account_id = p.account_id AND c.payment_id = p.id
                     AND c.kind IN ('sale', 'authorize')), NULL::uuid
           FROM payments p WHERE p.id = $1
           UNION ALL SELECT 'operation', o.id, NULL, o.account_id, o.state::text, o.amount, o.currency, o.created_at,
                  o.payment_id, o.id, NULL FROM operations o WHERE o.id = $1
           UNION ALL SELECT 'refund', r.id, NULL, r.account_id, r.status::text, r.amount, p.currency, r.created_at, r.payment_id,
                  (SELECT c.id FROM operations c WHERE c.account_id = r.account_id AND c.refund_id = r.id AND c.kind = 'refund'),
                  r.requested_by_key
           FROM refunds r JOIN payments p ON p.id = r.payment_id WHERE r.id = $1
           UNION ALL SELECT 'dispute', id, NULL, account_id, status::text, amount, currency, created_at, payment_id, NULL, NULL
           FROM disputes WHERE id = $1
           UNION ALL SELECT 'invoice', id, NULL, account_id, status::text, amount, currency, created_at, payment_id, NULL, NULL
           FROM invoices WHERE id = $1
           UNION ALL SELECT 'attempt', id, NULL, account_id, status::text, amount, NULL, attempted_at, payment_id, NULL, NULL
           FROM collection_attempts WHERE id = $1
           UNION ALL SELECT 'subscription', id, NULL, account_id, status::text, NULL, NULL, created_at, NULL, NULL, NULL
           FROM subscriptions WHERE id = $1
           UNION ALL SELECT 'recurring invoice', id, NULL, account_id, status::text, NULL, NULL, created_at, NULL, NULL, NULL
           FROM recurring_invoices WHERE id = $1
           UNION ALL SELECT 'payment link', id, NULL, account_id, status::text, amount, currency, created_at, payment_id, NULL, NULL
           FROM payment_links WHERE id = $1
           UNION ALL SELECT 'customer', id, NULL, account_id, NULL, NULL, NULL, created_at, NULL, NULL, NULL
           FROM customers WHERE id = $1
           UNION ALL SELECT 'payment method', id, NULL, account_id, status::text, NULL, NULL, created_at, NULL,
                  (SELECT c.id FROM operations c WHERE c.account_id = m.account_id AND c.payment_method_id = m.id
                     AND c.kind = 'store_card'), NULL
           FROM payment_methods m WHERE id = $1
           UNION ALL SELECT 'address', id, NULL, account_id, NULL, NULL, NULL, created_at, NULL, NULL, NULL
           FROM addresses WHERE id = $1
           UNION ALL SELECT 'plan', id, NULL, account_id, NULL, amount, currency, created_at, NULL, NULL, NULL
           FROM plans WHERE id = $1"#
            + r#"
           UNION ALL SELECT 'anomaly', id, NULL, account_id, kind, amount, currency, created_at, payment_id,
                  reversal_operation_id, NULL FROM charge_anomalies WHERE id = $1
           UNION ALL SELECT 'difference', id, NULL, account_id, difference, NULL, NULL, found_at, payment_id, operation_id, NULL
           FROM book_differences WHERE id = $1
           UNION ALL SELECT 'event', id, NULL, account_id, type, NULL, NULL, created_at, NULL, NULL, NULL
           FROM events WHERE id = $1
           UNION ALL SELECT 'webhook delivery', id, NULL, account_id, 'pending', NULL, NULL, created_at, NULL, NULL, NULL
           FROM webhook_pending WHERE id = $1
           UNION ALL SELECT 'webhook delivery', id, NULL, account_id, status::text, NULL, NULL, created_at, NULL, NULL, NULL
           FROM webhook_deliveries WHERE id = $1
           UNION ALL SELECT 'webhook endpoint', id, NULL, account_id, status::text, NULL, NULL, created_at, NULL, NULL, NULL
           FROM webhook_endpoints WHERE id = $1
           UNION ALL SELECT 'record', id, NULL, account_id, action, NULL, NULL, at, NULL, NULL, NULL
           FROM audit_log WHERE id = $1
           UNION ALL SELECT 'key', id, NULL, account_id,
                  CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= clock_timestamp() THEN 'expired' ELSE 'in use' END,
                  NULL, NULL, created_at, NULL, NULL, NULL
           FROM api_keys WHERE id = $1
           UNION ALL SELECT 'account', id, NULL, id, mode::text, NULL, NULL, created_at, NULL, NULL, NULL
           FROM accounts WHERE id = $1
           UNION ALL SELECT 'account', s.id, NULL, s.id, s.mode::text, NULL, NULL, s.created_at, NULL, NULL, NULL
           FROM accounts s WHERE s.merchant_id = $1
           UNION ALL SELECT 'provider account', id, NULL, account_id, provider::text, NULL, NULL, created_at, NULL, NULL, NULL
           FROM provider_accounts WHERE id = $1"#,
        id,
    );
    let rows = rows.fetch_all(db).await?;
    // A merchant is shown as its accounts. A row of another kind with the same UUID was not searched for.
    let is_it = |found: &Found| found.id == text || text.starts_with(MerchantId::PREFIX);
    Ok(rows.into_iter().map(Found::from).filter(is_it).collect())
}

async fn by_request(db: &PgPool, request_id: &str) -> Result<Vec<Found>> {
    let rows = found!(
        r#"SELECT 'operation'::text, o.id, NULL::text, o.account_id, o.kind::text || ' ' || o.state::text, o.amount, o.currency,
                  o.created_at, o.payment_id, o.id, NULL::uuid
           FROM operations o WHERE o.request_id = $1 AND o.request_id IS NOT NULL ORDER BY o.id"#,
        request_id,
    );
    Ok(rows.fetch_all(db).await?.into_iter().map(Found::from).collect())
}

async fn by_email(db: &PgPool, email: &str, account: Option<AccountId>) -> Result<Vec<Found>> {
    let rows = found!(
        r#"SELECT 'customer'::text, c.id, NULL::text, c.account_id, c.name, NULL::bigint, NULL::text, c.created_at, NULL::uuid,
                  NULL::uuid, NULL::uuid
           FROM customers c WHERE lower(c.email) = lower($1) AND ($2::uuid IS NULL OR c.account_id = $2)"#,
        email,
        account.map(AccountId::uuid),
    );
    Ok(rows.fetch_all(db).await?.into_iter().map(Found::from).collect())
}

/// Finds the newest payments with a card. The index begins with the account, so each account is searched.
async fn by_card(db: &PgPool, last4: &str, within: Within) -> Result<Findings> {
    let rows = found!(
        r#"SELECT 'payment'::text, p.id, NULL::text, p.account_id, p.status::text, p.amount, p.currency, p.created_at, p.id,
                  (SELECT c.id FROM operations c WHERE c.account_id = p.account_id AND c.payment_id = p.id
                     AND c.kind IN ('sale', 'authorize')), NULL::uuid
           FROM (SELECT newest.* FROM accounts a CROSS JOIN LATERAL (
                     SELECT * FROM payments
                     WHERE account_id = a.id AND card_last4 = $1
                       AND id < coalesce(ulid_floor($3), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                     ORDER BY account_id DESC, card_last4 DESC, id DESC LIMIT $4) newest
                 WHERE $2::uuid IS NULL OR a.id = $2
                 ORDER BY newest.id DESC LIMIT $4) p"#,
        last4,
        within.account.map(AccountId::uuid),
        within.before,
        MAX_PAYMENTS as i64,
    );
    let mut found: Vec<Found> = rows.fetch_all(db).await?.into_iter().map(Found::from).collect();
    found.sort_by(|a, b| b.id.cmp(&a.id));
    let searched_back_to = found.get(MAX_PAYMENTS - 1).and_then(|oldest| oldest.created_at);
    Ok(Findings { found, searched_back_to })
}

/// Finds a provider's reference for a transaction or dispute, or our reference there. Both are unique only per provider account,
/// so each account is searched; the cost follows their number.
async fn by_provider_ref(db: &PgPool, name: &str, account: Option<AccountId>) -> Result<Vec<Found>> {
    let rows = found!(
        r#"SELECT 'payment'::text, p.id, NULL::text, p.account_id, p.status::text, p.amount, p.currency, p.created_at, p.id,
                  (SELECT c.id FROM operations c WHERE c.account_id = p.account_id AND c.payment_id = p.id
                     AND c.kind IN ('sale', 'authorize')), NULL::uuid
           FROM provider_accounts a JOIN payments p ON p.provider_account_id = a.id AND p.provider_ref = $1
           WHERE ($2::uuid IS NULL OR a.account_id = $2)
           UNION ALL SELECT 'operation', o.id, NULL, o.account_id, o.kind::text || ' ' || o.state::text, o.amount, o.currency,
                  o.created_at, o.payment_id, o.id, NULL
           FROM operations o WHERE o.provider_ref = $1 AND o.provider_ref IS NOT NULL
             AND o.kind IN ('capture', 'void', 'refund', 'reverse', 'reverse_by_refund')
             AND ($2::uuid IS NULL OR o.account_id = $2)
           UNION ALL SELECT 'operation', o.id, NULL, o.account_id, o.kind::text || ' ' || o.state::text, o.amount, o.currency,
                  o.created_at, o.payment_id, o.id, NULL
           FROM provider_accounts a JOIN operations o ON o.provider_account_id = a.id AND o.reference = $1
           WHERE ($2::uuid IS NULL OR a.account_id = $2)
           UNION ALL SELECT 'dispute', d.id, NULL, d.account_id, d.status::text, d.amount, d.currency, d.created_at, d.payment_id,
                  NULL, NULL
           FROM provider_accounts a JOIN disputes d ON d.provider_account_id = a.id AND d.provider_ref = $1
           WHERE ($2::uuid IS NULL OR a.account_id = $2)
           UNION ALL SELECT 'anomaly', c.id, NULL, c.account_id, c.kind, c.amount, c.currency, c.created_at, c.payment_id,
                  c.reversal_operation_id, NULL
           FROM accounts a JOIN charge_anomalies c ON c.account_id = a.id AND c.provider_ref = $1
           WHERE ($2::uuid IS NULL OR a.id = $2)
           UNION ALL SELECT 'orphan', NULL, r.provider_ref, r.account_id, 'under the reference ' || r.reference, NULL, NULL,
                  r.occurred_at, NULL, NULL, NULL
           FROM provider_accounts a JOIN orphans r ON r.provider_account_id = a.id AND r.provider_ref = $1
           WHERE ($2::uuid IS NULL OR a.account_id = $2)"#,
        name,
        account.map(AccountId::uuid),
    );
    Ok(rows.fetch_all(db).await?.into_iter().map(Found::from).collect())
}
