//! The outcome of a payment for an invoice: the invoice is locked first, and is paid or its collection continues, in
//! the same transaction.

use crate::charge::counters::{CollectionOutcome, count_collections};
use crate::charge::outcome::charge::{apply_response, end_charge};
use crate::charge::outcome::stale::Recorded;
use crate::charge::outcome::unsent::attempt_stopped;
use crate::charge::renewal_card;
use crate::charge::reversal::reverse_partial;
use domain::accounts::{self, Mode};
use domain::charges::{Claimed, EndedCharge};
use domain::customers;
use domain::events::{self, EventType};
use domain::invoices::{self, Failure, FailureContext, Invoice, InvoiceView, Status as InvoiceStatus, attempts};
use domain::payment_methods::{self, PaymentMethod};
use domain::payments::{Payment, Status};
use domain::subscriptions::{self, Subscription};
use foundation::db::Tx;
use foundation::error::Result;
use foundation::failpoint;
use foundation::id::{InvoiceId, PaymentMethodId};
use foundation::time::Timestamp;
use providers::{Action, DeclineType, FailureCode, ProviderResponse, Source};

/// Records the outcome of a charge for an invoice, or that the provider refused to save the card for it. Recording it
/// again changes nothing.
///
/// Lock order: the customer (after a hard failure, and if a card becomes its default), the subscription that produced
/// the invoice, the invoice, the payment, the operation.
pub async fn charge_for_invoice(
    tx: &mut Tx,
    claimed: &Claimed,
    charged: &Payment,
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
    let card = find_renewal_card(tx, claimed, charged).await?;
    let in_full = is_in_full(charged, response);
    let customer = match is_hard || in_full && card.is_some() {
        true => customers::find_locked(tx, account, customer).await?,
        false => None,
    };
    let mut subscription = subscriptions::lock_producer(tx, &owed).await?;
    if in_full && let (Some(card), Some(customer), Some(subscription)) = (&card, &customer, &mut subscription) {
        renewal_card::accept(tx, card, charged.id, customer, subscription, now).await?;
    }
    let mut invoice = invoices::lock(tx, account, invoice).await?;
    let details = card.as_ref().and_then(PaymentMethod::card);
    let (recorded, payment) = end_charge(tx, claimed, charged.id, details.as_ref(), response, now).await?;
    let Some(mut payment) = payment else { return Ok(recorded) };
    match recorded_failure(response, &payment, &invoice) {
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
    Ok(recorded)
}

/// The failure of a payment that was not approved in full.
fn recorded_failure<'a>(response: &'a ProviderResponse, payment: &Payment, invoice: &Invoice) -> Option<Failure<'a>> {
    let is_part = matches!(response, ProviderResponse::Charged { amount, .. } if *amount < payment.amount_requested);
    match failure_of(response) {
        _ if is_part => Some(Failure::PARTIAL),
        // Only its card was detached.
        Some(Failure::WITHDRAWN) if !invoice.retries_stopped() => Some(Failure::NO_CARD),
        failure => failure,
    }
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

/// The card that a payer's page has saved, or is saving, for this payment. Such a payment names no card, and is charged to
/// one.
async fn find_renewal_card(tx: &mut Tx, claimed: &Claimed, charged: &Payment) -> Result<Option<PaymentMethod>> {
    let is_paid_with_token = matches!(&claimed.request.action, Action::Charge { source: Source::Token(_), .. });
    if is_paid_with_token || charged.payment_method_id.is_some() {
        return Ok(None);
    }
    payment_methods::awaiting(tx, charged.account_id, charged.id).await
}

fn is_in_full(payment: &Payment, response: &ProviderResponse) -> bool {
    matches!(response, ProviderResponse::Charged { amount, .. } if *amount == payment.amount_requested)
}

/// Whether the payment is a collection that was approved in full.
pub fn is_collected(payment: &Payment, response: &ProviderResponse) -> bool {
    is_in_full(payment, response) && payment.is_collection() && payment.status == Status::Processing
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
    let mut charge = EndedCharge::new(claimed.id, payment, response, now)?;
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
