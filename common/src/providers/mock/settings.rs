//! The faults that an operator may order of the mock, by provider account.

use sqlx::{PgExecutor, PgPool};

use crate::id::ProviderAccountId;
use crate::providers::RecoveryClass;

/// Faults in force. An account that none were ordered for has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct InForce {
    pub(super) latency_ms: i32,
    pub(super) lose_answers: i32,
    pub(super) refuse: bool,
    pub(super) reject: bool,
    pub(super) recovery: RecoveryClass,
}

/// Faults to order; `None` leaves a fault as it is.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// How long every request takes, half before the books are written and half after.
    pub latency_ms: Option<i32>,
    /// So many of the next answers are lost after the books were written.
    pub lose_answers: Option<i32>,
    /// Whether no request is processed, as in an outage.
    pub refuse: Option<bool>,
    /// Whether every capture, void and refund is refused for good.
    pub reject: Option<bool>,
    /// What it offers to whoever lost an answer.
    pub recovery: Option<RecoveryClass>,
}

fn class(letter: &str) -> RecoveryClass {
    match letter {
        "B" => RecoveryClass::Lookup,
        "C" => RecoveryClass::Neither,
        _ => RecoveryClass::Idempotent,
    }
}

pub(super) async fn read(db: &PgPool, account: ProviderAccountId) -> Result<InForce, sqlx::Error> {
    let row = sqlx::query!(
        "SELECT latency_ms, lose_answers, refuse, reject, recovery_class FROM mock.accounts WHERE id = $1",
        account.uuid()
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map_or(
        InForce { latency_ms: 0, lose_answers: 0, refuse: false, reject: false, recovery: RecoveryClass::Idempotent },
        |row| InForce {
            latency_ms: row.latency_ms,
            lose_answers: row.lose_answers,
            refuse: row.refuse,
            reject: row.reject,
            recovery: class(&row.recovery_class),
        },
    ))
}

/// Takes one lost answer off the number that was ordered; false if another request took the last.
pub(super) async fn lose_one_answer(db: &PgPool, account: ProviderAccountId) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "UPDATE mock.accounts SET lose_answers = lose_answers - 1 WHERE id = $1 AND lose_answers > 0",
        account.uuid()
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Orders faults for one provider account.
///
/// # Errors
/// Only the database's; a negative figure is refused by a constraint.
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
        faults.lose_answers,
        faults.refuse,
        faults.recovery.map(RecoveryClass::letter),
        faults.reject,
    )
    .execute(db)
    .await?;
    Ok(())
}
