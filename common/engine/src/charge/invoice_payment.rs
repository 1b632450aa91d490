//! The outcome of a payment for an invoice: the invoice is locked first, and is paid or its collection continues, in
//! the same transaction.

use crate::charge::counters::{CollectionOutcome, count_collections};
use crate::charge::finish::{apply_response, ended_charge, finish_payment};
use crate::charge::outcomes::EndedCharge;
use crate::charge::reversal::reverse_partial;
use crate::charge::stale::{Recorded, stale_outcome};
use crate::charge::unsent::attempt_stopped;
use domain::accounts::{self, Mode};
use domain::customers;
use domain::events::{self, EventType};
use domain::invoices::{self, Failure, FailureContext, Invoice, InvoiceView, Status as InvoiceStatus, attempts};
use domain::operations::{self, Claimed};
use domain::payments::{self, Payment, Status};
use domain::subscriptions::{self, Subscription};
use foundation::db::Tx;
use foundation::error::Result;
use foundation::failpoint;
use foundation::id::{InvoiceId, PaymentId, PaymentMethodId};
use foundation::time::Timestamp;
use providers::{DeclineType, FailureCode, ProviderResponse};

/// Records the outcome of a charge for an invoice. Recording it again changes nothing.
///
/// Lock order: the customer (after a hard failure only), the subscription that produced the invoice, the invoice, the
/// payment, the operation.
pub async fn charge_for_invoice(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: PaymentId,
    invoice: InvoiceId,
    response: &ProviderResponse,
    now: Timestamp,
) -> Result<Recorded> {
    let account = claimed.account_id;
    let owed = invoices::retrieve(&mut **tx, account, invoice).await?;
    let customer = owed.customer_id;
    // A concurrent change of the default card either precedes this outcome, which then sees it, or follows and finds
    // the invoice waiting for a card.
    let is_hard = failure_of(response).is_some_and(|failure| failure.kind == DeclineType::Hard);
    let customer = match is_hard {
        true => customers::find_locked(tx, account, customer).await?,
        false => None,
    };
    let mut subscription = subscriptions::lock_producer(tx, &owed).await?;
    let mut invoice = invoices::lock(tx, account, invoice).await?;
    let mut payment = payments::lock(tx, account, payment).await?;
    let operation = operations::lock(tx, claimed.id).await?;
    if let Some(recorded) = stale_outcome(tx, claimed, &payment, &operation, response, now).await? {
        return Ok(recorded);
    }
    apply_response(&mut payment, claimed, response, now)?;
    finish_payment(tx, claimed, &payment, response, now).await?;
    let is_part = matches!(response, ProviderResponse::Charged { amount, .. } if *amount < payment.amount_requested);
    let failure = match failure_of(response) {
        _ if is_part => Some(Failure::PARTIAL),
        // Only its card was detached.
        Some(Failure::WITHDRAWN) if !invoice.retries_stopped() => Some(Failure::NO_CARD),
        failure => failure,
    };
    match failure {
        Some(Failure::WITHDRAWN) => {
            attempt_stopped(tx, account, payment.id).await?;
            invoices::unschedule(tx, &mut invoice).await?;
        }
        None => {
            record_paid(tx, &mut invoice, &payment, now).await?;
            if let Some(subscription) = &mut subscription {
                subscriptions::invoice_paid(tx, subscription).await?;
            }
        }
        Some(failure) => {
            if failure == Failure::PARTIAL {
                reverse_partial(tx, &mut payment, now).await?;
            }
            let default_card = customer.and_then(|customer| customer.default_payment_method_id);
            if record_failed(tx, &mut invoice, &payment, failure, default_card, subscription.as_ref(), now).await?
                && let Some(subscription) = &mut subscription
            {
                subscriptions::invoice_failed(tx, subscription, now).await?;
            }
        }
    }
    failpoint!("invoice_payment.written");
    Ok(Recorded::written(&operation))
}

/// The failure that a response other than an approval means.
fn failure_of(response: &ProviderResponse) -> Option<Failure<'_>> {
    match response {
        ProviderResponse::Declined { decline, .. } => Some(Failure { code: &decline.code, kind: decline.kind }),
        ProviderResponse::Mismatched { .. } => Some(Failure::of(FailureCode::AmountMismatch)),
        ProviderResponse::Refused { code, .. } => Some(Failure::of(*code)),
        // The last three are refused as responses to a charge.
        ProviderResponse::Charged { .. }
        | ProviderResponse::Challenged { .. }
        | ProviderResponse::Done { .. }
        | ProviderResponse::Stored { .. } => None,
    }
}

/// Whether the payment is a collection that was approved in full. Only our collection attempts charge a saved card; a
/// payer on the page uses a token.
pub fn is_collected(payment: &Payment, response: &ProviderResponse) -> bool {
    let in_full = matches!(response, ProviderResponse::Charged { amount, .. } if *amount == payment.amount_requested);
    in_full && payment.payment_method_id.is_some() && payment.status == Status::Processing
}

/// The outcome of a collection that was approved in full. `None` if one statement cannot write it: its subscription
/// changes too, or the invoice is no longer being collected.
pub fn paid_invoice(
    claimed: &Claimed,
    mut payment: Payment,
    mut invoice: Invoice,
    response: &ProviderResponse,
    now: Timestamp,
) -> Result<Option<EndedCharge>> {
    if invoice.status != InvoiceStatus::Scheduled || invoice.subscription_id.is_some() {
        return Ok(None);
    }
    apply_response(&mut payment, claimed, response, now)?;
    invoice.pay(payment.id, payment.applied_amount(), now)?;
    invoice.version += 1;
    let mut charge = ended_charge(claimed.id, payment, response, now)?;
    let livemode = invoice.mode == Mode::Live;
    charge.events.push(events::render(livemode, EventType::InvoicePaid, &InvoiceView::new(&invoice), now)?);
    Ok(Some(EndedCharge { invoice: Some((invoice.id, invoice.version)), response: None, ..charge }))
}

async fn record_paid(tx: &mut Tx, invoice: &mut Invoice, payment: &Payment, now: Timestamp) -> Result<()> {
    if let Some(attempt) = attempts::of_payment(tx, invoice.account_id, payment.id).await? {
        attempts::succeeded(tx, attempt.id).await?;
        count_collections(CollectionOutcome::Paid, 1);
    }
    invoices::pay(tx, invoice, payment.id, payment.applied_amount(), now).await
}

/// Handles a failed payment. Returns `false` for a payer's own payment, which does not change the invoice. A failed
/// collection attempt is retried as `invoices::attempt_failed` decides, but never if the subscription was cancelled
/// after it began.
async fn record_failed(
    tx: &mut Tx,
    invoice: &mut Invoice,
    payment: &Payment,
    failure: Failure<'_>,
    default_card: Option<PaymentMethodId>,
    subscription: Option<&Subscription>,
    now: Timestamp,
) -> Result<bool> {
    let Some(attempt) = attempts::of_payment(tx, invoice.account_id, payment.id).await? else { return Ok(false) };
    // The charged card can no longer be used; the customer's default card may be a different one.
    let default_card_changed = default_card.is_some() && default_card != payment.payment_method_id;
    // The previous release does not mark the invoice when it cancels a subscription. An attempt made after the
    // cancellation comes from the merchant scheduling the invoice again, and is retried.
    let cancelled = subscription.and_then(|subscription| subscription.cancelled_at);
    let collection_stopped = invoice.retries_stopped() || cancelled.is_some_and(|at| at > attempt.attempted_at);
    let zone = accounts::timezone(&mut **tx, invoice.account_id).await?;
    let context = FailureContext { now, zone: &zone, default_card_changed, collection_stopped };
    let next = invoices::attempt_failed(tx, invoice, failure, context).await?;
    attempts::failed(tx, attempt.id, failure, invoice.next_attempt_at).await?;
    count_collections(CollectionOutcome::failed(failure, next), 1);
    Ok(true)
}
