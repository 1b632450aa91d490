//! The rules of collection: what an attempt and its outcome make of an invoice. Pure, asked under the invoice's lock
//! (docs/billing.md, Collection).

use std::time::Duration;

use super::{Invoice, Status};
use crate::calendar::TimeZone;
use crate::error::{Error, Result};
use crate::id::PaymentId;
use crate::proof::{self, Rule};
use crate::providers::{DeclineType, FailureCode};
use crate::time::Timestamp;

/// Days of the calendar after the first attempt at which a soft decline is retried.
pub const RETRY_AFTER_DAYS: [u32; 4] = [1, 3, 5, 7];
/// More failures than a series comes to: nothing follows the attempt that is in flight, whoever writes its outcome.
const NO_RETRY_LEFT: i32 = RETRY_AFTER_DAYS.len() as i32 + 1;
/// How far retries are apart at least, when an outage has made the one before late.
const AT_LEAST_APART: Duration = Duration::from_secs(20 * 3600);

/// Why an attempt has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    /// Our word for the reason.
    pub code: &'a str,
    /// Whether the same card may do later.
    pub kind: DeclineType,
}

impl Failure<'static> {
    /// There was no card to charge.
    pub const NO_CARD: Self = Self { code: "no_payment_method", kind: DeclineType::Hard };
    /// The provider account of its card is not paid in its currency. That is mended there, and any card does then.
    pub const CURRENCY: Self = Self { code: "currency_not_supported", kind: DeclineType::Soft };
    /// Only a part was authorized, which is given back.
    pub const PARTIAL: Self = Self { code: "partial_authorization", kind: DeclineType::Soft };

    /// Nothing was charged, and the card is none the worse for it.
    pub const fn of(code: FailureCode) -> Self {
        let code = match code {
            FailureCode::ProviderRefused => "processing_error",
            FailureCode::ProviderUnavailable | FailureCode::Configuration | FailureCode::AmountMismatch => code.name(),
        };
        Self { code, kind: DeclineType::Soft }
    }
}

/// What else stands in the world when an attempt has failed.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// When it is now, by the account's clock.
    pub now: Timestamp,
    /// The account's zone, whose days are counted.
    pub zone: &'a TimeZone,
    /// Whether the customer has had another default card since the attempt was made.
    pub another_card: bool,
    /// Whether nobody wants the invoice collected any more.
    pub given_up: bool,
}

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another attempt.
    At(Timestamp),
    /// One as soon as the customer has another default card.
    AnotherCard,
    /// Nothing: the last retry has failed.
    Exhausted,
    /// Nothing: it is open, and collects itself no more.
    GivenUp,
}

impl Invoice {
    /// Notes an attempt that is about to be made, and answers its number.
    pub(crate) fn attempt_begins(&mut self, now: Timestamp) -> i32 {
        self.attempt_count += 1;
        self.next_attempt_at = None;
        self.series_started_at.get_or_insert(now);
        self.attempt_count
    }

    /// Notes, while an attempt is in flight, that nobody wants another. What is scheduled later begins anew.
    pub(crate) fn give_up(&mut self) {
        self.series_failures = NO_RETRY_LEFT;
    }

    /// Whether nobody wants another attempt after the one that is in flight.
    pub(crate) const fn is_given_up(&self) -> bool {
        self.series_failures >= NO_RETRY_LEFT
    }

    /// Notes that an attempt has failed, and decides what follows.
    ///
    /// # Errors
    /// [`Error::Internal`] if nothing was to be collected.
    pub(crate) fn attempt_failed(&mut self, kind: DeclineType, world: Circumstances<'_>) -> Result<Next> {
        let Some(began) = self.series_started_at.filter(|_| self.status == Status::Scheduled) else {
            return Err(Error::internal(format!("{} is {} and was attempted", self.id, self.status.name())));
        };
        self.series_failures += 1;
        let next = match kind {
            _ if world.given_up => Next::GivenUp,
            DeclineType::Hard if world.another_card => Next::At(world.now),
            DeclineType::Hard => Next::AnotherCard,
            DeclineType::Soft => match retry(began, self.series_failures, world) {
                Some(at) => Next::At(at),
                None => Next::Exhausted,
            },
        };
        if kind == DeclineType::Hard {
            // This card will never do. With another one everything begins anew.
            self.collect_payment_method_id = None;
            self.begin_series();
        }
        match next {
            Next::At(at) => self.next_attempt_at = Some(at),
            Next::AnotherCard => {}
            Next::Exhausted | Next::GivenUp => {
                self.leave_collection();
                self.status = Status::Open;
                self.collection_exhausted = next == Next::Exhausted;
            }
        }
        Ok(next)
    }

    /// Notes what paid it.
    ///
    /// # Errors
    /// [`Error::Internal`] if it cannot be paid any more, or this is too little.
    pub(crate) fn pay(&mut self, payment: PaymentId, amount: i64, now: Timestamp) -> Result<()> {
        if !self.status.may_become(Status::Paid) || amount < self.amount {
            return Err(Error::internal(format!("{} is {} and {amount} cannot pay it", self.id, self.status.name())));
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

/// When the attempt after so many failures of a series is due; none after the last.
fn retry(began: Timestamp, failures: i32, world: Circumstances<'_>) -> Option<Timestamp> {
    let days = usize::try_from(failures - 1).ok().and_then(|done| RETRY_AFTER_DAYS.get(done))?;
    if !proof::holds(Rule::Backoff) {
        return Some(world.now);
    }
    Some(world.zone.days_later(began, *days).max(world.now.plus(AT_LEAST_APART)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Mode;
    use crate::calendar::PaymentTerms;
    use crate::id::{AccountId, CustomerId, PaymentMethodId};
    use crate::invoices::{Bill, Due, NewInvoice};

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
        };
        let mut invoice = new.into_draft(AccountId::new(now), Mode::Test, now);
        invoice.status = Status::Scheduled;
        invoice.collect_at = Some(now);
        invoice.next_attempt_at = Some(now);
        invoice
    }

    fn world(now: Timestamp, zone: &TimeZone) -> Circumstances<'_> {
        Circumstances { now, zone, another_card: false, given_up: false }
    }

    #[test]
    fn soft_declines_are_retried_after_1_3_5_and_7_days_and_then_no_more() {
        let began = at("2026-11-21T09:30:00Z");
        let mut invoice = scheduled(began);
        let mut now = began;
        for (number, days) in (1..).zip(RETRY_AFTER_DAYS) {
            assert_eq!(invoice.attempt_begins(now), number);
            assert_eq!(invoice.next_attempt_at, None, "nobody else begins one meanwhile");
            let due = began.plus(DAY * days);
            let next = invoice.attempt_failed(DeclineType::Soft, world(now, &UTC)).expect("collected");
            assert_eq!((next, invoice.next_attempt_at, invoice.status), (Next::At(due), Some(due), Status::Scheduled));
            now = due;
        }
        assert_eq!(invoice.attempt_begins(now), 5);
        let next = invoice.attempt_failed(DeclineType::Soft, world(now, &UTC)).expect("collected");
        assert_eq!((next, invoice.status, invoice.collection_exhausted), (Next::Exhausted, Status::Open, true));
        assert_eq!((invoice.next_attempt_at, invoice.collect_at), (None, None));
    }

    #[test]
    fn days_are_those_of_the_account_and_late_retries_keep_apart() {
        let zone: TimeZone = "America/New_York".parse().expect("a zone");
        let began = at("2026-10-31T14:00:00Z");
        let mut invoice = scheduled(began);
        invoice.attempt_begins(began);
        let next = invoice.attempt_failed(DeclineType::Soft, world(began, &zone)).expect("collected");
        assert_eq!(next, Next::At(at("2026-11-01T15:00:00Z")), "the clocks went back that night");
        // An outage of ten days: the attempts that were missed are not all made at once.
        let late = at("2026-11-10T15:00:00Z");
        invoice.attempt_begins(late);
        let next = invoice.attempt_failed(DeclineType::Soft, world(late, &zone)).expect("collected");
        assert_eq!(next, Next::At(late.plus(AT_LEAST_APART)));
    }

    #[test]
    fn a_dead_card_waits_for_another_one_and_then_everything_begins_anew() {
        let began = at("2026-11-21T09:30:00Z");
        let mut invoice = scheduled(began);
        invoice.collect_payment_method_id = Some(PaymentMethodId::new(began));
        invoice.attempt_begins(began);
        invoice.attempt_failed(DeclineType::Soft, world(began, &UTC)).expect("collected");
        let second = began.plus(DAY);
        invoice.attempt_begins(second);
        let next = invoice.attempt_failed(DeclineType::Hard, world(second, &UTC)).expect("collected");
        assert_eq!((next, invoice.status, invoice.next_attempt_at), (Next::AnotherCard, Status::Scheduled, None));
        assert_eq!(invoice.collect_payment_method_id, None, "the named card is dead: it is the default one's turn");
        let later = began.plus(DAY * 20);
        assert_eq!(invoice.attempt_begins(later), 3, "attempts are counted on");
        let next = invoice.attempt_failed(DeclineType::Soft, world(later, &UTC)).expect("collected");
        assert_eq!(next, Next::At(later.plus(DAY)));
    }

    #[test]
    fn another_card_that_came_meanwhile_is_tried_at_once_and_what_nobody_wants_never() {
        let now = at("2026-11-21T09:30:00Z");
        let mut invoice = scheduled(now);
        invoice.attempt_begins(now);
        let another = Circumstances { another_card: true, ..world(now, &UTC) };
        assert_eq!(invoice.attempt_failed(DeclineType::Hard, another).expect("collected"), Next::At(now));
        for kind in [DeclineType::Hard, DeclineType::Soft] {
            let mut invoice = scheduled(now);
            invoice.attempt_begins(now);
            let given_up = Circumstances { another_card: true, given_up: true, ..world(now, &UTC) };
            assert_eq!(invoice.attempt_failed(kind, given_up).expect("collected"), Next::GivenUp);
            assert_eq!((invoice.status, invoice.next_attempt_at), (Status::Open, None));
            assert!(!invoice.collection_exhausted);
        }
    }

    #[test]
    fn too_little_pays_nothing_and_nothing_is_paid_twice() {
        let now = at("2026-11-21T09:30:00Z");
        let mut invoice = scheduled(now);
        invoice.pay(PaymentId::new(now), 499, now).expect_err("a part");
        invoice.pay(PaymentId::new(now), 500, now).expect("all of it");
        assert_eq!((invoice.status, invoice.amount_paid, invoice.collect_at), (Status::Paid, 500, None));
        invoice.pay(PaymentId::new(now), 500, now).expect_err("a second time");
    }
}
