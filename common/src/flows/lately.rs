//! Money that went wrong in the last hour, by what stands in the tables. A counter forgets with its process, and Prometheus sees
//! no rise of one that begins with its first event.

use std::time::Duration;

use sqlx::PgPool;

use crate::error::Result;
use crate::providers::ProviderKind;

/// What counts as of late.
const LATELY: Duration = Duration::from_secs(3600);
/// A reversal that is refused later than this after the charge is counted no more; [`super::examine`] still names it.
const LOOKED_BACK: Duration = Duration::from_secs(30 * 86400);
/// Second charges that are looked at.
const LOOKED_AT: i64 = 10_000;

/// Charges of one provider that no payment wants, in the last hour.
#[derive(Clone, Copy, Debug)]
pub struct SecondCharges {
    /// Who approved them.
    pub provider: ProviderKind,
    /// Second charges that were found.
    pub found: i64,
    /// Charges of another total than was asked that were found.
    pub mismatched: i64,
    /// Those whose reversal was refused.
    pub kept: i64,
}

/// Second charges of the last hour, by provider; those without any are left out.
///
/// # Errors
/// Only the database's.
pub async fn second_charges_lately(db: &PgPool) -> Result<Vec<SecondCharges>> {
    // An anomaly's own time is that of its account, whose clock may be ahead; its reversal has the database's.
    let rows = sqlx::query_as!(
        SecondCharges,
        r#"SELECT p.provider, count(*) FILTER (WHERE a.kind = 'second_charge' AND o.created_at > l.since) AS "found!",
                  count(*) FILTER (WHERE a.kind = 'amount_mismatch' AND o.created_at > l.since) AS "mismatched!",
                  count(*) FILTER (WHERE o.state IN ('failed', 'declined') AND o.finished_at > l.since) AS "kept!"
           FROM (SELECT clock_timestamp() - make_interval(secs => $1) AS since) l,
                (SELECT reversal_operation_id, kind FROM charge_anomalies
                 WHERE id >= ulid_floor((SELECT clock_timestamp()) - make_interval(secs => $2)) ORDER BY id DESC LIMIT $3) a
           JOIN operations o ON o.id = a.reversal_operation_id
           JOIN provider_accounts p ON p.id = o.provider_account_id GROUP BY p.provider"#,
        LATELY.as_secs_f64(),
        LOOKED_BACK.as_secs_f64(),
        LOOKED_AT,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

/// How much was found in the last hour of money that moved under references that we do not know.
///
/// # Errors
/// Only the database's.
pub async fn orphans_lately(db: &PgPool) -> Result<i64> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM orphans
           WHERE found_at > (SELECT clock_timestamp() - make_interval(secs => $1))"#,
        LATELY.as_secs_f64(),
    )
    .fetch_one(db)
    .await?;
    Ok(count)
}
