//! Counters that are there before anything happens. Prometheus sees a rise only between two readings, so a counter that comes
//! with its first event hides that event; and what was never counted would look like what is not watched.

use super::{Difference, reconcile};
use crate::operations::Kind;
use crate::providers::{Action, Answer, ProviderKind, card_gateway};

/// What may come of asking a provider.
const OUTCOMES: [&str; 7] = ["succeeded", "challenged", "declined", "failed", "pending", "unknown", "not_processed"];
/// What may come of an attempt to collect an invoice.
const COLLECTIONS: [&str; 6] = ["paid", "soft_decline", "hard_decline", "exhausted", "no_card", "no_currency"];

const CAPTURED: &str = "payments_captured_minor_units_total";
const REFUNDED: &str = "payments_refunded_minor_units_total";

/// Of who asks providers and reads their statements.
pub fn count_payments_from_nought() {
    for provider in ProviderKind::ALL.map(ProviderKind::name) {
        for kind in Kind::ALL.map(Kind::name) {
            for outcome in OUTCOMES {
                let labels = [("provider", provider), ("kind", kind), ("outcome", outcome)];
                metrics::counter!("payments_operations_total", &labels).increment(0);
            }
        }
        for outcome in OUTCOMES {
            let labels = [("provider", provider), ("outcome", outcome)];
            metrics::counter!("payments_operations_recovered_total", &labels).increment(0);
        }
        for currency in card_gateway::CURRENCIES {
            for counter in [CAPTURED, REFUNDED] {
                metrics::counter!(counter, "provider" => provider, "currency" => currency).increment(0);
            }
        }
        for outcome in [reconcile::OK, reconcile::FAILED] {
            metrics::counter!("payments_statements_total", "provider" => provider, "outcome" => outcome).increment(0);
        }
        for counter in [
            "payments_duplicate_charges_total",
            "payments_amount_mismatches_total",
            "payments_configuration_errors_total",
            "payments_not_processed_given_up_total",
            "payments_late_changes_total",
        ] {
            metrics::counter!(counter, "provider" => provider).increment(0);
        }
        for difference in Difference::ALL.map(Difference::name) {
            let labels = [("provider", provider), ("difference", difference)];
            metrics::counter!("payments_book_differences_total", &labels).increment(0);
        }
    }
    metrics::counter!("payments_reconciled_total").increment(0);
    metrics::counter!("payments_orphans_total").increment(0);
}

/// Counts money that a provider says it has taken, or given back. A currency is one of ISO 4217, so these are few series; those
/// that are common are there from the start. An answer that comes twice counts twice: the books are in Postgres.
pub(super) fn count_money(provider: ProviderKind, action: &Action, answer: &Answer) {
    let asked = match action {
        Action::Charge { capture, money, .. } => capture.then_some((CAPTURED, money)),
        Action::Capture { money, .. } => Some((CAPTURED, money)),
        Action::Refund { money, .. } => Some((REFUNDED, money)),
        Action::Void { .. } | Action::StoreCard { .. } => None,
    };
    let Some((counter, money)) = asked else { return };
    let moved = match answer {
        Answer::Charged { amount, .. } => *amount,
        Answer::Done { .. } => money.minor,
        Answer::Challenged { .. }
        | Answer::Stored { .. }
        | Answer::Declined { .. }
        | Answer::Mismatched { .. }
        | Answer::Refused { .. } => return,
    };
    metrics::counter!(counter, "provider" => provider.name(), "currency" => money.currency.code())
        .increment(moved.unsigned_abs());
}

/// Of who bills cycles and collects invoices.
pub fn count_billing_from_nought() {
    for outcome in COLLECTIONS {
        metrics::counter!("invoices_collection_attempts_total", "outcome" => outcome).increment(0);
    }
    metrics::counter!("billing_cycles_failed_total", "work" => "subscriptions").increment(0);
}
