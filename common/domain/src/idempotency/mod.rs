//! Idempotency keys: one key, one object, one response (docs/api.md, Idempotency).
//!
//! Payments store their key separately (`payments::idempotency`), so that one statement writes the outcome and the
//! response. Every other creating request stores its key here. Key, object and response are one transaction: afterwards
//! a repeated request returns the stored response, before it nothing exists.

mod key;
mod store;

use serde::Serialize;
use sqlx::{PgConnection, PgPool};

pub use key::{IdempotencyKey, MAX_KEY};

use foundation::crypto::{KeyRing, Secret};
use foundation::error::{Error, Result};
use foundation::id::{
    AccountId, AddressId, CreationKeyId, CustomerId, InvoiceId, PaymentLinkId, PaymentMethodId, PlanId,
    RecurringInvoiceId, SubscriptionId, WebhookEndpointId,
};
use foundation::time::Timestamp;
use providers::capabilities::Permission;

/// The idempotency key of a request that creates an object. It is unique per account and operation.
#[derive(Clone, Debug)]
pub struct CreationKey {
    id: CreationKeyId,
    account: AccountId,
    operation: Permission,
    key: IdempotencyKey,
}

/// The object that a request created.
#[derive(Clone, Copy, Debug)]
pub enum Created {
    Customer(CustomerId),
    Address(AddressId),
    /// A saved card.
    PaymentMethod(PaymentMethodId),
    /// A plan: a new one, or an identical existing one.
    Plan(PlanId),
    Subscription(SubscriptionId),
    Invoice(InvoiceId),
    RecurringInvoice(RecurringInvoiceId),
    PaymentLink(PaymentLinkId),
    WebhookEndpoint(WebhookEndpointId),
}

/// The result of a request that creates an object.
#[derive(Debug)]
pub enum CreationResult<T> {
    New(T),
    /// The key belongs to an earlier request, whose response is repeated.
    Earlier(EarlierRequest),
}

impl<T> CreationResult<T> {
    /// The object that a request without a key created.
    pub fn into_new(self) -> T {
        match self {
            Self::New(object) => object,
            Self::Earlier(earlier) => panic!("{earlier:?}"),
        }
    }
}

/// An earlier request with the same key and body.
#[derive(Debug)]
pub enum EarlierRequest {
    Completed(StoredResponse),
    /// The request saves this card, and the provider has not responded yet.
    SavingCard(PaymentMethodId),
}

/// A stored response.
#[derive(Debug)]
pub struct StoredResponse {
    pub status: u16,
    /// Whether another request was given this response, not an earlier attempt of this one.
    pub replayed: bool,
    id: CreationKeyId,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Plain(String),
    Sealed(Vec<u8>),
}

impl StoredResponse {
    /// The response body, byte for byte.
    ///
    /// # Errors
    /// [`Error::Internal`] if no encryption key can decrypt it.
    pub fn open(self, encryption: &KeyRing) -> Result<Secret<String>> {
        match self.body {
            Body::Plain(text) => Ok(Secret::new(text)),
            Body::Sealed(sealed) => encryption.open(&sealed, &self.id.to_string()).ok_or_else(|| {
                Error::internal(format!("the response of {} cannot be decrypted: was ENCRYPTION_KEY changed?", self.id))
            }),
        }
    }
}

impl CreationKey {
    /// Creates the key of a request.
    pub fn new(account: AccountId, operation: Permission, key: IdempotencyKey, now: Timestamp) -> Self {
        Self { id: CreationKeyId::new(now), account, operation, key }
    }

    /// Finds an earlier request with this key, before the objects that the body names are read.
    ///
    /// # Errors
    /// 422 naming `Idempotency-Key` if the key was used with another body.
    pub async fn find(&self, db: &PgPool) -> Result<Option<EarlierRequest>> {
        store::find(&mut *db.acquire().await?, self).await?.map(|row| self.read(row)).transpose()
    }

    fn read(&self, row: store::Row) -> Result<EarlierRequest> {
        if row.request_hash != self.key.request_hash() {
            return Err(IdempotencyKey::used_with_another_body());
        }
        let body = match (row.answer, row.sealed_answer) {
            (Some(text), _) => Body::Plain(text),
            (None, Some(sealed)) => Body::Sealed(sealed),
            (None, None) => {
                let saving = row.payment_method_id.map(EarlierRequest::SavingCard);
                return saving.ok_or_else(|| Error::internal(format!("{} has no response", row.id)));
            }
        };
        let status = row.status.and_then(|status| u16::try_from(status).ok());
        let status = status.ok_or_else(|| Error::internal(format!("{} has no status", row.id)))?;
        Ok(EarlierRequest::Completed(StoredResponse { status, replayed: row.id != self.id, id: row.id, body }))
    }

    /// Stores the created object and the response of this request.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn store_response(
        &self,
        tx: &mut PgConnection,
        created: Created,
        status: u16,
        view: &impl Serialize,
    ) -> Result<()> {
        let response = self.render(view)?;
        store::store_response(tx, self.id, created, status, Some(&response), None).await
    }

    /// Like [`Self::store_response`], encrypted because the response contains a secret.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn store_sealed_response(
        &self,
        tx: &mut PgConnection,
        created: Created,
        status: u16,
        view: &impl Serialize,
        encryption: &KeyRing,
    ) -> Result<()> {
        let sealed = encryption.seal(&self.render(view)?, &self.id.to_string());
        store::store_response(tx, self.id, created, status, None, Some(&sealed)).await
    }

    /// Stores the card that is being saved. The response is stored with the outcome.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn set_pending_card(&self, tx: &mut PgConnection, card: PaymentMethodId) -> Result<()> {
        store::set_pending_card(tx, self.id, card).await
    }

    fn render(&self, view: &impl Serialize) -> Result<String> {
        serde_json::to_string(view).map_err(|error| Error::internal(format!("{}: {error}", self.id)))
    }
}

/// Claims the key, if the request has one, before anything else is locked or written. A concurrent request with the
/// same key waits here until the first has committed or rolled back.
///
/// # Errors
/// 422 naming `Idempotency-Key` if the key was used with another body.
pub async fn claim(tx: &mut PgConnection, key: Option<&CreationKey>, now: Timestamp) -> Result<Option<EarlierRequest>> {
    let Some(key) = key else { return Ok(None) };
    loop {
        if store::claim(tx, key, now).await? {
            return Ok(None);
        }
        // `None` if the other request has been rolled back since.
        if let Some(row) = store::find(tx, key).await? {
            return key.read(row).map(Some);
        }
    }
}

/// Stores the response of a request that saves a card. `None` if the card was declined, which releases the key.
///
/// # Errors
/// Database errors only.
pub async fn finish_saving(
    tx: &mut PgConnection,
    account: AccountId,
    card: PaymentMethodId,
    view: Option<&impl Serialize>,
) -> Result<()> {
    match view {
        Some(view) => {
            let response = serde_json::to_string(view).map_err(|error| Error::internal(format!("{card}: {error}")))?;
            store::finish_saving(tx, account, card, &response).await
        }
        None => store::delete_for_card(tx, account, card).await,
    }
}

/// Deletes the key of a webhook endpoint that is being deleted.
///
/// # Errors
/// Database errors only.
pub async fn delete_for_endpoint(tx: &mut PgConnection, account: AccountId, endpoint: WebhookEndpointId) -> Result<()> {
    store::delete_for_endpoint(tx, account, endpoint).await
}
