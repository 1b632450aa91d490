//! Operations as operators see them. Only the operator's command line calls these functions, and the portal for the history
//! of a payment.

use sqlx::PgPool;

use super::types::{REQUEST_LIFETIME, State};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, KeyId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId, RefundId};
use foundation::money::Currency;
use foundation::time::Timestamp;
use providers::{OperationKind, PROVIDER_TIMEOUT, ProviderKind};

#[derive(Clone, Debug)]
pub struct OperationRow {
    pub id: OperationId,
    pub account_id: AccountId,
    pub payment_id: Option<PaymentId>,
    pub payment_method_id: Option<PaymentMethodId>,
    /// The payment for which a payer's page saves the card.
    pub saved_for_payment_id: Option<PaymentId>,
    /// The operation that will charge that payment, once the card is saved. Its id is its reference at the provider.
    pub awaits_operation_id: Option<OperationId>,
    pub refund_id: Option<RefundId>,
    pub provider_account_id: ProviderAccountId,
    pub provider: ProviderKind,
    pub kind: OperationKind,
    pub state: State,
    /// Our reference at the provider.
    pub reference: String,
    pub amount: Option<i64>,
    pub currency: Option<Currency>,
    /// The fencing token of the latest claim.
    pub fence: i64,
    pub lease_until: Option<Timestamp>,
    /// When it is enqueued next. `None` if it has ended or needs manual review.
    pub next_push_at: Option<Timestamp>,
    /// When a request that may have had an effect was first sent.
    pub first_sent_at: Option<Timestamp>,
    /// When a request was last sent.
    pub last_sent_at: Option<Timestamp>,
    /// The provider's reference for the charge that it follows.
    pub target_ref: Option<String>,
    /// The provider's reference for the transaction.
    pub provider_ref: Option<String>,
    pub failure: Option<String>,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub age_seconds: f64,
    /// Whether the last request sent can no longer have an effect.
    pub last_request_expired: bool,
    /// Whether the lease has not expired.
    pub is_held: bool,
    /// Seconds since a request was first sent; 0 if none was.
    pub sent_for_seconds: f64,
    /// The `Request-Id` of the request that created it.
    pub request_id: Option<String>,
    /// The API key of that request.
    pub requested_by: Option<KeyId>,
    /// Whether the system itself created it.
    pub by_system: bool,
    /// Whether it collects an invoice.
    pub background: bool,
    /// How often it was enqueued.
    pub pushes: i32,
}

impl OperationRow {
    /// The payment that it belongs to, also while only the card for it is being saved.
    pub fn payment(&self) -> Option<PaymentId> {
        self.payment_id.or(self.saved_for_payment_id)
    }

    /// Whether an operator must determine how it ended.
    pub fn needs_manual_review(&self) -> bool {
        self.state == State::Unknown && self.next_push_at.is_none()
    }
}

/// Which operations to list.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// Only operations of unknown outcome; otherwise all that have not ended.
    pub unknown: bool,
    pub account: Option<AccountId>,
    pub kind: Option<OperationKind>,
    pub state: Option<State>,
    /// Order by the number of times an operation was enqueued, highest first.
    pub most_handed_out: bool,
    pub limit: i64,
}

/// The columns are shared by all queries.
macro_rules! select_operations {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            OperationRow,
            r#"SELECT o.id, o.account_id, o.payment_id, o.payment_method_id, o.refund_id, o.provider_account_id, p.provider,
                      (SELECT s.saved_for_payment_id FROM payment_methods s WHERE s.id = o.payment_method_id)
                          AS "saved_for_payment_id: PaymentId",
                      (SELECT s.awaits_operation_id FROM payment_methods s WHERE s.id = o.payment_method_id)
                          AS "awaits_operation_id: OperationId",
                      o.kind, o.state, o.reference, o.amount, o.currency, o.fence, o.lease_until, o.next_push_at, o.first_sent_at,
                      o.last_sent_at, o.target_ref, o.provider_ref, o.failure, o.created_at, o.finished_at, o.request_id,
                      o.requested_by_key AS requested_by, o.by_system, o.background, o.pushes,
                      extract(epoch FROM clock_timestamp() - o.created_at)::float8 AS "age_seconds!",
                      coalesce(o.last_sent_at + make_interval(secs => $1) < clock_timestamp(), true) AS "last_request_expired!",
                      coalesce(o.lease_until >= clock_timestamp(), false) AS "is_held!",
                      coalesce(extract(epoch FROM clock_timestamp() - o.first_sent_at), 0)::float8 AS "sent_for_seconds!"
               FROM operations o JOIN provider_accounts p ON p.id = o.provider_account_id "# + $rest,
            (PROVIDER_TIMEOUT + REQUEST_LIFETIME).as_secs_f64(),
            $($arg),*
        )
    };
}

/// Lists operations that have not ended, oldest first. Unknown operations have their own index; the others that have
/// not ended are found by `next_push_at`.
///
/// # Errors
/// Database errors only.
pub async fn list(db: &PgPool, filter: Filter) -> Result<Vec<OperationRow>> {
    let account = filter.account.map(AccountId::uuid);
    let (kind, state) = (filter.kind, filter.state);
    if filter.most_handed_out {
        let most_pushed = select_operations!(
            "WHERE o.next_push_at IS NOT NULL AND ($2::uuid IS NULL OR o.account_id = $2)
               AND ($4::operation_kind IS NULL OR o.kind = $4) AND ($5::operation_state IS NULL OR o.state = $5)
             ORDER BY o.pushes DESC LIMIT $3",
            account,
            filter.limit,
            kind as Option<OperationKind>,
            state as Option<State>,
        );
        return Ok(most_pushed.fetch_all(db).await?);
    }
    let unknown = select_operations!(
        "WHERE o.state = 'unknown' AND ($2::uuid IS NULL OR o.account_id = $2)
           AND ($4::operation_kind IS NULL OR o.kind = $4) AND ($5::operation_state IS NULL OR o.state = $5)
         ORDER BY o.first_sent_at LIMIT $3",
        account,
        filter.limit,
        kind as Option<OperationKind>,
        state as Option<State>,
    );
    let mut rows = unknown.fetch_all(db).await?;
    if !filter.unknown {
        let others = select_operations!(
            "WHERE o.next_push_at IS NOT NULL AND o.state <> 'unknown' AND ($2::uuid IS NULL OR o.account_id = $2)
               AND ($4::operation_kind IS NULL OR o.kind = $4) AND ($5::operation_state IS NULL OR o.state = $5)
             ORDER BY o.next_push_at LIMIT $3",
            account,
            filter.limit,
            kind as Option<OperationKind>,
            state as Option<State>,
        );
        rows.extend(others.fetch_all(db).await?);
        rows.sort_by_key(|row| row.id);
    }
    Ok(rows)
}

/// Returns one operation.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn find(db: &PgPool, id: OperationId) -> Result<OperationRow> {
    select_operations!("WHERE o.id = $2", id.uuid())
        .fetch_optional(db)
        .await?
        .ok_or_else(|| Error::no_such("operation", id))
}

/// Returns all operations of a payment, oldest first, which may be the one that saves its card.
///
/// # Errors
/// Database errors only.
pub async fn of_payment(db: &PgPool, account: AccountId, payment: PaymentId) -> Result<Vec<OperationRow>> {
    let saving = select_operations!(
        "JOIN payment_methods m ON m.account_id = o.account_id AND m.id = o.payment_method_id
         WHERE o.account_id = $2 AND o.kind = 'store_card' AND m.account_id = $2 AND m.saved_for_payment_id = $3",
        account.uuid(),
        payment.uuid()
    );
    let mut rows = saving.fetch_all(db).await?;
    let query = select_operations!(
        "WHERE o.account_id = $2 AND o.payment_id = $3 ORDER BY o.account_id, o.payment_id, o.id LIMIT 1000",
        account.uuid(),
        payment.uuid()
    );
    rows.extend(query.fetch_all(db).await?);
    Ok(rows)
}

/// Returns what already has this provider reference, apart from the operation itself: a payment, an anomaly, or another
/// operation of the same payment.
///
/// # Errors
/// Database errors only.
pub async fn owner_of_reference(db: &PgPool, operation: &OperationRow, provider_ref: &str) -> Result<Option<String>> {
    let payment = sqlx::query_scalar!(
        "SELECT id FROM payments WHERE provider_account_id = $1 AND provider_ref = $2",
        operation.provider_account_id.uuid(),
        provider_ref,
    );
    if let Some(id) = payment.fetch_optional(db).await? {
        return Ok(Some(format!("the charge of {id}")));
    }
    let unwanted = sqlx::query_scalar!(
        r#"SELECT a.payment_id AS "payment_id: PaymentId" FROM charge_anomalies a
           JOIN operations o ON o.id = a.operation_id AND o.provider_account_id = $2
           WHERE a.account_id = $1 AND a.provider_ref = $3 AND a.reversal_operation_id <> $4 LIMIT 1"#,
        operation.account_id.uuid(),
        operation.provider_account_id.uuid(),
        provider_ref,
        operation.id.uuid(),
    );
    if let Some(id) = unwanted.fetch_optional(db).await? {
        return Ok(Some(format!("a second charge of {id}, which is being reversed")));
    }
    let others = sqlx::query_scalar!(
        "SELECT id FROM operations WHERE account_id = $1 AND payment_id = $2 AND provider_ref = $3 AND id <> $4 LIMIT 1",
        operation.account_id.uuid(),
        operation.payment_id.map(PaymentId::uuid),
        provider_ref,
        operation.id.uuid(),
    );
    Ok(others.fetch_optional(db).await?.map(|id| id.to_string()))
}
