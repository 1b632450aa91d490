//! The card that a payer's page saves for the renewals of a subscription. The provider saves it first, and the payment is
//! then charged to it, with the payer present. With the approval in full the card becomes active and the customer's
//! default card; a card whose payment was not approved is never charged again.

use sqlx::PgConnection;

use crate::charge::intents::Intent;
use crate::charge::save_card::make_default;
use crate::charge::stale::unexpected_response;
use domain::accounts::Mode;
use domain::checkout;
use domain::customers::Customer;
use domain::events::{self, EventType};
use domain::operations::{self, Claimed, NewOperation, OperationKind, Origin, Subject};
use domain::payment_methods::{self, PaymentMethod, PaymentMethodView};
use domain::payments::{self, Payment};
use domain::subscriptions::{self, Status, Subscription};
use foundation::db::Tx;
use foundation::error::Result;
use foundation::id::{CustomerId, OperationId, PaymentId, PaymentMethodId};
use foundation::money::Money;
use foundation::own_data::OwnData;
use foundation::queues;
use foundation::time::Timestamp;
use providers::{Card, Source};

/// Writes the intent of saving the card that a payment will charge. The intent of the payment, which has no source, is
/// written.
///
/// # Errors
/// Database errors; a violation of `payment_methods_customer` if the customer is deleted.
pub async fn begin_saving(
    tx: &mut PgConnection,
    intent: &Intent,
    card: PaymentMethodId,
    customer: CustomerId,
    token: &Source,
) -> Result<()> {
    let Payment { id, account_id, provider_account_id, created_at, .. } = intent.payment;
    let own = OwnData::default();
    payment_methods::insert_processing(tx, card, account_id, customer, provider_account_id, &own, created_at).await?;
    // Allocated here and not when the card is saved: if that is repeated after a restore, the charge has the same
    // reference at the provider.
    payment_methods::await_charge(tx, card, id, OperationId::new(created_at)).await?;
    operations::insert(
        tx,
        &[NewOperation {
            id: intent.operation,
            account_id,
            provider_account_id,
            subject: Subject::PaymentMethod(card),
            refund_id: None,
            kind: OperationKind::StoreCard,
            money: None,
            source: Some(token),
            target_ref: None,
            action_token: None,
            by_system: false,
            background: false,
            origin: &intent.origin,
        }],
    )
    .await
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
    let action_token = claimed.provider.may_challenge().then(checkout::action_token);
    operations::insert(
        tx,
        &[NewOperation {
            id: operation,
            account_id: claimed.account_id,
            provider_account_id: claimed.provider_account_id,
            subject: Subject::Payment(payment.id),
            refund_id: None,
            kind: OperationKind::Sale,
            money: Some(Money { minor: payment.amount_requested, currency: payment.currency }),
            source: Some(&Source::Card(provider_ref.to_owned())),
            target_ref: None,
            action_token: action_token.as_deref(),
            by_system: false,
            background: false,
            // The request that saved the card still waits for the payment.
            origin: &Origin { payer_address: claimed.request.payer_address.clone(), ..claimed.origin.clone() },
        }],
    )
    .await?;
    tx.wake(queues::MONEY, operation.uuid());
    Ok(())
}

/// Makes the card of a payment that is approved in full active, the customer's default card, and the card of the
/// subscription if that names one. Returns `false` and changes nothing if the subscription is cancelled, or the payment has
/// ended.
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
) -> Result<bool> {
    let current = payments::find(&mut **tx, card.account_id, payment).await?;
    let is_wanted =
        subscription.status != Status::Cancelled && current.is_some_and(|payment| payment.status.is_under_way());
    if !is_wanted || !payment_methods::accept(tx, card.id).await? {
        return Ok(false);
    }
    make_default(tx, customer, card.account_id, card.id, now).await?;
    if subscription.payment_method_id.is_some() {
        subscriptions::set_card(tx, subscription, card.id).await?;
    }
    let saved = payment_methods::retrieve(tx, card.account_id, card.id).await?;
    let (livemode, view) = (saved.mode == Mode::Live, PaymentMethodView::new(&saved));
    events::append(tx, saved.account_id, livemode, EventType::PaymentMethodCreated, &view, now).await?;
    Ok(true)
}
