//! Attempts to collect an invoice. Each is written with the payment that it makes, and ends with it.

use serde::Serialize;
use sqlx::{PgConnection, PgPool};
use utoipa::ToSchema;

use super::collection::Failure;
use super::{Invoice, retrieve, store};
use crate::accounts::Mode;
use crate::error::Result;
use crate::id::{AccountId, CollectionAttemptId, InvoiceId, PaymentId};
use crate::money::MAX_AMOUNT;
use crate::page::{Page, PageRequest, unknown_cursor};
use crate::providers::DeclineType;
use crate::schema;
use crate::time::Timestamp;

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "collection_attempt_status", rename_all = "snake_case")]
pub enum AttemptStatus {
    /// The card is being charged.
    Processing,
    /// It paid the invoice.
    Succeeded,
    /// It did not.
    Failed,
}

/// As the API prints them. The last is one that is being charged and whose outcome was lost on the way.
const NAMES: [&str; 4] = ["processing", "succeeded", "failed", "unknown"];

/// An attempt as stored.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Its id.
    pub id: CollectionAttemptId,
    /// The account's mode.
    pub mode: Mode,
    /// 1 is the first.
    pub number: i32,
    /// How far it has come.
    pub status: AttemptStatus,
    /// Whether its outcome was lost and is being looked for.
    pub unknown: bool,
    /// What was to be collected.
    pub amount: i64,
    /// The payment that was made; none if nothing could be sent.
    pub payment_id: Option<PaymentId>,
    /// Why it failed.
    pub decline_code: Option<String>,
    /// Whether a retry may succeed.
    pub decline_type: Option<DeclineType>,
    /// When it was made.
    pub attempted_at: Timestamp,
    /// When the next one was due, as it stood when this one failed.
    pub next_attempt_at: Option<Timestamp>,
}

/// The public JSON of an attempt.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CollectionAttempt, description = "One try to collect an invoice. Optional fields are there where they apply.")]
pub struct AttemptView<'a> {
    /// Its id.
    pub id: CollectionAttemptId,
    #[schema(schema_with = schema::collection_attempt)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// 1 is the first.
    #[schema(schema_with = number)]
    number: i32,
    /// `unknown` while the provider's answer is lost and being looked for.
    #[schema(schema_with = names)]
    status: &'static str,
    #[schema(schema_with = amount)]
    amount: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Not there if there was no card to charge, or not in this currency.
    payment_id: Option<PaymentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_type: Option<DeclineType>,
    attempted_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When the next attempt was due, as it stood when this one failed.
    next_attempt_at: Option<Timestamp>,
}

fn number() -> schema::Field {
    schema::whole(1, i64::from(i32::MAX)).into()
}

fn names() -> schema::Field {
    schema::word(NAMES).into()
}

fn amount() -> schema::Field {
    schema::whole(1, MAX_AMOUNT).into()
}

impl<'a> AttemptView<'a> {
    /// Renders an attempt.
    pub fn new(attempt: &'a Attempt) -> Self {
        let [processing, succeeded, failed, unknown] = NAMES;
        Self {
            id: attempt.id,
            object: "collection_attempt",
            livemode: attempt.mode == Mode::Live,
            created_at: attempt.attempted_at,
            number: attempt.number,
            status: match attempt.status {
                AttemptStatus::Processing if attempt.unknown => unknown,
                AttemptStatus::Processing => processing,
                AttemptStatus::Succeeded => succeeded,
                AttemptStatus::Failed => failed,
            },
            amount: attempt.amount,
            payment_id: attempt.payment_id,
            decline_code: attempt.decline_code.as_deref(),
            decline_type: attempt.decline_type,
            attempted_at: attempt.attempted_at,
            next_attempt_at: attempt.next_attempt_at,
        }
    }
}

/// The attempt that a payment was made for, as its outcome needs it.
#[derive(Debug)]
pub struct InFlight {
    /// Its id.
    pub id: CollectionAttemptId,
    /// When it was made.
    pub attempted_at: Timestamp,
}

/// The attempt that a payment was made for; none if a cardholder made it. The invoice is locked before.
///
/// # Errors
/// Only the database's.
pub async fn of_payment(tx: &mut PgConnection, account: AccountId, payment: PaymentId) -> Result<Option<InFlight>> {
    store::attempts::of_payment(tx, account, payment).await
}

/// Whether an attempt is in flight. The invoice is locked before.
///
/// # Errors
/// Only the database's.
pub async fn is_in_flight(tx: &mut PgConnection, account: AccountId, invoice: InvoiceId) -> Result<bool> {
    store::attempts::is_in_flight(tx, account, invoice).await
}

/// Notes that an attempt has succeeded.
///
/// # Errors
/// Only the database's.
pub async fn succeeded(tx: &mut PgConnection, id: CollectionAttemptId) -> Result<()> {
    store::attempts::finish(tx, id, AttemptStatus::Succeeded, None, None).await
}

/// Notes that an attempt has failed, and when the next one is due.
///
/// # Errors
/// Only the database's.
pub async fn failed(
    tx: &mut PgConnection,
    id: CollectionAttemptId,
    failure: Failure<'_>,
    next: Option<Timestamp>,
) -> Result<()> {
    store::attempts::finish(tx, id, AttemptStatus::Failed, Some(failure), next).await
}

/// Writes an attempt of an invoice that sent nothing, once it is known what follows it.
///
/// # Errors
/// Only the database's.
pub async fn unsent(
    tx: &mut PgConnection,
    invoice: &Invoice,
    number: i32,
    failure: Failure<'_>,
    now: Timestamp,
) -> Result<()> {
    store::attempts::insert_failed(tx, invoice, CollectionAttemptId::new(now), number, failure, now).await
}

/// A page of an invoice's attempts, the first one first.
///
/// # Errors
/// [`crate::error::Error::NotFound`] for an unknown invoice; 422 for a cursor that names no attempt of it.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    invoice: InvoiceId,
    page: PageRequest<CollectionAttemptId>,
) -> Result<Page<Attempt>> {
    retrieve(db, account, invoice).await?;
    let after = match page.starting_after {
        None => 0,
        Some(cursor) => store::attempts::number(db, account, invoice, cursor).await?.ok_or_else(unknown_cursor)?,
    };
    Ok(page.page(store::attempts::list(db, account, invoice, after, page.fetch()).await?))
}
