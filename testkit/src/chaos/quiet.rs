//! The quiet period after the load: waits until all work is done or the time is up.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Result;
use sqlx::PgPool;
use tokio::time::sleep;

use super::{shop::ShopKind, system::System};

/// The limit of the main run. An operation that the provider did not process is sent again within a minute.
pub(super) const TIMEOUT: Duration = Duration::from_secs(90);
/// The minimum: a failed delivery is retried after 5 s, or after 20 s if its endpoint hung.
const MIN_DURATION: Duration = Duration::from_secs(25);

/// How long the work took, and what was left unfinished. Settlement continues and its webhooks may fail once more, so
/// this is measured now and not later.
#[derive(Debug)]
pub(super) struct QuietPeriod {
    pub(super) duration: Duration,
    pub(super) unfinished: BTreeMap<String, i64>,
}

/// Waits until all work is done, at most for `timeout`.
pub(super) async fn wait_until_quiet(system: &mut System, timeout: Duration) -> Result<QuietPeriod> {
    for process in system.cluster.processes() {
        process.resume()?;
        process.wait_until_ready().await?;
    }
    for shop in system.shops.iter().filter(|shop| matches!(shop.kind, ShopKind::Mock(_))) {
        system.cluster.ctl(&["mock", "set", &shop.account.id, "--latency-ms", "50", "--lose-responses", "0"]).await?;
    }
    wait_until_done(&system.db, timeout).await
}

/// The same for a system whose processes are ready.
pub(super) async fn wait_until_done(db: &PgPool, timeout: Duration) -> Result<QuietPeriod> {
    let began = Instant::now();
    loop {
        let unfinished = unfinished(db).await?;
        let is_quiet = unfinished.values().sum::<i64>() == 0 && began.elapsed() >= MIN_DURATION;
        if is_quiet || began.elapsed() >= timeout {
            return Ok(QuietPeriod { duration: began.elapsed(), unfinished });
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// The unfinished work by kind. It excludes unknown outcomes of class C and the refunds behind them, which wait for an
/// operator, and open challenges, which wait for a cardholder.
async fn unfinished(db: &PgPool) -> Result<BTreeMap<String, i64>> {
    let mut unfinished = BTreeMap::new();
    for (name, query) in [
        ("operations claimed or sending", "SELECT count(*) FROM operations WHERE state IN ('claimed', 'sending')"),
        (
            "operations not finished",
            "SELECT count(*) FROM operations o LEFT JOIN mock.accounts a ON a.id = o.provider_account_id
             LEFT JOIN payments p ON p.id = o.payment_id
             WHERE o.finished_at IS NULL AND o.state NOT IN ('claimed', 'sending')
               AND NOT (o.state = 'unknown' AND coalesce(a.recovery_class, '') = 'C')
               AND coalesce(p.status <> 'requires_action', true)
               AND NOT (o.state = 'unknown' AND o.kind = 'refund' AND a.id IS NULL)
               AND NOT (o.state = 'ready' AND o.kind = 'refund' AND EXISTS (
                   SELECT FROM operations b WHERE b.account_id = o.account_id AND b.payment_id = o.payment_id
                       AND b.state = 'unknown' AND b.next_push_at IS NULL))",
        ),
        (
            "challenges past their time",
            "SELECT count(*) FROM payments WHERE status = 'requires_action' AND created_at < now() - interval '75 seconds'",
        ),
        (
            "cycles due",
            "SELECT (SELECT count(*) FROM subscriptions
                     WHERE next_billing_at < account_now(account_id, now()) - interval '5 seconds')
                  + (SELECT count(*) FROM recurring_invoices
                     WHERE next_run_at < account_now(account_id, now()) - interval '5 seconds')",
        ),
        ("webhooks due", "SELECT count(*) FROM webhook_pending WHERE due_at < now() + interval '15 seconds'"),
        ("clocks being advanced", "SELECT count(*) FROM accounts WHERE is_advancing(id)"),
        (
            "invoices due",
            "SELECT count(*) FROM invoices WHERE next_attempt_at < account_now(account_id, now()) - interval '5 seconds'",
        ),
    ] {
        unfinished.insert(name.to_owned(), sqlx::query_scalar(query).fetch_one(db).await?);
    }
    Ok(unfinished)
}
