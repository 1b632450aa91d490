//! Idempotency keys: one key, one object, one response (docs/api.md, Idempotency).
//!
//! Payments store their key separately (`payments::payment_keys`), so that one statement writes the outcome and the
//! response. Every other creating request stores its key here. Key, object and response are one transaction: afterwards
//! a repeated request returns the stored response, before it nothing exists.

mod key;

use std::time::Duration;

use serde::Serialize;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

pub use key::{IdempotencyKey, MAX_KEY};

use foundation::crypto::{KeyRing, Place, Secret};
use foundation::error::{Error, Result};
use foundation::id::{
    AccountId, AddressId, CreationKeyId, CustomerId, InvoiceId, PaymentLinkId, PaymentMethodId, PlanId,
    RecurringInvoiceId, SubscriptionId, WebhookEndpointId,
};
use foundation::time::Timestamp;
use providers::capabilities::Permission;

/// How long a request waits for an outcome before it returns the state at that time.
pub const WAIT: Duration = Duration::from_secs(25);

/// The idempotency key of a request that creates an object. It is unique per account and operation.
#[derive(Clone, Debug)]
pub struct CreationKey {
    id: CreationKeyId,
    account: AccountId,
    operation: Permission,
    key: IdempotencyKey,
}

struct Row {
    id: CreationKeyId,
    request_hash: Vec<u8>,
    payment_method_id: Option<PaymentMethodId>,
    subscription_id: Option<SubscriptionId>,
    is_provisional: bool,
    status: Option<i16>,
    answer: Option<String>,
    sealed_answer: Option<Vec<u8>>,
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
    /// The request has created this subscription and waits for its first collection.
    Collecting(SubscriptionId),
}

/// A stored response.
#[derive(Debug)]
pub struct StoredResponse {
    pub status: u16,
    /// Whether another request was given this response, not an earlier attempt of this one.
    pub replayed: bool,
    place: Place,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Plain(String),
    Sealed(Vec<u8>),
}

/// Where the response with a secret is stored.
pub fn response_place(account: AccountId, key: CreationKeyId) -> Place {
    Place::new("creation_keys.sealed_answer", account, key)
}

impl StoredResponse {
    /// The response body, byte for byte.
    ///
    /// # Errors
    /// [`Error::Internal`] if no encryption key can decrypt it.
    pub fn open(self, encryption: &KeyRing) -> Result<Secret<String>> {
        match self.body {
            Body::Plain(text) => Ok(Secret::new(text)),
            Body::Sealed(sealed) => encryption.open(&sealed, &self.place).ok_or_else(|| {
                Error::internal(format!("{} cannot be decrypted: was ENCRYPTION_KEY changed?", self.place))
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
        find_row(&mut *db.acquire().await?, self).await?.map(|row| self.read(row)).transpose()
    }

    fn read(&self, row: Row) -> Result<EarlierRequest> {
        if row.request_hash != self.key.request_hash() {
            return Err(IdempotencyKey::used_with_another_body());
        }
        if let (Some(subscription), true) = (row.subscription_id, row.is_provisional) {
            return Ok(EarlierRequest::Collecting(subscription));
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
        let place = response_place(self.account, row.id);
        Ok(EarlierRequest::Completed(StoredResponse { status, replayed: row.id != self.id, place, body }))
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
        set_response(tx, self.id, created, status, Some(&response), None, None).await
    }

    /// Like [`Self::store_response`], for a subscription whose first collection the request waits for. Until
    /// [`Self::complete`] or for [`WAIT`], whichever is shorter, no request gets this response.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn store_provisional_response(
        &self,
        tx: &mut PgConnection,
        created: SubscriptionId,
        status: u16,
        view: &impl Serialize,
    ) -> Result<()> {
        let response = self.render(view)?;
        set_response(tx, self.id, Created::Subscription(created), status, Some(&response), None, Some(WAIT)).await
    }

    /// Replaces a provisional response by the outcome of the first collection, unless another request with this key has
    /// done so.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn complete(&self, db: &PgPool, view: &impl Serialize) -> Result<()> {
        let response = self.render(view)?;
        sqlx::query!(
            "UPDATE creation_keys SET answer = $4, provisional_until = NULL
             WHERE account_id = $1 AND operation = $2 AND key = $3 AND provisional_until > clock_timestamp()",
            self.account.uuid(),
            self.operation.name(),
            self.key.text(),
            response,
        )
        .execute(db)
        .await?;
        Ok(())
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
        let sealed = encryption.seal(&self.render(view)?, &response_place(self.account, self.id));
        set_response(tx, self.id, created, status, None, Some(&sealed), None).await
    }

    /// Stores the card that is being saved. The response is stored with the outcome.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn set_pending_card(&self, tx: &mut PgConnection, card: PaymentMethodId) -> Result<()> {
        sqlx::query!("UPDATE creation_keys SET payment_method_id = $2 WHERE id = $1", self.id.uuid(), card.uuid())
            .execute(tx)
            .await?;
        Ok(())
    }

    fn render(&self, view: &impl Serialize) -> Result<String> {
        serde_json::to_string(view).map_err(|error| Error::internal(format!("{}: {error}", self.id)))
    }
}

async fn find_row(db: &mut PgConnection, key: &CreationKey) -> Result<Option<Row>> {
    let query = sqlx::query_as!(
        Row,
        r#"SELECT id, request_hash, payment_method_id, subscription_id, status, answer, sealed_answer,
               coalesce(provisional_until > clock_timestamp(), false) AS "is_provisional!"
           FROM creation_keys WHERE account_id = $1 AND operation = $2 AND key = $3"#,
        key.account.uuid(),
        key.operation.name(),
        key.key.text(),
    );
    Ok(query.fetch_optional(db).await?)
}

async fn set_response(
    tx: &mut PgConnection,
    id: CreationKeyId,
    created: Created,
    status: u16,
    response: Option<&str>,
    sealed: Option<&[u8]>,
    provisional: Option<Duration>,
) -> Result<()> {
    let columns = Columns::of(created);
    sqlx::query!(
        "UPDATE creation_keys SET status = $2, answer = $3, sealed_answer = $4, customer_id = $5, address_id = $6,
             payment_method_id = $7, plan_id = $8, subscription_id = $9, invoice_id = $10, recurring_invoice_id = $11,
             payment_link_id = $12, webhook_endpoint_id = $13,
             provisional_until = clock_timestamp() + make_interval(secs => $14)
         WHERE id = $1",
        id.uuid(),
        i16::try_from(status).unwrap_or(i16::MAX),
        response,
        sealed,
        columns.customer,
        columns.address,
        columns.payment_method,
        columns.plan,
        columns.subscription,
        columns.invoice,
        columns.recurring_invoice,
        columns.payment_link,
        columns.webhook_endpoint,
        provisional.map(|time| time.as_secs_f64()) as Option<f64>,
    )
    .execute(tx)
    .await?;
    Ok(())
}

#[derive(Default)]
struct Columns {
    customer: Option<Uuid>,
    address: Option<Uuid>,
    payment_method: Option<Uuid>,
    plan: Option<Uuid>,
    subscription: Option<Uuid>,
    invoice: Option<Uuid>,
    recurring_invoice: Option<Uuid>,
    payment_link: Option<Uuid>,
    webhook_endpoint: Option<Uuid>,
}

impl Columns {
    fn of(created: Created) -> Self {
        let none = Self::default();
        match created {
            Created::Customer(id) => Self { customer: Some(id.uuid()), ..none },
            Created::Address(id) => Self { address: Some(id.uuid()), ..none },
            Created::PaymentMethod(id) => Self { payment_method: Some(id.uuid()), ..none },
            Created::Plan(id) => Self { plan: Some(id.uuid()), ..none },
            Created::Subscription(id) => Self { subscription: Some(id.uuid()), ..none },
            Created::Invoice(id) => Self { invoice: Some(id.uuid()), ..none },
            Created::RecurringInvoice(id) => Self { recurring_invoice: Some(id.uuid()), ..none },
            Created::PaymentLink(id) => Self { payment_link: Some(id.uuid()), ..none },
            Created::WebhookEndpoint(id) => Self { webhook_endpoint: Some(id.uuid()), ..none },
        }
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
        if insert(tx, key, now).await? {
            return Ok(None);
        }
        // `None` if the other request has been rolled back since.
        if let Some(row) = find_row(tx, key).await? {
            return key.read(row).map(Some);
        }
    }
}

/// Returns whether the key was unused and is now claimed.
async fn insert(tx: &mut PgConnection, key: &CreationKey, now: Timestamp) -> Result<bool> {
    let done = sqlx::query!(
        "INSERT INTO creation_keys (id, account_id, operation, key, request_hash, created_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (account_id, operation, key) DO NOTHING",
        key.id.uuid(),
        key.account.uuid(),
        key.operation.name(),
        key.key.text(),
        key.key.request_hash(),
        now,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() == 1)
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
            set_response_of_card(tx, account, card, &response).await
        }
        None => delete_for_card(tx, account, card).await,
    }
}

async fn set_response_of_card(
    tx: &mut PgConnection,
    account: AccountId,
    card: PaymentMethodId,
    response: &str,
) -> Result<()> {
    sqlx::query!(
        "UPDATE creation_keys SET status = 201, answer = $3
         WHERE account_id = $1 AND payment_method_id = $2 AND answer IS NULL",
        account.uuid(),
        card.uuid(),
        response,
    )
    .execute(tx)
    .await?;
    Ok(())
}

async fn delete_for_card(tx: &mut PgConnection, account: AccountId, card: PaymentMethodId) -> Result<()> {
    sqlx::query!(
        "DELETE FROM creation_keys WHERE account_id = $1 AND payment_method_id = $2",
        account.uuid(),
        card.uuid()
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Deletes the key of a webhook endpoint that is being deleted.
///
/// # Errors
/// Database errors only.
pub async fn delete_for_endpoint(tx: &mut PgConnection, account: AccountId, endpoint: WebhookEndpointId) -> Result<()> {
    sqlx::query!(
        "DELETE FROM creation_keys WHERE account_id = $1 AND webhook_endpoint_id = $2",
        account.uuid(),
        endpoint.uuid()
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Deletes the keys of a customer that is being deleted, and those of its addresses and cards: the stored responses show
/// them, and the keys are the merchant's own text.
///
/// # Errors
/// Database errors only.
pub async fn delete_for_customer(tx: &mut PgConnection, account: AccountId, customer: CustomerId) -> Result<()> {
    sqlx::query!(
        "WITH k AS MATERIALIZED (
             SELECT id FROM creation_keys WHERE account_id = $1 AND customer_id = $2
             UNION ALL SELECT k.id FROM addresses a JOIN creation_keys k ON k.account_id = $1 AND k.address_id = a.id
             WHERE a.account_id = $1 AND a.customer_id = $2
             UNION ALL SELECT k.id FROM payment_methods m JOIN creation_keys k ON k.account_id = $1 AND k.payment_method_id = m.id
             WHERE m.account_id = $1 AND m.customer_id = $2)
         DELETE FROM creation_keys c USING k WHERE c.id = k.id",
        account.uuid(),
        customer.uuid()
    )
    .execute(tx)
    .await?;
    Ok(())
}
