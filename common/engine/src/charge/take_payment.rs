//! Takes a payment: the intent. Idempotency key, token, payment and operation are committed together, before anything
//! is pushed or answered.

use sqlx::PgPool;

use crate::ambiguous_commit::AmbiguousCommit;
use crate::charge::fast_path;
use domain::accounts::{self, Caller};
use domain::checkout::{self, SpentToken};
use domain::idempotency::IdempotencyKey;
use domain::operations::{NewOperation, OperationKind, Origin, Subject};
use domain::payment_methods::{self, Status as CardStatus};
use domain::payments::idempotency::{self, Claim};
use domain::payments::{self, NewPayment, Payment};
use foundation::crypto::KeyRing;
use foundation::db;
use foundation::error::{Error, Result};
use foundation::id::{CustomerId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId};
use foundation::money::Money;
use foundation::time::Timestamp;
use foundation::{failpoint, rule_enabled};
use providers::{Card, Source};

/// The funding source.
#[derive(Clone, Debug)]
pub enum Funding {
    /// A payment token, or a token directly from a card field.
    Token(String),
    /// A saved card, by its id as sent. It is resolved only after the idempotency key.
    PaymentMethod(String),
}

/// A requested payment, syntactically valid.
#[derive(Clone, Debug)]
pub struct PaymentRequest {
    pub money: Money,
    pub funding: Funding,
    /// Capture immediately.
    pub capture: bool,
    pub return_url: Option<String>,
    pub idempotency_key: Option<IdempotencyKey>,
}

/// The result of a request.
#[derive(Debug)]
pub enum TakenPayment {
    /// The payment has begun. Its operation must be pushed.
    New(Box<Payment>, OperationId),
    /// The idempotency key belongs to an earlier request, whose response applies.
    Earlier(PaymentId),
}

/// Writes the intent of a payment. Ids are generated beforehand, so that the write can be repeated after a COMMIT
/// without response.
///
/// # Errors
/// 422 for an unknown or expired token, a card that cannot be charged, a currency that its provider does not support,
/// or an idempotency key used with another body; [`Error::NotFound`] for an unknown card; [`Error::Conflict`] for a
/// spent token. None of these errors uses up key or token.
pub async fn take_payment(
    db: &PgPool,
    caller: &Caller,
    request: &PaymentRequest,
    origin: &Origin,
    encryption: &KeyRing,
    now: Timestamp,
) -> Result<TakenPayment> {
    let (payment, operation) = (PaymentId::new(now), OperationId::new(now));
    let (ids, mut commit) = ((payment, operation), AmbiguousCommit::default());
    loop {
        let written = write(db, caller, request, origin, ids, encryption, now, &mut commit).await;
        if let Ok(TakenPayment::New(..)) = written {
            return written;
        }
        // An earlier attempt of this call may have used the key or the token.
        match (commit.find_written(payments::retrieve(db, caller.account_id, payment)).await, written) {
            (Ok(Some(found)), _) => return Ok(TakenPayment::New(Box::new(found), operation)),
            (Ok(None), Ok(taken)) => return Ok(taken),
            (Ok(None), Err(error)) => commit.retry_or_fail(error).await?,
            (Err(error), _) => commit.retry_unverified(error).await?,
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "called once, with values of the request")]
async fn write(
    db: &PgPool,
    caller: &Caller,
    request: &PaymentRequest,
    origin: &Origin,
    (payment, operation): (PaymentId, OperationId),
    encryption: &KeyRing,
    now: Timestamp,
    commit: &mut AmbiguousCommit,
) -> Result<TakenPayment> {
    if request.idempotency_key.is_none()
        && let Some(spent) = funds_without_database(caller, &request.funding)
    {
        // Nothing to look up or spend: the intent is one statement, which commits by itself.
        let mut connection = db.acquire().await?;
        let (new_payment, new_operation) = intent(caller, request, &spent, origin, (payment, operation));
        commit.send(fast_path::insert_intent(&mut connection, &new_payment, &new_operation, now)).await?;
        failpoint!("take_payment.written_by_fast_path");
        return Ok(TakenPayment::New(Box::new(Payment::processing(&new_payment, caller.mode, now)), operation));
    }
    let mut tx = db::begin(db).await?;
    if let Some(key) = &request.idempotency_key
        && rule_enabled!(Key)
        && let Claim::Earlier(earlier) = idempotency::claim(&mut tx, caller.account_id, key, payment, now).await?
    {
        return Ok(TakenPayment::Earlier(earlier));
    }
    let mut funds = funds(&mut tx, caller, &request.funding, encryption).await?;
    let settlement = accounts::settlement(&mut *tx, funds.provider_account_id).await?;
    settlement.require(request.money.currency)?;
    funds.action_token = settlement.provider.may_challenge().then(checkout::action_token);
    let (new_payment, new_operation) = intent(caller, request, &funds, origin, (payment, operation));
    fast_path::insert_intent(&mut tx, &new_payment, &new_operation, now).await?;
    failpoint!("take_payment.written");
    commit.send(tx.commit()).await?;
    failpoint!("take_payment.committed");
    Ok(TakenPayment::New(Box::new(Payment::processing(&new_payment, caller.mode, now)), operation))
}

/// Builds the payment and the operation that charges it.
fn intent<'a>(
    caller: &Caller,
    request: &'a PaymentRequest,
    funds: &'a Funds,
    origin: &'a Origin,
    (payment, operation): (PaymentId, OperationId),
) -> (NewPayment<'a>, NewOperation<'a>) {
    let card = funds.card.as_ref();
    let new_payment = NewPayment {
        id: payment,
        account_id: caller.account_id,
        provider_account_id: funds.provider_account_id,
        money: request.money,
        capture: request.capture,
        customer_id: card.map(|card| card.customer_id),
        payment_method: card.map(|card| (card.id, &card.masked_card)),
        invoice_id: None,
        payment_link_id: None,
        return_url: request.return_url.as_deref(),
        parts: None,
    };
    let new_operation = NewOperation {
        id: operation,
        account_id: caller.account_id,
        provider_account_id: funds.provider_account_id,
        subject: Subject::Payment(payment),
        refund_id: None,
        kind: if request.capture { OperationKind::Sale } else { OperationKind::Authorize },
        money: Some(request.money),
        source: Some(&funds.source),
        target_ref: None,
        action_token: funds.action_token.as_deref(),
        by_system: false,
        origin,
    };
    (new_payment, new_operation)
}

struct Funds {
    provider_account_id: ProviderAccountId,
    source: Source,
    card: Option<SavedCard>,
    /// The token in the challenge URL, if the provider may require a challenge.
    action_token: Option<String>,
}

struct SavedCard {
    id: PaymentMethodId,
    customer_id: CustomerId,
    masked_card: Card,
}

/// The funding source if it can be resolved without the database: a test token of the provider.
fn funds_without_database(caller: &Caller, funding: &Funding) -> Option<Funds> {
    match funding {
        Funding::Token(token) => checkout::test_token(caller, token).map(Funds::of_token),
        Funding::PaymentMethod(_) => None,
    }
}

impl Funds {
    fn of_token(spent: SpentToken) -> Self {
        Self { provider_account_id: spent.provider_account_id, source: spent.source, card: None, action_token: None }
    }
}

async fn funds(tx: &mut sqlx::PgConnection, caller: &Caller, funding: &Funding, encryption: &KeyRing) -> Result<Funds> {
    match funding {
        Funding::Token(token) => checkout::spend(tx, caller, token, encryption).await.map(Funds::of_token),
        Funding::PaymentMethod(id) => {
            let id = PaymentMethodId::from_request(id)?;
            let saved = payment_methods::retrieve(tx, caller.account_id, id).await?;
            let usable = (saved.status == CardStatus::Active).then(|| saved.provider_ref.clone().zip(saved.card()));
            let Some((provider_ref, masked_card)) = usable.flatten() else {
                return Err(Error::invalid("paymentMethodId", "the card is not saved and cannot be charged"));
            };
            Ok(Funds {
                // Where the card is stored, even if the account's new payments now go elsewhere.
                provider_account_id: saved.provider_account_id,
                source: Source::Card(provider_ref),
                card: Some(SavedCard { id, customer_id: saved.customer_id, masked_card }),
                action_token: None,
            })
        }
    }
}
