//! Counters that are there before anything happens. Prometheus sees a rise only between two readings, so a counter that comes
//! with its first event hides that event; and what was never counted would look like what is not watched.

use std::sync::OnceLock;

use super::{Difference, reconcile};
use crate::id::AccountId;
use crate::operations::{Claimed, Kind};
use crate::providers::{Action, Answer, ProviderKind, card_gateway};

/// What may come of asking a provider.
const OUTCOMES: [&str; 7] = ["succeeded", "challenged", "declined", "failed", "pending", "unknown", "not_processed"];
/// What may come of an attempt to collect an invoice.
const COLLECTIONS: [&str; 6] = ["paid", "soft_decline", "hard_decline", "exhausted", "no_card", "no_currency"];

const CAPTURED: &str = "payments_captured_minor_units_total";
const REFUNDED: &str = "payments_refunded_minor_units_total";

/// Accounts whose charges are also counted by account: few, since each has series of its own.
static REPORTED_ACCOUNTS: OnceLock<Vec<AccountId>> = OnceLock::new();

/// Sets the accounts whose charges are also counted by account, once, at start.
pub fn report_accounts(accounts: Vec<AccountId>) {
    for account in &accounts {
        for outcome in ["succeeded", "declined"] {
            count_charge_of(*account, outcome, 0);
        }
    }
    let _ = REPORTED_ACCOUNTS.set(accounts);
}

fn count_charge_of(account: AccountId, outcome: &'static str, charges: u64) {
    metrics::counter!("account_charges_total", "account" => account.to_string(), "outcome" => outcome)
        .increment(charges);
}

fn is_reported(account: AccountId) -> bool {
    REPORTED_ACCOUNTS.get().is_some_and(|accounts| accounts.contains(&account))
}

/// Counts a request to a provider by its outcome.
pub(super) fn count_request(claimed: &Claimed, outcome: &'static str) {
    let labels = [("provider", claimed.provider.name()), ("kind", claimed.kind.name()), ("outcome", outcome)];
    metrics::counter!("payments_operations_total", &labels).increment(1);
    let is_charge = matches!(claimed.kind, Kind::Sale | Kind::Authorize);
    if is_charge && is_reported(claimed.account_id) {
        count_charge_of(claimed.account_id, outcome, 1);
    }
    if claimed.sent_before {
        let labels = [("provider", claimed.provider.name()), ("outcome", outcome)];
        metrics::counter!("payments_operations_recovered_total", &labels).increment(1);
    }
}

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

/// Counts money that a provider reports as captured or refunded. A currency is one of ISO 4217, so these are few series; the common
/// ones exist from the start. A response that is received twice counts twice: the books are in Postgres.
pub(super) fn count_money(claimed: &Claimed, answer: &Answer) {
    const CAPTURE: (&str, &str) = (CAPTURED, "account_captured_minor_units_total");
    const REFUND: (&str, &str) = (REFUNDED, "account_refunded_minor_units_total");
    let asked = match &claimed.request.action {
        Action::Charge { capture, money, .. } => capture.then_some((CAPTURE, money)),
        Action::Capture { money, .. } => Some((CAPTURE, money)),
        Action::Refund { money, .. } => Some((REFUND, money)),
        Action::Void { .. } | Action::StoreCard { .. } => None,
    };
    let Some(((by_provider, by_account), money)) = asked else { return };
    let moved = match answer {
        Answer::Charged { amount, .. } => *amount,
        Answer::Done { .. } => money.minor,
        Answer::Challenged { .. }
        | Answer::Stored { .. }
        | Answer::Declined { .. }
        | Answer::Mismatched { .. }
        | Answer::Refused { .. } => return,
    };
    let (moved, currency) = (moved.unsigned_abs(), money.currency.code());
    metrics::counter!(by_provider, "provider" => claimed.provider.name(), "currency" => currency).increment(moved);
    if is_reported(claimed.account_id) {
        let account = claimed.account_id.to_string();
        metrics::counter!(by_account, "account" => account, "currency" => currency).increment(moved);
    }
}

/// Of who bills cycles and collects invoices.
pub fn count_billing_from_nought() {
    for outcome in COLLECTIONS {
        metrics::counter!("invoices_collection_attempts_total", "outcome" => outcome).increment(0);
    }
    metrics::counter!("billing_cycles_failed_total", "work" => "subscriptions").increment(0);
}
