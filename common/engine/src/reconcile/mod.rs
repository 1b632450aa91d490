//! Compares a provider's statements and look-ups with our rows.

pub mod books;
pub mod disputes;
pub mod inquire;
pub mod recent;
pub mod statements;

use books::Difference;
use providers::ProviderKind;

/// Registers the counters at zero, so that the first event is visible as an increase.
pub fn register_reconciliation_metrics() {
    for provider in ProviderKind::ALL.map(ProviderKind::name) {
        for outcome in [statements::OK, statements::FAILED] {
            metrics::counter!("payments_statements_total", "provider" => provider, "outcome" => outcome).increment(0);
        }
        for difference in Difference::ALL.map(Difference::name) {
            let labels = [("provider", provider), ("difference", difference)];
            metrics::counter!("payments_book_differences_total", &labels).increment(0);
        }
    }
    metrics::counter!("payments_reconciled_total").increment(0);
    metrics::counter!("payments_orphans_total").increment(0);
}
