//! Saving a card with a customer: the intent, and which card is the default.

use sqlx::PgPool;

use super::doubt::Doubt;
use crate::accounts::Caller;
use crate::checkout;
use crate::crypto::KeyRing;
use crate::customers::{self, Customer};
use crate::db::{self, Db, Tx};
use crate::error::{Error, Result};
use crate::id::{AccountId, CustomerId, OperationId, PaymentMethodId};
use crate::idempotency::{self, CreationKey, Earlier, Made};
use crate::invoices;
use crate::operations::{self, Kind, NewOperation, Origin, Subject};
use crate::payment_methods::{self, PaymentMethod, Status};
use crate::proof::failpoint;
use crate::time::Timestamp;

/// A card to be saved.
#[derive(Clone, Debug)]
pub struct NewCard {
    /// With whom.
    pub customer_id: CustomerId,
    /// The token that stands for it.
    pub payment_token: String,
}

/// Writes the intent of saving a card. The provider is asked by a worker.
///
/// # Errors
/// [`Error::NotFound`] for an unknown customer; [`Error::Conflict`] for a spent token; 422 `paymentToken` for an unknown or
/// expired one.
pub async fn save_card(
    db: &PgPool,
    caller: &Caller,
    new: &NewCard,
    origin: &Origin,
    encryption: &KeyRing,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<Made<(PaymentMethodId, OperationId)>> {
    let ids = (PaymentMethodId::new(now), OperationId::new(now));
    let mut doubt = Doubt::default();
    loop {
        let tried = write(db, caller, new, origin, ids, encryption, key, now, &mut doubt).await;
        let find = async { payment_methods::retrieve_from(db, caller.account_id, ids.0).await.map(|_| Made::New(ids)) };
        if let Some(made) = doubt.end(tried, find).await? {
            return Ok(match made {
                // Of an earlier try of ours, whose COMMIT was not answered.
                Made::Earlier(Earlier::Saving(card)) if card == ids.0 => Made::New(ids),
                Made::New(ids) => Made::New(ids),
                Made::Earlier(earlier) => Made::Earlier(earlier),
            });
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "they are the request, and what it is written with")]
async fn write(
    db: &PgPool,
    caller: &Caller,
    new: &NewCard,
    origin: &Origin,
    (card, operation): (PaymentMethodId, OperationId),
    encryption: &KeyRing,
    key: Option<&CreationKey>,
    now: Timestamp,
    doubt: &mut Doubt,
) -> Result<Made<(PaymentMethodId, OperationId)>> {
    let mut tx = db::begin(db).await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(Made::Earlier(earlier));
    }
    customers::lock(&mut tx, caller.account_id, new.customer_id).await?;
    let spent = checkout::spend(&mut tx, caller, &new.payment_token, encryption).await?;
    payment_methods::insert_processing(
        &mut tx,
        card,
        caller.account_id,
        new.customer_id,
        spent.provider_account_id,
        now,
    )
    .await?;
    operations::insert(
        &mut tx,
        &NewOperation {
            id: operation,
            account_id: caller.account_id,
            provider_account_id: spent.provider_account_id,
            subject: Subject::PaymentMethod(card),
            refund_id: None,
            kind: Kind::StoreCard,
            money: None,
            source: Some(&spent.source),
            target_ref: None,
            action_token: None,
            by_system: false,
            origin,
        },
    )
    .await?;
    if let Some(key) = key {
        key.await_saving(&mut tx, card).await?;
    }
    failpoint("save_card.written").await?;
    doubt.send(tx.commit()).await?;
    failpoint("save_card.committed").await?;
    Ok(Made::New((card, operation)))
}

/// Makes a card its customer's default one. Doing so again changes nothing.
///
/// # Errors
/// [`Error::NotFound`] for an unknown card; [`Error::Conflict`] for one that is not saved (yet).
pub async fn set_default(db: &Db, caller: &Caller, id: PaymentMethodId, now: Timestamp) -> Result<PaymentMethod> {
    let mut tx = db.begin().await?;
    let card = payment_methods::retrieve(&mut tx, caller.account_id, id).await?;
    let customer = customers::lock(&mut tx, caller.account_id, card.customer_id).await?;
    if card.status != Status::Active {
        return Err(Error::conflict("the card is not saved (yet)"));
    }
    make_default(&mut tx, &customer, caller.account_id, id, now).await?;
    let card = payment_methods::retrieve(&mut tx, caller.account_id, id).await?;
    tx.commit().await?;
    Ok(card)
}

/// Makes a card the default one of a customer who is locked. If that is another one than before, the invoices that have waited
/// for one are due.
pub(super) async fn make_default(
    tx: &mut Tx,
    customer: &Customer,
    account: AccountId,
    card: PaymentMethodId,
    now: Timestamp,
) -> Result<()> {
    if customer.default_payment_method_id == Some(card) {
        return Ok(());
    }
    customers::set_default_card(tx, account, customer.id, card).await?;
    invoices::another_card(tx, account, customer.id, now).await
}
