//! The recent volume of one account and its approval rate. There is no metric of it, because there are too many
//! accounts.

use std::time::Duration;

use serde::Serialize;
use sqlx::PgPool;

use foundation::clock::Clock;
use foundation::error::{Error, Result};
use foundation::id::AccountId;
use foundation::money::{Currency, Sum};

/// Maximum number of payments summed, newest first.
const MAX_PAYMENTS: i64 = 200_000;

/// The volume in one currency. Amounts are in minor units.
#[derive(Debug, Serialize)]
pub struct Volume {
    currency: Currency,
    payments: i64,
    approved: i64,
    declined: i64,
    failed: i64,
    /// Share of approvals among approvals and declines, rounded to four digits.
    approval_rate: Option<f64>,
    captured: Sum,
    refunded: Sum,
}

/// Returns an account's volume within this period of its own clock, by currency, limited to its newest 200,000
/// payments.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn volume_of(db: &PgPool, clock: &Clock, account: AccountId, last: Duration) -> Result<Vec<Volume>> {
    let known = sqlx::query_scalar!("SELECT id FROM accounts WHERE id = $1", account.uuid());
    known.fetch_optional(db).await?.ok_or_else(|| Error::no_such("account", account))?;
    let rows = sqlx::query_as!(
        Volume,
        r#"SELECT currency AS "currency: Currency", count(*) AS "payments!",
                  count(*) FILTER (WHERE approved) AS "approved!",
                  count(*) FILTER (WHERE status = 'declined') AS "declined!", count(*) FILTER (WHERE status = 'failed') AS "failed!",
                  round(count(*) FILTER (WHERE approved)
                      / nullif(count(*) FILTER (WHERE approved OR status = 'declined'), 0)::numeric, 4)::float8 AS approval_rate,
                  sum(amount_captured)::text AS "captured!: Sum", sum(amount_refunded)::text AS "refunded!: Sum"
           FROM (SELECT currency, status, amount_captured, amount_refunded,
                        status NOT IN ('processing', 'requires_action', 'declined', 'failed') AS approved
                 FROM payments
                 WHERE (account_id, id) >= ($1, (SELECT ulid_floor(account_now($1, $2) - make_interval(secs => $3))))
                   AND account_id <= $1
                 ORDER BY account_id DESC, id DESC LIMIT $4) p
           GROUP BY currency ORDER BY currency"#,
        account.uuid(),
        clock.now(),
        last.as_secs_f64(),
        MAX_PAYMENTS,
    );
    Ok(rows.fetch_all(db).await?)
}
