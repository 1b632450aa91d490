//! One charge with all that followed it, as the provider has it and as our books have it: compared whenever the provider is asked how
//! the charge stands, for the answer has all of it anyway.

use serde_json::{Value, json};
use sqlx::PgPool;

use super::{About, Difference, NewDifference, Ours, as_asked, differs, look_up, note, ours as shown, theirs, told_by};
use crate::error::Result;
use crate::operations::books::{self, Whole};
use crate::operations::{Kind, State};
use crate::payments::Inquiry;
use crate::providers::{Entry, Provider, StatementLine};

/// Operations of one payment that are looked up one by one, at most.
const LOOK_UPS: usize = 20;

/// Records how a charge differs. Outcomes that our books lack are left to those who ask for them and to the statement: they are recorded
/// there.
pub(in crate::flows) async fn compare_charge(
    db: &PgPool,
    provider: &dyn Provider,
    inquiry: &Inquiry,
    lines: &[StatementLine],
) -> Result<()> {
    let Some(whole) = books::whole(db, inquiry.account_id, inquiry.id, inquiry.asked_at).await? else { return Ok(()) };
    let new = |difference, entry| NewDifference {
        account: inquiry.account_id,
        provider_account: inquiry.provider_account_id,
        provider: inquiry.provider,
        difference,
        entry,
        line: None,
        known: None,
        payment: Some(inquiry.id),
        theirs: Value::Null,
        ours: Value::Null,
    };
    let mut agree = true;
    let ours = Ours::of_payment(inquiry.id, whole.operations.clone());
    for line in lines {
        let (difference, known) = match ours.of(line) {
            About::Ours(known) if known.state == State::Succeeded => (differs(known, line), Some(known)),
            About::Ours(known) => (as_asked(known, line).filter(|_| !known.state.is_final()), Some(known)),
            About::Nobody { may_be: None, .. } => (Some(Difference::MissingWithUs), None),
            About::Nobody { may_be: Some(_), .. } => (None, None),
        };
        let Some(difference) = difference else { continue };
        agree = false;
        let (theirs, ours) = (theirs(line), known.map_or(Value::Null, shown));
        note(db, &NewDifference { line: Some(line), known, theirs, ours, ..new(difference, line.entry) }).await?;
    }
    let is_told = told_by(lines);
    let had_ended = whole.operations.iter().filter(|known| {
        let here =
            known.state == State::Succeeded && known.entry().is_some() && known.target_ref_is(&inquiry.provider_ref);
        here && known.finished_at.is_some_and(|at| at < inquiry.asked_at)
    });
    let unseen = had_ended.filter(|known| !is_told(known)).cloned().collect();
    for (known, difference, line) in look_up(provider, inquiry.provider_account_id, unseen, LOOK_UPS).await.differ {
        agree = false;
        let theirs = line.as_ref().map_or(Value::Null, theirs);
        let entry = known.entry().unwrap_or(Entry::Charge);
        let found = NewDifference {
            line: line.as_ref(),
            known: Some(&known),
            ours: shown(&known),
            theirs,
            ..new(difference, entry)
        };
        note(db, &found).await?;
    }
    if let Some((theirs, ours)) = totals(lines, &whole).filter(|_| agree && whole.is_at_rest) {
        let charge = lines.iter().find(|line| line.entry == Entry::Charge);
        let found = NewDifference { line: charge, theirs, ours, ..new(Difference::Totals, Entry::Charge) };
        note(db, &found).await?;
    }
    Ok(())
}

/// What was captured and refunded in all, where the two sides differ.
fn totals(lines: &[StatementLine], whole: &Whole) -> Option<(Value, Value)> {
    let is_sale = whole.operations.iter().any(|known| known.kind == Kind::Sale);
    let sum = |of: &dyn Fn(Entry) -> bool| {
        lines.iter().filter(|line| of(line.entry)).map(|line| line.money.minor).sum::<i64>()
    };
    let captured = sum(&|entry| entry == Entry::Capture || (is_sale && entry == Entry::Charge));
    let refunded = sum(&|entry| entry == Entry::Refund);
    let shown = |captured, refunded| json!({"captured": captured, "refunded": refunded});
    ((captured, refunded) != (whole.captured, whole.refunded))
        .then(|| (shown(captured, refunded), shown(whole.captured, whole.refunded)))
}
