//! Saved cards. A card belongs permanently to the provider account that stores it. The customer's row refers to the
//! default card.

mod awaiting;
mod view;

use sqlx::{PgConnection, PgPool};

pub use awaiting::{accept, awaiting, store_awaiting};
pub use view::PaymentMethodView;

use crate::accounts::{Caller, Mode};
use crate::merchant_data::change_merchant_data;
use foundation::db::{self, Reader, column};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId};
use foundation::merchant_data::{ExternalId, MerchantData, MerchantDataChange, Metadata};
use foundation::page::{Page, PageRequest, unknown_cursor};
use foundation::time::Timestamp;
use providers::Card;

/// The status of saving a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "payment_method_status", rename_all = "snake_case")]
pub enum Status {
    /// The request to the provider, or the payment that the card awaits, is pending.
    Processing,
    /// The card can be charged.
    Active,
    /// The provider refused to store the card, or the payment that the card awaited was not approved.
    Failed,
}

impl Status {
    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Active => "active",
            Self::Failed => "failed",
        }
    }
}

/// A saved card as stored.
#[derive(Clone, Debug)]
pub struct PaymentMethod {
    pub id: PaymentMethodId,
    pub account_id: AccountId,
    pub mode: Mode,
    /// Who pays with it.
    pub customer_id: CustomerId,
    /// The provider account that stores the card.
    pub provider_account_id: ProviderAccountId,
    pub status: Status,
    /// The payment for which a payer's page saved the card, or is saving it.
    pub saved_for_payment_id: Option<PaymentId>,
    /// The operation that charges that payment to the card, with whose approval the card becomes active; it is written
    /// once the card is saved. `None` as soon as the payment has ended.
    pub awaits_operation_id: Option<OperationId>,
    /// The token in our URL of a challenge of that operation; `None` if its provider requires none, or if the previous
    /// release began the payment.
    pub awaits_action_token: Option<String>,
    /// The customer's default card when the payer chose this one for renewals, unless there was none.
    pub replaces_default_id: Option<PaymentMethodId>,
    /// The provider's token for the card.
    pub provider_ref: Option<String>,
    /// `visa`, `mastercard`, …
    pub brand: Option<String>,
    pub last4: Option<String>,
    /// 1 to 12.
    pub exp_month: Option<i16>,
    /// Four digits.
    pub exp_year: Option<i16>,
    pub metadata: Option<Metadata>,
    pub external_id: Option<ExternalId>,
    /// Rises with each change that the API shows.
    pub version: i64,
    pub created_at: Timestamp,
    /// Whether the card is charged if a request names no card.
    pub is_default: bool,
}

impl PaymentMethod {
    /// Builds a card whose request to the provider is pending.
    pub fn processing(
        id: PaymentMethodId,
        caller: &Caller,
        customer_id: CustomerId,
        merchant_data: MerchantData,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            account_id: caller.account_id,
            mode: caller.mode,
            customer_id,
            provider_account_id: caller.provider_account_id,
            status: Status::Processing,
            saved_for_payment_id: None,
            awaits_operation_id: None,
            awaits_action_token: None,
            replaces_default_id: None,
            provider_ref: None,
            brand: None,
            last4: None,
            exp_month: None,
            exp_year: None,
            metadata: merchant_data.metadata,
            external_id: merchant_data.external_id,
            version: 1,
            created_at: now,
            is_default: false,
        }
    }

    /// Returns brand, last four digits and expiry date, once the provider has returned them.
    pub fn card(&self) -> Option<Card> {
        Some(Card {
            brand: self.brand.clone()?,
            last4: self.last4.clone()?,
            exp_month: self.exp_month?,
            exp_year: self.exp_year?,
        })
    }
}

/// Selects every column of a saved card; all queries share this list.
macro_rules! select_payment_methods {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            PaymentMethod,
            r#"SELECT m.id, m.account_id, a.mode, m.customer_id, m.provider_account_id, m.status, m.provider_ref, m.brand,
                      m.last4, m.exp_month, m.exp_year, m.metadata, m.external_id, m.version, m.created_at,
                      m.saved_for_payment_id, m.awaits_operation_id, m.awaits_action_token, m.replaces_default_id,
                      (c.default_payment_method_id IS NOT DISTINCT FROM m.id) AS "is_default!"
               FROM payment_methods m JOIN customers c ON c.id = m.customer_id
                    JOIN accounts a ON a.id = m.account_id "# + $rest,
            $($arg),*
        )
    };
}

use select_payment_methods;

/// Returns a card, using a connection from the pool.
///
/// # Errors
/// As [`retrieve`].
pub async fn retrieve_from(db: &PgPool, account: AccountId, id: PaymentMethodId) -> Result<PaymentMethod> {
    retrieve(&mut *db.acquire().await?, account, id).await
}

/// Starts a reader of cards. Must be called inside a Tokio runtime.
pub fn reader(pool: PgPool) -> Reader<PaymentMethodId, PaymentMethod> {
    Reader::start("payment method", pool, |db, ids| Box::pin(find_all(db, ids)), |card| (card.account_id, card.id))
}

/// Returns those of the cards that exist, of any account.
async fn find_all(db: &mut PgConnection, ids: &[PaymentMethodId]) -> sqlx::Result<Vec<PaymentMethod>> {
    select_payment_methods!("WHERE m.id = ANY ($1) AND m.detached_at IS NULL", &column(ids, |id| id.uuid()))
        .fetch_all(db)
        .await
}

/// A card that is about to be saved at the provider.
#[derive(Debug)]
pub struct NewPaymentMethod<'a> {
    pub id: PaymentMethodId,
    pub account_id: AccountId,
    pub customer_id: CustomerId,
    pub provider_account_id: ProviderAccountId,
    pub merchant_data: &'a MerchantData,
    pub created_at: Timestamp,
    /// What is charged to the card then, if a payer's page saves it.
    pub awaited: Option<&'a AwaitedCharge>,
}

/// The charge of a payment to a card that is saved first.
#[derive(Debug)]
pub struct AwaitedCharge {
    pub payment: PaymentId,
    /// The operation that will charge it.
    pub operation: OperationId,
    /// The token in our URL of a challenge; `None` if the provider requires none.
    pub action_token: Option<String>,
}

/// Inserts a card that is about to be saved at the provider.
///
/// # Errors
/// Database errors only.
pub async fn insert_processing(tx: &mut PgConnection, new: &NewPaymentMethod<'_>) -> Result<()> {
    let awaited = new.awaited;
    sqlx::query!(
        "INSERT INTO payment_methods (id, account_id, customer_id, provider_account_id, status, created_at,
                metadata, external_id, saved_for_payment_id, awaits_operation_id, awaits_action_token, replaces_default_id)
         VALUES ($1, $2, $3, $4, 'processing', $5, $6, $7, $8, $9, $10,
                (SELECT default_payment_method_id FROM customers WHERE account_id = $2 AND id = $3 AND $8::uuid IS NOT NULL))",
        new.id.uuid(),
        new.account_id.uuid(),
        new.customer_id.uuid(),
        new.provider_account_id.uuid(),
        new.created_at,
        new.merchant_data.metadata.as_ref() as Option<&Metadata>,
        new.merchant_data.external_id.as_deref(),
        awaited.map(|charge| charge.payment.uuid()),
        awaited.map(|charge| charge.operation.uuid()),
        awaited.and_then(|charge| charge.action_token.as_deref()),
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Stores the provider's response: the token and details of the card, or `None` if it refused to store the card.
///
/// # Errors
/// Database errors only.
pub async fn finish_saving(tx: &mut PgConnection, id: PaymentMethodId, saved: Option<(&str, &Card)>) -> Result<()> {
    sqlx::query!(
        "UPDATE payment_methods SET status = CASE WHEN $2::text IS NULL THEN 'failed' ELSE 'active' END::payment_method_status,
                provider_ref = $2, brand = $3, last4 = $4, exp_month = $5, exp_year = $6
         WHERE id = $1 AND status = 'processing'",
        id.uuid(),
        saved.map(|(provider_ref, _)| provider_ref),
        saved.map(|(_, card)| card.brand.as_str()),
        saved.map(|(_, card)| card.last4.as_str()),
        saved.map(|(_, card)| card.exp_month),
        saved.map(|(_, card)| card.exp_year),
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Returns a card that is not detached, whatever its status.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: &mut PgConnection, account: AccountId, id: PaymentMethodId) -> Result<PaymentMethod> {
    find(db, account, id).await?.ok_or_else(|| Error::no_such("payment method", id))
}

/// Returns a card if it exists and is not detached.
///
/// # Errors
/// Database errors only.
pub async fn find(db: &mut PgConnection, account: AccountId, id: PaymentMethodId) -> Result<Option<PaymentMethod>> {
    let query = select_payment_methods!(
        "WHERE m.account_id = $1 AND m.id = $2 AND m.detached_at IS NULL",
        account.uuid(),
        id.uuid()
    );
    Ok(query.fetch_optional(db).await?)
}

/// Detaches a card: it is not found from then on, and nothing is charged to it. Its customer is locked.
///
/// # Errors
/// Database errors only.
pub async fn detach(tx: &mut PgConnection, account: AccountId, id: PaymentMethodId, now: Timestamp) -> Result<()> {
    sqlx::query!(
        "UPDATE payment_methods SET status = 'failed', detached_at = $3
         WHERE account_id = $1 AND id = $2 AND detached_at IS NULL",
        account.uuid(),
        id.uuid(),
        now,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Detaches all cards of a customer, which is locked and saves none, and erases the merchant's own data on them. Returns
/// all of them as they are then; those that could be charged until now still have that status.
///
/// # Errors
/// Database errors only.
pub async fn erase_all(
    tx: &mut PgConnection,
    account: AccountId,
    customer: CustomerId,
    now: Timestamp,
) -> Result<Vec<PaymentMethod>> {
    let cards = select_payment_methods!(
        "WHERE m.account_id = $1 AND m.customer_id = $2 ORDER BY m.id",
        account.uuid(),
        customer.uuid()
    );
    let cards = cards.fetch_all(&mut *tx).await?;
    sqlx::query!(
        "UPDATE payment_methods SET status = 'failed', detached_at = coalesce(detached_at, $3), metadata = NULL,
                external_id = NULL, awaits_operation_id = NULL
         WHERE account_id = $1 AND customer_id = $2",
        account.uuid(),
        customer.uuid(),
        now,
    )
    .execute(tx)
    .await?;
    let erased = |card| PaymentMethod { metadata: None, external_id: None, is_default: false, ..card };
    Ok(cards.into_iter().map(erased).collect())
}

/// Changes the merchant's own data. This has no event.
///
/// # Errors
/// [`Error::NotFound`]; 422 `metadata` if it becomes too large.
pub async fn update(
    db: &PgPool,
    account: AccountId,
    id: PaymentMethodId,
    change: MerchantDataChange,
) -> Result<PaymentMethod> {
    let mut tx = db::begin(db).await?;
    change_merchant_data!(tx, "payment_methods", "payment method", account, id, change);
    let updated = retrieve(&mut tx, account, id).await?;
    tx.commit().await?;
    Ok(updated)
}

/// Returns a page of a customer's active cards, all or those with this external id: the default card first, then the others, newest first. The following
/// pages keep the default card that the first page saw.
///
/// # Errors
/// 422 if the cursor is not a card of the customer that is or was active.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    customer: CustomerId,
    default: Option<PaymentMethodId>,
    external_id: Option<&str>,
    page: PageRequest<PaymentMethodId>,
) -> Result<Page<PaymentMethod>> {
    let default = match page.starting_after {
        Some(cursor) => default_of_page(db, account, customer, cursor).await?.unwrap_or(default),
        None => default,
    };
    // The page after the default card starts with the newest other card; otherwise the page has the cards older than
    // the cursor.
    let before = page.starting_after.filter(|cursor| Some(*cursor) != default);
    let query = select_payment_methods!(
        "WHERE m.account_id = $1 AND m.customer_id = $2 AND m.status = 'active'
           AND ($3::uuid IS NULL OR m.id < $3)
           AND ($4 OR m.id IS DISTINCT FROM $5)
           AND ($6::text IS NULL OR m.external_id = $6)
         ORDER BY m.id IS NOT DISTINCT FROM $5 DESC, m.id DESC LIMIT $7",
        account.uuid(),
        customer.uuid(),
        before.map(PaymentMethodId::uuid),
        page.starting_after.is_none(),
        default.map(PaymentMethodId::uuid),
        external_id,
        page.fetch(),
    );
    let page = page.page(query.fetch_all(db).await?);
    if let Some(last) = page.data.last().filter(|_| page.has_more) {
        remember_default(db, last.id, default).await?;
    }
    Ok(page)
}

/// The default card that the page ending with this card saw; `None` if no page has ended there.
async fn default_of_page(
    db: &PgPool,
    account: AccountId,
    customer: CustomerId,
    last: PaymentMethodId,
) -> Result<Option<Option<PaymentMethodId>>> {
    let found = sqlx::query!(
        "SELECT page_ends_here, page_default_id FROM payment_methods
         WHERE account_id = $1 AND customer_id = $2 AND id = $3 AND (status = 'active' OR detached_at IS NOT NULL)",
        account.uuid(),
        customer.uuid(),
        last.uuid()
    )
    .fetch_optional(db)
    .await?;
    let card = found.ok_or_else(unknown_cursor)?;
    Ok(card.page_ends_here.then_some(card.page_default_id))
}

/// A cursor is only the id of a card, so the default card of its page is stored with that card.
async fn remember_default(db: &PgPool, last: PaymentMethodId, default: Option<PaymentMethodId>) -> Result<()> {
    sqlx::query!(
        "UPDATE payment_methods SET page_ends_here = true, page_default_id = $2
         WHERE id = $1 AND (NOT page_ends_here OR page_default_id IS DISTINCT FROM $2)",
        last.uuid(),
        default.map(PaymentMethodId::uuid),
    )
    .execute(db)
    .await?;
    Ok(())
}
