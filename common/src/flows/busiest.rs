//! Whose the work of late was. Nearly whatever changes writes an event, so events are the measure; an advance of a test clock, which
//! may go on for long without any, is shown beside them.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::PgPool;

use crate::accounts::Mode;
use crate::error::Result;
use crate::id::AccountId;
use crate::test_clocks::{self, UnderWay};
use crate::time::Timestamp;

/// Events that are counted at most, the newest ones. So many are read in a second or two, whatever the table holds.
const COUNTED: i64 = 200_000;
/// Advances that are looked at.
const ADVANCES: i64 = 1_000;

/// What was counted.
#[derive(Debug)]
pub struct Busiest {
    /// From when on.
    pub since: Timestamp,
    /// How many events there were, of everyone.
    pub events: i64,
    /// There were more before `since`, in the time that was asked for.
    pub more: bool,
    /// The accounts, the one with most first; then others whose clock is being advanced.
    pub accounts: Vec<BusyAccount>,
}

/// An account, and what it has done.
#[derive(Debug)]
pub struct BusyAccount {
    /// The account.
    pub id: AccountId,
    /// What people call it.
    pub name: String,
    /// Test or live.
    pub mode: Mode,
    /// Its events; none of one that is not among the busiest.
    pub events: Option<i64>,
    /// The advance of its clock, if one is under way.
    pub advance: Option<UnderWay>,
}

/// The accounts with the most events of late, so many at most. Read along the ids of events, which are in the order of time: the cost
/// follows what there was of late, up to a bound.
///
/// # Errors
/// Only the database's.
pub async fn busiest_accounts(db: &PgPool, lately: Duration, limit: i64) -> Result<Busiest> {
    let since = sqlx::query_scalar!(
        r#"SELECT clock_timestamp() - make_interval(secs => $1) AS "since!: Timestamp""#,
        lately.as_secs_f64()
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
    let under_way = test_clocks::under_way(db, ADVANCES).await?;
    let mut advances: HashMap<_, _> = under_way.into_iter().map(|advance| (advance.account, advance)).collect();
    let mut accounts = Vec::new();
    for row in rows {
        let advance = advances.remove(&row.id);
        accounts.push(BusyAccount { id: row.id, name: row.name, mode: row.mode, events: Some(row.events), advance });
    }
    accounts.extend(others(db, advances).await?);
    Ok(Busiest { since: if more { oldest } else { since }, events, more, accounts })
}

/// Those that are left: their clocks are being advanced, and they are not among the busiest.
async fn others(db: &PgPool, mut advances: HashMap<AccountId, UnderWay>) -> Result<Vec<BusyAccount>> {
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
