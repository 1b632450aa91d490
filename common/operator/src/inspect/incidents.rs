//! Lists for the runbooks: money errors and delays. All queries are read-only.

use serde::Serialize;
use sqlx::PgPool;

use domain::accounts::Mode;
use domain::operations::{OperationKind, State};
use foundation::error::Result;
use foundation::id::{AccountId, OperationId, PaymentId, ProviderAccountId};
use foundation::time::Timestamp;
use providers::{FailureCode, ProviderKind};

/// Number of newest operations searched for failures.
const MAX_OPERATIONS: i64 = 2_000;

/// A provider's transaction whose reference matches no operation.
#[derive(Debug, Serialize)]
pub struct Orphan {
    found_at: Timestamp,
    occurred_at: Timestamp,
    account: AccountId,
    account_name: String,
    mode: Mode,
    provider: ProviderKind,
    provider_account: ProviderAccountId,
    provider_ref: String,
    reference: String,
}

/// Lists orphans of one account or of all, newest first.
///
/// # Errors
/// Database errors only.
pub async fn orphans(db: &PgPool, account: Option<AccountId>, limit: i64) -> Result<Vec<Orphan>> {
    let rows = sqlx::query_as!(
        Orphan,
        r#"SELECT o.found_at, o.occurred_at, a.id AS account, a.name AS account_name, a.mode, p.provider, p.id AS provider_account,
                  o.provider_ref, o.reference
           FROM orphans o JOIN accounts a ON a.id = o.account_id JOIN provider_accounts p ON p.id = o.provider_account_id
           WHERE ($1::uuid IS NULL OR o.account_id = $1) ORDER BY o.found_at DESC LIMIT $2"#,
        account.map(AccountId::uuid),
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}

/// A charge that belongs to no payment, and the state of its reversal.
#[derive(Debug, Serialize)]
pub struct UnwantedCharge {
    created_at: Timestamp,
    kind: String,
    account: AccountId,
    account_name: String,
    mode: Mode,
    provider: ProviderKind,
    payment: PaymentId,
    charged_by: OperationId,
    provider_ref: String,
    amount: i64,
    currency: String,
    reversed_by: OperationId,
    #[serde(serialize_with = "named_state")]
    reversal: State,
    failure: Option<String>,
}

fn named_state<S: serde::Serializer>(state: &State, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.name())
}

/// Lists unwanted charges of one account or of all, newest first. With `refused`, only those whose reversal was
/// refused.
///
/// # Errors
/// Database errors only.
pub async fn unwanted_charges(
    db: &PgPool,
    account: Option<AccountId>,
    refused: bool,
    limit: i64,
) -> Result<Vec<UnwantedCharge>> {
    let rows = sqlx::query_as!(
        UnwantedCharge,
        r#"SELECT c.created_at, c.kind::text AS "kind!", a.id AS account, a.name AS account_name, a.mode, p.provider,
                  c.payment_id AS "payment: PaymentId", c.operation_id AS "charged_by: OperationId", c.provider_ref, c.amount,
                  c.currency, c.reversal_operation_id AS "reversed_by: OperationId", r.state AS reversal, r.failure
           FROM charge_anomalies c JOIN accounts a ON a.id = c.account_id
           JOIN operations r ON r.id = c.reversal_operation_id JOIN provider_accounts p ON p.id = r.provider_account_id
           WHERE ($1::uuid IS NULL OR c.account_id = $1) AND (NOT $2 OR r.state IN ('failed', 'declined') AND c.returned_at IS NULL)
           ORDER BY c.id DESC LIMIT $3"#,
        account.map(AccountId::uuid),
        refused,
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}

/// A provider account whose circuit breaker is open.
#[derive(Debug, Serialize)]
pub struct OpenBreaker {
    since: Timestamp,
    account: AccountId,
    account_name: String,
    mode: Mode,
    provider: ProviderKind,
    failures: i32,
    probes: i32,
    probe_at: Timestamp,
    /// Operations waiting for it, counted up to 100,000.
    waiting: i64,
    reason: String,
}

/// Lists provider accounts with an open circuit breaker, oldest first.
///
/// # Errors
/// Database errors only.
pub async fn open_breakers(db: &PgPool, limit: i64) -> Result<Vec<OpenBreaker>> {
    let rows = sqlx::query_as!(
        OpenBreaker,
        r#"SELECT b.since, a.id AS account, a.name AS account_name, a.mode, p.provider, b.failures, b.probes, b.probe_at, b.reason,
                  (SELECT count(*) FROM (SELECT FROM operations o WHERE o.account_id = b.account_id
                       AND o.next_push_at IS NOT NULL AND o.not_processed > 0 LIMIT 100000) w) AS "waiting!"
           FROM provider_breakers b JOIN accounts a ON a.id = b.account_id
           JOIN provider_accounts p ON p.id = b.provider_account_id ORDER BY b.since LIMIT $1"#,
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}

/// How far the statements of a provider account have been read.
#[derive(Debug, Serialize)]
pub struct StatementProgress {
    account: AccountId,
    account_name: String,
    mode: Mode,
    provider: ProviderKind,
    read_until: Option<Timestamp>,
    behind_seconds: i64,
}

/// Lists the provider accounts whose statements are read, the furthest behind first.
///
/// # Errors
/// Database errors only.
pub async fn statements_read(db: &PgPool, limit: i64) -> Result<Vec<StatementProgress>> {
    let rows = sqlx::query_as!(
        StatementProgress,
        r#"SELECT a.id AS account, a.name AS account_name, a.mode, p.provider, p.reconciled_until AS read_until,
                  extract(epoch FROM clock_timestamp() - coalesce(p.reconciled_until, p.created_at))::bigint AS "behind_seconds!"
           FROM provider_accounts p JOIN accounts a ON a.id = p.account_id
           WHERE p.reconcile_at < (SELECT clock_timestamp() + interval '1 hour')
           ORDER BY coalesce(p.reconciled_until, p.created_at) LIMIT $1"#,
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}

/// Failures of one account for one reason, among the newest operations.
#[derive(Debug, Serialize)]
pub struct Failures {
    latest: Option<Timestamp>,
    count: i64,
    account: AccountId,
    account_name: String,
    mode: Mode,
    provider: ProviderKind,
    #[serde(serialize_with = "named_kind")]
    kind: OperationKind,
    code: Option<FailureCode>,
    failure: Option<String>,
}

fn named_kind<S: serde::Serializer>(kind: &OperationKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

/// Lists the reasons of recent failures, most frequent first, of the newest 2,000 operations of all accounts or of one.
///
/// # Errors
/// Database errors only.
pub async fn recent_failures(db: &PgPool, account: Option<AccountId>, limit: i64) -> Result<Vec<Failures>> {
    macro_rules! failures {
        ($newest:literal $(, $arg:expr)*) => {
            sqlx::query_as!(
                Failures,
                r#"SELECT max(o.finished_at) AS latest, count(*) AS "count!", a.id AS account, a.name AS account_name, a.mode,
                          p.provider, o.kind AS "kind: OperationKind", o.failure_code AS "code?: FailureCode", o.failure AS "failure?"
                   FROM (SELECT account_id, provider_account_id, kind, state, failure_code, failure, finished_at
                         FROM operations "# + $newest + r#" LIMIT $2) o
                   JOIN accounts a ON a.id = o.account_id JOIN provider_accounts p ON p.id = o.provider_account_id
                   WHERE o.state = 'failed'
                   GROUP BY a.id, p.provider, o.kind, o.failure_code, o.failure ORDER BY count(*) DESC LIMIT $1"#,
                limit,
                MAX_OPERATIONS,
                $($arg),*
            )
        };
    }
    match account {
        None => Ok(failures!("ORDER BY id DESC").fetch_all(db).await?),
        Some(account) => {
            let of_account = failures!(
                "WHERE (account_id, id) <= ($3, 'ffffffff-ffff-ffff-ffff-ffffffffffff') AND account_id >= $3
                 ORDER BY account_id DESC, id DESC",
                account.uuid()
            );
            Ok(of_account.fetch_all(db).await?)
        }
    }
}
