//! Counts of money errors in the last hour, read from the tables. A counter is lost with its process, and Prometheus
//! sees no increase of one that begins with its first event.

use std::time::Duration;

use sqlx::PgPool;

use domain::accounts::Mode;
use foundation::error::Result;
use providers::ProviderKind;

/// The counted period.
const PERIOD: Duration = Duration::from_secs(3600);
/// A reversal refused longer than this after the charge is not counted; `ctl doctor` still reports it.
const MAX_AGE: Duration = Duration::from_secs(30 * 86400);
/// Maximum number of anomalies read.
const MAX_ROWS: i64 = 10_000;

/// Charges of test or live accounts at one provider in the last hour that belong to no payment.
#[derive(Clone, Copy, Debug)]
pub struct SecondCharges {
    pub mode: Mode,
    pub provider: ProviderKind,
    /// Second charges found.
    pub found: i64,
    /// Charges found whose total differs from the requested amount.
    pub mismatched: i64,
    /// Charges whose reversal was refused.
    pub kept: i64,
}

/// Returns the unwanted charges of the last hour by mode and provider; those without any are left out.
///
/// # Errors
/// Database errors only.
pub async fn second_charges_last_hour(db: &PgPool) -> Result<Vec<SecondCharges>> {
    // An anomaly has its account's time, whose clock may be ahead; its reversal has the database's.
    let rows = sqlx::query_as!(
        SecondCharges,
        r#"SELECT m.mode AS "mode: Mode", p.provider, count(*) FILTER (WHERE a.kind = 'second_charge' AND o.created_at > l.since) AS "found!",
                  count(*) FILTER (WHERE a.kind = 'amount_mismatch' AND o.created_at > l.since) AS "mismatched!",
                  count(*) FILTER (WHERE o.state IN ('failed', 'declined') AND o.finished_at > l.since) AS "kept!"
           FROM (SELECT clock_timestamp() - make_interval(secs => $1) AS since) l,
                (SELECT reversal_operation_id, kind FROM charge_anomalies
                 WHERE id >= ulid_floor((SELECT clock_timestamp()) - make_interval(secs => $2)) ORDER BY id DESC LIMIT $3) a
           JOIN operations o ON o.id = a.reversal_operation_id
           JOIN provider_accounts p ON p.id = o.provider_account_id
           JOIN accounts m ON m.id = o.account_id GROUP BY m.mode, p.provider"#,
        PERIOD.as_secs_f64(),
        MAX_AGE.as_secs_f64(),
        MAX_ROWS,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

/// Returns the number of transactions found in the last hour whose references match no operation, by mode; modes
/// without any are left out.
///
/// # Errors
/// Database errors only.
pub async fn orphans_last_hour(db: &PgPool) -> Result<Vec<(Mode, i64)>> {
    let counts = sqlx::query!(
        r#"SELECT a.mode AS "mode: Mode", count(*) AS "count!" FROM orphans o JOIN accounts a ON a.id = o.account_id
           WHERE o.found_at > (SELECT clock_timestamp() - make_interval(secs => $1)) GROUP BY a.mode"#,
        PERIOD.as_secs_f64(),
    )
    .fetch_all(db)
    .await?;
    Ok(counts.into_iter().map(|row| (row.mode, row.count)).collect())
}
