//! Health checks for operators. Each query uses an index or reads a bounded number of rows.

use std::time::Duration;

use sqlx::PgPool;

use super::environment::{process_clocks, providers};
use super::finding::{Finding, MAX_NAMED, MAX_ROWS, Severity};
use domain::invoices;
use domain::operations::OperationKind;
use domain::payment_links;
use domain::recurring_invoices;
use domain::subscriptions;
use domain::webhooks::{DisabledReason, EndpointStatus, dispatch};
use engine::open_differences;
use foundation::clock::Clock;
use foundation::error::Result;
use foundation::id::{AccountId, OperationId, PaymentId, WebhookEndpointId};
use foundation::time::Timestamp;

/// Seconds after which unclaimed due work is late; ten times that is an error.
const LATE_SECONDS: f64 = 30.0;
/// Statements normally end four minutes ago; at this age, in seconds, they are not being read, or the provider does not
/// return them.
const STATEMENT_LATE_SECONDS: f64 = 900.0;
/// Statements are scheduled once a minute; after this many seconds no scheduler is running.
const SCHEDULER_LATE_SECONDS: f64 = 150.0;
/// How soon a previous secret must expire to be reported.
const EXPIRES_WITHIN: Duration = Duration::from_secs(3 * 3600);

/// Runs all checks that need only Postgres.
///
/// # Errors
/// Database errors only.
pub async fn examine(db: &PgPool, clock: &Clock) -> Result<Vec<Finding>> {
    Ok(vec![
        postgres_clock(db, clock).await?,
        process_clocks(db).await?,
        connections(db).await?,
        manual_review(db).await?,
        unknown_outcomes(db).await?,
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

/// Grades a clock by its offset in seconds.
pub fn clock_off(check: &'static str, seconds: f64) -> Finding {
    let message = format!("this machine's clock is off by {seconds:+.1} s");
    let advice = "synchronize both clocks by NTP; a process whose clock is off by more than 2 s starts no operation that moves money";
    match seconds.abs() {
        off if off < 2.0 => Finding::ok(check, message),
        off if off < 30.0 => Finding::of(check, Severity::Warn, message, advice),
        _ => Finding::of(check, Severity::Bad, message, advice),
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
    let message = format!("{} of {} are in use", row.used, row.most);
    let advice = "raise max_connections, or run fewer processes or smaller pools (DATABASE_POOL)";
    Ok(match row.used as f64 / row.most as f64 {
        share if share < 0.8 => Finding::ok("connections to postgres", message),
        share if share < 0.95 => Finding::of("connections to postgres", Severity::Warn, message, advice),
        _ => Finding::of("connections to postgres", Severity::Bad, message, advice),
    })
}

async fn manual_review(db: &PgPool) -> Result<Finding> {
    let rows = sqlx::query!(
        "SELECT id, kind, account_id FROM operations WHERE state = 'unknown' AND next_push_at IS NULL
         ORDER BY first_sent_at LIMIT $1",
        MAX_ROWS
    );
    let rows = rows.fetch_all(db).await?;
    if rows.is_empty() {
        return Ok(Finding::ok("manual review", "nothing"));
    }
    let describe =
        |id: OperationId, kind: OperationKind, account: AccountId| format!("{id} ({} of {account})", kind.name());
    let named: Vec<_> = rows.iter().take(MAX_NAMED).map(|row| describe(row.id, row.kind, row.account_id)).collect();
    Ok(Finding::of(
        "manual review",
        Severity::Bad,
        format!("{} unknown outcomes: {}", rows.len(), named.join(", ")),
        "ctl operations list --unknown; ask the provider for each reference; ctl operations resolve",
    ))
}

async fn unknown_outcomes(db: &PgPool) -> Result<Finding> {
    let row = sqlx::query!(
        r#"SELECT count(*) AS "count!", coalesce(max(age), 0)::float8 AS "oldest!" FROM (
               SELECT extract(epoch FROM clock_timestamp() - first_sent_at) AS age FROM operations
               WHERE state = 'unknown' AND next_push_at IS NOT NULL ORDER BY first_sent_at LIMIT $1) AS looked_at"#,
        MAX_ROWS
    );
    let row = row.fetch_one(db).await?;
    let message = format!("{} are being recovered, the oldest for {:.0} s", row.count, row.oldest);
    let advice = "check that the provider responds (payments_operations_total) and that workers are running";
    Ok(match row.oldest {
        age if age < 120.0 => Finding::ok("unknown outcomes", message),
        age if age < 1800.0 => Finding::of("unknown outcomes", Severity::Warn, message, advice),
        _ => Finding::of("unknown outcomes", Severity::Bad, message, advice),
    })
}

/// Work that a scheduler does not enqueue stays due; work that is enqueued but not claimed is rarely due, but grows
/// old. Operations with unknown outcome, and refunds waiting behind one, have their own check.
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
        MAX_ROWS
    );
    let row = row.fetch_one(db).await?;
    let message = format!(
        "{} operations have not ended, the oldest was created {:.0} s ago; {} are due, {} of them with an expired lease",
        row.open, row.oldest, row.due, row.leases
    );
    let advice =
        "check that workers are running and consume the queue, that a scheduler is running, and scheduler_ticks_total";
    Ok(lag("due operations", row.oldest.max(row.oldest_due), message, advice))
}

fn lag(check: &'static str, seconds: f64, message: String, advice: &'static str) -> Finding {
    match seconds {
        late if late < LATE_SECONDS => Finding::ok(check, message),
        late if late < LATE_SECONDS * 10.0 => Finding::of(check, Severity::Warn, message, advice),
        _ => Finding::of(check, Severity::Bad, message, advice),
    }
}

/// A scheduler reschedules each statement once a minute.
async fn schedulers(db: &PgPool) -> Result<Finding> {
    let waited = sqlx::query_scalar!(
        r#"SELECT extract(epoch FROM clock_timestamp() - reconcile_at)::float8 AS "waited!" FROM provider_accounts
           WHERE reconcile_at < 'infinity' ORDER BY reconcile_at LIMIT 1"#
    );
    let check = "schedulers";
    Ok(match waited.fetch_optional(db).await? {
        None => Finding::ok(check, "no account exists yet, so none can be detected"),
        Some(waited) if waited < SCHEDULER_LATE_SECONDS => Finding::ok(check, "due work is enqueued"),
        Some(waited) => Finding::of(
            check,
            Severity::Bad,
            format!("a statement has been due for {waited:.0} s and was not enqueued"),
            "start a scheduler, or check the log of the running one",
        ),
    })
}

/// A worker advances the time up to which each account has been compared. One never read has not started.
async fn statements(db: &PgPool) -> Result<Finding> {
    let row = sqlx::query!(
        r#"SELECT count(*) FILTER (WHERE behind >= $2) AS "late!", coalesce(max(behind), 0)::float8 AS "oldest!"
           FROM (SELECT extract(epoch FROM clock_timestamp() - reconciled_until)::float8 AS behind FROM provider_accounts
                 WHERE reconcile_at < clock_timestamp() + interval '1 hour' ORDER BY reconcile_at LIMIT $1) AS looked_at"#,
        MAX_ROWS,
        STATEMENT_LATE_SECONDS,
    );
    let row = row.fetch_one(db).await?;
    let message = format!("the oldest was compared up to {:.0} s ago; {} are late", row.oldest, row.late);
    let advice =
        "check that workers are running and that the provider returns its statement (docs/runbooks/reconciliation.md)";
    Ok(match row.oldest {
        behind if behind < STATEMENT_LATE_SECONDS => Finding::ok("statements", message),
        behind if behind < STATEMENT_LATE_SECONDS * 4.0 => Finding::of("statements", Severity::Warn, message, advice),
        _ => Finding::of("statements", Severity::Bad, message, advice),
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
    let late: Vec<_> = works.iter().filter(|(_, seconds)| *seconds >= LATE_SECONDS).collect();
    let named: Vec<_> = late.iter().map(|(work, seconds)| format!("{work} for {seconds:.0} s")).collect();
    let message = if named.is_empty() { "nothing is late".to_owned() } else { format!("due: {}", named.join(", ")) };
    let oldest = late.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    Ok(lag("billing", oldest, message, "check that a scheduler is running, its log, and billing_cycles_failed_total"))
}

async fn test_clocks(db: &PgPool) -> Result<Finding> {
    let stuck = sqlx::query_scalar!(
        "SELECT account_id FROM test_clocks
         WHERE target IS NOT NULL AND lease_until < clock_timestamp() - interval '1 minute' ORDER BY account_id LIMIT 100"
    );
    let stuck: Vec<AccountId> = stuck.fetch_all(db).await?;
    Ok(match stuck.first() {
        None => Finding::ok("test clocks", "none is stuck"),
        Some(first) => Finding::of(
            "test clocks",
            Severity::Warn,
            format!("{} are stuck while being advanced, such as that of {first}", stuck.len()),
            "check that workers are running, and their logs (advance_clock)",
        ),
    })
}

/// Charges that belong to no payment and that the provider refused to return.
async fn unwanted_charges(db: &PgPool) -> Result<Finding> {
    let rows = sqlx::query_scalar!(
        r#"SELECT a.payment_id AS "payment_id!: PaymentId"
           FROM (SELECT payment_id, reversal_operation_id, returned_at FROM charge_anomalies ORDER BY id DESC LIMIT $1) a
           JOIN operations o ON o.id = a.reversal_operation_id
           WHERE o.state IN ('failed', 'declined') AND a.returned_at IS NULL"#,
        MAX_ROWS
    );
    let rows = rows.fetch_all(db).await?;
    let check = "second charges";
    Ok(match rows.first() {
        None => Finding::ok(check, "all were returned, or are being returned"),
        Some(first) => Finding::of(
            check,
            Severity::Bad,
            format!(
                "the provider refused to return {}, such as that of {first}: a cardholder has paid too much",
                rows.len()
            ),
            "ctl anomalies list --refused; return it at the provider, then ctl anomalies returned",
        ),
    })
}

async fn differences(db: &PgPool) -> Result<Finding> {
    let open: i64 = open_differences(db).await?.into_iter().map(|(.., count)| count).sum();
    Ok(match open {
        0 => Finding::ok("book differences", "none is unresolved"),
        open => Finding::of(
            "book differences",
            Severity::Bad,
            format!("{open} between a provider's books and ours are unresolved"),
            "ctl differences list; docs/runbooks/reconciliation.md describes what to do about each",
        ),
    })
}

async fn orphans(db: &PgPool) -> Result<Finding> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (SELECT found_at FROM orphans LIMIT $1) AS looked_at
           WHERE found_at > clock_timestamp() - interval '7 days'"#,
        MAX_ROWS
    );
    Ok(match count.fetch_one(db).await? {
        0 => Finding::ok("orphans", "none in seven days"),
        count => Finding::of(
            "orphans",
            Severity::Warn,
            format!("{count} in seven days: charges under references that match no operation"),
            "SELECT * FROM orphans; ctl reconcile for the account and day; ask the provider where they come from",
        ),
    })
}

async fn webhooks(db: &PgPool) -> Result<Finding> {
    let backlog = dispatch::backlog(db).await?;
    let message = format!(
        "{} are due, the oldest for {:.0} s; {} wait for their next attempt",
        backlog.due, backlog.oldest_due_seconds, backlog.waiting
    );
    let late = lag(
        "webhooks",
        backlog.oldest_due_seconds,
        message,
        "check webhooks_attempts_total: a slow endpoint, or too few workers",
    );
    if backlog.endpoints_unsigned > 0 {
        let message =
            format!("nothing is sent to {} endpoints, because it cannot be signed", backlog.endpoints_unsigned);
        let advice =
            "docs/runbooks/webhooks.md#webhooksunsigned: the workers' ENCRYPTION_KEY does not decrypt the secret";
        return Ok(Finding::of("webhooks", Severity::Bad, message, advice));
    }
    // A merchant's slow endpoint must not page an operator.
    Ok(Finding { severity: late.severity.min(Severity::Warn), ..late })
}

struct Endpoint {
    id: WebhookEndpointId,
    status: EndpointStatus,
    disabled_reason: Option<DisabledReason>,
    failing_since: Option<Timestamp>,
    failed_recently: bool,
    ends_soon: bool,
}

async fn read_endpoints(db: &PgPool) -> Result<Vec<Endpoint>> {
    let rows = sqlx::query_as!(
        Endpoint,
        r#"SELECT id, status, disabled_reason, failing_since,
                  coalesce(last_failed_at > clock_timestamp() - interval '7 days', true) AS "failed_recently!",
                  coalesce(previous_secret_until BETWEEN clock_timestamp() AND clock_timestamp() + make_interval(secs => $2), false)
                      AS "ends_soon!"
           FROM webhook_endpoints WHERE deleted_at IS NULL ORDER BY id DESC LIMIT $1"#,
        MAX_ROWS,
        EXPIRES_WITHIN.as_secs_f64(),
    );
    Ok(rows.fetch_all(db).await?)
}

fn named<'a>(rows: impl Iterator<Item = &'a Endpoint>) -> Option<String> {
    let ids: Vec<_> = rows.map(|row| row.id.to_string()).collect();
    let shown = ids.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    (!ids.is_empty()).then(|| format!("{}: {shown}", ids.len()))
}

async fn endpoints(db: &PgPool) -> Result<Finding> {
    let rows = read_endpoints(db).await?;
    let disabled_by_system = |row: &&Endpoint| {
        let is_disabled = row.status == EndpointStatus::Disabled && row.failed_recently;
        is_disabled && row.disabled_reason != Some(DisabledReason::Merchant)
    };
    let disabled = named(rows.iter().filter(disabled_by_system)).map(|ids| format!("disabled {ids}"));
    let failing = |row: &&Endpoint| row.status == EndpointStatus::Enabled && row.failing_since.is_some();
    let failing = named(rows.iter().filter(failing)).map(|ids| format!("failing {ids}"));
    let message: Vec<_> = [disabled, failing].into_iter().flatten().collect();
    Ok(if message.is_empty() {
        Finding::ok("webhook endpoints", "none is failing")
    } else {
        let advice = "ctl webhooks list; notify the merchant; afterwards ctl webhooks replay";
        Finding::of("webhook endpoints", Severity::Warn, message.join("; "), advice)
    })
}

async fn secrets(db: &PgPool) -> Result<Finding> {
    let ends = read_endpoints(db).await?;
    Ok(match named(ends.iter().filter(|row| row.ends_soon)) {
        None => Finding::ok("former secrets", "none expires within three hours"),
        Some(ids) => Finding::of(
            "former secrets",
            Severity::Warn,
            format!("expire within three hours, of {ids}"),
            "make sure that the merchant uses the new one; webhooks that fail later can be replayed",
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
        return Ok(Finding::ok("partitions", "those of this month and the next two exist"));
    }
    let advice = "a scheduler creates them every hour: check that one is running, and its log (partitions)";
    Ok(Finding::of("partitions", Severity::Bad, format!("missing: {}", missing.join(", ")), advice))
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
    let message = format!("{table} has rows: a process's clock was far off, or a month had no partition");
    let advice = "correct the clock; the rows are served normally, but no partition for their month can be created while they exist";
    Ok(Finding::of("default partitions", Severity::Warn, message, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_graded_by_their_offset() {
        let severity = |seconds| clock_off("clock", seconds).severity;
        assert_eq!([0.0, -1.9, 2.0, -29.0, 30.0, -301.0].map(severity), {
            use Severity::{Bad, Ok, Warn};
            [Ok, Ok, Warn, Warn, Bad, Bad]
        });
    }

    #[test]
    fn late_work_is_graded_by_its_delay() {
        let severity = |seconds| lag("work", seconds, String::new(), "").severity;
        assert_eq!([0.0, 29.0, 30.0, 299.0, 300.0].map(severity), {
            use Severity::{Bad, Ok, Warn};
            [Ok, Ok, Warn, Warn, Bad]
        });
    }
}
