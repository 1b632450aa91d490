//! Registers counters with value 0 at start. Prometheus computes an increase only between two scrapes, so a counter
//! created by its first event would hide that event, and a counter without events would be missing.

use std::sync::OnceLock;

use domain::accounts::Mode;
use domain::charges::Claimed;
use domain::invoices::{Failure, Next};
use domain::operations::OperationKind;
use foundation::id::AccountId;
use providers::{Action, DeclineType, ProviderKind, ProviderResponse, card_gateway};

macro_rules! outcomes {
    ($(#[doc = $what:literal])+ $name:ident { $($outcome:ident = $label:literal,)+ }) => {
        $(#[doc = $what])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($outcome,)+
        }

        impl $name {
            const ALL: &'static [Self] = &[$(Self::$outcome,)+];

            /// The label of the metric.
            const fn label(self) -> &'static str {
                match self {
                    $(Self::$outcome => $label,)+
                }
            }
        }
    };
}

outcomes! {
    /// Outcome of a request to a provider.
    RequestOutcome {
        Succeeded = "succeeded",
        Challenged = "challenged",
        Declined = "declined",
        Failed = "failed",
        Pending = "pending",
        Unknown = "unknown",
        NotProcessed = "not_processed",
    }
}

outcomes! {
    /// Outcome of a collection attempt.
    CollectionOutcome {
        Paid = "paid",
        SoftDecline = "soft_decline",
        HardDecline = "hard_decline",
        Exhausted = "exhausted",
        Stopped = "stopped",
        NoCard = "no_card",
        NoCurrency = "no_currency",
        WrongAmount = "wrong_amount",
    }
}

outcomes! {
    /// Work that fails until its cause is fixed, and is postponed so that other work does not wait for it.
    FailedWork {
        Subscriptions = "subscriptions",
        RecurringInvoices = "recurring_invoices",
        Collections = "collections",
    }
}

impl CollectionOutcome {
    /// The outcome of an attempt that failed, with what follows.
    pub fn failed(failure: Failure<'_>, next: Next) -> Self {
        match (next, failure) {
            (Next::Stopped, _) => Self::Stopped,
            (_, Failure::NO_CARD) => Self::NoCard,
            (Next::Exhausted, _) => Self::Exhausted,
            (_, Failure::CURRENCY) => Self::NoCurrency,
            (_, Failure::AMOUNT) => Self::WrongAmount,
            (Next::At(_) | Next::NewCard, Failure { kind: DeclineType::Soft, .. }) => Self::SoftDecline,
            (Next::At(_) | Next::NewCard, Failure { kind: DeclineType::Hard, .. }) => Self::HardDecline,
        }
    }
}

const CAPTURED: &str = "payments_captured_minor_units_total";
const REFUNDED: &str = "payments_refunded_minor_units_total";

/// Accounts whose charges are also counted by account: only a few, since each adds time series.
static REPORTED_ACCOUNTS: OnceLock<Vec<AccountId>> = OnceLock::new();

/// Sets the accounts whose charges are also counted by account, once, at start.
pub fn report_accounts(accounts: Vec<AccountId>) {
    for account in &accounts {
        for outcome in [RequestOutcome::Succeeded, RequestOutcome::Declined] {
            count_charge_of(*account, outcome, 0);
        }
    }
    let _ = REPORTED_ACCOUNTS.set(accounts);
}

fn count_charge_of(account: AccountId, outcome: RequestOutcome, charges: u64) {
    metrics::counter!("account_charges_total", "account" => account.to_string(), "outcome" => outcome.label())
        .increment(charges);
}

fn is_reported(account: AccountId) -> bool {
    REPORTED_ACCOUNTS.get().is_some_and(|accounts| accounts.contains(&account))
}

/// Counts a request to a provider by its outcome.
pub fn count_request(claimed: &Claimed, outcome: RequestOutcome) {
    let (mode, provider) = (claimed.mode.name(), claimed.provider.name());
    let labels = [("mode", mode), ("provider", provider), ("kind", claimed.kind.name()), ("outcome", outcome.label())];
    metrics::counter!("payments_operations_total", &labels).increment(1);
    let is_charge = matches!(claimed.kind, OperationKind::Sale | OperationKind::Authorize);
    if is_charge && is_reported(claimed.account_id) {
        count_charge_of(claimed.account_id, outcome, 1);
    }
    if claimed.sent_before {
        let labels = [("mode", mode), ("provider", provider), ("outcome", outcome.label())];
        metrics::counter!("payments_operations_recovered_total", &labels).increment(1);
    }
}

/// Counts an event of an operation by its mode and provider.
pub(super) fn count(counter: &'static str, claimed: &Claimed) {
    metrics::counter!(counter, "mode" => claimed.mode.name(), "provider" => claimed.provider.name()).increment(1);
}

/// Registers the counters of processes that call providers and read their statements.
pub fn register_payments_metrics() {
    for provider in ProviderKind::ALL.map(ProviderKind::name) {
        for currency in card_gateway::CURRENCIES {
            for counter in [CAPTURED, REFUNDED] {
                metrics::counter!(counter, "provider" => provider, "currency" => currency).increment(0);
            }
        }
    }
    let all = Mode::ALL.into_iter().flat_map(|mode| ProviderKind::ALL.map(|provider| (mode, provider)));
    // Live accounts are at the mock in tests only.
    for (mode, provider) in all.filter(|pair| *pair != (Mode::Live, ProviderKind::Mock)) {
        let (mode, provider) = (mode.name(), provider.name());
        for kind in OperationKind::ALL.map(OperationKind::name) {
            for outcome in RequestOutcome::ALL {
                let labels = [("mode", mode), ("provider", provider), ("kind", kind), ("outcome", outcome.label())];
                metrics::counter!("payments_operations_total", &labels).increment(0);
            }
        }
        for outcome in RequestOutcome::ALL {
            let labels = [("mode", mode), ("provider", provider), ("outcome", outcome.label())];
            metrics::counter!("payments_operations_recovered_total", &labels).increment(0);
        }
        for counter in [
            "payments_duplicate_charges_total",
            "payments_amount_mismatches_total",
            "payments_configuration_errors_total",
            "payments_provider_retries_exhausted_total",
            "payments_late_changes_total",
        ] {
            metrics::counter!(counter, "mode" => mode, "provider" => provider).increment(0);
        }
    }
}

/// Counts money that a provider reports as captured or refunded. Currencies are those of ISO 4217, so the number of
/// series is bounded; the common ones are registered at start. A response received twice is counted twice: the
/// accounting records are in Postgres.
pub fn count_money(claimed: &Claimed, response: &ProviderResponse) {
    const CAPTURE: (&str, &str) = (CAPTURED, "account_captured_minor_units_total");
    const REFUND: (&str, &str) = (REFUNDED, "account_refunded_minor_units_total");
    let requested = match &claimed.request.action {
        Action::Charge { capture, money, .. } => capture.then_some((CAPTURE, money)),
        Action::Capture { money, .. } => Some((CAPTURE, money)),
        Action::Refund { money, .. } => Some((REFUND, money)),
        Action::Void { .. } | Action::StoreCard { .. } => None,
    };
    let Some(((by_provider, by_account), money)) = requested else { return };
    let moved = match response {
        ProviderResponse::Charged { amount, .. } => *amount,
        ProviderResponse::Done { .. } => money.minor,
        ProviderResponse::Challenged { .. }
        | ProviderResponse::Stored { .. }
        | ProviderResponse::Declined { .. }
        | ProviderResponse::Mismatched { .. }
        | ProviderResponse::Refused { .. } => return,
    };
    let (moved, currency) = (moved.unsigned_abs(), money.currency.code());
    metrics::counter!(by_provider, "provider" => claimed.provider.name(), "currency" => currency).increment(moved);
    if is_reported(claimed.account_id) {
        let account = claimed.account_id.to_string();
        metrics::counter!(by_account, "account" => account, "currency" => currency).increment(moved);
    }
}

/// Counts collection attempts by their outcome.
pub fn count_collections(outcome: CollectionOutcome, attempts: u64) {
    metrics::counter!("invoices_collection_attempts_total", "outcome" => outcome.label()).increment(attempts);
}

/// Counts work that failed and was postponed. Its age shows nothing, because it is due later each time.
pub fn count_failed(work: FailedWork, times: u64) {
    metrics::counter!("billing_cycles_failed_total", "work" => work.label()).increment(times);
}

/// Registers the counters of processes that bill cycles and collect invoices.
pub fn register_billing_metrics() {
    for outcome in CollectionOutcome::ALL {
        count_collections(*outcome, 0);
    }
    for work in FailedWork::ALL {
        count_failed(*work, 0);
    }
}
