//! Recording what a provider said: state, sums, event and the kept answer in one transaction, matched by the operation and
//! not by the fence. A charge that nobody wants is recorded and reversed, never dropped.

use super::invoice_payment::charge_for_invoice;
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
use crate::id::{AnomalyId, OperationId, PaymentId, PaymentMethodId};
use crate::operations::{self, Claimed, Kind, Locked, NewOperation, Origin, Outcome, Retry, State, Subject};
use crate::payment_methods::{self, PaymentMethodView};
use crate::payments::{self, Payment, PaymentView, RefundStatus, Status, refunds};
use crate::proof::{self, Rule, failpoint};
use crate::providers::{Action, Answer, ProviderKind};
use crate::queues;
use crate::time::Timestamp;

/// How often a charge is looked up whose cardholder is being asked and has not come back.
const LOOK_AT_CHALLENGE: Duration = Duration::from_secs(3);

/// Writes a known outcome. Writing it twice, by whomever, changes nothing the second time.
///
/// # Errors
/// The database's; [`Error::Internal`] for an answer that does not fit the request, which a person must look at.
pub async fn record_outcome(db: &Db, claimed: &Claimed, answer: &Answer, clock: &Clock) -> Result<()> {
    if let (Kind::Sale | Kind::Authorize, Subject::Payment(id)) = (claimed.kind, claimed.subject) {
        return charge(db, claimed, id, answer, clock).await;
    }
    let mut tx = db.begin().await?;
    match (claimed.kind, claimed.subject) {
        (Kind::Capture | Kind::Void, Subject::Payment(id)) => change(&mut tx, claimed, id, answer, clock).await?,
        (Kind::Refund, Subject::Payment(id)) => refund(&mut tx, claimed, id, answer, clock).await?,
        (Kind::Reverse, Subject::Payment(id)) => reversal(&mut tx, claimed, id, answer).await?,
        (Kind::StoreCard, Subject::PaymentMethod(id)) => card(&mut tx, claimed, id, answer, clock).await?,
        (Kind::Sale | Kind::Authorize, _)
        | (Kind::Capture | Kind::Void | Kind::Refund | Kind::Reverse, Subject::PaymentMethod(_))
        | (Kind::StoreCard, Subject::Payment(_)) => return Err(misfit(claimed, "its subject")),
    }
    failpoint("outcome.written").await?;
    tx.commit().await?;
    Ok(())
}

/// Whether this says only that this one request did nothing. That of an approval, or of a decline that the provider has in its
/// books, is a fact about the operation, whoever tells it.
fn is_empty_handed(claimed: &Claimed, answer: &Answer) -> bool {
    match answer {
        Answer::Refused { .. } => true,
        // The card gateway enters nothing of what its limits decline, and leaves the reference free.
        Answer::Declined { .. } => claimed.provider == ProviderKind::CardGateway,
        Answer::Charged { .. } | Answer::Challenged { .. } | Answer::Done { .. } | Answer::Stored { .. } => false,
    }
}

/// Whether another worker has taken the operation over since, and this says nothing of what that one has sent.
pub(super) fn is_overtaken(claimed: &Claimed, operation: &Locked, answer: &Answer) -> bool {
    let overtaken = is_empty_handed(claimed, answer) && operation.fence != claimed.fence && proof::holds(Rule::Fence);
    if overtaken {
        tracing::info!(operation = %claimed.id, "a request did nothing, and another worker has the operation by now: its word counts");
    }
    overtaken
}

pub(super) fn misfit(claimed: &Claimed, what: &str) -> Error {
    Error::internal(format!("{}: {what} makes no sense", claimed.id))
}

/// The outcome of a charge. Whoever takes the payment out of those states that await one has written it; whoever comes later
/// has a late answer.
async fn charge(db: &Db, claimed: &Claimed, id: PaymentId, answer: &Answer, clock: &Clock) -> Result<()> {
    if let Answer::Challenged { url } = answer {
        return challenge(db, claimed, id, url, clock).await;
    }
    let mut payment = payments::retrieve(db, claimed.account_id, id).await?;
    let now = claimed.time.now(&**db, clock).await?;
    if let Some(invoice) = payment.invoice_id {
        return charge_for_invoice(db, claimed, &payment, invoice, answer, now).await;
    }
    if let Some(link) = payment.payment_link_id {
        return charge_for_link(db, claimed, &payment, link, answer, now).await;
    }
    if payment.status.is_under_way() && !is_empty_handed(claimed, answer) {
        conclude(&mut payment, claimed, answer, now)?;
        let mut connection = db.acquire().await?;
        if let Some(endpoints) = write(&mut connection, claimed, &payment, answer, now).await? {
            failpoint("outcome.written_at_once").await?;
            db.wake(queues::WEBHOOKS, endpoints);
            return Ok(());
        }
    }
    let mut tx = db.begin().await?;
    let mut payment = payments::lock(&mut tx, claimed.account_id, id).await?;
    let operation = operations::lock(&mut tx, claimed.id).await?;
    if is_overtaken(claimed, &operation, answer) {
        return Ok(());
    }
    if !operation.state.is_final() && payment.status.is_under_way() {
        conclude(&mut payment, claimed, answer, now)?;
        finish(&mut tx, claimed, &payment, answer, now).await?;
        failpoint("outcome.written_the_long_way").await?;
        tx.commit().await?;
        return Ok(());
    }
    if !operation.state.is_final() {
        return Err(misfit(claimed, &format!("a charge of a payment that is {}", payment.status.name())));
    }
    late_charge(&mut tx, claimed, &payment, &operation, answer, now).await?;
    failpoint("outcome.written_late").await?;
    tx.commit().await?;
    Ok(())
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
        tell(&mut tx, &payment, event, now).await?;
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
        Answer::Refused { .. } => payment.fail(),
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
        | Status::Failed
        | Status::Cancelled
        | Status::Expired => None,
    }
}

/// A capture or a void. If the provider would not, the payment is as it was.
async fn change(tx: &mut Tx, claimed: &Claimed, id: PaymentId, answer: &Answer, clock: &Clock) -> Result<()> {
    let mut payment = payments::lock(tx, claimed.account_id, id).await?;
    let operation = operations::lock(tx, claimed.id).await?;
    if operation.state.is_final() {
        late_change(claimed, &operation, answer);
        return Ok(());
    }
    if is_overtaken(claimed, &operation, answer) {
        return Ok(());
    }
    // After the lock: whoever waited for it comes later, and so does the event.
    let now = claimed.time.now(&mut **tx, clock).await?;
    operations::finish(tx, claimed.id, &ended(answer)).await?;
    let event = match (answer, &claimed.request.action) {
        (Answer::Done { .. }, Action::Capture { money, .. }) => {
            payment.captured(money.minor, claimed.provider, now)?;
            Some(EventType::PaymentCaptured)
        }
        (Answer::Done { .. }, Action::Void { .. }) => {
            payment.voided()?;
            Some(EventType::PaymentCancelled)
        }
        (Answer::Declined { .. } | Answer::Refused { .. }, _) => {
            payment.pending_operation = None;
            // The provider knows better than we how the charge stands, so it is asked now.
            payment.inquiry_at = payment.inquiry_at.map(|_| now);
            was_refused(&mut payment, now);
            None
        }
        (Answer::Charged { .. } | Answer::Challenged { .. } | Answer::Done { .. } | Answer::Stored { .. }, _) => {
            return Err(misfit(claimed, "that answer"));
        }
    };
    payments::save(tx, &payment).await?;
    if let Some(event) = event {
        tell(tx, &payment, event, now).await?;
    }
    Ok(())
}

/// A refund. What was reserved has gone back, or is free again.
async fn refund(tx: &mut Tx, claimed: &Claimed, id: PaymentId, answer: &Answer, clock: &Clock) -> Result<()> {
    let refund = claimed.refund_id.ok_or_else(|| misfit(claimed, "a refund of nothing"))?;
    let mut payment = payments::lock(tx, claimed.account_id, id).await?;
    let operation = operations::lock(tx, claimed.id).await?;
    if operation.state.is_final() {
        late_change(claimed, &operation, answer);
        return Ok(());
    }
    if is_overtaken(claimed, &operation, answer) {
        return Ok(());
    }
    let now = claimed.time.now(&mut **tx, clock).await?;
    operations::finish(tx, claimed.id, &ended(answer)).await?;
    let event = match answer {
        Answer::Done { .. } => {
            let amount = refunds::finish(tx, claimed.account_id, refund, RefundStatus::Succeeded, now).await?;
            payment.refunded(amount)?;
            EventType::PaymentRefunded
        }
        Answer::Declined { .. } | Answer::Refused { .. } => {
            let amount = refunds::finish(tx, claimed.account_id, refund, RefundStatus::Failed, now).await?;
            payment.release(amount)?;
            was_refused(&mut payment, now);
            EventType::PaymentRefundFailed
        }
        Answer::Charged { .. } | Answer::Challenged { .. } | Answer::Stored { .. } => {
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
    tell(tx, &payment, event, now).await
}

/// Writes an event about a payment with its refunds.
async fn tell(tx: &mut Tx, payment: &Payment, event: EventType, now: Timestamp) -> Result<()> {
    let refunds = refunds::of_locked(tx, payment).await?;
    let view = PaymentView::new(payment, &refunds);
    events::append(tx, payment.account_id, payment.mode == Mode::Live, event, &view, now).await?;
    Ok(())
}

fn ended(answer: &Answer) -> Outcome<'_> {
    match answer {
        Answer::Charged { provider_ref, .. } | Answer::Done { provider_ref } | Answer::Stored { provider_ref, .. } => {
            Outcome { state: State::Succeeded, provider_ref: Some(provider_ref), failure: None }
        }
        Answer::Declined { decline, .. } => {
            Outcome { state: State::Declined, provider_ref: None, failure: Some(&decline.code) }
        }
        Answer::Refused { reason } => Outcome { state: State::Failed, provider_ref: None, failure: Some(reason) },
        Answer::Challenged { .. } => Outcome { state: State::Unknown, provider_ref: None, failure: None },
    }
}

/// An answer to a capture, void or refund that has ended. Done once more, or after all, is for a person: it cannot be undone.
fn late_change(claimed: &Claimed, operation: &Locked, answer: &Answer) {
    if let Answer::Done { provider_ref } = answer
        && operation.provider_ref.as_ref() != Some(provider_ref)
    {
        tracing::error!(
            operation = %claimed.id, kind = claimed.kind.name(), recorded = operation.provider_ref, provider_ref,
            "the provider did this although our books have another end of it: a person must put it right"
        );
        metrics::counter!("payments_late_changes_total", "provider" => claimed.provider.name()).increment(1);
    }
}

/// An answer to an operation that has ended. The same charge again is no news; another one is reversed.
pub(super) async fn late_charge(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    operation: &Locked,
    answer: &Answer,
    now: Timestamp,
) -> Result<()> {
    match answer {
        Answer::Charged { provider_ref, amount, .. } if operation.provider_ref.as_ref() != Some(provider_ref) => {
            reverse(tx, claimed, payment, provider_ref, *amount, now).await
        }
        Answer::Charged { .. }
        | Answer::Challenged { .. }
        | Answer::Declined { .. }
        | Answer::Refused { .. }
        | Answer::Done { .. }
        | Answer::Stored { .. } => Ok(()),
    }
}

async fn reverse(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    provider_ref: &str,
    amount: i64,
    now: Timestamp,
) -> Result<()> {
    let recorded = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM charge_anomalies WHERE operation_id = $1 AND provider_ref = $2) AS "recorded!""#,
        claimed.id.uuid(),
        provider_ref
    )
    .fetch_one(&mut **tx)
    .await?;
    if recorded {
        return Ok(());
    }
    tracing::error!(
        operation = %claimed.id, payment = %payment.id, provider_ref, amount,
        "a second approved charge for one payment: recorded as an anomaly, and its reversal is on its way"
    );
    metrics::counter!("payments_duplicate_charges_total", "provider" => claimed.provider.name()).increment(1);
    let reversal = OperationId::new(now);
    let money = crate::money::Money { minor: amount, currency: payment.currency };
    operations::insert(
        tx,
        &NewOperation {
            id: reversal,
            account_id: claimed.account_id,
            provider_account_id: claimed.provider_account_id,
            subject: Subject::Payment(payment.id),
            refund_id: None,
            kind: Kind::Reverse,
            money: Some(money),
            source: None,
            target_ref: Some(provider_ref),
            action_token: None,
            origin: &Origin::default(),
        },
    )
    .await?;
    sqlx::query!(
        "INSERT INTO charge_anomalies
            (id, account_id, payment_id, operation_id, reversal_operation_id, provider_ref, amount, currency, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        AnomalyId::new(now).uuid(),
        claimed.account_id.uuid(),
        payment.id.uuid(),
        claimed.id.uuid(),
        reversal.uuid(),
        provider_ref,
        amount,
        payment.currency.code(),
        now,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn reversal(tx: &mut Tx, claimed: &Claimed, id: PaymentId, answer: &Answer) -> Result<()> {
    payments::lock(tx, claimed.account_id, id).await?;
    let operation = operations::lock(tx, claimed.id).await?;
    if operation.state.is_final() || is_overtaken(claimed, &operation, answer) {
        return Ok(());
    }
    if let Answer::Refused { reason } = answer {
        tracing::error!(
            operation = %claimed.id, payment = %id, reason,
            "the provider would not reverse a second charge: the cardholder has paid twice until a person refunds it"
        );
    }
    operations::finish(tx, claimed.id, &ended(answer)).await
}

async fn card(tx: &mut Tx, claimed: &Claimed, id: PaymentMethodId, answer: &Answer, clock: &Clock) -> Result<()> {
    let saved = payment_methods::retrieve(tx, claimed.account_id, id).await?;
    let customer = customers::lock(tx, claimed.account_id, saved.customer_id).await?;
    let operation = operations::lock(tx, claimed.id).await?;
    if operation.state.is_final() || is_overtaken(claimed, &operation, answer) {
        return Ok(());
    }
    operations::finish(tx, claimed.id, &ended(answer)).await?;
    let Answer::Stored { provider_ref, card } = answer else {
        return payment_methods::finish_saving(tx, id, None).await;
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
    Ok(())
}
