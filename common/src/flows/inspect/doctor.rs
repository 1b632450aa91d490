//! Whether all is well: what an operator looks at first. Each question goes by an index, or looks at so many rows and no more.

use std::time::Duration;

use sqlx::PgPool;

use super::around::{process_clocks, providers};
use crate::clock::Clock;
use crate::error::Result;
use crate::flows::open_differences;
use crate::id::{AccountId, OperationId, PaymentId, WebhookEndpointId};
use crate::invoices;
use crate::operations::Kind;
use crate::payment_links;
use crate::recurring_invoices;
use crate::subscriptions;
use crate::time::Timestamp;
use crate::webhooks::{DisabledReason, EndpointStatus, dispatch};

/// Rows of a small table that are looked at, and of findings that are named.
pub(super) const LOOKED_AT: i64 = 10_000;
pub(super) const NAMED: usize = 5;
/// Due work that nobody has taken for so long lags; for ten times as long, it stands still.
const LAGS: f64 = 30.0;
/// Statements end four minutes ago as a rule; so old, nobody reads them, or the provider does not tell.
const STATEMENT_LAGS: f64 = 900.0;
/// Statements are read once a minute.
const SCHEDULER_SEEN: f64 = 150.0;
/// A former secret that ends so soon.
const ENDS_SOON: Duration = Duration::from_secs(3 * 3600);

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// All is well.
    Ok,
    /// Look at it in the morning.
    Warn,
    /// Do something now.
    Bad,
}

impl Grade {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

/// What a check has found.
#[derive(Debug)]
pub struct Finding {
    /// Which check.
    pub check: &'static str,
    /// How bad it is.
    pub grade: Grade,
    /// What it has found.
    pub says: String,
    /// What to do about it; empty if nothing.
    pub advice: &'static str,
}

impl Finding {
    /// A finding that all is well.
    pub fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, grade: Grade::Ok, says: says.into(), advice: "" }
    }

    /// A finding that something is to be done.
    pub fn of(check: &'static str, grade: Grade, says: impl Into<String>, advice: &'static str) -> Self {
        Self { check, grade, says: says.into(), advice }
    }
}

/// Asks everything that Postgres can answer.
///
/// # Errors
/// The database's.
pub async fn examine(db: &PgPool, clock: &Clock) -> Result<Vec<Finding>> {
    Ok(vec![
        postgres_clock(db, clock).await?,
        process_clocks(db).await?,
        connections(db).await?,
        for_a_person(db).await?,
        unknown(db).await?,
        providers(db).await?,
        due_operations(db).await?,
        schedulers(db).await?,
        statements(db).await?,
        billing(db, clock.now()).await?,
        test_clocks(db).await?,
        unwanted_charges(db).await?,
        orphans(db).await?,
        differences(db).await?,
        webhooks(db).await?,
        endpoints(db).await?,
        secrets(db).await?,
        partitions(db).await?,
        default_partitions(db).await?,
    ])
}

/// Grades a clock that is off by so many seconds.
pub fn clock_off(check: &'static str, seconds: f64) -> Finding {
    let says = format!("this machine's clock is off by {seconds:+.1} s");
    let advice = "set both clocks by NTP: a process whose clock is more than 2 s off starts no work that moves money";
    match seconds.abs() {
        off if off < 2.0 => Finding::ok(check, says),
        off if off < 30.0 => Finding::of(check, Grade::Warn, says, advice),
        _ => Finding::of(check, Grade::Bad, says, advice),
    }
}

async fn postgres_clock(db: &PgPool, clock: &Clock) -> Result<Finding> {
    clock.synchronize(&mut *db.acquire().await?).await?;
    Ok(clock_off("clock of postgres", clock.ahead_seconds().unwrap_or(0.0)))
}

async fn connections(db: &PgPool) -> Result<Finding> {
    let row = sqlx::query!(
        r#"SELECT current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint AS "most!",
                  (SELECT sum(numbackends)::bigint FROM pg_stat_database) AS "used!""#
    );
    let row = row.fetch_one(db).await?;
    let says = format!("{} of {} are in use", row.used, row.most);
    let advice = "raise max_connections, or run fewer processes or smaller pools (DATABASE_POOL)";
    Ok(match row.used as f64 / row.most as f64 {
        share if share < 0.8 => Finding::ok("connections to postgres", says),
        share if share < 0.95 => Finding::of("connections to postgres", Grade::Warn, says, advice),
        _ => Finding::of("connections to postgres", Grade::Bad, says, advice),
    })
}

async fn for_a_person(db: &PgPool) -> Result<Finding> {
    let rows = sqlx::query!(
        "SELECT id, kind, account_id FROM operations WHERE state = 'unknown' AND next_push_at IS NULL
         ORDER BY first_sent_at LIMIT $1",
        LOOKED_AT
    );
    let rows = rows.fetch_all(db).await?;
    if rows.is_empty() {
        return Ok(Finding::ok("waiting for a person", "nothing"));
    }
    let one = |id: OperationId, kind: Kind, account: AccountId| format!("{id} ({} of {account})", kind.name());
    let named: Vec<_> = rows.iter().take(NAMED).map(|row| one(row.id, row.kind, row.account_id)).collect();
    Ok(Finding::of(
        "waiting for a person",
        Grade::Bad,
        format!("{} unknown outcomes: {}", rows.len(), named.join(", ")),
        "ctl operations list --unknown; ask the provider for each reference; ctl operations resolve",
    ))
}

async fn unknown(db: &PgPool) -> Result<Finding> {
    let row = sqlx::query!(
        r#"SELECT count(*) AS "count!", coalesce(max(age), 0)::float8 AS "oldest!" FROM (
               SELECT extract(epoch FROM clock_timestamp() - first_sent_at) AS age FROM operations
               WHERE state = 'unknown' AND next_push_at IS NOT NULL ORDER BY first_sent_at LIMIT $1) AS looked_at"#,
        LOOKED_AT
    );
    let row = row.fetch_one(db).await?;
    let says = format!("{} are being asked for, the oldest for {:.0} s", row.count, row.oldest);
    let advice = "look whether the provider answers (payments_operations_total), and whether workers run";
    Ok(match row.oldest {
        age if age < 120.0 => Finding::ok("unknown outcomes", says),
        age if age < 1800.0 => Finding::of("unknown outcomes", Grade::Warn, says, advice),
        _ => Finding::of("unknown outcomes", Grade::Bad, says, advice),
    })
}

/// What a scheduler does not hand out stays due. What it hands out and no worker takes is never due for long, but grows old.
/// Those whose outcome is unknown, and refunds that wait behind such a one, have a check of their own.
async fn due_operations(db: &PgPool) -> Result<Finding> {
    let row = sqlx::query!(
        r#"SELECT count(*) FILTER (WHERE due) AS "due!", count(*) FILTER (WHERE due AND lease_until < next_push_at) AS "leases!",
                  coalesce(max(extract(epoch FROM clock_timestamp() - next_push_at)), 0)::float8 AS "oldest_due!",
                  count(*) FILTER (WHERE open) AS "open!",
                  coalesce(max(extract(epoch FROM clock_timestamp() - created_at)) FILTER (WHERE open), 0)::float8 AS "oldest!"
           FROM (SELECT o.next_push_at, o.lease_until, o.created_at, o.next_push_at < clock_timestamp() AS due,
                        o.state <> 'unknown' AND o.not_processed = 0 AND NOT (o.kind = 'refund' AND o.state = 'ready' AND EXISTS (
                            SELECT FROM operations b WHERE b.account_id = o.account_id AND b.payment_id = o.payment_id
                                AND b.state::text = 'unknown')) AS open
                 FROM operations o WHERE o.next_push_at IS NOT NULL ORDER BY o.next_push_at LIMIT $1) AS looked_at"#,
        LOOKED_AT
    );
    let row = row.fetch_one(db).await?;
    let says = format!(
        "{} operations have not ended, the oldest was written {:.0} s ago; {} are due, {} of them left behind by a worker",
        row.open, row.oldest, row.due, row.leases
    );
    let advice = "look whether workers run and take the queue, whether a scheduler runs, and at scheduler_ticks_total";
    Ok(lag("due operations", row.oldest.max(row.oldest_due), says, advice))
}

fn lag(check: &'static str, seconds: f64, says: String, advice: &'static str) -> Finding {
    match seconds {
        late if late < LAGS => Finding::ok(check, says),
        late if late < LAGS * 10.0 => Finding::of(check, Grade::Warn, says, advice),
        _ => Finding::of(check, Grade::Bad, says, advice),
    }
}

/// A scheduler moves the turn of each statement on, once a minute.
async fn schedulers(db: &PgPool) -> Result<Finding> {
    let waited = sqlx::query_scalar!(
        r#"SELECT extract(epoch FROM clock_timestamp() - reconcile_at)::float8 AS "waited!" FROM provider_accounts
           WHERE reconcile_at < 'infinity' ORDER BY reconcile_at LIMIT 1"#
    );
    let check = "schedulers";
    Ok(match waited.fetch_optional(db).await? {
        None => Finding::ok(check, "there is no account yet by which one would be seen"),
        Some(waited) if waited < SCHEDULER_SEEN => Finding::ok(check, "due work is handed out"),
        Some(waited) => Finding::of(
            check,
            Grade::Bad,
            format!("a statement has been due for {waited:.0} s, and nobody has handed it out"),
            "start a scheduler, or look at the log of the one that runs",
        ),
    })
}

/// A worker moves on up to when each account was compared with its provider's statement. One that was never read has not begun.
async fn statements(db: &PgPool) -> Result<Finding> {
    let row = sqlx::query!(
        r#"SELECT count(*) FILTER (WHERE behind >= $2) AS "late!", coalesce(max(behind), 0)::float8 AS "oldest!"
           FROM (SELECT extract(epoch FROM clock_timestamp() - reconciled_until)::float8 AS behind FROM provider_accounts
                 WHERE reconcile_at < clock_timestamp() + interval '1 hour' ORDER BY reconcile_at LIMIT $1) AS looked_at"#,
        LOOKED_AT,
        STATEMENT_LAGS,
    );
    let row = row.fetch_one(db).await?;
    let says = format!("the oldest was compared up to {:.0} s ago; {} are late", row.oldest, row.late);
    let advice = "look whether workers run and the provider tells its statement (docs/runbooks/reconciliation.md)";
    Ok(match row.oldest {
        behind if behind < STATEMENT_LAGS => Finding::ok("statements", says),
        behind if behind < STATEMENT_LAGS * 4.0 => Finding::of("statements", Grade::Warn, says, advice),
        _ => Finding::of("statements", Grade::Bad, says, advice),
    })
}

async fn billing(db: &PgPool, now: Timestamp) -> Result<Finding> {
    let recurring = recurring_invoices::oldest_due(db, now).await?;
    let recurring = recurring.map_or(0, |since| now.as_millisecond() - since.as_millisecond()) as f64 / 1000.0;
    let works = [
        ("recurring invoices", recurring),
        ("subscriptions", subscriptions::oldest_due_seconds(db, now).await?),
        ("collections", invoices::oldest_due_seconds(db, now).await?),
        ("payment links", payment_links::oldest_due_seconds(db, now).await?),
    ];
    let late: Vec<_> = works.iter().filter(|(_, seconds)| *seconds >= LAGS).collect();
    let named: Vec<_> = late.iter().map(|(work, seconds)| format!("{work} for {seconds:.0} s")).collect();
    let says = if named.is_empty() { "nothing is late".to_owned() } else { format!("due: {}", named.join(", ")) };
    let oldest = late.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    Ok(lag("billing", oldest, says, "look whether a scheduler runs, at its log, and at billing_cycles_failed_total"))
}

async fn test_clocks(db: &PgPool) -> Result<Finding> {
    let stuck = sqlx::query_scalar!(
        "SELECT account_id FROM test_clocks
         WHERE target IS NOT NULL AND lease_until < clock_timestamp() - interval '1 minute' ORDER BY account_id LIMIT 100"
    );
    let stuck: Vec<AccountId> = stuck.fetch_all(db).await?;
    Ok(match stuck.first() {
        None => Finding::ok("test clocks", "none stands still"),
        Some(first) => Finding::of(
            "test clocks",
            Grade::Warn,
            format!("{} stand still on their way, such as that of {first}", stuck.len()),
            "look whether workers run, and at their logs (advance_clock)",
        ),
    })
}

/// Reversals of second charges that the provider would not make. Their rows stay as they are, so old ones wake nobody.
async fn unwanted_charges(db: &PgPool) -> Result<Finding> {
    let rows = sqlx::query!(
        r#"SELECT a.payment_id AS "payment_id!: PaymentId",
                  o.finished_at > clock_timestamp() - interval '7 days' AS "is_new!"
           FROM (SELECT payment_id, reversal_operation_id FROM charge_anomalies ORDER BY id DESC LIMIT $1) a
           JOIN operations o ON o.id = a.reversal_operation_id WHERE o.state IN ('failed', 'declined')"#,
        LOOKED_AT
    );
    let rows = rows.fetch_all(db).await?;
    let new: Vec<_> = rows.iter().filter(|row| row.is_new).collect();
    let check = "second charges";
    Ok(match (new.first(), rows.first()) {
        (None, None) => Finding::ok(check, "none was left standing"),
        (Some(first), _) => Finding::of(
            check,
            Grade::Bad,
            format!(
                "{} could not be reversed within seven days, such as that of {}: a cardholder has paid twice",
                new.len(),
                first.payment_id
            ),
            "ctl payments why; refund it at the provider",
        ),
        (None, Some(first)) => Finding::of(
            check,
            Grade::Warn,
            format!(
                "{} could not be reversed more than seven days ago, such as that of {}",
                rows.len(),
                first.payment_id
            ),
            "docs/runbooks/double-charge.md lists them; make sure that each was refunded at the provider",
        ),
    })
}

async fn differences(db: &PgPool) -> Result<Finding> {
    let open: i64 = open_differences(db).await?.into_iter().map(|(_, count)| count).sum();
    Ok(match open {
        0 => Finding::ok("book differences", "none is unresolved"),
        open => Finding::of(
            "book differences",
            Grade::Bad,
            format!("{open} between a provider's books and ours are unresolved"),
            "ctl differences list; docs/runbooks/reconciliation.md says what to do about each",
        ),
    })
}

async fn orphans(db: &PgPool) -> Result<Finding> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (SELECT found_at FROM orphans LIMIT $1) AS looked_at
           WHERE found_at > clock_timestamp() - interval '7 days'"#,
        LOOKED_AT
    );
    Ok(match count.fetch_one(db).await? {
        0 => Finding::ok("orphans", "none in seven days"),
        count => Finding::of(
            "orphans",
            Grade::Warn,
            format!("{count} in seven days: money that moved under references that we do not know"),
            "SELECT * FROM orphans; ctl reconcile for the account and day; ask the provider whose it is",
        ),
    })
}

async fn webhooks(db: &PgPool) -> Result<Finding> {
    let backlog = dispatch::backlog(db).await?;
    let says = format!(
        "{} are due, the oldest for {:.0} s; {} wait for their next attempt",
        backlog.due, backlog.oldest_due_seconds, backlog.waiting
    );
    let late = lag(
        "webhooks",
        backlog.oldest_due_seconds,
        says,
        "look at webhooks_attempts_total: one endpoint that hangs, or too few workers",
    );
    if backlog.endpoints_unsigned > 0 {
        let says = format!("to {} endpoints nothing is sent, for it cannot be signed", backlog.endpoints_unsigned);
        let advice =
            "docs/runbooks/webhooks.md#webhooksunsigned: the workers' ENCRYPTION_KEY does not decrypt the secret";
        return Ok(Finding::of("webhooks", Grade::Bad, says, advice));
    }
    // A merchant's endpoint that hangs is no reason to wake anybody.
    Ok(Finding { grade: late.grade.min(Grade::Warn), ..late })
}

struct Endpoint {
    id: WebhookEndpointId,
    status: EndpointStatus,
    disabled_reason: Option<DisabledReason>,
    failing_since: Option<Timestamp>,
    ended_lately: bool,
    ends_soon: bool,
}

async fn looked_at(db: &PgPool) -> Result<Vec<Endpoint>> {
    let rows = sqlx::query_as!(
        Endpoint,
        r#"SELECT id, status, disabled_reason, failing_since,
                  coalesce(last_failed_at > clock_timestamp() - interval '7 days', true) AS "ended_lately!",
                  coalesce(previous_secret_until BETWEEN clock_timestamp() AND clock_timestamp() + make_interval(secs => $2), false)
                      AS "ends_soon!"
           FROM webhook_endpoints WHERE deleted_at IS NULL ORDER BY id DESC LIMIT $1"#,
        LOOKED_AT,
        ENDS_SOON.as_secs_f64(),
    );
    Ok(rows.fetch_all(db).await?)
}

fn named<'a>(rows: impl Iterator<Item = &'a Endpoint>) -> Option<String> {
    let ids: Vec<_> = rows.map(|row| row.id.to_string()).collect();
    let shown = ids.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    (!ids.is_empty()).then(|| format!("{}: {shown}", ids.len()))
}

async fn endpoints(db: &PgPool) -> Result<Finding> {
    let rows = looked_at(db).await?;
    let ours = |row: &&Endpoint| {
        let is_disabled = row.status == EndpointStatus::Disabled && row.ended_lately;
        is_disabled && row.disabled_reason != Some(DisabledReason::Merchant)
    };
    let disabled = named(rows.iter().filter(ours)).map(|ids| format!("disabled {ids}"));
    let failing = |row: &&Endpoint| row.status == EndpointStatus::Enabled && row.failing_since.is_some();
    let failing = named(rows.iter().filter(failing)).map(|ids| format!("failing {ids}"));
    let says: Vec<_> = [disabled, failing].into_iter().flatten().collect();
    Ok(if says.is_empty() {
        Finding::ok("webhook endpoints", "none fails")
    } else {
        let advice = "ctl webhooks list; tell the merchant; afterwards ctl webhooks replay";
        Finding::of("webhook endpoints", Grade::Warn, says.join("; "), advice)
    })
}

async fn secrets(db: &PgPool) -> Result<Finding> {
    let ends = looked_at(db).await?;
    Ok(match named(ends.iter().filter(|row| row.ends_soon)) {
        None => Finding::ok("former secrets", "none ends within three hours"),
        Some(ids) => Finding::of(
            "former secrets",
            Grade::Warn,
            format!("stop signing within three hours, of {ids}"),
            "make sure that the merchant has taken the new one; webhooks that fail later can be replayed",
        ),
    })
}

async fn partitions(db: &PgPool) -> Result<Finding> {
    let missing = sqlx::query_scalar!(
        r#"SELECT parent || to_char(date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') + make_interval(months => ahead), '_YYYY_MM')
                  AS "name!"
           FROM unnest(ARRAY['events', 'webhook_deliveries']) AS parent, generate_series(0, 2) AS ahead
           WHERE to_regclass(parent || to_char(date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')
               + make_interval(months => ahead), '_YYYY_MM')) IS NULL"#
    );
    let missing = missing.fetch_all(db).await?;
    if missing.is_empty() {
        return Ok(Finding::ok("partitions", "those of this month and the next two are there"));
    }
    let advice = "a scheduler makes them every hour: look whether one runs, and at its log (partitions)";
    Ok(Finding::of("partitions", Grade::Bad, format!("missing: {}", missing.join(", ")), advice))
}

async fn default_partitions(db: &PgPool) -> Result<Finding> {
    let row = sqlx::query!(
        r#"SELECT EXISTS (SELECT FROM events_default) AS "events!",
                  EXISTS (SELECT FROM webhook_deliveries_default) AS "deliveries!""#
    );
    let row = row.fetch_one(db).await?;
    if !row.events && !row.deliveries {
        return Ok(Finding::ok("default partitions", "empty"));
    }
    let table = if row.events { "events_default" } else { "webhook_deliveries_default" };
    let says = format!("{table} has rows: the clock of a process was far off, or a month had no partition");
    let advice = "mend the clock; the rows are served as any other, but a partition of their month cannot be made while they are there";
    Ok(Finding::of("default partitions", Grade::Warn, says, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_graded_by_how_far_it_is_off() {
        let grade = |seconds| clock_off("clock", seconds).grade;
        assert_eq!([0.0, -1.9, 2.0, -29.0, 30.0, -301.0].map(grade), {
            use Grade::{Bad, Ok, Warn};
            [Ok, Ok, Warn, Warn, Bad, Bad]
        });
    }

    #[test]
    fn what_lags_is_looked_at_and_what_stands_still_is_bad() {
        let grade = |seconds| lag("work", seconds, String::new(), "").grade;
        assert_eq!([0.0, 29.0, 30.0, 299.0, 300.0].map(grade), {
            use Grade::{Bad, Ok, Warn};
            [Ok, Ok, Warn, Warn, Bad]
        });
    }
}
