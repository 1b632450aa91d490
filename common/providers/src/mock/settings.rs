//! Configurable faults of the mock, per provider account.

use sqlx::{PgExecutor, PgPool};

use crate::RecoveryClass;
use foundation::id::ProviderAccountId;

/// The configured faults of an account; all off by default.
#[derive(Clone, Copy, Debug)]
pub struct ActiveFaults {
    pub latency_ms: i32,
    pub lose_responses: i32,
    pub refuse: bool,
    pub reject: bool,
    pub recovery: RecoveryClass,
}

/// Faults to configure; `None` leaves a setting unchanged.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The duration of every request, half before the ledger is written and half after.
    pub latency_ms: Option<i32>,
    /// How many of the next responses are dropped after the ledger was written.
    pub lose_responses: Option<i32>,
    /// Whether no request is processed, as in an outage.
    pub refuse: Option<bool>,
    /// Whether every capture, void and refund is refused.
    pub reject: Option<bool>,
    /// The recovery class.
    pub recovery: Option<RecoveryClass>,
}

fn class(letter: &str) -> RecoveryClass {
    match letter {
        "B" => RecoveryClass::Lookup,
        "C" => RecoveryClass::Neither,
        _ => RecoveryClass::Idempotent,
    }
}

/// Reads the faults of a provider account.
///
/// # Errors
/// Database errors only.
pub async fn read(db: &PgPool, account: ProviderAccountId) -> Result<ActiveFaults, sqlx::Error> {
    let row = sqlx::query!(
        "SELECT latency_ms, lose_answers, refuse, reject, recovery_class FROM mock.accounts WHERE id = $1",
        account.uuid()
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map_or(
        ActiveFaults {
            latency_ms: 0,
            lose_responses: 0,
            refuse: false,
            reject: false,
            recovery: RecoveryClass::Idempotent,
        },
        |row| ActiveFaults {
            latency_ms: row.latency_ms,
            lose_responses: row.lose_answers,
            refuse: row.refuse,
            reject: row.reject,
            recovery: class(&row.recovery_class),
        },
    ))
}

/// Decrements the number of responses to drop. Returns `false` if it is already zero.
pub(super) async fn take_dropped_response(db: &PgPool, account: ProviderAccountId) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "UPDATE mock.accounts SET lose_answers = lose_answers - 1 WHERE id = $1 AND lose_answers > 0",
        account.uuid()
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Configures the faults of a provider account.
///
/// # Errors
/// Database errors only; a constraint rejects negative values.
pub async fn set_faults(
    db: impl PgExecutor<'_>,
    account: ProviderAccountId,
    faults: &Faults,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO mock.accounts AS m (id, latency_ms, lose_answers, refuse, recovery_class, reject)
         VALUES ($1, coalesce($2, 0), coalesce($3, 0), coalesce($4, false), coalesce($5, 'A'), coalesce($6, false))
         ON CONFLICT (id) DO UPDATE SET
            latency_ms = coalesce($2, m.latency_ms), lose_answers = coalesce($3, m.lose_answers),
            refuse = coalesce($4, m.refuse), recovery_class = coalesce($5, m.recovery_class),
            reject = coalesce($6, m.reject)",
        account.uuid(),
        faults.latency_ms,
        faults.lose_responses,
        faults.refuse,
        faults.recovery.map(RecoveryClass::letter),
        faults.reject,
    )
    .execute(db)
    .await?;
    Ok(())
}
