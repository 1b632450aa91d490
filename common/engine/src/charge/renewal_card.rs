//! The card that a payer's page saves for the renewals of a subscription. The provider saves it first, and the payment is
//! then charged to it, with the payer present. With the approval in full the card becomes active and the customer's
//! default card; a card whose payment was not approved is never charged again.

use sqlx::{PgConnection, PgPool};

use crate::charge::intent::save_card::{insert_saving, make_default};
use crate::charge::outcome::stale::unexpected_response;
use domain::accounts::Mode;
use domain::charges::{self, CardToSave, Claimed, Intent, NewOperation};
use domain::checkout;
use domain::customers::Customer;
use domain::events::{self, EventType};
use domain::operations::{OperationKind, Origin, Subject};
use domain::payment_methods::{self, AwaitedCharge, NewPaymentMethod, PaymentMethod, PaymentMethodView};
use domain::payments::{self, Payment};
use domain::subscriptions::{self, Status, Subscription};
use foundation::db::Tx;
use foundation::error::Result;
use foundation::id::{OperationId, PaymentId};
use foundation::merchant_data::MerchantData;
use foundation::money::Money;
use foundation::queues;
use foundation::time::Timestamp;
use providers::{Action, Card, Request, Source};

/// Writes the intent of saving the card that a payment will charge. The intent of the payment is written.
///
/// # Errors
/// Database errors; a violation of `payment_methods_customer` if the customer is deleted.
pub async fn begin_saving(tx: &mut PgConnection, intent: &Intent, card: &CardToSave) -> Result<()> {
    let Payment { id, account_id, provider_account_id, created_at, .. } = intent.payment;
    // Fixed here and not when the card is saved: if that is repeated after a restore, the charge is the same request at
    // the provider.
    let awaited = AwaitedCharge {
        payment: id,
        operation: OperationId::new(created_at),
        action_token: intent.action_token.clone(),
    };
    let merchant_data = MerchantData::default();
    let processing = NewPaymentMethod {
        id: card.id,
        account_id,
        customer_id: card.customer,
        provider_account_id,
        merchant_data: &merchant_data,
        created_at,
        awaited: Some(&awaited),
    };
    insert_saving(tx, &processing, intent.operation, &card.token, &intent.origin).await
}

/// Begins to charge a payment to the card that awaits it, which the provider has saved. The payment is locked.
///
/// # Errors
/// Database errors; [`Error::Internal`] if the card awaits no payment any more.
pub async fn charge(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    card: &PaymentMethod,
    provider_ref: &str,
    details: &Card,
) -> Result<()> {
    let operation = card
        .awaits_operation_id
        .ok_or_else(|| unexpected_response(claimed, "card of a payment that has already ended"))?;
    payment_methods::store_awaiting(tx, card.id, provider_ref, details).await?;
    // The request that saved the card still waits for the payment.
    let origin = Origin { payer_address: claimed.request.payer_address.clone(), ..claimed.origin.clone() };
    let source = Source::Card(provider_ref.to_owned());
    // The previous release fixes none, and its api may have begun this payment.
    let new_token = || claimed.provider.may_challenge().then(checkout::action_token);
    let action_token = card.awaits_action_token.clone().or_else(new_token);
    let sale = NewOperation {
        source: Some(&source),
        action_token: action_token.as_deref(),
        ..NewOperation::of_payment(operation, payment, OperationKind::Sale, payment.amount_requested, &origin)
    };
    charges::insert(tx, &[sale]).await?;
    tx.wake(queues::PAYMENTS, operation.uuid());
    Ok(())
}

/// Returns the request that will charge a payment to the card which this operation saves; `None` if no payment awaits it.
/// It may have been sent already, in the interval that a restore lost.
///
/// # Errors
/// Database errors only.
pub async fn awaited_charge(db: &PgPool, claimed: &Claimed) -> Result<Option<Request>> {
    let (Subject::PaymentMethod(card), Action::StoreCard { token }) = (claimed.subject, &claimed.request.action) else {
        return Ok(None);
    };
    let card = payment_methods::retrieve_from(db, claimed.account_id, card).await?;
    let (Some(payment), Some(operation)) = (card.saved_for_payment_id, card.awaits_operation_id) else {
        return Ok(None);
    };
    let payment = payments::retrieve(db, claimed.account_id, payment).await?;
    let source = Source::Token(token.clone());
    let money = Money { minor: payment.amount_requested, currency: payment.currency };
    Ok(Some(Request {
        reference: operation.to_string(),
        action: Action::Charge { source, money, capture: true },
        return_url: card.awaits_action_token.as_deref().map(charges::return_url),
        ..claimed.request.clone()
    }))
}

/// Makes the card of a payment that is approved in full active, the customer's default card, and the card of the
/// subscription if that names one. Changes nothing if the subscription is cancelled, or the payment has ended.
///
/// The customer and the subscription are locked, and the invoice is not yet: it may be one of those that wait for a card.
/// The payment ends only while its subscription is locked, so it is read again.
///
/// # Errors
/// Database errors only.
pub async fn accept(
    tx: &mut Tx,
    card: &PaymentMethod,
    payment: PaymentId,
    customer: &Customer,
    subscription: &mut Subscription,
    now: Timestamp,
) -> Result<()> {
    let current = payments::find(&mut **tx, card.account_id, payment).await?;
    let is_wanted =
        subscription.status != Status::Cancelled && current.is_some_and(|payment| payment.status.is_under_way());
    if !is_wanted || !payment_methods::accept(tx, card.id).await? {
        return Ok(());
    }
    if !another_was_chosen(card, customer) {
        make_default(tx, customer, card.account_id, card.id, now).await?;
    }
    if subscription.payment_method_id.is_some() {
        subscriptions::set_card(tx, subscription, card.id).await?;
    }
    let saved = payment_methods::retrieve(tx, card.account_id, card.id).await?;
    let (livemode, view) = (saved.mode == Mode::Live, PaymentMethodView::new(&saved));
    events::append(tx, saved.account_id, livemode, EventType::PaymentMethodCreated, &view, now).await?;
    Ok(())
}

/// Whether the default card has been replaced since the payer chose this one. A customer's first card becomes the default
/// card without being chosen.
fn another_was_chosen(card: &PaymentMethod, customer: &Customer) -> bool {
    let (before, now) = (card.replaces_default_id, customer.default_payment_method_id);
    before.is_some() && now.is_some() && now != before
}
