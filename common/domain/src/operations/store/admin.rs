//! SQL of operations for operators.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use crate::operations::admin::{Filter, OperationRow};
use crate::operations::{OperationKind, PROVIDER_TIMEOUT, REQUEST_LIFETIME, State};
use foundation::error::Result;
use foundation::id::{AccountId, OperationId, PaymentId};

/// The columns are shared by all queries.
macro_rules! select_operations {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            OperationRow,
            r#"SELECT o.id, o.account_id, o.payment_id, o.payment_method_id, o.refund_id, o.provider_account_id, p.provider,
                      o.kind, o.state, o.reference, o.amount, o.currency, o.fence, o.lease_until, o.next_push_at, o.first_sent_at,
                      o.last_sent_at, o.target_ref, o.provider_ref, o.failure, o.created_at, o.finished_at, o.request_id,
                      o.requested_by_key AS requested_by, o.by_system, o.background, o.pushes,
                      extract(epoch FROM clock_timestamp() - o.created_at)::float8 AS "age_seconds!",
                      coalesce(o.last_sent_at + make_interval(secs => $1) < clock_timestamp(), true) AS "last_request_is_dead!",
                      coalesce(o.lease_until >= clock_timestamp(), false) AS "is_held!",
                      coalesce(extract(epoch FROM clock_timestamp() - o.first_sent_at), 0)::float8 AS "sent_for_seconds!"
               FROM operations o JOIN provider_accounts p ON p.id = o.provider_account_id "# + $rest,
            (PROVIDER_TIMEOUT + REQUEST_LIFETIME).as_secs_f64(),
            $($arg),*
        )
    };
}

pub(in crate::operations) async fn find(db: &PgPool, id: OperationId) -> Result<Option<OperationRow>> {
    Ok(select_operations!("WHERE o.id = $2", id.uuid()).fetch_optional(db).await?)
}

pub(in crate::operations) async fn of_payment(
    db: &PgPool,
    account: AccountId,
    payment: PaymentId,
) -> Result<Vec<OperationRow>> {
    let query = select_operations!(
        "WHERE o.account_id = $2 AND o.payment_id = $3 ORDER BY o.account_id, o.payment_id, o.id LIMIT 1000",
        account.uuid(),
        payment.uuid()
    );
    Ok(query.fetch_all(db).await?)
}

/// Unknown operations have their own index; the others that have not ended are found by `next_push_at`.
pub(in crate::operations) async fn list(db: &PgPool, filter: Filter) -> Result<Vec<OperationRow>> {
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

pub(in crate::operations) async fn hold(
    tx: &mut PgConnection,
    id: OperationId,
    delay: Duration,
) -> Result<Option<AccountId>> {
    let account = sqlx::query_scalar!(
        "UPDATE operations SET next_push_at = clock_timestamp() + make_interval(secs => $2)
         WHERE id = $1 AND next_push_at IS NOT NULL RETURNING account_id",
        id.uuid(),
        delay.as_secs_f64(),
    );
    Ok(account.fetch_optional(tx).await?)
}

pub(in crate::operations) async fn withhold(tx: &mut PgConnection, id: OperationId) -> Result<Option<AccountId>> {
    let account = sqlx::query_scalar!(
        "UPDATE operations SET state = 'unknown', next_push_at = NULL, lease_until = NULL,
                first_sent_at = coalesce(first_sent_at, created_at), last_sent_at = coalesce(last_sent_at, created_at)
         WHERE id = $1 AND finished_at IS NULL AND kind <> 'store_card'
           AND (lease_until IS NULL OR lease_until < clock_timestamp())
         RETURNING account_id",
        id.uuid(),
    );
    Ok(account.fetch_optional(tx).await?)
}

pub(in crate::operations) async fn exists(tx: &mut PgConnection, id: OperationId) -> Result<bool> {
    let found = sqlx::query_scalar!("SELECT id FROM operations WHERE id = $1", id.uuid());
    Ok(found.fetch_optional(tx).await?.is_some())
}

pub(in crate::operations) async fn owner_of_reference(
    db: &PgPool,
    operation: &OperationRow,
    provider_ref: &str,
) -> Result<Option<String>> {
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
