//! What may follow a sale, an authorization or a credit. Pure: asked under the parent's lock, and the constraints of the schema
//! say the same.

use common::time::Timestamp;

use super::{Kind, State};
use crate::amount::Amount;
use crate::failure::{Code, Result};

/// What of a transaction decides about its children.
#[derive(Clone, Debug)]
pub struct Parent {
    /// What it is.
    pub kind: Kind,
    /// How far it is.
    pub state: State,
    /// How much was asked.
    pub amount: Amount,
    /// How much was taken.
    pub captured: Amount,
    /// How much was given back, or is being given back.
    pub returned: Amount,
    /// Whether it was undone.
    pub voided: bool,
    /// The capture or void that is under way.
    pub changing: Option<Kind>,
    /// When what was taken is beyond recall.
    pub settles_at: Option<Timestamp>,
    /// When what is held is let go.
    pub lapses_at: Option<Timestamp>,
}

impl Parent {
    /// Whether so much may be taken of an authorization: once, in time, and no more than is held.
    ///
    /// # Errors
    /// 15
    pub fn capture(&self, amount: Amount, now: Timestamp) -> Result<()> {
        let held = self.kind == Kind::Authorize && self.state == State::Approved && !self.voided;
        let open = self.changing.is_none() && self.captured == Amount::ZERO;
        let in_time = self.lapses_at.is_none_or(|end| now < end);
        if !held || !open || !in_time {
            return Err(Code::CaptureNotPossible.refuse());
        }
        if amount > self.amount {
            return Err(Code::CaptureNotPossible.because("amount is above the authorization"));
        }
        Ok(())
    }

    /// Whether it may be undone: once, before it settles, and not after a refund.
    ///
    /// # Errors
    /// 16
    pub fn void(&self, now: Timestamp) -> Result<()> {
        let open = self.state == State::Approved && !self.voided && self.changing.is_none();
        let in_time = self.settles_at.or(self.lapses_at).is_none_or(|end| now < end);
        match open && in_time && self.returned == Amount::ZERO {
            true => Ok(()),
            false => Err(Code::VoidNotPossible.refuse()),
        }
    }

    /// Whether so much may be given back: no more than was taken, all refunds together.
    ///
    /// # Errors
    /// 13, 14
    pub fn refund(&self, amount: Amount) -> Result<()> {
        if self.voided || self.changing == Some(Kind::Void) {
            return Err(Code::RefundVoided.refuse());
        }
        let left = self.captured.get() - self.returned.get();
        if amount.get() > left { Err(Code::RefundExceeds.refuse()) } else { Ok(()) }
    }
}

/// Which transaction an operation on this one is about: itself, or the charge that a capture belongs to.
///
/// # Errors
/// 12 where the operation makes no sense on it.
pub fn is_about_parent(operation: Kind, named: Kind) -> Result<bool> {
    match (operation, named) {
        (Kind::Void | Kind::Refund, Kind::Capture) => Ok(true),
        (_, Kind::Capture | Kind::Void | Kind::Refund) | (Kind::Refund, Kind::Credit) => {
            Err(Code::TransactionId.refuse())
        }
        (_, Kind::Sale | Kind::Authorize | Kind::Credit) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    const NOW: i64 = 1_800_000_000_000;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(NOW + ms).expect("in range")
    }

    fn parent(kind: Kind, captured: i64, returned: i64) -> Parent {
        Parent {
            kind,
            state: State::Approved,
            amount: Amount::hundredths(100),
            captured: Amount::hundredths(captured),
            returned: Amount::hundredths(returned),
            voided: false,
            changing: None,
            settles_at: (captured > 0).then(|| at(1)),
            lapses_at: (kind == Kind::Authorize).then(|| at(1)),
        }
    }

    fn code(result: Result<()>) -> &'static str {
        match result {
            Ok(()) => "00",
            Err(Failure::Refused(code, _)) => code.code(),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn cents(hundredths: i64) -> Amount {
        Amount::hundredths(hundredths)
    }

    #[test]
    fn an_authorization_is_captured_once_and_up_to_its_amount() {
        let open = parent(Kind::Authorize, 0, 0);
        let with = |change: &dyn Fn(&mut Parent)| {
            let mut parent = open.clone();
            change(&mut parent);
            code(parent.capture(cents(100), at(0)))
        };
        assert_eq!(with(&|_| {}), "00");
        assert_eq!(with(&|p| p.captured = cents(1)), "15");
        assert_eq!(with(&|p| p.voided = true), "15");
        assert_eq!(with(&|p| p.changing = Some(Kind::Capture)), "15");
        assert_eq!(with(&|p| p.changing = Some(Kind::Void)), "15");
        assert_eq!(with(&|p| p.lapses_at = Some(at(0))), "15");
        assert_eq!(with(&|p| p.kind = Kind::Sale), "15");
        for state in [State::Challenged, State::InProgress, State::Declined, State::Failed] {
            assert_eq!(with(&|p| p.state = state), "15", "{state:?}");
        }
        assert_eq!(code(open.capture(cents(1), at(0))), "00");
        assert_eq!(code(open.capture(cents(101), at(0))), "15");
    }

    #[test]
    fn a_void_comes_once_before_settlement_and_before_refunds() {
        for kind in [Kind::Sale, Kind::Authorize, Kind::Credit] {
            let captured = if kind == Kind::Sale { 100 } else { 0 };
            let open = parent(kind, captured, 0);
            assert_eq!(code(open.void(at(0))), "00");
            assert_eq!(code(Parent { voided: true, ..open.clone() }.void(at(0))), "16");
            assert_eq!(code(Parent { changing: Some(Kind::Capture), ..open.clone() }.void(at(0))), "16");
            assert_eq!(code(Parent { state: State::Declined, ..open }.void(at(0))), "16");
        }
        assert_eq!(code(parent(Kind::Sale, 100, 0).void(at(1))), "16", "settled");
        assert_eq!(code(parent(Kind::Authorize, 0, 0).void(at(1))), "16", "let go");
        assert_eq!(code(parent(Kind::Sale, 100, 1).void(at(0))), "16", "refunded");
    }

    #[test]
    fn refunds_never_exceed_what_was_taken() {
        let sale = parent(Kind::Sale, 100, 40);
        for (amount, said) in [(1, "00"), (60, "00"), (61, "14"), (100, "14")] {
            assert_eq!(code(sale.refund(cents(amount))), said, "{amount}");
        }
        assert_eq!(code(parent(Kind::Authorize, 0, 0).refund(cents(1))), "14", "nothing was taken");
        assert_eq!(code(Parent { voided: true, ..sale.clone() }.refund(cents(1))), "13");
        assert_eq!(code(Parent { changing: Some(Kind::Void), ..sale }.refund(cents(1))), "13");
    }

    #[test]
    fn a_child_is_named_where_that_makes_sense() {
        for named in Kind::ALL {
            let about =
                [Kind::Capture, Kind::Void, Kind::Refund].map(|operation| is_about_parent(operation, named).ok());
            let expected = match named {
                Kind::Sale | Kind::Authorize => [Some(false), Some(false), Some(false)],
                Kind::Credit => [Some(false), Some(false), None],
                Kind::Capture => [None, Some(true), Some(true)],
                Kind::Void | Kind::Refund => [None, None, None],
            };
            assert_eq!(about, expected, "{named:?}");
        }
    }
}
