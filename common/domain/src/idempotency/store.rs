//! SQL of creation keys.

use sqlx::PgConnection;
use uuid::Uuid;

use super::{Created, CreationKey};
use foundation::error::Result;
use foundation::id::{AccountId, CreationKeyId, PaymentMethodId, WebhookEndpointId};
use foundation::time::Timestamp;

pub(super) struct Row {
    pub(super) id: CreationKeyId,
    pub(super) request_hash: Vec<u8>,
    pub(super) payment_method_id: Option<PaymentMethodId>,
    pub(super) status: Option<i16>,
    pub(super) answer: Option<String>,
    pub(super) sealed_answer: Option<Vec<u8>>,
}

/// Returns whether the key was unused and is now claimed.
pub(super) async fn claim(tx: &mut PgConnection, key: &CreationKey, now: Timestamp) -> Result<bool> {
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

pub(super) async fn find(db: &mut PgConnection, key: &CreationKey) -> Result<Option<Row>> {
    let query = sqlx::query_as!(
        Row,
        "SELECT id, request_hash, payment_method_id, status, answer, sealed_answer FROM creation_keys
         WHERE account_id = $1 AND operation = $2 AND key = $3",
        key.account.uuid(),
        key.operation.name(),
        key.key.text(),
    );
    Ok(query.fetch_optional(db).await?)
}

pub(super) async fn store_response(
    tx: &mut PgConnection,
    id: CreationKeyId,
    created: Created,
    status: u16,
    response: Option<&str>,
    sealed: Option<&[u8]>,
) -> Result<()> {
    let columns = Columns::of(created);
    sqlx::query!(
        "UPDATE creation_keys SET status = $2, answer = $3, sealed_answer = $4, customer_id = $5, address_id = $6,
             payment_method_id = $7, plan_id = $8, subscription_id = $9, invoice_id = $10, recurring_invoice_id = $11,
             payment_link_id = $12, webhook_endpoint_id = $13
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

pub(super) async fn set_pending_card(tx: &mut PgConnection, id: CreationKeyId, card: PaymentMethodId) -> Result<()> {
    sqlx::query!("UPDATE creation_keys SET payment_method_id = $2 WHERE id = $1", id.uuid(), card.uuid())
        .execute(tx)
        .await?;
    Ok(())
}

pub(super) async fn finish_saving(
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

pub(super) async fn delete_for_card(tx: &mut PgConnection, account: AccountId, card: PaymentMethodId) -> Result<()> {
    sqlx::query!(
        "DELETE FROM creation_keys WHERE account_id = $1 AND payment_method_id = $2",
        account.uuid(),
        card.uuid()
    )
    .execute(tx)
    .await?;
    Ok(())
}

pub(super) async fn delete_for_endpoint(
    tx: &mut PgConnection,
    account: AccountId,
    endpoint: WebhookEndpointId,
) -> Result<()> {
    sqlx::query!(
        "DELETE FROM creation_keys WHERE account_id = $1 AND webhook_endpoint_id = $2",
        account.uuid(),
        endpoint.uuid()
    )
    .execute(tx)
    .await?;
    Ok(())
}
