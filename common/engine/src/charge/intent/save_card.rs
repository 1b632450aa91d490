//! Saves a card for a customer: the intent, and the choice of the default card.

use sqlx::PgConnection;

use crate::create::create_once;
use domain::accounts::Caller;
use domain::charges::{self, NewOperation};
use domain::checkout;
use domain::customers::{self, Customer};
use domain::events::{self, EventType};
use domain::idempotency::{CreationKey, CreationResult, EarlierRequest};
use domain::invoices;
use domain::operations::{OperationKind, Origin, Subject};
use domain::payment_methods::{self, NewPaymentMethod, PaymentMethod, PaymentMethodView, Status};
use foundation::crypto::KeyRing;
use foundation::db::{Db, Tx};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId, OperationId, PaymentMethodId};
use foundation::merchant_data::MerchantData;
use foundation::time::Timestamp;
use providers::Source;

/// A card to save.
#[derive(Clone, Debug)]
pub struct NewCard {
    pub customer_id: CustomerId,
    pub payment_token: String,
    pub merchant_data: MerchantData,
}

/// Writes the intent of saving a card. A worker sends the request to the provider.
///
/// # Errors
/// [`Error::NotFound`] for an unknown customer; [`Error::Conflict`] for a spent token; 422 `paymentToken` for an
/// unknown or expired one.
pub async fn save_card(
    db: &Db,
    caller: &Caller,
    new: &NewCard,
    origin: &Origin,
    encryption: &KeyRing,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<CreationResult<(PaymentMethodId, OperationId)>> {
    let (card, operation) = (PaymentMethodId::new(now), OperationId::new(now));
    let find =
        || async move { payment_methods::retrieve_from(db, caller.account_id, card).await.map(|_| (card, operation)) };
    let created = create_once(db, key, now, find, |mut tx| async move {
        customers::lock(&mut tx, caller.account_id, new.customer_id).await?;
        let spent = checkout::spend(&mut tx, caller, &new.payment_token, encryption).await?;
        let processing = NewPaymentMethod {
            id: card,
            account_id: caller.account_id,
            customer_id: new.customer_id,
            provider_account_id: spent.provider_account_id,
            merchant_data: &new.merchant_data,
            created_at: now,
            awaited: None,
        };
        insert_saving(&mut tx, &processing, operation, &spent.source, origin).await?;
        if let Some(key) = key {
            key.set_pending_card(&mut tx, card).await?;
        }
        Ok((tx, (card, operation)))
    })
    .await?;
    // Written by an earlier attempt of this request whose COMMIT got no response.
    let is_own = matches!(&created, CreationResult::Earlier(EarlierRequest::SavingCard(id)) if *id == card);
    Ok(if is_own { CreationResult::New((card, operation)) } else { created })
}

/// Inserts a card that is about to be saved, and the operation that saves it.
///
/// # Errors
/// Database errors only.
pub async fn insert_saving(
    tx: &mut PgConnection,
    card: &NewPaymentMethod<'_>,
    operation: OperationId,
    token: &Source,
    origin: &Origin,
) -> Result<()> {
    payment_methods::insert_processing(tx, card).await?;
    let operation = NewOperation {
        id: operation,
        account_id: card.account_id,
        provider_account_id: card.provider_account_id,
        subject: Subject::PaymentMethod(card.id),
        refund_id: None,
        kind: OperationKind::StoreCard,
        money: None,
        source: Some(token),
        target_ref: None,
        action_token: None,
        by_system: false,
        background: false,
        origin,
    };
    charges::insert(tx, &[operation]).await
}

/// Makes a card its customer's default. Repeating it changes nothing.
///
/// # Errors
/// [`Error::NotFound`] for an unknown card; [`Error::Conflict`] for one that is not saved.
pub async fn set_default(db: &Db, caller: &Caller, id: PaymentMethodId, now: Timestamp) -> Result<PaymentMethod> {
    let mut tx = db.begin().await?;
    let card = payment_methods::retrieve(&mut tx, caller.account_id, id).await?;
    let customer = customers::lock(&mut tx, caller.account_id, card.customer_id).await?;
    if card.status != Status::Active {
        return Err(Error::conflict("the card is not saved"));
    }
    make_default(&mut tx, &customer, caller.account_id, id, now).await?;
    let card = payment_methods::retrieve(&mut tx, caller.account_id, id).await?;
    tx.commit().await?;
    Ok(card)
}

/// Detaches a card from its customer. A default card leaves no default; what was charged to it can be captured and
/// refunded as before.
///
/// # Errors
/// [`Error::NotFound`] for an unknown or detached card; [`Error::Conflict`] while it is being saved.
pub async fn detach_card(db: &Db, caller: &Caller, id: PaymentMethodId, now: Timestamp) -> Result<()> {
    let mut tx = db.begin().await?;
    let card = payment_methods::retrieve(&mut tx, caller.account_id, id).await?;
    let customer = customers::lock(&mut tx, caller.account_id, card.customer_id).await?;
    let card = payment_methods::retrieve(&mut tx, caller.account_id, id).await?;
    if card.status == Status::Processing {
        return Err(Error::conflict("the card is being saved"));
    }
    if card.is_default {
        customers::set_default_card(&mut tx, caller.account_id, customer.id, None).await?;
    }
    payment_methods::detach(&mut tx, caller.account_id, id, now).await?;
    let card = PaymentMethod { is_default: false, ..card };
    let view = PaymentMethodView::new(&card);
    events::append(&mut tx, caller.account_id, caller.livemode(), EventType::PaymentMethodDetached, &view, now).await?;
    Ok(tx.commit().await?)
}

/// Makes a card the default of a locked customer. If it was not the default already, invoices that wait for a card
/// become due.
pub async fn make_default(
    tx: &mut Tx,
    customer: &Customer,
    account: AccountId,
    card: PaymentMethodId,
    now: Timestamp,
) -> Result<()> {
    if customer.default_payment_method_id == Some(card) {
        return Ok(());
    }
    customers::set_default_card(tx, account, customer.id, Some(card)).await?;
    invoices::retry_waiting_for_card(tx, account, customer.id, now).await
}
