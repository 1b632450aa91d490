//! Compares one charge and everything that followed it between the provider and our books. Runs at every inquiry,
//! because the provider's response contains all of it anyway.

use serde_json::{Value, json};
use sqlx::PgPool;

use super::{
    Difference, LineMatch, NewDifference, OurBooks, OurEntry, find_difference, listed_in, look_up_missing,
    provider_side, record_difference, request_difference,
};
use domain::operations::books::{self, PaymentRecord};
use domain::operations::{OperationKind, State};
use domain::payments::Inquiry;
use foundation::error::Result;
use providers::{Entry, Provider, StatementLine};

/// Maximum number of operations of one payment that are looked up individually.
const MAX_LOOK_UPS: usize = 20;

/// Records how a charge differs. Outcomes that our books lack are left to the charge protocol and to reconciliation,
/// which record them.
pub async fn compare_charge(
    db: &PgPool,
    provider: &dyn Provider,
    inquiry: &Inquiry,
    lines: &[StatementLine],
) -> Result<()> {
    let Some(payment) = books::payment_record(db, inquiry.account_id, inquiry.id, inquiry.read_at).await? else {
        return Ok(());
    };
    let comparison = Comparison { db, inquiry, lines, payment: &payment };
    let lines_agree = comparison.compare_lines().await?;
    let operations_agree = comparison.look_up_missing_lines(provider).await?;
    // Otherwise the differences recorded so far explain why the totals differ.
    if lines_agree && operations_agree && payment.all_ended {
        comparison.compare_totals().await?;
    }
    Ok(())
}

struct Comparison<'a> {
    db: &'a PgPool,
    inquiry: &'a Inquiry,
    lines: &'a [StatementLine],
    payment: &'a PaymentRecord,
}

impl Comparison<'_> {
    fn difference(&self, difference: Difference, entry: Entry) -> NewDifference<'_> {
        NewDifference {
            account: self.inquiry.account_id,
            provider_account: self.inquiry.provider_account_id,
            provider: self.inquiry.provider,
            difference,
            entry,
            line: None,
            recorded: None,
            payment: Some(self.inquiry.id),
            theirs: Value::Null,
            ours: Value::Null,
        }
    }

    /// Records how the provider's lines differ from our operations. Returns whether they agree.
    async fn compare_lines(&self) -> Result<bool> {
        let mut agree = true;
        let our_books = OurBooks::for_payment(self.inquiry.id, self.payment.operations.clone());
        for line in self.lines {
            let (difference, recorded) = match our_books.match_line(line) {
                LineMatch::Operation(recorded) if recorded.state == State::Succeeded => {
                    (find_difference(recorded, line), Some(OurEntry::from(recorded)))
                }
                LineMatch::Operation(recorded) => {
                    (request_difference(recorded, line).filter(|_| !recorded.state.is_final()), Some(recorded.into()))
                }
                LineMatch::Movement(movement) => {
                    let movement = OurEntry::from(movement);
                    (movement.difference(line), Some(movement))
                }
                LineMatch::Unmatched { candidate: None, .. } => (Some(Difference::MissingWithUs), None),
                LineMatch::Unmatched { candidate: Some(_), .. } => (None, None),
            };
            let Some(difference) = difference else { continue };
            agree = false;
            let (theirs, ours) = (provider_side(line), recorded.map_or(Value::Null, OurEntry::side));
            let new = self.difference(difference, line.entry);
            record_difference(self.db, &NewDifference { line: Some(line), recorded, theirs, ours, ..new }).await?;
        }
        Ok(agree)
    }

    /// Looks up our operations that succeeded before the provider was queried and that it did not list, and records how
    /// they differ. Returns whether they agree.
    async fn look_up_missing_lines(&self, provider: &dyn Provider) -> Result<bool> {
        let is_listed = listed_in(self.lines);
        let had_ended = self.payment.operations.iter().filter(|recorded| {
            let succeeded = recorded.state == State::Succeeded
                && recorded.entry().is_some()
                && recorded.target_ref_is(&self.inquiry.provider_ref);
            succeeded && recorded.finished_at.is_some_and(|at| at < self.inquiry.read_at)
        });
        let missing = had_ended.filter(|recorded| !is_listed(recorded)).cloned().collect();
        let found = look_up_missing(provider, self.inquiry.provider_account_id, missing, MAX_LOOK_UPS).await;
        let agree = found.differ.is_empty();
        for (recorded, difference, line) in &found.differ {
            let (line, recorded) = (line.as_ref(), OurEntry::from(recorded));
            let (theirs, ours) = (line.map_or(Value::Null, provider_side), recorded.side());
            let new = self.difference(*difference, recorded.entry().unwrap_or(Entry::Charge));
            record_difference(self.db, &NewDifference { line, recorded: Some(recorded), theirs, ours, ..new }).await?;
        }
        Ok(agree)
    }

    async fn compare_totals(&self) -> Result<()> {
        let Some((theirs, ours)) = totals(self.lines, self.payment) else { return Ok(()) };
        let line = self.lines.iter().find(|line| line.entry == Entry::Charge);
        let new = self.difference(Difference::Totals, Entry::Charge);
        record_difference(self.db, &NewDifference { line, theirs, ours, ..new }).await?;
        Ok(())
    }
}

/// Returns the captured and refunded totals of both sides if they differ.
fn totals(lines: &[StatementLine], payment: &PaymentRecord) -> Option<(Value, Value)> {
    let is_sale = payment.operations.iter().any(|recorded| recorded.kind == OperationKind::Sale);
    let sum = |of: &dyn Fn(Entry) -> bool| {
        lines.iter().filter(|line| of(line.entry)).map(|line| line.money.minor).sum::<i64>()
    };
    let captured = sum(&|entry| entry == Entry::Capture || (is_sale && entry == Entry::Charge));
    let refunded = sum(&|entry| entry == Entry::Refund);
    let totals = |captured, refunded| json!({"captured": captured, "refunded": refunded});
    ((captured, refunded) != (payment.captured, payment.refunded))
        .then(|| (totals(captured, refunded), totals(payment.captured, payment.refunded)))
}
