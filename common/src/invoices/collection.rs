//! The rules of collection: what an attempt and its outcome make of an invoice. Pure, asked under the invoice's lock
//! (docs/billing.md, Collection).

use std::time::Duration;

use super::{Invoice, Status};
use crate::calendar::TimeZone;
use crate::error::{Error, Result};
use crate::id::PaymentId;
use crate::providers::DeclineType;
use crate::time::Timestamp;

/// Days of the calendar after the first attempt at which a soft decline is retried.
pub const RETRY_AFTER_DAYS: [u32; 4] = [1, 3, 5, 7];
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
    /// Only a part was authorized, which is given back.
    pub const PARTIAL: Self = Self { code: "partial_authorization", kind: DeclineType::Soft };
    /// The provider certainly did not process it.
    pub const NOT_PROCESSED: Self = Self { code: "processing_error", kind: DeclineType::Soft };
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
    Some(world.zone.days_later(began, *days).max(world.now.plus(AT_LEAST_APART)))
}
