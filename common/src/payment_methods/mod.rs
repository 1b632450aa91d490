//! Saved cards. A card stays with the provider account it was saved at; which one is the default is a fact of its customer.

mod store;
mod view;

use sqlx::{PgConnection, PgPool};

pub use view::PaymentMethodView;

use crate::accounts::{Caller, Mode};
use crate::error::{Error, Result};
use crate::id::{AccountId, CustomerId, PaymentMethodId, ProviderAccountId};
use crate::page::{Page, PageRequest, unknown_cursor};
use crate::providers::Card;
use crate::time::Timestamp;

/// How far the saving of a card has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "payment_method_status", rename_all = "snake_case")]
pub enum Status {
    /// The provider has been asked, and has not answered yet.
    Processing,
    /// It can be charged.
    Active,
    /// The provider would not keep it.
    Failed,
}

impl Status {
    /// As the API prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Active => "active",
            Self::Failed => "failed",
        }
    }
}

/// A saved card as stored.
#[derive(Debug)]
pub struct PaymentMethod {
    /// Its id.
    pub id: PaymentMethodId,
    /// Whose it is.
    pub account_id: AccountId,
    /// The account's mode.
    pub mode: Mode,
    /// Who pays with it.
    pub customer_id: CustomerId,
    /// Where it is kept.
    pub provider_account_id: ProviderAccountId,
    /// Whether it can be charged.
    pub status: Status,
    /// The provider's name for it.
    pub provider_ref: Option<String>,
    /// `visa`, …
    pub brand: Option<String>,
    /// The last four digits.
    pub last4: Option<String>,
    /// 1 to 12.
    pub exp_month: Option<i16>,
    /// Four digits.
    pub exp_year: Option<i16>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Whether it is the one that is charged when a request names none.
    pub is_default: bool,
}

impl PaymentMethod {
    /// A card as it stands before the provider has answered.
    pub fn processing(id: PaymentMethodId, caller: &Caller, customer_id: CustomerId, now: Timestamp) -> Self {
        Self {
            id,
            account_id: caller.account_id,
            mode: caller.mode,
            customer_id,
            provider_account_id: caller.provider_account_id,
            status: Status::Processing,
            provider_ref: None,
            brand: None,
            last4: None,
            exp_month: None,
            exp_year: None,
            created_at: now,
            is_default: false,
        }
    }

    /// What it looks like, once the provider has said so.
    pub fn card(&self) -> Option<Card> {
        Some(Card {
            brand: self.brand.clone()?,
            last4: self.last4.clone()?,
            exp_month: self.exp_month?,
            exp_year: self.exp_year?,
        })
    }
}

/// One card, by a connection of the pool.
///
/// # Errors
/// As [`retrieve`].
pub async fn retrieve_from(db: &PgPool, account: AccountId, id: PaymentMethodId) -> Result<PaymentMethod> {
    retrieve(&mut *db.acquire().await?, account, id).await
}

/// Writes a card that is about to be saved.
///
/// # Errors
/// Only the database's.
pub async fn insert_processing(
    tx: &mut PgConnection,
    id: PaymentMethodId,
    account: AccountId,
    customer: CustomerId,
    provider_account: ProviderAccountId,
    now: Timestamp,
) -> Result<()> {
    store::insert_processing(tx, id, account, customer, provider_account, now).await
}

/// Writes what the provider said of a card: what it looks like, or that it is not kept.
///
/// # Errors
/// Only the database's.
pub async fn finish_saving(tx: &mut PgConnection, id: PaymentMethodId, saved: Option<(&str, &Card)>) -> Result<()> {
    store::finish_saving(tx, id, saved).await
}

/// One card, whatever came of its saving.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn retrieve(db: &mut PgConnection, account: AccountId, id: PaymentMethodId) -> Result<PaymentMethod> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("payment method", id))
}

/// A page of a customer's cards, the default one first, the others newest first.
///
/// # Errors
/// 422 for a cursor that names no card of the customer.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    customer: CustomerId,
    default: Option<PaymentMethodId>,
    page: PageRequest<PaymentMethodId>,
) -> Result<Page<PaymentMethod>> {
    if let Some(cursor) = page.starting_after
        && !store::is_listed(db, account, customer, cursor).await?
    {
        return Err(unknown_cursor());
    }
    // After the default card come all others from the newest on; after another, those older than it.
    let before = page.starting_after.filter(|cursor| Some(*cursor) != default);
    let rows = store::list(db, account, customer, before, page.starting_after.is_none(), page.fetch()).await?;
    Ok(page.page(rows))
}
