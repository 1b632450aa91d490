//! Taking a payment: the intent. Key, token, payment and operation are committed together; only then may anyone be told.

use sqlx::PgPool;

use super::doubt::Doubt;
use super::straight;
use crate::accounts::{self, Caller};
use crate::checkout::{self, Spent};
use crate::crypto::KeyRing;
use crate::db;
use crate::error::{Error, Result};
use crate::id::{CustomerId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId};
use crate::idempotency::IdempotencyKey;
use crate::money::Money;
use crate::operations::{Kind, NewOperation, Origin, Subject};
use crate::payment_methods::{self, Status as CardStatus};
use crate::payments::idempotency::{self, Claim};
use crate::payments::{self, NewPayment, Payment};
use crate::proof::{self, Rule, failpoint};
use crate::providers::{Card, Source};
use crate::time::Timestamp;

/// What pays: exactly one of the two.
#[derive(Clone, Debug)]
pub enum Funding {
    /// A payment token, or a token straight from a card field.
    Token(String),
    /// A saved card, by its id as sent: what it names is looked for after the key.
    PaymentMethod(String),
}

/// A payment as asked for, its syntax checked.
#[derive(Clone, Debug)]
pub struct PaymentRequest {
    /// How much.
    pub money: Money,
    /// What pays.
    pub funding: Funding,
    /// Whether to capture at once.
    pub capture: bool,
    /// Where a cardholder returns to after a challenge.
    pub return_url: Option<String>,
    /// The caller's name for this payment.
    pub idempotency_key: Option<IdempotencyKey>,
}

/// What became of the request.
#[derive(Debug)]
pub enum Taken {
    /// The payment is on its way: push the operation.
    New(Box<Payment>, OperationId),
    /// The key belongs to an earlier request: answer as that one is answered.
    Earlier(PaymentId),
}

/// Writes the intent of a payment. `ids` are made before, so that the whole may run again after a COMMIT without answer.
///
/// # Errors
/// 422 for a token that is unknown or expired, a card that cannot be charged, a currency that its provider lacks, or a key used
/// with another body;
/// [`Error::NotFound`] for an unknown card; [`Error::Conflict`] for a spent token. None of them uses up key or token.
pub async fn take_payment(
    db: &PgPool,
    caller: &Caller,
    request: &PaymentRequest,
    origin: &Origin,
    encryption: &KeyRing,
    now: Timestamp,
) -> Result<Taken> {
    let (payment, operation) = (PaymentId::new(now), OperationId::new(now));
    let (ids, mut doubt) = ((payment, operation), Doubt::default());
    loop {
        let written = write(db, caller, request, origin, ids, encryption, now, &mut doubt).await;
        if let Ok(Taken::New(..)) = written {
            return written;
        }
        // The key or the token may have been used by an earlier try of ours.
        match (doubt.found(payments::retrieve(db, caller.account_id, payment)).await, written) {
            (Ok(Some(found)), _) => return Ok(Taken::New(Box::new(found), operation)),
            (Ok(None), Ok(taken)) => return Ok(taken),
            (Ok(None), Err(error)) => doubt.again(error).await?,
            (Err(unread), _) => doubt.again_unread(unread).await?,
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "they are the request, and what it is written with")]
async fn write(
    db: &PgPool,
    caller: &Caller,
    request: &PaymentRequest,
    origin: &Origin,
    (payment, operation): (PaymentId, OperationId),
    encryption: &KeyRing,
    now: Timestamp,
    doubt: &mut Doubt,
) -> Result<Taken> {
    if request.idempotency_key.is_none()
        && let Some(spent) = funds_at_hand(caller, &request.funding)
    {
        // Nothing to look up and nothing to spend: the intent is one statement, which commits by itself.
        let mut connection = db.acquire().await?;
        let (new, order) = intent(caller, request, &spent, origin, (payment, operation));
        doubt.send(straight::insert_intent(&mut connection, &new, &order, now)).await?;
        failpoint("take_payment.written_at_once").await?;
        return Ok(Taken::New(Box::new(Payment::processing(&new, caller.mode, now)), operation));
    }
    let mut tx = db::begin(db).await?;
    if let Some(key) = &request.idempotency_key
        && proof::holds(Rule::Key)
        && let Claim::Earlier(earlier) = idempotency::claim(&mut tx, caller.account_id, key, payment, now).await?
    {
        return Ok(Taken::Earlier(earlier));
    }
    let mut funds = funds(&mut tx, caller, &request.funding, encryption).await?;
    let settlement = accounts::settlement(&mut *tx, funds.provider_account_id).await?;
    settlement.require(request.money.currency)?;
    funds.action_token = settlement.provider.may_challenge().then(checkout::action_token);
    let (new, order) = intent(caller, request, &funds, origin, (payment, operation));
    straight::insert_intent(&mut tx, &new, &order, now).await?;
    failpoint("take_payment.written").await?;
    doubt.send(tx.commit()).await?;
    failpoint("take_payment.committed").await?;
    Ok(Taken::New(Box::new(Payment::processing(&new, caller.mode, now)), operation))
}

/// The payment and the operation that charges it.
fn intent<'a>(
    caller: &Caller,
    request: &'a PaymentRequest,
    funds: &'a Funds,
    origin: &'a Origin,
    (payment, operation): (PaymentId, OperationId),
) -> (NewPayment<'a>, NewOperation<'a>) {
    let card = funds.card.as_ref();
    let new = NewPayment {
        id: payment,
        account_id: caller.account_id,
        provider_account_id: funds.provider_account_id,
        money: request.money,
        capture: request.capture,
        customer_id: card.map(|card| card.customer_id),
        payment_method: card.map(|card| (card.id, &card.face)),
        invoice_id: None,
        payment_link_id: None,
        return_url: request.return_url.as_deref(),
        parts: None,
    };
    let order = NewOperation {
        id: operation,
        account_id: caller.account_id,
        provider_account_id: funds.provider_account_id,
        subject: Subject::Payment(payment),
        refund_id: None,
        kind: if request.capture { Kind::Sale } else { Kind::Authorize },
        money: Some(request.money),
        source: Some(&funds.source),
        target_ref: None,
        action_token: funds.action_token.as_deref(),
        by_system: false,
        origin,
    };
    (new, order)
}

struct Funds {
    provider_account_id: ProviderAccountId,
    source: Source,
    card: Option<SavedCard>,
    /// What our address of a challenge ends with, if there may be one.
    action_token: Option<String>,
}

struct SavedCard {
    id: PaymentMethodId,
    customer_id: CustomerId,
    face: Card,
}

/// What pays, if that needs no look into the database: a test token of the provider.
fn funds_at_hand(caller: &Caller, funding: &Funding) -> Option<Funds> {
    match funding {
        Funding::Token(token) => checkout::test_token(caller, token).map(Funds::of_token),
        Funding::PaymentMethod(_) => None,
    }
}

impl Funds {
    fn of_token(spent: Spent) -> Self {
        Self { provider_account_id: spent.provider_account_id, source: spent.source, card: None, action_token: None }
    }
}

async fn funds(tx: &mut sqlx::PgConnection, caller: &Caller, funding: &Funding, encryption: &KeyRing) -> Result<Funds> {
    match funding {
        Funding::Token(token) => checkout::spend(tx, caller, token, encryption).await.map(Funds::of_token),
        Funding::PaymentMethod(id) => {
            let id = PaymentMethodId::named(id)?;
            let saved = payment_methods::retrieve(tx, caller.account_id, id).await?;
            let usable = (saved.status == CardStatus::Active).then(|| saved.provider_ref.clone().zip(saved.card()));
            let Some((provider_ref, face)) = usable.flatten() else {
                return Err(Error::invalid("paymentMethodId", "the card is not saved (yet) and cannot be charged"));
            };
            Ok(Funds {
                // Where the card is kept, even if the account's new money goes elsewhere by now.
                provider_account_id: saved.provider_account_id,
                source: Source::Card(provider_ref),
                card: Some(SavedCard { id, customer_id: saved.customer_id, face }),
                action_token: None,
            })
        }
    }
}
