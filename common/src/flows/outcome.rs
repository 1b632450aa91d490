//! Recording what a provider said: state, sums, event and the kept answer in one transaction, matched by the operation and
//! not by the fence. A charge that nobody wants is recorded and reversed, never dropped.

use super::invoice_payment::{charge_for_invoice, pays_straight};
use super::late::{Anomaly, Recorded, change_too_late, is_empty_handed, no_outcome, reverse, reverse_again, too_late};
use super::link_payment::charge_for_link;
use super::reversal::was_refused;
use super::save_card::make_default;
use super::straight::{self, Told};
use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use crate::accounts::Mode;
use crate::clock::Clock;
use crate::customers;
use crate::db::{Db, Tx};
use crate::error::{Error, Result};
use crate::events::{self, EventType};
use crate::id::{PaymentId, PaymentMethodId, RefundId};
use crate::idempotency;
use crate::operations::{self, Claimed, Kind, Outcome, Retry, State, Subject};
use crate::payment_methods::{self, PaymentMethodView};
use crate::payments::{self, Payment, PaymentView, RefundStatus, Status, refunds};
use crate::proof::{self, Rule, failpoint};
use crate::providers::{Action, Answer, FailureCode};
use crate::queues;
use crate::time::Timestamp;

/// How often a charge is looked up whose cardholder is being asked and has not come back.
const LOOK_AT_CHALLENGE: Duration = Duration::from_secs(3);

/// Writes a known outcome. Writing it twice, by whomever, changes nothing the second time.
///
/// # Errors
/// The database's; [`Error::Internal`] for an answer that does not fit the request, which a person must look at.
pub async fn record_outcome(db: &Db, claimed: &Claimed, answer: &Answer, clock: &Clock) -> Result<()> {
    let tx = match (claimed.kind, claimed.subject) {
        (Kind::Sale | Kind::Authorize, Subject::Payment(id)) => {
            if let Answer::Challenged { url } = answer {
                return challenge(db, claimed, id, url, clock).await;
            }
            let payment = payments::retrieve(db, claimed.account_id, id).await?;
            let now = claimed.time.now(&**db, clock).await?;
            if goes_straight(db, claimed, &payment, answer, now).await? {
                return Ok(());
            }
            let mut tx = db.begin().await?;
            charge(&mut tx, claimed, &payment, answer, now).await?;
            tx
        }
        _ => {
            let mut tx = db.begin().await?;
            record_within(&mut tx, claimed, answer, clock).await?;
            failpoint("outcome.written").await?;
            tx
        }
    };
    tx.commit().await?;
    Ok(())
}

/// Writes a known outcome the long way, in a transaction that may hold more than this. Whoever commits it writes it.
pub(super) async fn record_within(tx: &mut Tx, claimed: &Claimed, answer: &Answer, clock: &Clock) -> Result<Recorded> {
    match (claimed.kind, claimed.subject) {
        (Kind::Sale | Kind::Authorize, Subject::Payment(id)) => {
            let payment =
                payments::find(tx, claimed.account_id, id).await?.ok_or_else(|| Error::no_such("payment", id))?;
            let now = claimed.time.now(&mut **tx, clock).await?;
            charge(tx, claimed, &payment, answer, now).await
        }
        (Kind::Capture | Kind::Void, Subject::Payment(id)) => change(tx, claimed, id, answer, clock).await,
        (Kind::Refund, Subject::Payment(id)) => refund(tx, claimed, id, answer, clock).await,
        (Kind::Reverse, Subject::Payment(id)) => reversal(tx, claimed, id, answer, clock).await,
        (Kind::StoreCard, Subject::PaymentMethod(id)) => card(tx, claimed, id, answer, clock).await,
        (Kind::Sale | Kind::Authorize | Kind::Capture | Kind::Void, Subject::PaymentMethod(_))
        | (Kind::Refund | Kind::Reverse, Subject::PaymentMethod(_))
        | (Kind::StoreCard, Subject::Payment(_)) => Err(misfit(claimed, "its subject")),
    }
}

pub(super) fn misfit(claimed: &Claimed, what: &str) -> Error {
    Error::internal(format!("{}: {what} makes no sense", claimed.id))
}

/// Writes the outcome of a charge as one statement, where its payment still awaits it. `false`: it was not so, and nothing was
/// written.
async fn goes_straight(db: &Db, claimed: &Claimed, payment: &Payment, answer: &Answer, now: Timestamp) -> Result<bool> {
    if let Some(invoice) = payment.invoice_id {
        return pays_straight(db, claimed, payment, invoice, answer, now).await;
    }
    let mismatched = matches!(answer, Answer::Mismatched { .. });
    if payment.payment_link_id.is_some()
        || !payment.status.is_under_way()
        || mismatched
        || is_empty_handed(claimed, answer)
    {
        return Ok(false);
    }
    let mut payment = payment.clone();
    conclude(&mut payment, claimed, answer, now)?;
    let mut connection = db.acquire().await?;
    let Some(endpoints) = write(&mut connection, claimed, &payment, answer, now).await? else { return Ok(false) };
    failpoint("outcome.written_at_once").await?;
    db.wake(queues::WEBHOOKS, endpoints);
    Ok(true)
}

/// The outcome of a charge. Whoever takes the payment out of those states that await one has written it; whoever comes later
/// has a late answer.
async fn charge(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    answer: &Answer,
    now: Timestamp,
) -> Result<Recorded> {
    if let Some(invoice) = payment.invoice_id {
        return charge_for_invoice(tx, claimed, payment.id, invoice, answer, now).await;
    }
    if let Some(link) = payment.payment_link_id {
        return charge_for_link(tx, claimed, payment.id, link, answer, now).await;
    }
    let mut payment = payments::lock(tx, claimed.account_id, payment.id).await?;
    let operation = operations::lock(tx, claimed.id).await?;
    if let Some(recorded) = too_late(tx, claimed, &payment, &operation, answer, now).await? {
        if recorded == Recorded::Late {
            failpoint("outcome.written_late").await?;
        }
        return Ok(recorded);
    }
    conclude(&mut payment, claimed, answer, now)?;
    finish(tx, claimed, &payment, answer, now).await?;
    failpoint("outcome.written_the_long_way").await?;
    Ok(Recorded::end_of(&operation))
}

/// Writes the outcome of a charge that is locked with its operation, and wakes whoever is to hear of it.
pub(super) async fn finish(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    answer: &Answer,
    now: Timestamp,
) -> Result<()> {
    let endpoints = write(tx, claimed, payment, answer, now).await?;
    for endpoint in endpoints.ok_or_else(|| misfit(claimed, "a charge of a payment that has ended"))? {
        tx.wake(queues::WEBHOOKS, endpoint);
    }
    if let Answer::Mismatched { provider_ref, total } = answer {
        reverse(tx, claimed, payment, provider_ref, *total, Anomaly::AmountMismatch, now).await?;
    }
    Ok(())
}

/// Writes the outcome of a charge with its event and the answer that replays will get. `None`: the payment has ended before.
async fn write(
    db: &mut PgConnection,
    claimed: &Claimed,
    payment: &Payment,
    answer: &Answer,
    now: Timestamp,
) -> Result<Option<Vec<Uuid>>> {
    let view = PaymentView::new(payment, &[]);
    let kept = serde_json::to_string(&view).map_err(|e| Error::internal(format!("{}: {e}", payment.id)))?;
    let livemode = payment.mode == Mode::Live;
    let event = match event_of(payment).filter(|_| proof::holds(Rule::Event)) {
        Some(kind) => Some(events::render(livemode, kind, &view, now)?),
        None => None,
    };
    let told = Told { event: event.as_ref(), answer: &kept };
    straight::finish_charge(db, claimed, payment, &ended(answer), &told).await
}

/// Without [`Rule::Event`]: whoever dies in between has told nobody.
pub(super) async fn tell_late(db: &Db, claimed: &Claimed, clock: &Clock) -> Result<()> {
    let (Kind::Sale | Kind::Authorize, Subject::Payment(id)) = (claimed.kind, claimed.subject) else { return Ok(()) };
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut tx = db.begin().await?;
    let payment = payments::lock(&mut tx, claimed.account_id, id).await?;
    if let Some(event) = event_of(&payment) {
        let now = claimed.time.now(&mut *tx, clock).await?;
        tell(&mut tx, &payment, event, None, now).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// What the answer makes of the payment.
pub(super) fn conclude(payment: &mut Payment, claimed: &Claimed, answer: &Answer, now: Timestamp) -> Result<()> {
    match answer {
        Answer::Charged { provider_ref, amount, card } => {
            if !(1..=payment.amount_requested).contains(amount) {
                return Err(misfit(claimed, &format!("an approval of {amount} for {}", payment.amount_requested)));
            }
            payment.approve(provider_ref, *amount, card.as_ref(), claimed.provider, now)
        }
        Answer::Declined { decline, card } => payment.decline(decline, card.as_ref()),
        Answer::Mismatched { .. } => payment.fail(FailureCode::AmountMismatch),
        Answer::Refused { code, .. } => payment.fail(*code),
        Answer::Challenged { .. } | Answer::Done { .. } | Answer::Stored { .. } => Err(misfit(claimed, "that answer")),
    }
}

/// The cardholder is asked. Nothing has come to its end: the payment says where to go, and what comes of it is looked up, whether
/// anybody comes back or not.
async fn challenge(db: &Db, claimed: &Claimed, id: PaymentId, url: &str, clock: &Clock) -> Result<()> {
    let token = claimed.action_token.as_deref().ok_or_else(|| misfit(claimed, "a challenge with nobody there"))?;
    let mut tx = db.begin().await?;
    let mut payment = payments::lock(&mut tx, claimed.account_id, id).await?;
    if payment.status == Status::Processing {
        let now = claimed.time.now(&mut *tx, clock).await?;
        payment.challenge(token, url)?;
        let view = PaymentView::new(&payment, &[]);
        let kept = serde_json::to_string(&view).map_err(|e| Error::internal(format!("{id}: {e}")))?;
        payments::save_challenge(&mut tx, &payment, &kept).await?;
        let livemode = payment.mode == Mode::Live;
        events::append(&mut tx, payment.account_id, livemode, EventType::PaymentRequiresAction, &view, now).await?;
    }
    operations::leave_unknown(&mut tx, claimed, Retry::After(LOOK_AT_CHALLENGE), false).await?;
    failpoint("outcome.challenged").await?;
    tx.commit().await?;
    Ok(())
}

/// The event of a payment whose charge has just come to an end.
fn event_of(payment: &Payment) -> Option<EventType> {
    match payment.status {
        Status::Declined => Some(EventType::PaymentDeclined),
        Status::Failed => Some(EventType::PaymentFailed),
        Status::Authorized | Status::PartiallyAuthorized | Status::PendingSettlement if payment.capture => {
            Some(EventType::PaymentCaptured)
        }
        Status::Authorized | Status::PartiallyAuthorized => Some(EventType::PaymentAuthorized),
        Status::Processing
        | Status::RequiresAction
        | Status::PendingSettlement
        | Status::Settled
        | Status::PartiallyRefunded
        | Status::Refunded
        | Status::Cancelled
        | Status::Expired => None,
    }
}

/// A capture or a void. If the provider would not, the payment is as it was.
async fn change(tx: &mut Tx, claimed: &Claimed, id: PaymentId, answer: &Answer, clock: &Clock) -> Result<Recorded> {
    let mut payment = payments::lock(tx, claimed.account_id, id).await?;
    let operation = operations::lock(tx, claimed.id).await?;
    if let Some(recorded) = change_too_late(claimed, &operation, answer) {
        return Ok(recorded);
    }
    // After the lock: whoever waited for it comes later, and so does the event.
    let now = claimed.time.now(&mut **tx, clock).await?;
    operations::finish(tx, claimed.id, &ended(answer)).await?;
    let event = match (answer, &claimed.request.action) {
        (Answer::Done { .. }, Action::Capture { money, .. }) => {
            payment.captured(money.minor, claimed.provider, now)?;
            EventType::PaymentCaptured
        }
        (Answer::Done { .. }, Action::Void { .. }) => {
            payment.voided()?;
            EventType::PaymentCancelled
        }
        (Answer::Declined { .. } | Answer::Refused { .. }, action) => {
            payment.pending_operation = None;
            payment.failure_code = ended(answer).failure_code;
            // The provider knows better than we how the charge stands, so it is asked now.
            payment.inquiry_at = payment.inquiry_at.map(|_| now);
            was_refused(&mut payment, now);
            match action {
                Action::Capture { .. } => EventType::PaymentCaptureFailed,
                Action::Void { .. } | Action::Charge { .. } | Action::Refund { .. } | Action::StoreCard { .. } => {
                    EventType::PaymentVoidFailed
                }
            }
        }
        (
            Answer::Charged { .. }
            | Answer::Challenged { .. }
            | Answer::Done { .. }
            | Answer::Stored { .. }
            | Answer::Mismatched { .. },
            _,
        ) => {
            return Err(misfit(claimed, "that answer"));
        }
    };
    payments::save(tx, &payment).await?;
    tell(tx, &payment, event, None, now).await?;
    Ok(Recorded::end_of(&operation))
}

/// A refund. What was reserved has gone back, or is free again.
async fn refund(tx: &mut Tx, claimed: &Claimed, id: PaymentId, answer: &Answer, clock: &Clock) -> Result<Recorded> {
    let refund = claimed.refund_id.ok_or_else(|| misfit(claimed, "a refund of nothing"))?;
    let mut payment = payments::lock(tx, claimed.account_id, id).await?;
    let operation = operations::lock(tx, claimed.id).await?;
    if let Some(recorded) = change_too_late(claimed, &operation, answer) {
        return Ok(recorded);
    }
    let now = claimed.time.now(&mut **tx, clock).await?;
    operations::finish(tx, claimed.id, &ended(answer)).await?;
    let event = match answer {
        Answer::Done { .. } => {
            let amount = refunds::finish(tx, claimed.account_id, refund, RefundStatus::Succeeded, None, now).await?;
            payment.refunded(amount)?;
            EventType::PaymentRefunded
        }
        Answer::Declined { .. } | Answer::Refused { .. } => {
            let code = ended(answer).failure_code;
            let amount = refunds::finish(tx, claimed.account_id, refund, RefundStatus::Failed, code, now).await?;
            payment.release(amount)?;
            was_refused(&mut payment, now);
            EventType::PaymentRefundFailed
        }
        Answer::Charged { .. } | Answer::Challenged { .. } | Answer::Stored { .. } | Answer::Mismatched { .. } => {
            return Err(misfit(claimed, "that answer"));
        }
    };
    if payment.pending_operation == Some(Kind::Refund)
        && !operations::another_refund_is_unknown(tx, claimed, id).await?
    {
        payment.pending_operation = None;
    }
    payments::save(tx, &payment).await?;
    // One follows the other, so the next one need not wait for the sweep.
    if let Some(next) = operations::next_refund(tx, claimed.account_id, id).await? {
        tx.wake(queues::MONEY, next.uuid());
    }
    tell(tx, &payment, event, Some(refund), now).await?;
    Ok(Recorded::end_of(&operation))
}

/// Writes an event about a payment with its refunds, and about one of these if it says which.
async fn tell(
    tx: &mut Tx,
    payment: &Payment,
    event: EventType,
    refund: Option<RefundId>,
    now: Timestamp,
) -> Result<()> {
    let refunds = refunds::of_locked(tx, payment).await?;
    let view = PaymentView::new(payment, &refunds);
    let livemode = payment.mode == Mode::Live;
    events::append_about(tx, payment.account_id, livemode, event, &view, refund, now).await?;
    Ok(())
}

fn ended(answer: &Answer) -> Outcome<'_> {
    let outcome = |state| Outcome { state, provider_ref: None, failure: None, failure_code: None };
    match answer {
        Answer::Charged { provider_ref, .. } | Answer::Done { provider_ref } | Answer::Stored { provider_ref, .. } => {
            Outcome { provider_ref: Some(provider_ref), ..outcome(State::Succeeded) }
        }
        Answer::Declined { decline, .. } => Outcome {
            failure: Some(&decline.code),
            failure_code: Some(FailureCode::ProviderRefused),
            ..outcome(State::Declined)
        },
        Answer::Refused { code, reason } => {
            Outcome { failure: Some(reason), failure_code: Some(*code), ..outcome(State::Failed) }
        }
        // What was charged is the anomaly's, and its reversal's.
        Answer::Mismatched { .. } => Outcome {
            failure: Some("the provider took another amount than was asked"),
            failure_code: Some(FailureCode::AmountMismatch),
            ..outcome(State::Failed)
        },
        Answer::Challenged { .. } => outcome(State::Unknown),
    }
}

/// A reversal. One that the provider entered and never processed has used its reference up, so another one follows it.
async fn reversal(tx: &mut Tx, claimed: &Claimed, id: PaymentId, answer: &Answer, clock: &Clock) -> Result<Recorded> {
    let payment = payments::lock(tx, claimed.account_id, id).await?;
    let operation = operations::lock(tx, claimed.id).await?;
    if let Some(recorded) = no_outcome(claimed, &operation, answer) {
        return Ok(recorded);
    }
    operations::finish(tx, claimed.id, &ended(answer)).await?;
    match answer {
        Answer::Refused { code: FailureCode::ProviderUnavailable, .. } => {
            let now = claimed.time.now(&mut **tx, clock).await?;
            reverse_again(tx, claimed, &payment, now).await?;
        }
        Answer::Refused { reason, .. } => tracing::error!(
            operation = %claimed.id, payment = %id, reason,
            "the provider would not reverse a charge that no payment wants: the cardholder has paid too much until a person refunds it"
        ),
        Answer::Charged { .. }
        | Answer::Mismatched { .. }
        | Answer::Challenged { .. }
        | Answer::Done { .. }
        | Answer::Stored { .. }
        | Answer::Declined { .. } => {}
    }
    Ok(Recorded::end_of(&operation))
}

async fn card(tx: &mut Tx, claimed: &Claimed, id: PaymentMethodId, answer: &Answer, clock: &Clock) -> Result<Recorded> {
    let saved = payment_methods::retrieve(tx, claimed.account_id, id).await?;
    let customer = customers::lock(tx, claimed.account_id, saved.customer_id).await?;
    let operation = operations::lock(tx, claimed.id).await?;
    if let Some(recorded) = no_outcome(claimed, &operation, answer) {
        return Ok(recorded);
    }
    let written = Recorded::end_of(&operation);
    operations::finish(tx, claimed.id, &ended(answer)).await?;
    let Answer::Stored { provider_ref, card } = answer else {
        payment_methods::finish_saving(tx, id, None).await?;
        idempotency::finish_saving(tx, claimed.account_id, id, None::<&PaymentMethodView<'_>>).await?;
        return Ok(written);
    };
    payment_methods::finish_saving(tx, id, Some((provider_ref, card))).await?;
    let now = claimed.time.now(&mut **tx, clock).await?;
    if customer.default_payment_method_id.is_none() {
        make_default(tx, &customer, claimed.account_id, id, now).await?;
    }
    let saved = payment_methods::retrieve(tx, claimed.account_id, id).await?;
    let livemode = saved.mode == Mode::Live;
    let view = PaymentMethodView::new(&saved);
    events::append(tx, claimed.account_id, livemode, EventType::PaymentMethodCreated, &view, now).await?;
    idempotency::finish_saving(tx, claimed.account_id, id, Some(&view)).await?;
    Ok(written)
}
