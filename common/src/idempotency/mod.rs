//! Idempotency keys: one key, one object, one answer (docs/api.md, Idempotency).
//!
//! A payment keeps its key beside itself (`payments::idempotency`), where the one statement of its outcome writes the answer too.
//! Whatever else a request creates keeps it here. Key, object and answer are one transaction: after it a repeated request gets the
//! kept answer, and before it there is nothing.

mod key;
mod store;

use serde::Serialize;
use sqlx::{PgConnection, PgPool};

pub use key::{IdempotencyKey, MAX_KEY};

use crate::capabilities::Operation;
use crate::crypto::{KeyRing, Secret};
use crate::error::{Error, Result};
use crate::id::{
    AccountId, AddressId, CreationKeyId, CustomerId, InvoiceId, PaymentLinkId, PaymentMethodId, PlanId,
    RecurringInvoiceId, SubscriptionId, WebhookEndpointId,
};
use crate::time::Timestamp;

/// The key of a request that creates an object. It holds for one operation of one account.
#[derive(Clone, Debug)]
pub struct CreationKey {
    id: CreationKeyId,
    account: AccountId,
    operation: Operation,
    key: IdempotencyKey,
}

/// What a request has created.
#[derive(Clone, Copy, Debug)]
pub enum Created {
    /// A customer.
    Customer(CustomerId),
    /// An address.
    Address(AddressId),
    /// A saved card.
    PaymentMethod(PaymentMethodId),
    /// A plan, or the one that was there.
    Plan(PlanId),
    /// A subscription.
    Subscription(SubscriptionId),
    /// An invoice.
    Invoice(InvoiceId),
    /// A recurring invoice.
    RecurringInvoice(RecurringInvoiceId),
    /// A payment link.
    PaymentLink(PaymentLinkId),
    /// A webhook endpoint.
    WebhookEndpoint(WebhookEndpointId),
}

/// What came of a request that creates an object.
#[derive(Debug)]
pub enum Made<T> {
    /// It was created.
    New(T),
    /// The key belongs to an earlier request: answer as that one was or will be answered.
    Earlier(Earlier),
}

#[cfg(test)]
impl<T> Made<T> {
    /// What was created, by a request that has no key.
    pub(crate) fn made(self) -> T {
        match self {
            Self::New(object) => object,
            Self::Earlier(earlier) => panic!("{earlier:?}"),
        }
    }
}

/// An earlier request with the same key and the same body.
#[derive(Debug)]
pub enum Earlier {
    /// Its answer.
    Answered(Kept),
    /// It saves this card, and the provider has not answered yet.
    Saving(PaymentMethodId),
}

/// An answer that was kept.
#[derive(Debug)]
pub struct Kept {
    /// Its status.
    pub status: u16,
    /// Whether another request was given it before, and not an earlier try of this one.
    pub replayed: bool,
    id: CreationKeyId,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Plain(String),
    Sealed(Vec<u8>),
}

impl Kept {
    /// The answer's body, byte for byte.
    ///
    /// # Errors
    /// [`Error::Internal`] if no key of the ring opens it.
    pub fn open(self, encryption: &KeyRing) -> Result<Secret<String>> {
        match self.body {
            Body::Plain(text) => Ok(Secret::new(text)),
            Body::Sealed(sealed) => encryption.open(&sealed, &self.id.to_string()).ok_or_else(|| {
                Error::internal(format!("the answer of {} cannot be read: was ENCRYPTION_KEY changed?", self.id))
            }),
        }
    }
}

impl CreationKey {
    /// The key of one request.
    pub fn new(account: AccountId, operation: Operation, key: IdempotencyKey, now: Timestamp) -> Self {
        Self { id: CreationKeyId::new(now), account, operation, key }
    }

    /// What an earlier request with this key has come to, before anything that the body names is looked at.
    ///
    /// # Errors
    /// 422 naming `Idempotency-Key` if it was used with another body.
    pub async fn find(&self, db: &PgPool) -> Result<Option<Earlier>> {
        store::find(&mut *db.acquire().await?, self).await?.map(|row| self.read(row)).transpose()
    }

    fn read(&self, row: store::Row) -> Result<Earlier> {
        if row.request_hash != self.key.request_hash() {
            return Err(IdempotencyKey::of_another_body());
        }
        let body = match (row.answer, row.sealed_answer) {
            (Some(text), _) => Body::Plain(text),
            (None, Some(sealed)) => Body::Sealed(sealed),
            (None, None) => {
                let saving = row.payment_method_id.map(Earlier::Saving);
                return saving.ok_or_else(|| Error::internal(format!("{} has no answer", row.id)));
            }
        };
        let status = row.status.and_then(|status| u16::try_from(status).ok());
        let status = status.ok_or_else(|| Error::internal(format!("{} has no status", row.id)))?;
        Ok(Earlier::Answered(Kept { status, replayed: row.id != self.id, id: row.id, body }))
    }

    /// Writes what was created, and the answer of this request.
    ///
    /// # Errors
    /// Only the database's.
    pub async fn keep(
        &self,
        tx: &mut PgConnection,
        created: Created,
        status: u16,
        view: &impl Serialize,
    ) -> Result<()> {
        let answer = self.render(view)?;
        store::keep(tx, self.id, created, status, Some(&answer), None).await
    }

    /// The same for an answer that holds a secret.
    ///
    /// # Errors
    /// Only the database's.
    pub async fn keep_sealed(
        &self,
        tx: &mut PgConnection,
        created: Created,
        status: u16,
        view: &impl Serialize,
        encryption: &KeyRing,
    ) -> Result<()> {
        let sealed = encryption.seal(&self.render(view)?, &self.id.to_string());
        store::keep(tx, self.id, created, status, None, Some(&sealed)).await
    }

    /// Writes which card is being saved. The outcome writes the answer.
    ///
    /// # Errors
    /// Only the database's.
    pub async fn await_saving(&self, tx: &mut PgConnection, card: PaymentMethodId) -> Result<()> {
        store::await_saving(tx, self.id, card).await
    }

    fn render(&self, view: &impl Serialize) -> Result<String> {
        serde_json::to_string(view).map_err(|error| Error::internal(format!("{}: {error}", self.id)))
    }
}

/// Claims a key, if the request has one, before anything else is locked or written. A second request at the same time waits here
/// until the first has committed or not.
///
/// # Errors
/// 422 naming `Idempotency-Key` if it was used with another body.
pub async fn claim(tx: &mut PgConnection, key: Option<&CreationKey>, now: Timestamp) -> Result<Option<Earlier>> {
    let Some(key) = key else { return Ok(None) };
    loop {
        if store::claim(tx, key, now).await? {
            return Ok(None);
        }
        // None: the other one has been taken back since.
        if let Some(row) = store::find(tx, key).await? {
            return key.read(row).map(Some);
        }
    }
}

/// Writes the answer of a request that saves a card; none if the card was refused, which uses no key up.
///
/// # Errors
/// Only the database's.
pub async fn finish_saving(
    tx: &mut PgConnection,
    account: AccountId,
    card: PaymentMethodId,
    view: Option<&impl Serialize>,
) -> Result<()> {
    match view {
        Some(view) => {
            let answer = serde_json::to_string(view).map_err(|error| Error::internal(format!("{card}: {error}")))?;
            store::finish_saving(tx, account, card, &answer).await
        }
        None => store::forget_saving(tx, account, card).await,
    }
}

/// Forgets the key of an endpoint that is deleted.
///
/// # Errors
/// Only the database's.
pub async fn forget_endpoint(tx: &mut PgConnection, account: AccountId, endpoint: WebhookEndpointId) -> Result<()> {
    store::forget_endpoint(tx, account, endpoint).await
}
