//! Compares one charge and everything that followed it between the provider and our books. Runs at every inquiry,
//! because the provider's response contains all of it anyway.

use serde_json::{Value, json};
use sqlx::PgPool;

use super::{
    Difference, LineMatch, NewDifference, OurBooks, find_difference, listed_in, look_up_missing, our_side,
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
    let new = |difference, entry| NewDifference {
        account: inquiry.account_id,
        provider_account: inquiry.provider_account_id,
        provider: inquiry.provider,
        difference,
        entry,
        line: None,
        recorded: None,
        payment: Some(inquiry.id),
        theirs: Value::Null,
        ours: Value::Null,
    };
    let mut equal = true;
    let our_books = OurBooks::for_payment(inquiry.id, payment.operations.clone());
    for line in lines {
        let (difference, recorded) = match our_books.match_line(line) {
            LineMatch::Operation(recorded) if recorded.state == State::Succeeded => {
                (find_difference(recorded, line), Some(recorded))
            }
            LineMatch::Operation(recorded) => {
                (request_difference(recorded, line).filter(|_| !recorded.state.is_final()), Some(recorded))
            }
            LineMatch::Unmatched { candidate: None, .. } => (Some(Difference::MissingWithUs), None),
            LineMatch::Unmatched { candidate: Some(_), .. } => (None, None),
        };
        let Some(difference) = difference else { continue };
        equal = false;
        let (theirs, ours) = (provider_side(line), recorded.map_or(Value::Null, our_side));
        record_difference(
            db,
            &NewDifference { line: Some(line), recorded, theirs, ours, ..new(difference, line.entry) },
        )
        .await?;
    }
    let is_listed = listed_in(lines);
    let had_ended = payment.operations.iter().filter(|recorded| {
        let succeeded = recorded.state == State::Succeeded
            && recorded.entry().is_some()
            && recorded.target_ref_is(&inquiry.provider_ref);
        succeeded && recorded.finished_at.is_some_and(|at| at < inquiry.read_at)
    });
    let missing = had_ended.filter(|recorded| !is_listed(recorded)).cloned().collect();
    for (recorded, difference, line) in
        look_up_missing(provider, inquiry.provider_account_id, missing, MAX_LOOK_UPS).await.differ
    {
        equal = false;
        let theirs = line.as_ref().map_or(Value::Null, provider_side);
        let entry = recorded.entry().unwrap_or(Entry::Charge);
        let found = NewDifference {
            line: line.as_ref(),
            recorded: Some(&recorded),
            ours: our_side(&recorded),
            theirs,
            ..new(difference, entry)
        };
        record_difference(db, &found).await?;
    }
    if let Some((theirs, ours)) = totals(lines, &payment).filter(|_| equal && payment.all_ended) {
        let charge = lines.iter().find(|line| line.entry == Entry::Charge);
        let found = NewDifference { line: charge, theirs, ours, ..new(Difference::Totals, Entry::Charge) };
        record_difference(db, &found).await?;
    }
    Ok(())
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
