//! The outcome of a payment for an invoice: the invoice is locked first, and ends or goes on in the same transaction.

use super::late::{Recorded, too_late};
use super::outcome::{conclude, finish, misfit};
use super::reversal::reverse_partial;
use super::straight::finish_collection;
use crate::accounts::{self, Mode};
use crate::customers;
use crate::db::{Db, Tx};
use crate::error::Result;
use crate::events::{self, EventType};
use crate::id::{InvoiceId, PaymentId, PaymentMethodId};
use crate::invoices::{self, Circumstances, Failure, Invoice, InvoiceView, Next, Status as InvoiceStatus, attempts};
use crate::operations::{self, Claimed};
use crate::payments::{self, Payment, PaymentView, Status};
use crate::proof::failpoint;
use crate::providers::{Answer, DeclineType, FailureCode};
use crate::queues;
use crate::subscriptions::{self, Subscription};
use crate::time::Timestamp;

/// Writes the outcome of a charge for an invoice. Writing it twice changes nothing the second time.
///
/// Locks: the customer if the card is dead, the subscription that is owed, the invoice, the payment, the operation.
pub(super) async fn charge_for_invoice(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: PaymentId,
    invoice: InvoiceId,
    answer: &Answer,
    now: Timestamp,
) -> Result<Recorded> {
    let account = claimed.account_id;
    let owed = invoices::retrieve(&mut **tx, account, invoice).await?;
    let customer = owed.customer_id;
    // Another default card comes before this outcome, which then sees it, or after, when it finds the invoice waiting.
    let customer = match answer {
        Answer::Declined { decline, .. } if decline.kind == DeclineType::Hard => {
            Some(customers::lock(tx, account, customer).await?)
        }
        Answer::Declined { .. }
        | Answer::Charged { .. }
        | Answer::Mismatched { .. }
        | Answer::Challenged { .. }
        | Answer::Refused { .. }
        | Answer::Done { .. }
        | Answer::Stored { .. } => None,
    };
    let mut subscription = subscriptions::lock_producer(tx, &owed).await?;
    let mut invoice = invoices::lock(tx, account, invoice).await?;
    let mut payment = payments::lock(tx, account, payment).await?;
    let operation = operations::lock(tx, claimed.id).await?;
    if let Some(recorded) = too_late(tx, claimed, &payment, &operation, answer, now).await? {
        return Ok(recorded);
    }
    conclude(&mut payment, claimed, answer, now)?;
    finish(tx, claimed, &payment, answer, now).await?;
    let failure = match answer {
        Answer::Charged { amount, .. } if *amount >= payment.amount_requested => None,
        Answer::Charged { .. } => Some(Failure::PARTIAL),
        Answer::Declined { decline, .. } => Some(Failure { code: &decline.code, kind: decline.kind }),
        Answer::Mismatched { .. } => Some(Failure::of(FailureCode::AmountMismatch)),
        Answer::Refused { code, .. } => Some(Failure::of(*code)),
        Answer::Challenged { .. } | Answer::Done { .. } | Answer::Stored { .. } => {
            return Err(misfit(claimed, "that answer"));
        }
    };
    match failure {
        None => {
            paid(tx, &mut invoice, &payment, now).await?;
            if let Some(subscription) = &mut subscription {
                subscriptions::invoice_paid(tx, subscription).await?;
            }
        }
        Some(failure) => {
            if failure == Failure::PARTIAL {
                reverse_partial(tx, &mut payment, now).await?;
            }
            let default_now = customer.and_then(|customer| customer.default_payment_method_id);
            if failed(tx, &mut invoice, &payment, failure, default_now, subscription.as_ref(), now).await?
                && let Some(subscription) = &mut subscription
            {
                subscriptions::invoice_failed(tx, subscription, now).await?;
            }
        }
    }
    failpoint("invoice_payment.written").await?;
    Ok(Recorded::end_of(&operation))
}

/// Most collections are approved in full, and nothing else has become of their invoice meanwhile: that is one statement.
/// `false`: it was not so, and nothing was written.
pub(super) async fn pays_straight(
    db: &Db,
    claimed: &Claimed,
    payment: &Payment,
    invoice: InvoiceId,
    answer: &Answer,
    now: Timestamp,
) -> Result<bool> {
    let in_full = matches!(answer, Answer::Charged { amount, .. } if *amount == payment.amount_requested);
    // A cardholder pays with a token, and a saved card is charged by an attempt of ours.
    if !in_full || payment.payment_method_id.is_none() || payment.status != Status::Processing {
        return Ok(false);
    }
    let mut invoice = invoices::retrieve(&**db, claimed.account_id, invoice).await?;
    if invoice.status != InvoiceStatus::Scheduled || invoice.subscription_id.is_some() {
        return Ok(false);
    }
    let mut payment = payment.clone();
    conclude(&mut payment, claimed, answer, now)?;
    invoice.pay(payment.id, payment.pays(), now)?;
    let livemode = invoice.mode == Mode::Live;
    let captured = events::render(livemode, EventType::PaymentCaptured, &PaymentView::new(&payment, &[]), now)?;
    let paid = events::render(livemode, EventType::InvoicePaid, &InvoiceView::new(&invoice), now)?;
    let mut connection = db.acquire().await?;
    let told = finish_collection(&mut connection, claimed, &payment, &invoice, &[captured, paid], now).await?;
    let Some(endpoints) = told else { return Ok(false) };
    failpoint("invoice_payment.written_at_once").await?;
    db.wake(queues::WEBHOOKS, endpoints);
    count("paid");
    Ok(true)
}

async fn paid(tx: &mut Tx, invoice: &mut Invoice, payment: &Payment, now: Timestamp) -> Result<()> {
    if let Some(attempt) = attempts::of_payment(tx, invoice.account_id, payment.id).await? {
        attempts::succeeded(tx, attempt.id).await?;
        count("paid");
    }
    invoices::pay(tx, invoice, payment.id, payment.pays(), now).await
}

/// A cardholder's own failed payment changes nothing of the invoice: `false`. An attempt of ours is followed by another, or
/// not: a cancelled subscription lets it finish and never retries it.
async fn failed(
    tx: &mut Tx,
    invoice: &mut Invoice,
    payment: &Payment,
    failure: Failure<'_>,
    default_now: Option<PaymentMethodId>,
    subscription: Option<&Subscription>,
    now: Timestamp,
) -> Result<bool> {
    let Some(attempt) = attempts::of_payment(tx, invoice.account_id, payment.id).await? else { return Ok(false) };
    // The one that was charged is dead; the default may be another one, before the attempt or since.
    let another_card = default_now.is_some() && default_now != payment.payment_method_id;
    // The former release notes nothing on the invoice when it cancels. What a merchant has scheduled anew since is wanted.
    let cancelled = subscription.and_then(|subscription| subscription.cancelled_at);
    let given_up = invoice.is_given_up() || cancelled.is_some_and(|at| at > attempt.attempted_at);
    let zone = accounts::timezone(&mut **tx, invoice.account_id).await?;
    let world = Circumstances { now, zone: &zone, another_card, given_up };
    let next = invoices::attempt_failed(tx, invoice, failure, world).await?;
    attempts::failed(tx, attempt.id, failure, invoice.next_attempt_at).await?;
    count(match (next, failure.kind) {
        (Next::Exhausted, _) => "exhausted",
        (_, DeclineType::Soft) => "soft_decline",
        (_, DeclineType::Hard) => "hard_decline",
    });
    Ok(true)
}

fn count(outcome: &'static str) {
    metrics::counter!("invoices_collection_attempts_total", "outcome" => outcome).increment(1);
}
