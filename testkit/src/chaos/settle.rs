//! The quiet time: until nothing is left to be done, or patience is at an end.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Result;
use sqlx::PgPool;
use tokio::time::sleep;

use super::world::{Stage, World};

/// The limit of an unhurried run. An operation that a provider did not process is sent again within a minute.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);
/// At least so long: a failed delivery has its second attempt after 5 s, or after 20 s if its endpoint hung.
const LEAST: Duration = Duration::from_secs(25);

/// What a system has come to: how long it took, and what was still to be done. Charges go on settling, and their events may fail
/// once more, so it is asked at that moment and not later.
#[derive(Debug)]
pub(super) struct Quiet {
    pub(super) took: Duration,
    pub(super) left: BTreeMap<String, i64>,
}

/// Waits, at most so long.
pub(super) async fn settle(stage: &mut Stage, world: &World, patience: Duration) -> Result<Quiet> {
    let began = Instant::now();
    for process in stage.cluster.processes() {
        process.resume()?;
        process.wait_until_ready().await?;
    }
    for shop in world.shops.iter().filter(|shop| matches!(shop.line, super::world::Line::Mock(_))) {
        stage.cluster.ctl(&["mock", "set", &shop.account.id, "--latency-ms", "50", "--lose-answer", "0"]).await?;
    }
    loop {
        let left = left(&stage.db).await?;
        let quiet = left.values().sum::<i64>() == 0 && began.elapsed() >= LEAST;
        if quiet || began.elapsed() >= patience {
            return Ok(Quiet { took: began.elapsed(), left });
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// What is still to be done, by name. Unknown outcomes of class C wait for a person, and so do refunds behind them; open
/// challenges wait for a cardholder.
async fn left(db: &PgPool) -> Result<BTreeMap<String, i64>> {
    let mut left = BTreeMap::new();
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
        left.insert(name.to_owned(), sqlx::query_scalar(query).fetch_one(db).await?);
    }
    Ok(left)
}
