//! Creates invoices, several at once: each statement is for all of them.

use std::collections::HashMap;

use sqlx::PgConnection;

use super::invoice::Invoice;
use super::numbering::{Number, next_numbers};
use super::status::Status;
use super::view::InvoiceView;
use crate::accounts::{self, Mode};
use crate::events::{self, Event, EventType};
use foundation::calendar::PaymentTerms;
use foundation::db::{Tx, column};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId, PaymentMethodId, RecurringInvoiceId, SubscriptionId};
use foundation::merchant_data::Metadata;
use foundation::time::Timestamp;

/// How an invoice is created.
#[derive(Clone, Copy, Debug)]
pub enum CreatedAs {
    Draft,
    /// Issued.
    Open,
    /// Issued, and collected at once with this card, or with the card that is the customer's default at the time of each
    /// attempt.
    Scheduled(Option<PaymentMethodId>),
}

/// Stores drafts built by [`NewInvoice::into_draft`](super::NewInvoice::into_draft) as they are to be created; afterwards
/// they are as stored. Invoices of an account are numbered in this order.
///
/// Lock order: their customers, then the counters of their accounts until the commit.
///
/// # Errors
/// [`Error::NotFound`] if an account has no such customer; database errors, also if a card belongs to another customer or
/// a cycle was already billed. The transaction must then be rolled back.
pub async fn create(tx: &mut Tx, new: &mut [(Invoice, CreatedAs)]) -> Result<()> {
    if new.is_empty() {
        return Ok(());
    }
    let zones = lock_customers(tx, new).await?;
    let issued = new.iter().filter(|(_, created_as)| !matches!(created_as, CreatedAs::Draft));
    let numbered: Vec<_> = issued.map(|(draft, _)| draft.account_id).collect();
    let mut numbers = next_numbers(tx, &numbered).await?.into_iter();
    let mut events = Vec::new();
    for (invoice, created_as) in new.iter_mut() {
        let zone = zones.get(&invoice.customer_id);
        let zone = zone.ok_or_else(|| Error::no_such("customer", invoice.customer_id))?;
        let now = invoice.created_at;
        let card = match *created_as {
            CreatedAs::Draft => continue,
            CreatedAs::Open => None,
            CreatedAs::Scheduled(card) => Some(card),
        };
        if let Some(terms) = invoice.due_by_terms() {
            invoice.due_at = Some(terms.due(now, &accounts::parse_timezone(invoice.account_id, zone)?));
        }
        invoice.issue(numbers.next(), now);
        events.push(event(invoice, EventType::InvoiceIssued)?);
        if let Some(card) = card {
            invoice.schedule(now, card);
            events.push(event(invoice, EventType::InvoiceScheduled)?);
        }
    }
    insert(tx, new).await?;
    events::append_all(tx, &events).await
}

/// The event of a change to an invoice that is not stored yet.
fn event(invoice: &mut Invoice, kind: EventType) -> Result<(AccountId, Event)> {
    invoice.version += 1;
    let livemode = invoice.mode == Mode::Live;
    let event = events::render(livemode, kind, &InvoiceView::new(invoice), invoice.created_at)?;
    Ok((invoice.account_id, event))
}

/// Locks the customers that exist against their deletion, as inserting their invoices does, but before the counters.
/// Returns the names of the time zones of their accounts.
async fn lock_customers(tx: &mut PgConnection, new: &[(Invoice, CreatedAs)]) -> Result<HashMap<CustomerId, String>> {
    let mut customers = column(new, |(draft, _)| (draft.customer_id, draft.account_id));
    customers.sort_unstable();
    customers.dedup();
    let query = sqlx::query!(
        r#"SELECT locked.id AS "id!: CustomerId",
                  (SELECT a.timezone FROM accounts a WHERE a.id = n.account_id) AS "timezone!"
           FROM unnest($1::uuid[], $2::uuid[]) AS n (id, account_id)
           CROSS JOIN LATERAL (SELECT c.id FROM customers c
               WHERE c.account_id = n.account_id AND c.id = n.id AND c.deleted_at IS NULL FOR KEY SHARE) locked"#,
        &column(&customers, |(customer, _)| customer.uuid()),
        &column(&customers, |(_, account)| account.uuid()),
    );
    Ok(query.fetch_all(tx).await?.into_iter().map(|row| (row.id, row.timezone)).collect())
}

/// The only statement that inserts invoices.
async fn insert(tx: &mut PgConnection, new: &[(Invoice, CreatedAs)]) -> Result<()> {
    sqlx::query!(
        "INSERT INTO invoices (id, account_id, customer_id, status, number, currency, amount, amount_tax, amount_discount,
                description, items, payment_terms, due_at, issued_at, collect_at, collect_payment_method_id,
                next_attempt_at, recurring_invoice_id, subscription_id, billing_period, page_token, created_at, metadata,
                external_id, version)
         SELECT id, account_id, customer_id, status, number, currency, amount, amount_tax, amount_discount,
                description, items::jsonb, payment_terms, due_at, issued_at, collect_at, collect_payment_method_id,
                next_attempt_at, recurring_invoice_id, subscription_id, billing_period, page_token, created_at,
                metadata::jsonb, external_id, version
         FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::invoice_status[], $5::bigint[], $6::text[], $7::bigint[],
                $8::bigint[], $9::bigint[], $10::text[], $11::text[], $12::payment_terms[], $13::timestamptz[],
                $14::timestamptz[], $15::timestamptz[], $16::uuid[], $17::timestamptz[], $18::uuid[], $19::uuid[],
                $20::text[], $21::text[], $22::timestamptz[], $23::text[], $24::text[], $25::bigint[])
            AS i (id, account_id, customer_id, status, number, currency, amount, amount_tax, amount_discount,
                description, items, payment_terms, due_at, issued_at, collect_at, collect_payment_method_id,
                next_attempt_at, recurring_invoice_id, subscription_id, billing_period, page_token, created_at, metadata,
                external_id, version)",
        &column(new, |(invoice, _)| invoice.id.uuid()),
        &column(new, |(invoice, _)| invoice.account_id.uuid()),
        &column(new, |(invoice, _)| invoice.customer_id.uuid()),
        &column(new, |(invoice, _)| invoice.status) as &[Status],
        &column(new, |(invoice, _)| invoice.number) as &[Option<Number>],
        &column(new, |(invoice, _)| invoice.currency.code()) as _,
        &column(new, |(invoice, _)| invoice.amount),
        &column(new, |(invoice, _)| invoice.amount_tax) as _,
        &column(new, |(invoice, _)| invoice.amount_discount) as _,
        &column(new, |(invoice, _)| invoice.description.as_deref()) as _,
        &column(new, |(invoice, _)| invoice.items.to_json()),
        &column(new, |(invoice, _)| invoice.payment_terms) as &[Option<PaymentTerms>],
        &column(new, |(invoice, _)| invoice.due_at) as &[Option<Timestamp>],
        &column(new, |(invoice, _)| invoice.issued_at) as &[Option<Timestamp>],
        &column(new, |(invoice, _)| invoice.collect_at) as &[Option<Timestamp>],
        &column(new, |(invoice, _)| invoice.collect_payment_method_id.map(PaymentMethodId::uuid)) as _,
        &column(new, |(invoice, _)| invoice.next_attempt_at) as &[Option<Timestamp>],
        &column(new, |(invoice, _)| invoice.recurring_invoice_id.map(RecurringInvoiceId::uuid)) as _,
        &column(new, |(invoice, _)| invoice.subscription_id.map(SubscriptionId::uuid)) as _,
        &column(new, |(invoice, _)| invoice.billing_period.as_deref()) as _,
        &column(new, |(invoice, _)| invoice.page_token.as_str()) as _,
        &column(new, |(invoice, _)| invoice.created_at) as &[Timestamp],
        &column(new, |(invoice, _)| invoice.metadata.as_ref().map(Metadata::to_json)) as _,
        &column(new, |(invoice, _)| invoice.external_id.as_deref()) as _,
        &column(new, |(invoice, _)| invoice.version),
    )
    .execute(tx)
    .await?;
    Ok(())
}
