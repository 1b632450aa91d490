//! Takes a payment: the intent. Idempotency key, token, payment and operation are committed together, before anything
//! is pushed or the response is sent.

use sqlx::{PgConnection, PgPool};

use crate::ambiguous_commit::AmbiguousCommit;
use domain::accounts::{self, Caller};
use domain::charges::{self, FirstStep, Intent};
use domain::checkout::{self, SpentToken};
use domain::customers;
use domain::idempotency::IdempotencyKey;
use domain::operations::Origin;
use domain::payment_methods::{self, PaymentMethod, Status as CardStatus};
use domain::payments::payment_keys::{self, Claim};
use domain::payments::{self, NewPayment, Payment};
use foundation::crypto::KeyRing;
use foundation::db::{self, Batcher, Reader};
use foundation::error::{Error, Result};
use foundation::id::{CustomerId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId};
use foundation::merchant_data::MerchantData;
use foundation::money::Money;
use foundation::time::Timestamp;
use foundation::{failpoint, rule_enabled};
use providers::{Card, ProviderKind, Source};

/// Inserts intents that neither lock nor change another row, and reads what they need. Those that arrive together are
/// inserted with one statement, which commits by itself.
pub struct Intents {
    pool: PgPool,
    cards: Reader<PaymentMethodId, PaymentMethod>,
    batches: Batcher<Intent, bool>,
}

impl Intents {
    /// Must be called inside a Tokio runtime.
    pub fn start(pool: PgPool) -> Self {
        let batches = Batcher::start("intents", pool.clone(), |db, intents: &[Intent]| {
            Box::pin(async move {
                let inserted = charges::insert_intents(db, intents).await?;
                Ok(intents.iter().map(|intent| inserted.contains(&intent.payment.id.uuid())).collect())
            })
        });
        Self { cards: payment_methods::reader(pool.clone()), pool, batches }
    }

    /// Inserts an intent. Returns `false` if its idempotency key was used before; then nothing was inserted.
    ///
    /// # Errors
    /// Database errors. After a lost connection it may have been inserted.
    pub async fn insert(&self, intent: Intent) -> sqlx::Result<bool> {
        self.batches.call(intent).await
    }
}

/// The funding source.
#[derive(Clone, Debug)]
pub enum PaymentSource {
    /// A payment token, or a token directly from a card field.
    Token(String),
    /// A saved card, by its id as sent. It is resolved only after the idempotency key.
    PaymentMethod(String),
}

/// A requested payment, syntactically valid.
#[derive(Clone, Debug)]
pub struct PaymentRequest {
    pub money: Money,
    pub source: PaymentSource,
    /// Capture immediately.
    pub capture: bool,
    pub return_url: Option<String>,
    pub description: Option<String>,
    /// The customer who pays with a token, by the id as sent.
    pub customer_id: Option<String>,
    pub merchant_data: MerchantData,
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
/// 422 for an unknown or expired token, a card that cannot be charged, a currency or an amount that its provider does not
/// charge, or an idempotency key used with another body; [`Error::NotFound`] for an unknown card or customer;
/// [`Error::Conflict`] for a spent token. None of these errors consumes key or token.
pub async fn take_payment(
    intents: &Intents,
    caller: &Caller,
    request: &PaymentRequest,
    origin: &Origin,
    encryption: &KeyRing,
    now: Timestamp,
) -> Result<TakenPayment> {
    let ids = (PaymentId::new(now), OperationId::new(now));
    let mut commit = AmbiguousCommit::default();
    loop {
        let written = write(intents, caller, request, origin, ids, encryption, now, &mut commit).await;
        let lookup = async {
            let found = payments::retrieve(&intents.pool, caller.account_id, ids.0).await?;
            Ok(TakenPayment::New(Box::new(found), ids.1))
        };
        // An earlier attempt of this call may have used the key or the token.
        if let Some(taken) = commit.resolve(written, |taken| matches!(taken, TakenPayment::New(..)), lookup).await? {
            return Ok(taken);
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "called once, with values of the request")]
async fn write(
    intents: &Intents,
    caller: &Caller,
    request: &PaymentRequest,
    origin: &Origin,
    ids: (PaymentId, OperationId),
    encryption: &KeyRing,
    now: Timestamp,
    commit: &mut AmbiguousCommit,
) -> Result<TakenPayment> {
    let key = request.idempotency_key.as_ref().filter(|_| rule_enabled!(Key));
    if let Some(resolved) = resolve_without_transaction(intents, caller, request).await? {
        let intent = Intent { key: key.cloned(), ..intent(caller, request, resolved, origin, ids, now) };
        let payment = intent.payment.clone();
        match commit.send_in_batch(intents.insert(intent)).await {
            Ok(true) => {
                failpoint!("take_payment.written_in_batch");
                return Ok(TakenPayment::New(Box::new(payment), ids.1));
            }
            // The transaction finds out which error this is.
            Ok(false) => {}
            Err(error) if is_of_deleted_customer(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let mut tx = db::begin(&intents.pool).await?;
    if let Some(key) = key
        && let Claim::Earlier(earlier) = payment_keys::claim(&mut tx, caller.account_id, key, ids.0, now).await?
    {
        return Ok(TakenPayment::Earlier(earlier));
    }
    let customer = find_customer(&mut tx, caller, request.customer_id.as_deref()).await?;
    let resolved = ResolvedSource { customer, ..resolve(&mut tx, caller, &request.source, encryption).await? };
    let settlement = accounts::settlement(&mut *tx, resolved.provider_account_id).await?;
    settlement.require(request.money)?;
    let intent = intent(caller, request, resolved.challenged_by(settlement.provider), origin, ids, now);
    charges::insert_intents(&mut tx, std::slice::from_ref(&intent)).await.map_err(Error::from).map_err(|error| {
        match intent.payment.customer_id.filter(|_| is_of_deleted_customer(&error)) {
            Some(customer) => Error::no_such("customer", customer),
            None => error,
        }
    })?;
    failpoint!("take_payment.written");
    commit.send(tx.commit()).await?;
    failpoint!("take_payment.committed");
    Ok(TakenPayment::New(Box::new(intent.payment), ids.1))
}

/// Whether the payment's customer was deleted after it was read.
fn is_of_deleted_customer(error: &Error) -> bool {
    matches!(error, Error::Database(cause) if db::violated_constraint(cause) == Some("payments_customer"))
}

/// Builds the payment and the operation that charges it.
fn intent(
    caller: &Caller,
    request: &PaymentRequest,
    resolved: ResolvedSource,
    origin: &Origin,
    (payment, operation): (PaymentId, OperationId),
    now: Timestamp,
) -> Intent {
    let card = resolved.card.as_ref();
    let payment = NewPayment {
        id: payment,
        account_id: caller.account_id,
        provider_account_id: resolved.provider_account_id,
        money: request.money,
        capture: request.capture,
        customer_id: card.map(|card| card.customer_id).or(resolved.customer),
        payment_method: card.map(|card| (card.id, &card.masked_card)),
        invoice_id: None,
        payment_link_id: None,
        parts: None,
        description: request.description.clone(),
        merchant_data: request.merchant_data.clone(),
    };
    Intent {
        payment: Payment::processing(payment, caller.mode, now),
        return_url: request.return_url.clone(),
        payer_language: None,
        operation,
        first_step: FirstStep::Charge(resolved.source),
        action_token: resolved.action_token,
        origin: origin.clone(),
        key: None,
    }
}

/// A funding source whose token is spent, or whose card was found.
struct ResolvedSource {
    provider_account_id: ProviderAccountId,
    source: Source,
    card: Option<SavedCard>,
    /// The customer who pays with a token.
    customer: Option<CustomerId>,
    /// The token in the challenge URL, if the provider may require a challenge.
    action_token: Option<String>,
}

struct SavedCard {
    id: PaymentMethodId,
    customer_id: CustomerId,
    masked_card: Card,
}

/// The funding source if no row has to be locked, changed or looked up: a test token of the provider, or a saved card of
/// the provider account that takes the caller's payments. `None` also for whatever a transaction will refuse, after it has
/// checked the idempotency key.
///
/// # Errors
/// Database errors only.
async fn resolve_without_transaction(
    intents: &Intents,
    caller: &Caller,
    request: &PaymentRequest,
) -> Result<Option<ResolvedSource>> {
    if request.customer_id.is_some() {
        return Ok(None);
    }
    let resolved = match &request.source {
        PaymentSource::Token(token) => Ok(checkout::test_token(caller, token).map(ResolvedSource::of_token)),
        PaymentSource::PaymentMethod(id) => resolve_card(intents, caller, id).await.map(Some),
    };
    let is_usable = |resolved: &ResolvedSource| {
        resolved.provider_account_id == caller.provider_account_id && caller.require_money(request.money).is_ok()
    };
    match resolved {
        Err(Error::Database(error)) => Err(error.into()),
        Err(_) => Ok(None),
        Ok(resolved) => Ok(resolved.filter(is_usable).map(|resolved| resolved.challenged_by(caller.provider))),
    }
}

async fn resolve_card(intents: &Intents, caller: &Caller, id: &str) -> Result<ResolvedSource> {
    let id = PaymentMethodId::from_request(id)?;
    ResolvedSource::of_card(intents.cards.retrieve(caller.account_id, id).await?)
}

impl ResolvedSource {
    fn of_token(spent: SpentToken) -> Self {
        Self {
            provider_account_id: spent.provider_account_id,
            source: spent.source,
            card: None,
            customer: None,
            action_token: None,
        }
    }

    fn of_card(saved: PaymentMethod) -> Result<Self> {
        let usable = (saved.status == CardStatus::Active).then(|| saved.provider_ref.clone().zip(saved.card()));
        let Some((provider_ref, masked_card)) = usable.flatten() else {
            return Err(Error::invalid("paymentMethodId", "the card is not saved and cannot be charged"));
        };
        Ok(Self {
            // Where the card is stored, even if the account's new payments now go elsewhere.
            provider_account_id: saved.provider_account_id,
            source: Source::Card(provider_ref),
            card: Some(SavedCard { id: saved.id, customer_id: saved.customer_id, masked_card }),
            customer: None,
            action_token: None,
        })
    }

    fn challenged_by(self, provider: ProviderKind) -> Self {
        Self { action_token: provider.may_challenge().then(checkout::action_token), ..self }
    }
}

async fn find_customer(tx: &mut PgConnection, caller: &Caller, id: Option<&str>) -> Result<Option<CustomerId>> {
    let Some(id) = id else { return Ok(None) };
    let id = CustomerId::from_request(id)?;
    let customer = customers::find(tx, caller.account_id, id).await?;
    customer.map(|customer| Some(customer.id)).ok_or_else(|| Error::no_such("customer", id))
}

async fn resolve(
    tx: &mut PgConnection,
    caller: &Caller,
    source: &PaymentSource,
    encryption: &KeyRing,
) -> Result<ResolvedSource> {
    match source {
        PaymentSource::Token(token) => {
            checkout::spend(tx, caller, token, encryption).await.map(ResolvedSource::of_token)
        }
        PaymentSource::PaymentMethod(id) => {
            let id = PaymentMethodId::from_request(id)?;
            ResolvedSource::of_card(payment_methods::retrieve(tx, caller.account_id, id).await?)
        }
    }
}
