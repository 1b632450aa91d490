//! The rules of collection: how an attempt and its outcome change an invoice. Pure; the caller holds the invoice's lock
//! (docs/billing.md, Collection).

use std::time::Duration;

use super::invoice::Invoice;
use super::status::Status;
use crate::operations::STOPPED_AFTER;
use foundation::calendar::TimeZone;
use foundation::error::{Error, Result};
use foundation::id::PaymentId;
use foundation::rule_enabled;
use foundation::time::Timestamp;
use providers::{DeclineType, FailureCode};

/// Soft declines are retried this many calendar days after the first attempt.
pub const RETRY_AFTER_DAYS: [u32; 4] = [1, 3, 5, 7];
// Stored while an attempt is in flight, it lets no retry follow.
const _: () = assert!(STOPPED_AFTER as usize > RETRY_AFTER_DAYS.len());
/// The minimum time between two retries, if an outage delayed the first of them.
const MIN_RETRY_INTERVAL: Duration = Duration::from_secs(20 * 3600);

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    /// The `declineCode` of the attempt.
    pub code: &'a str,
    /// Whether a retry with the same card may succeed.
    pub kind: DeclineType,
}

impl Failure<'static> {
    /// There was no card to charge.
    pub const NO_CARD: Self = Self { code: "no_payment_method", kind: DeclineType::Hard };
    /// The card's provider account does not support the currency. Hard: each retry would fail for the same reason. A card
    /// that is stored elsewhere can be charged.
    pub const CURRENCY: Self = Self { code: "currency_not_supported", kind: DeclineType::Hard };
    /// The card's provider does not charge exactly this amount: the invoice was created while the account used another one.
    /// Hard, as [`Self::CURRENCY`].
    pub const AMOUNT: Self = Self { code: "amount_not_supported", kind: DeclineType::Hard };
    /// Only part of the amount was authorized; the authorization is reversed.
    pub const PARTIAL: Self = Self { code: "partial_authorization", kind: DeclineType::Soft };
    /// Its collection was stopped before the provider processed it.
    pub const WITHDRAWN: Self = Self::of(FailureCode::Withdrawn);

    /// Every reason other than a decline, with its meaning.
    pub fn without_decline() -> impl Iterator<Item = (Self, &'static str)> {
        let own = [
            (Self::NO_CARD, "The customer has no card. The first card that is saved is charged at once."),
            (Self::CURRENCY, "The account no longer accepts the currency of the invoice. Nothing was charged."),
            (Self::AMOUNT, "The provider does not charge exactly the amount of the invoice. Nothing was charged."),
            (Self::PARTIAL, "The issuer authorized only part of the amount. That part is returned."),
        ];
        own.into_iter().chain(FailureCode::ALL.map(|code| (Self::of(code), code.message())))
    }

    /// A payment that failed without a decline. Hard if this card is not to be charged again: the provider would refuse
    /// it again, or the merchant withdrew the charge. Soft otherwise: the card did not cause the failure.
    pub const fn of(code: FailureCode) -> Self {
        match code {
            FailureCode::ProviderRefused => Self { code: "processing_error", kind: DeclineType::Hard },
            FailureCode::Withdrawn => Self { code: code.name(), kind: DeclineType::Hard },
            FailureCode::ProviderUnavailable | FailureCode::Configuration | FailureCode::AmountMismatch => {
                Self { code: code.name(), kind: DeclineType::Soft }
            }
        }
    }
}

/// The state that decides, besides the failure itself, what follows a failed attempt.
#[derive(Clone, Copy, Debug)]
pub struct FailureContext<'a> {
    /// The account's time.
    pub now: Timestamp,
    /// The account's time zone, in which retry days are counted.
    pub zone: &'a TimeZone,
    /// Whether the customer's default card has changed since the attempt.
    pub default_card_changed: bool,
    /// Whether collection was stopped while the attempt was in flight.
    pub collection_stopped: bool,
}

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another attempt.
    At(Timestamp),
    /// Another attempt as soon as the customer has a new default card.
    NewCard,
    /// No attempt: the last retry failed.
    Exhausted,
    /// No attempt: collection was stopped.
    Stopped,
}

impl Invoice {
    /// Records the start of an attempt and returns its number.
    pub fn begin_attempt(&mut self, now: Timestamp) -> i32 {
        self.attempt_count += 1;
        self.next_attempt_at = None;
        self.series_started_at.get_or_insert(now);
        self.attempt_count
    }

    /// Allows no retry after the attempt in flight. Scheduling the invoice again starts a new series.
    pub fn stop_retries(&mut self) {
        self.series_failures = STOPPED_AFTER;
    }

    /// Whether no retry may follow the attempt in flight.
    pub const fn retries_stopped(&self) -> bool {
        self.series_failures >= STOPPED_AFTER
    }

    /// Records a failed attempt and decides what follows.
    ///
    /// # Errors
    /// [`Error::Internal`] if the invoice is not being collected.
    pub fn attempt_failed(&mut self, kind: DeclineType, context: FailureContext<'_>) -> Result<Next> {
        let Some(began) = self.series_started_at.filter(|_| self.status == Status::Scheduled) else {
            let status = self.status.name();
            return Err(Error::internal(format!("{} is {status} and is not being collected", self.id)));
        };
        self.series_failures += 1;
        let next = match kind {
            _ if context.collection_stopped => Next::Stopped,
            DeclineType::Hard if context.default_card_changed => Next::At(context.now),
            DeclineType::Hard => Next::NewCard,
            DeclineType::Soft => match retry_at(began, self.series_failures, context) {
                Some(at) => Next::At(at),
                None => Next::Exhausted,
            },
        };
        if kind == DeclineType::Hard {
            // The card cannot be charged again. The next attempt uses another card and starts a new series.
            self.collect_payment_method_id = None;
            self.begin_series();
        }
        match next {
            Next::At(at) => self.next_attempt_at = Some(at),
            Next::NewCard => {}
            Next::Exhausted | Next::Stopped => {
                self.leave_collection();
                self.status = Status::Open;
                self.collection_exhausted = next == Next::Exhausted;
            }
        }
        Ok(next)
    }

    /// Records the payment that paid the invoice.
    ///
    /// # Errors
    /// [`Error::Internal`] if the invoice can no longer be paid, or `amount` is less than the amount due.
    pub fn pay(&mut self, payment: PaymentId, amount: i64, now: Timestamp) -> Result<()> {
        if !self.status.may_become(Status::Paid) || amount < self.amount {
            let status = self.status.name();
            return Err(Error::internal(format!("{} is {status} and cannot be paid with {amount}", self.id)));
        }
        self.leave_collection();
        self.status = Status::Paid;
        self.collection_exhausted = false;
        self.amount_paid = amount;
        self.payment_id = Some(payment);
        self.paid_at = Some(now);
        Ok(())
    }
}

/// Returns when to retry after this many failures in a series; `None` after the last retry.
fn retry_at(began: Timestamp, failures: i32, context: FailureContext<'_>) -> Option<Timestamp> {
    let days = usize::try_from(failures - 1).ok().and_then(|done| RETRY_AFTER_DAYS.get(done))?;
    if !rule_enabled!(Backoff) {
        return Some(context.now);
    }
    Some(context.zone.days_later(began, *days).max(context.now.plus(MIN_RETRY_INTERVAL)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Mode;
    use crate::invoices::{Bill, Due, NewInvoice};
    use foundation::calendar::PaymentTerms;
    use foundation::id::{AccountId, CustomerId, PaymentMethodId};
    use foundation::merchant_data::MerchantData;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    static UTC: TimeZone = TimeZone::UTC;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("an instant")
    }

    fn scheduled(now: Timestamp) -> Invoice {
        let new = NewInvoice {
            customer_id: CustomerId::new(now),
            currency: "USD".parse().expect("a currency"),
            description: None,
            bill: Bill::new(Some(500), None, None, None).expect("a bill"),
            due: Due::Terms(PaymentTerms::DueOnReceipt),
            cycle: None,
            merchant_data: MerchantData::default(),
        };
        let mut invoice = new.into_draft(AccountId::new(now), Mode::Test, now);
        invoice.status = Status::Scheduled;
        invoice.collect_at = Some(now);
        invoice.next_attempt_at = Some(now);
        invoice
    }

    fn context(now: Timestamp, zone: &TimeZone) -> FailureContext<'_> {
        FailureContext { now, zone, default_card_changed: false, collection_stopped: false }
    }

    #[test]
    fn soft_declines_are_retried_after_1_3_5_and_7_days() {
        let began = at("2026-11-21T09:30:00Z");
        let mut invoice = scheduled(began);
        let mut now = began;
        for (number, days) in (1..).zip(RETRY_AFTER_DAYS) {
            assert_eq!(invoice.begin_attempt(now), number);
            assert_eq!(invoice.next_attempt_at, None, "no other attempt may start while one is in flight");
            let due = began.plus(DAY * days);
            let next = invoice.attempt_failed(DeclineType::Soft, context(now, &UTC)).expect("collected");
            assert_eq!((next, invoice.next_attempt_at, invoice.status), (Next::At(due), Some(due), Status::Scheduled));
            now = due;
        }
        assert_eq!(invoice.begin_attempt(now), 5);
        let next = invoice.attempt_failed(DeclineType::Soft, context(now, &UTC)).expect("collected");
        assert_eq!((next, invoice.status, invoice.collection_exhausted), (Next::Exhausted, Status::Open, true));
        assert_eq!((invoice.next_attempt_at, invoice.collect_at), (None, None));
    }

    #[test]
    fn retry_days_use_the_account_time_zone_and_a_minimum_interval() {
        let zone: TimeZone = "America/New_York".parse().expect("a zone");
        let began = at("2026-10-31T14:00:00Z");
        let mut invoice = scheduled(began);
        invoice.begin_attempt(began);
        let next = invoice.attempt_failed(DeclineType::Soft, context(began, &zone)).expect("collected");
        assert_eq!(next, Next::At(at("2026-11-01T15:00:00Z")), "daylight saving time ended that night");
        // After an outage of ten days the missed attempts do not run all at once.
        let late = at("2026-11-10T15:00:00Z");
        invoice.begin_attempt(late);
        let next = invoice.attempt_failed(DeclineType::Soft, context(late, &zone)).expect("collected");
        assert_eq!(next, Next::At(late.plus(MIN_RETRY_INTERVAL)));
    }

    #[test]
    fn a_hard_decline_waits_for_a_new_card_and_starts_a_new_series() {
        let began = at("2026-11-21T09:30:00Z");
        let mut invoice = scheduled(began);
        invoice.collect_payment_method_id = Some(PaymentMethodId::new(began));
        invoice.begin_attempt(began);
        invoice.attempt_failed(DeclineType::Soft, context(began, &UTC)).expect("collected");
        let second = began.plus(DAY);
        invoice.begin_attempt(second);
        let next = invoice.attempt_failed(DeclineType::Hard, context(second, &UTC)).expect("collected");
        assert_eq!((next, invoice.status, invoice.next_attempt_at), (Next::NewCard, Status::Scheduled, None));
        assert_eq!(invoice.collect_payment_method_id, None, "the next attempt charges the default card");
        let later = began.plus(DAY * 20);
        assert_eq!(invoice.begin_attempt(later), 3, "the attempt number continues");
        let next = invoice.attempt_failed(DeclineType::Soft, context(later, &UTC)).expect("collected");
        assert_eq!(next, Next::At(later.plus(DAY)));
    }

    #[test]
    fn a_changed_card_is_retried_immediately_and_stopped_collection_never() {
        let now = at("2026-11-21T09:30:00Z");
        let mut invoice = scheduled(now);
        invoice.begin_attempt(now);
        let changed = FailureContext { default_card_changed: true, ..context(now, &UTC) };
        assert_eq!(invoice.attempt_failed(DeclineType::Hard, changed).expect("collected"), Next::At(now));
        for kind in [DeclineType::Hard, DeclineType::Soft] {
            let mut invoice = scheduled(now);
            invoice.begin_attempt(now);
            let stopped = FailureContext { default_card_changed: true, collection_stopped: true, ..context(now, &UTC) };
            assert_eq!(invoice.attempt_failed(kind, stopped).expect("collected"), Next::Stopped);
            assert_eq!((invoice.status, invoice.next_attempt_at), (Status::Open, None));
            assert!(!invoice.collection_exhausted);
        }
    }

    #[test]
    fn partial_and_second_payments_are_rejected() {
        let now = at("2026-11-21T09:30:00Z");
        let mut invoice = scheduled(now);
        invoice.pay(PaymentId::new(now), 499, now).expect_err("a partial payment");
        invoice.pay(PaymentId::new(now), 500, now).expect("the full amount");
        assert_eq!((invoice.status, invoice.amount_paid, invoice.collect_at), (Status::Paid, 500, None));
        invoice.pay(PaymentId::new(now), 500, now).expect_err("a second payment");
    }
}
