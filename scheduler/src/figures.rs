//! Figures of the whole system, for dashboards and alerts: counted in the tables, so that none is lost with a process.

use common::db;
use common::error::Result;
use common::operations::{self, State};
use common::providers::ProviderKind;
use common::webhooks::{DisabledReason, dispatch};
use common::{flows, invoices, payment_links, queues, recurring_invoices, subscriptions};

use crate::schedule::Scheduler;

/// Breakers that are counted.
const BREAKERS: i64 = 10_000;

/// What is not at its end of the operations, what went wrong of late, and the queues.
pub(crate) async fn publish(of: &Scheduler) -> Result<()> {
    publish_operations(of).await?;
    publish_what_went_wrong(of).await?;
    publish_breakers(of).await?;
    for queue in queues::ALL {
        // Redis may be away; then there is no figure, and its own alarms say so.
        if let Ok(depth) = of.publisher.depth(queue).await {
            metrics::gauge!("queue_waiting", "queue" => queue.name()).set(depth.waiting as f64);
            metrics::gauge!("queue_pending", "queue" => queue.name()).set(depth.pending as f64);
            metrics::gauge!("queue_oldest_age_seconds", "queue" => queue.name())
                .set(depth.oldest_age_ms as f64 / 1000.0);
        }
    }
    Ok(())
}

async fn publish_operations(of: &Scheduler) -> Result<()> {
    let backlog = operations::backlog(&of.db).await?;
    for state in [State::Ready, State::Claimed, State::Sending, State::Unknown] {
        let row = backlog.iter().find(|row| row.state == state);
        let figure = |value: Option<f64>| value.unwrap_or(0.0);
        metrics::gauge!("payments_operations_unfinished", "state" => state.name())
            .set(figure(row.map(|row| row.count as f64)));
        metrics::gauge!("payments_operations_oldest_age_seconds", "state" => state.name())
            .set(figure(row.map(|row| row.oldest_seconds)));
        if state == State::Unknown {
            metrics::gauge!("payments_operations_for_a_person").set(figure(row.map(|row| row.for_a_person as f64)));
        } else {
            metrics::gauge!("payments_background_operations_oldest_age_seconds", "state" => state.name())
                .set(figure(row.map(|row| row.oldest_in_background_seconds)));
        }
    }
    Ok(())
}

async fn publish_what_went_wrong(of: &Scheduler) -> Result<()> {
    let charges = flows::second_charges_lately(&of.db).await?;
    for provider in ProviderKind::ALL {
        let row = charges.iter().find(|row| row.provider == provider);
        metrics::gauge!("payments_duplicate_charges_lately", "provider" => provider.name())
            .set(row.map_or(0, |row| row.found) as f64);
        metrics::gauge!("payments_amount_mismatches_recent", "provider" => provider.name())
            .set(row.map_or(0, |row| row.mismatched) as f64);
        metrics::gauge!("payments_reversals_refused_lately", "provider" => provider.name())
            .set(row.map_or(0, |row| row.kept) as f64);
    }
    metrics::gauge!("payments_orphans_lately").set(flows::orphans_lately(&of.db).await? as f64);
    for (difference, count) in flows::open_differences(&of.db).await? {
        metrics::gauge!("payments_book_differences_unresolved", "difference" => difference.name()).set(count as f64);
    }
    Ok(())
}

/// Which providers process nothing. The accounts are not named: there may be any number.
async fn publish_breakers(of: &Scheduler) -> Result<()> {
    let open = operations::breakers(&of.db, BREAKERS).await?;
    for provider in ProviderKind::ALL {
        let ages = open.iter().filter(|breaker| breaker.provider == provider).map(|breaker| breaker.seconds);
        metrics::gauge!("provider_breakers_open", "provider" => provider.name()).set(ages.clone().count() as f64);
        metrics::gauge!("provider_breakers_oldest_seconds", "provider" => provider.name())
            .set(ages.fold(0.0, f64::max));
    }
    Ok(())
}

/// What is due of billing.
pub(crate) async fn publish_billing(of: &Scheduler) -> Result<()> {
    let now = of.clock.now();
    let recurring = recurring_invoices::oldest_due(&of.db, now).await?;
    let recurring = recurring.map_or(0, |since| now.as_millisecond() - since.as_millisecond());
    for (work, seconds) in [
        ("recurring_invoices", recurring as f64 / 1000.0),
        ("subscriptions", subscriptions::oldest_due_seconds(&of.db, now).await?),
        ("collections", invoices::oldest_due_seconds(&of.db, now).await?),
        ("payment_links", payment_links::oldest_due_seconds(&of.db, now).await?),
    ] {
        metrics::gauge!("billing_oldest_due_age_seconds", "work" => work).set(seconds);
    }
    Ok(())
}

/// What waits to be delivered, and who cannot be told.
pub(crate) async fn publish_webhooks(of: &Scheduler) -> Result<()> {
    let webhooks = dispatch::backlog(&of.db).await?;
    metrics::gauge!("webhooks_pending", "state" => "due").set(webhooks.due as f64);
    metrics::gauge!("webhooks_pending", "state" => "waiting").set(webhooks.waiting as f64);
    metrics::gauge!("webhooks_oldest_due_age_seconds").set(webhooks.oldest_due_seconds);
    metrics::gauge!("webhooks_endpoints_late").set(webhooks.endpoints_late as f64);
    metrics::gauge!("webhooks_endpoints_failing").set(webhooks.endpoints_failing as f64);
    metrics::gauge!("webhooks_endpoints_unsigned").set(webhooks.endpoints_unsigned as f64);
    for reason in DisabledReason::ALL {
        let disabled =
            webhooks.disabled.iter().find(|(disabled, _)| *disabled == reason).map_or(0, |(_, count)| *count);
        metrics::gauge!("webhooks_endpoints_disabled", "reason" => reason.name()).set(disabled as f64);
    }
    Ok(())
}

/// How large the database is, and which tables make it so.
pub(crate) async fn publish_sizes(of: &Scheduler) -> Result<()> {
    let size = db::size(&of.db).await?;
    metrics::gauge!("database_bytes").set(size.bytes as f64);
    for table in size.tables {
        metrics::gauge!("database_table_bytes", "table" => table.table).set(table.bytes as f64);
    }
    Ok(())
}
