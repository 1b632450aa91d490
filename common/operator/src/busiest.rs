//! Which accounts caused the recent load. Almost every change writes an event, so events are the measure; an advance of
//! a test clock, which may run long without any, is listed too.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::PgPool;

use domain::accounts::Mode;
use domain::test_clocks::{self, RunningAdvance};
use foundation::error::Result;
use foundation::id::AccountId;
use foundation::time::Timestamp;

/// Maximum number of events counted, newest first. Reading that many takes a second or two, whatever the table holds.
const COUNTED: i64 = 200_000;
/// Maximum number of advances read.
const ADVANCES: i64 = 1_000;

#[derive(Debug)]
pub struct Busiest {
    /// Start of the counted period.
    pub since: Timestamp,
    /// Events of all accounts.
    pub events: i64,
    /// Whether the requested period has more events, before `since`.
    pub more: bool,
    /// Accounts by number of events, highest first; then other accounts whose clock is being advanced.
    pub accounts: Vec<BusyAccount>,
}

/// An account and its recent activity.
#[derive(Debug)]
pub struct BusyAccount {
    pub id: AccountId,
    pub name: String,
    pub mode: Mode,
    /// Its events; `None` if it is not among the busiest.
    pub events: Option<i64>,
    /// The advance of its clock, if one is in progress.
    pub advance: Option<RunningAdvance>,
}

/// Returns the accounts with the most recent events, at most `limit`. Reads events by id, which is in time order, so
/// the cost follows the number of recent events, up to a bound.
///
/// # Errors
/// Database errors only.
pub async fn busiest_accounts(db: &PgPool, period: Duration, limit: i64) -> Result<Busiest> {
    let since = sqlx::query_scalar!(
        r#"SELECT clock_timestamp() - make_interval(secs => $1) AS "since!: Timestamp""#,
        period.as_secs_f64()
    )
    .fetch_one(db)
    .await?;
    let rows = sqlx::query!(
        r#"SELECT a.id AS "id!", a.name AS "name!", a.mode AS "mode!: Mode", b.events AS "events!", b.of_all AS "of_all!",
                  b.oldest AS "oldest!: Timestamp"
           FROM (SELECT e.account_id, count(*) AS events, (sum(count(*)) OVER ())::bigint AS of_all,
                        min(min(e.created_at)) OVER () AS oldest
                 FROM (SELECT account_id, created_at FROM events WHERE id >= ulid_floor($1) ORDER BY id DESC LIMIT $2) e
                 GROUP BY e.account_id ORDER BY count(*) DESC LIMIT $3) b
           JOIN accounts a ON a.id = b.account_id ORDER BY b.events DESC, a.id"#,
        since,
        COUNTED,
        limit,
    )
    .fetch_all(db)
    .await?;
    let (events, oldest) = rows.first().map_or((0, since), |row| (row.of_all, row.oldest));
    let more = events >= COUNTED;
    let under_way = test_clocks::running(db, ADVANCES).await?;
    let mut advances: HashMap<_, _> = under_way.into_iter().map(|advance| (advance.account, advance)).collect();
    let mut accounts = Vec::new();
    for row in rows {
        let advance = advances.remove(&row.id);
        accounts.push(BusyAccount { id: row.id, name: row.name, mode: row.mode, events: Some(row.events), advance });
    }
    accounts.extend(others(db, advances).await?);
    Ok(Busiest { since: if more { oldest } else { since }, events, more, accounts })
}

/// The remaining accounts with a clock being advanced, which are not among the busiest.
async fn others(db: &PgPool, mut advances: HashMap<AccountId, RunningAdvance>) -> Result<Vec<BusyAccount>> {
    let ids: Vec<_> = advances.keys().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(r#"SELECT a.id, a.name, a.mode FROM accounts a WHERE a.id = ANY ($1) ORDER BY a.id"#, &ids)
        .fetch_all(db)
        .await?;
    let mut others = Vec::new();
    for row in rows {
        let advance = advances.remove(&row.id);
        others.push(BusyAccount { id: row.id, name: row.name, mode: row.mode, events: None, advance });
    }
    Ok(others)
}
