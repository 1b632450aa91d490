//! The list of payments.

use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

use super::{ChargeReturn, Payment, Refund, Status, find, refunds, select_payments};
use foundation::db;
use foundation::error::Result;
use foundation::filter::{Amount, ExternalIdFilter, Filters as _, Last4};
use foundation::id::{AccountId, CustomerId, InvoiceId, PaymentId, PaymentLinkId, SubscriptionId};
use foundation::money::Currency;
use foundation::page::{Page, PageRequest, each, newest_first};
use foundation::time::Timestamp;

foundation::filter_by_name!(Status);

foundation::filters! {
    /// Filters of the list of payments.
    pub struct Filter {
        /// Your own id, matched exactly.
        external_id("externalId"): Option<ExternalIdFilter>,
        /// Only payments in one of these statuses.
        status("status"): Vec<Status>,
        /// Only payments of this customer.
        customer_id("customerId"): Option<CustomerId>,
        /// Only payments in this currency, case-insensitive.
        currency("currency"): Option<Currency>,
        /// Only payments of this invoice.
        invoice_id("invoiceId"): Option<InvoiceId>,
        /// Only payments of this subscription's invoices.
        subscription_id("subscriptionId"): Option<SubscriptionId>,
        /// Only payments of this payment link.
        payment_link_id("paymentLinkId"): Option<PaymentLinkId>,
        /// Only payments by cards with these last four digits.
        last4("last4"): Option<Last4>,
        /// Only payments whose `amount` is at least this.
        amount_from("amountFrom"): Option<Amount>,
        /// Only payments whose `amount` is at most this.
        amount_to("amountTo"): Option<Amount>,
        /// Only payments created at this time or later.
        created_from("createdFrom"): Option<Timestamp>,
        /// Only payments created before this time.
        created_to("createdTo"): Option<Timestamp>,
    }
    ranges { amount_from..amount_to, created_from..created_to, }
}

/// A payment with its refunds.
#[derive(Debug)]
pub struct Listed {
    pub payment: Payment,
    pub refunds: Vec<Refund>,
}

/// Returns a page of payments, newest first, with their refunds, from one snapshot.
///
/// # Errors
/// 422 if the cursor is not a payment of the account.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    filter: &Filter,
    page: PageRequest<PaymentId>,
) -> Result<Page<Listed>> {
    page.check_cursor(|cursor| find(db, account, cursor)).await?;
    let with_refunds = |page: Page<Payment>, refunds: &[Refund]| {
        page.map(|payment| {
            let own = refunds.iter().filter(|refund| refund.payment_id == payment.id);
            Listed { refunds: own.cloned().collect(), payment }
        })
    };
    if filter.is_empty() {
        let rows = newest(db, account, page).await?;
        if !rows.iter().any(|payment| payment.has_refunds) {
            return Ok(with_refunds(page.page(rows), &[]));
        }
    }
    let mut snapshot = if filter.is_empty() { db::snapshot(db).await? } else { db::filtered_snapshot(db).await? };
    let rows = if filter.is_empty() {
        newest(&mut *snapshot, account, page).await?
    } else {
        let mut rows = Vec::new();
        for status in each(&filter.status) {
            rows.extend(filtered(&mut *snapshot, account, filter, status, page).await?);
        }
        newest_first(rows, |payment| payment.id.uuid())
    };
    let page = page.page(rows);
    let refunds = refunds::of_payments(&mut snapshot, account, &page.data).await?;
    snapshot.rollback().await?;
    Ok(with_refunds(page, &refunds))
}

async fn newest(db: impl PgExecutor<'_>, account: AccountId, page: PageRequest<PaymentId>) -> Result<Vec<Payment>> {
    let query = select_payments!(
        "WHERE (p.account_id, p.id) < ($1, $2) AND p.account_id >= $1 ORDER BY p.account_id DESC, p.id DESC LIMIT $3",
        account.uuid(),
        page.starting_after.map_or(Uuid::max(), PaymentId::uuid),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}

async fn filtered(
    db: impl PgExecutor<'_>,
    account: AccountId,
    filter: &Filter,
    status: Option<Status>,
    page: PageRequest<PaymentId>,
) -> Result<Vec<Payment>> {
    let (from, below) = page.ids(filter.created_from, filter.created_to);
    let query = select_payments!(
        "WHERE p.account_id = $1 AND p.id >= $2 AND p.id < $3
           AND ($4::payment_status IS NULL OR p.status = $4)
           AND ($5::uuid IS NULL OR p.customer_id = $5)
           AND ($6::text IS NULL OR p.currency = $6)
           AND ($7::uuid IS NULL OR p.invoice_id = $7)
           AND ($8::uuid IS NULL OR p.invoice_id = ANY (ARRAY(
               SELECT i.id FROM invoices i WHERE i.account_id = $1 AND i.subscription_id = $8)))
           AND ($9::uuid IS NULL OR p.payment_link_id = $9)
           AND ($10::text IS NULL OR p.card_last4 = $10)
           AND ($11::bigint IS NULL OR p.amount >= $11)
           AND ($12::bigint IS NULL OR p.amount <= $12)
           AND ($13::text IS NULL OR p.external_id = $13)
         ORDER BY p.account_id DESC, p.id DESC LIMIT $14",
        account.uuid(),
        from,
        below,
        status as Option<Status>,
        filter.customer_id.map(CustomerId::uuid),
        filter.currency.map(Currency::code),
        filter.invoice_id.map(InvoiceId::uuid),
        filter.subscription_id.map(SubscriptionId::uuid),
        filter.payment_link_id.map(PaymentLinkId::uuid),
        filter.last4.as_ref().map(|last4| last4.0.as_str()),
        filter.amount_from.map(|amount| amount.0),
        filter.amount_to.map(|amount| amount.0),
        filter.external_id.as_deref(),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}
