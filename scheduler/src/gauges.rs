//! Gauges of the whole system, for dashboards and alerts. They are read from the tables, so the end of a process
//! loses none.

use domain::accounts::Mode;
use domain::charges;
use domain::invoices;
use domain::mails;
use domain::operations::{self, State};
use domain::payment_links;
use domain::recurring_invoices;
use domain::subscriptions;
use domain::webhooks::{DisabledReason, dispatch};
use foundation::db::{self, Db};
use foundation::error::Result;
use foundation::queues;
use foundation::time::Timestamp;
use providers::ProviderKind;
use queue::Publisher;

/// Open breakers read at most.
const BREAKER_LIMIT: i64 = 10_000;

/// Unfinished operations, recent anomalies, open breakers and the queues.
pub(crate) async fn publish(db: &Db, publisher: &Publisher) -> Result<()> {
    publish_operations(db).await?;
    publish_anomalies(db).await?;
    publish_breakers(db).await?;
    for queue in queues::ALL {
        // Without Redis the gauges keep their last value; Redis has alerts of its own.
        if let Ok(depth) = publisher.depth(queue).await {
            metrics::gauge!("queue_waiting", "queue" => queue.name()).set(depth.waiting as f64);
            metrics::gauge!("queue_pending", "queue" => queue.name()).set(depth.pending as f64);
            metrics::gauge!("queue_oldest_age_seconds", "queue" => queue.name())
                .set(depth.oldest_age_ms as f64 / 1000.0);
        }
    }
    Ok(())
}

async fn publish_operations(db: &Db) -> Result<()> {
    let backlog = operations::backlog(db).await?;
    let states = [State::Ready, State::Sending, State::Unknown];
    for (mode, state) in Mode::ALL.into_iter().flat_map(|mode| states.map(|state| (mode, state))) {
        let row = backlog.iter().find(|row| row.mode == mode && row.state == state);
        let or_zero = |value: Option<f64>| value.unwrap_or(0.0);
        let labels = [("mode", mode.name()), ("state", state.name())];
        metrics::gauge!("payments_operations_unfinished", &labels).set(or_zero(row.map(|row| row.count as f64)));
        metrics::gauge!("payments_operations_oldest_age_seconds", &labels)
            .set(or_zero(row.map(|row| row.oldest_seconds)));
        if state == State::Unknown {
            metrics::gauge!("payments_operations_in_manual_review", "mode" => mode.name())
                .set(or_zero(row.map(|row| row.in_manual_review as f64)));
        } else {
            metrics::gauge!("payments_background_operations_oldest_age_seconds", &labels)
                .set(or_zero(row.map(|row| row.oldest_in_background_seconds)));
        }
    }
    Ok(())
}

async fn publish_anomalies(db: &Db) -> Result<()> {
    let (charges, orphans) = (engine::second_charges_last_hour(db).await?, engine::orphans_last_hour(db).await?);
    for mode in Mode::ALL {
        for provider in ProviderKind::ALL {
            let row = charges.iter().find(|row| row.mode == mode && row.provider == provider);
            let labels = [("mode", mode.name()), ("provider", provider.name())];
            metrics::gauge!("payments_duplicate_charges_last_hour", &labels).set(row.map_or(0, |row| row.found) as f64);
            metrics::gauge!("payments_amount_mismatches_last_hour", &labels)
                .set(row.map_or(0, |row| row.mismatched) as f64);
            metrics::gauge!("payments_reversals_refused_last_hour", &labels).set(row.map_or(0, |row| row.kept) as f64);
        }
        let found = orphans.iter().find(|(found, _)| *found == mode).map_or(0, |(_, count)| *count);
        metrics::gauge!("payments_orphans_last_hour", "mode" => mode.name()).set(found as f64);
    }
    for (mode, difference, count) in engine::open_differences(db).await? {
        let labels = [("mode", mode.name()), ("difference", difference.name())];
        metrics::gauge!("payments_book_differences_unresolved", &labels).set(count as f64);
    }
    Ok(())
}

/// Open breakers by mode and provider. Accounts are not labels, because their number is unbounded.
async fn publish_breakers(db: &Db) -> Result<()> {
    let open = charges::breakers(db, BREAKER_LIMIT).await?;
    for (mode, provider) in Mode::ALL.into_iter().flat_map(|mode| ProviderKind::ALL.map(|provider| (mode, provider))) {
        let ages = open.iter().filter(|breaker| breaker.mode == mode && breaker.provider == provider);
        let ages = ages.map(|breaker| breaker.seconds);
        let labels = [("mode", mode.name()), ("provider", provider.name())];
        metrics::gauge!("provider_breakers_open", &labels).set(ages.clone().count() as f64);
        metrics::gauge!("provider_breakers_oldest_seconds", &labels).set(ages.fold(0.0, f64::max));
    }
    Ok(())
}

/// The age of the oldest due billing work of each kind.
pub(crate) async fn publish_billing(db: &Db, now: Timestamp) -> Result<()> {
    let recurring = recurring_invoices::oldest_due(db, now).await?;
    let recurring_ms = recurring.map_or(0, |since| now.as_millisecond() - since.as_millisecond());
    for (work, seconds) in [
        ("recurring_invoices", recurring_ms as f64 / 1000.0),
        ("subscriptions", subscriptions::oldest_due_seconds(db, now).await?),
        ("collections", invoices::oldest_due_seconds(db, now).await?),
        ("payment_links", payment_links::oldest_due_seconds(db, now).await?),
    ] {
        metrics::gauge!("billing_oldest_due_age_seconds", "work" => work).set(seconds);
    }
    metrics::gauge!("mails_oldest_due_age_seconds").set(mails::oldest_due_seconds(db).await?);
    Ok(())
}

/// Pending deliveries, and endpoints that receive none.
pub(crate) async fn publish_webhooks(db: &Db) -> Result<()> {
    let webhooks = dispatch::backlog(db).await?;
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

/// The size of the database and of its largest tables.
pub(crate) async fn publish_sizes(db: &Db) -> Result<()> {
    let size = db::size(db).await?;
    metrics::gauge!("database_bytes").set(size.bytes as f64);
    for table in size.tables {
        metrics::gauge!("database_table_bytes", "table" => table.table).set(table.bytes as f64);
    }
    Ok(())
}
