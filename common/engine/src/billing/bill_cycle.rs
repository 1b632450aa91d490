//! Bills a cycle of a subscription: issues its invoice and schedules it for immediate collection.

use domain::invoices::{self, Bill, Due, Item, NewInvoice, Producer};
use domain::plans::Plan;
use domain::subscriptions::Subscription;
use foundation::calendar::{PaymentTerms, Period};
use foundation::db::Tx;
use foundation::error::Result;
use foundation::id::InvoiceId;
use foundation::own_data::OwnData;
use foundation::time::Timestamp;

/// Writes the invoice of a cycle and returns its id. The subscription is locked, or was inserted by this transaction.
///
/// # Errors
/// Database errors, including a constraint violation if the cycle was already billed.
pub async fn bill_cycle(
    tx: &mut Tx,
    subscription: &Subscription,
    plan: &Plan,
    period: Period,
    now: Timestamp,
) -> Result<InvoiceId> {
    let description = subscription.description.as_ref().unwrap_or(&plan.name);
    let item = Item { description: description.clone(), quantity: 1, unit_amount: plan.amount };
    let new = NewInvoice {
        customer_id: subscription.customer_id,
        currency: plan.currency,
        description: Some(description.clone()),
        bill: Bill::new(None, Some(vec![item]), None, None)?,
        due: Due::Terms(PaymentTerms::DueOnReceipt),
        cycle: Some((Producer::Subscription(subscription.id), period)),
        own: OwnData { metadata: subscription.metadata.clone(), external_id: None },
    };
    let mut invoice = invoices::draft(tx, subscription.account_id, subscription.mode, new, now).await?;
    invoices::issue(tx, &mut invoice, now).await?;
    invoices::schedule(tx, &mut invoice, now, subscription.payment_method_id, now).await?;
    Ok(invoice.id)
}
