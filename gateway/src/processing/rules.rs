//! Which captures, voids and refunds a charge allows. Pure functions, called under the parent's row lock; the schema's
//! constraints enforce the same rules.

use foundation::time::Timestamp;

use crate::amount::Amount;
use crate::failure::{Code, Result};
use crate::transactions::{State, TransactionKind};

/// The state of a charge on which the rules for its children depend.
#[derive(Clone, Debug)]
pub(super) struct Parent {
    pub(super) kind: TransactionKind,
    pub(super) state: State,
    /// The charged or authorized amount.
    pub(super) amount: Amount,
    pub(super) captured: Amount,
    /// Refunded, or being refunded.
    pub(super) returned: Amount,
    pub(super) voided: bool,
    /// The capture or void in progress.
    pub(super) changing: Option<TransactionKind>,
    /// When the captured amount settles; it can no longer be voided then.
    pub(super) settles_at: Option<Timestamp>,
    /// When the authorization expires.
    pub(super) expires_at: Option<Timestamp>,
}

impl Parent {
    /// An authorization can be captured once, before it expires, up to its amount.
    ///
    /// # Errors
    /// 15
    pub(super) fn capture(&self, amount: Amount, now: Timestamp) -> Result<()> {
        let held = self.kind == TransactionKind::Authorize && self.state == State::Approved && !self.voided;
        let open = self.changing.is_none() && self.captured == Amount::ZERO;
        let in_time = self.expires_at.is_none_or(|end| now < end);
        if !held || !open || !in_time {
            return Err(Code::CaptureNotPossible.refuse());
        }
        if amount > self.amount {
            return Err(Code::CaptureNotPossible.because("amount is above the authorization"));
        }
        Ok(())
    }

    /// A void is possible once, before settlement and before any refund.
    ///
    /// # Errors
    /// 16
    pub(super) fn void(&self, now: Timestamp) -> Result<()> {
        let open = self.state == State::Approved && !self.voided && self.changing.is_none();
        let in_time = self.settles_at.or(self.expires_at).is_none_or(|end| now < end);
        match open && in_time && self.returned == Amount::ZERO {
            true => Ok(()),
            false => Err(Code::VoidNotPossible.refuse()),
        }
    }

    /// All refunds together must not exceed the captured amount.
    ///
    /// # Errors
    /// 13, 14
    pub(super) fn refund(&self, amount: Amount) -> Result<()> {
        if self.voided || self.changing == Some(TransactionKind::Void) {
            return Err(Code::RefundVoided.refuse());
        }
        let left = self.captured.get() - self.returned.get();
        if amount.get() > left { Err(Code::RefundExceeds.refuse()) } else { Ok(()) }
    }
}

/// Whether an operation on the named transaction applies to its parent: a void or refund of a capture concerns the
/// charge, unless the capture has failed, which leaves nothing to void or refund.
///
/// # Errors
/// 12 if the named transaction does not allow the operation; 16 for a void of a failed capture.
pub(super) fn applies_to_parent(operation: TransactionKind, named: TransactionKind, state: State) -> Result<bool> {
    // The rules of the charge refuse what a capture in progress does not allow.
    let may_have_captured = match state {
        State::InProgress | State::Approved => true,
        State::Challenged | State::Declined | State::Failed => false,
    };
    match (operation, named) {
        (TransactionKind::Void | TransactionKind::Refund, TransactionKind::Capture) if may_have_captured => Ok(true),
        (TransactionKind::Void, TransactionKind::Capture) => Err(Code::VoidNotPossible.refuse()),
        (_, TransactionKind::Capture | TransactionKind::Void | TransactionKind::Refund)
        | (TransactionKind::Refund, TransactionKind::Credit) => Err(Code::TransactionId.refuse()),
        (_, TransactionKind::Sale | TransactionKind::Authorize | TransactionKind::Credit) => Ok(false),
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

    fn parent(kind: TransactionKind, captured: i64, returned: i64) -> Parent {
        Parent {
            kind,
            state: State::Approved,
            amount: Amount::from_minor(100),
            captured: Amount::from_minor(captured),
            returned: Amount::from_minor(returned),
            voided: false,
            changing: None,
            settles_at: (captured > 0).then(|| at(1)),
            expires_at: (kind == TransactionKind::Authorize).then(|| at(1)),
        }
    }

    fn code(result: Result<()>) -> &'static str {
        match result {
            Ok(()) => "00",
            Err(Failure::Refused(code, _)) => code.code(),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn cents(minor: i64) -> Amount {
        Amount::from_minor(minor)
    }

    #[test]
    fn an_authorization_is_captured_once_and_up_to_its_amount() {
        let open = parent(TransactionKind::Authorize, 0, 0);
        let with = |change: &dyn Fn(&mut Parent)| {
            let mut parent = open.clone();
            change(&mut parent);
            code(parent.capture(cents(100), at(0)))
        };
        assert_eq!(with(&|_| {}), "00");
        assert_eq!(with(&|p| p.captured = cents(1)), "15");
        assert_eq!(with(&|p| p.voided = true), "15");
        assert_eq!(with(&|p| p.changing = Some(TransactionKind::Capture)), "15");
        assert_eq!(with(&|p| p.changing = Some(TransactionKind::Void)), "15");
        assert_eq!(with(&|p| p.expires_at = Some(at(0))), "15");
        assert_eq!(with(&|p| p.kind = TransactionKind::Sale), "15");
        for state in [State::Challenged, State::InProgress, State::Declined, State::Failed] {
            assert_eq!(with(&|p| p.state = state), "15", "{state:?}");
        }
        assert_eq!(code(open.capture(cents(1), at(0))), "00");
        assert_eq!(code(open.capture(cents(101), at(0))), "15");
    }

    #[test]
    fn a_charge_is_voided_once_before_settlement_and_before_refunds() {
        for kind in [TransactionKind::Sale, TransactionKind::Authorize, TransactionKind::Credit] {
            let captured = if kind == TransactionKind::Sale { 100 } else { 0 };
            let open = parent(kind, captured, 0);
            assert_eq!(code(open.void(at(0))), "00");
            assert_eq!(code(Parent { voided: true, ..open.clone() }.void(at(0))), "16");
            assert_eq!(code(Parent { changing: Some(TransactionKind::Capture), ..open.clone() }.void(at(0))), "16");
            assert_eq!(code(Parent { state: State::Declined, ..open }.void(at(0))), "16");
        }
        assert_eq!(code(parent(TransactionKind::Sale, 100, 0).void(at(1))), "16", "settled");
        assert_eq!(code(parent(TransactionKind::Authorize, 0, 0).void(at(1))), "16", "expired");
        assert_eq!(code(parent(TransactionKind::Sale, 100, 1).void(at(0))), "16", "refunded");
    }

    #[test]
    fn refunds_never_exceed_the_captured_amount() {
        let sale = parent(TransactionKind::Sale, 100, 40);
        for (amount, expected) in [(1, "00"), (60, "00"), (61, "14"), (100, "14")] {
            assert_eq!(code(sale.refund(cents(amount))), expected, "{amount}");
        }
        assert_eq!(code(parent(TransactionKind::Authorize, 0, 0).refund(cents(1))), "14", "nothing was captured");
        assert_eq!(code(Parent { voided: true, ..sale.clone() }.refund(cents(1))), "13");
        assert_eq!(code(Parent { changing: Some(TransactionKind::Void), ..sale }.refund(cents(1))), "13");
    }

    #[test]
    fn voids_and_refunds_of_a_capture_apply_to_its_charge() {
        for named in TransactionKind::ALL {
            let applies = [TransactionKind::Capture, TransactionKind::Void, TransactionKind::Refund]
                .map(|operation| applies_to_parent(operation, named, State::Approved).ok());
            let expected = match named {
                TransactionKind::Sale | TransactionKind::Authorize => [Some(false), Some(false), Some(false)],
                TransactionKind::Credit => [Some(false), Some(false), None],
                TransactionKind::Capture => [None, Some(true), Some(true)],
                TransactionKind::Void | TransactionKind::Refund => [None, None, None],
            };
            assert_eq!(applies, expected, "{named:?}");
        }
    }

    #[test]
    fn a_capture_without_effect_is_neither_voided_nor_refunded() {
        for (state, void, refund) in [
            (State::InProgress, "00", "00"),
            (State::Approved, "00", "00"),
            (State::Declined, "16", "12"),
            (State::Failed, "16", "12"),
        ] {
            let applies = |operation| code(applies_to_parent(operation, TransactionKind::Capture, state).map(|_| ()));
            let codes = [TransactionKind::Void, TransactionKind::Refund].map(applies);
            assert_eq!(codes, [void, refund], "{state:?}");
        }
    }
}
