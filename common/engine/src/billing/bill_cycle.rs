//! The invoice of a cycle of a subscription, which is issued and collected at once.

use domain::invoices::{Bill, CreatedAs, Due, Invoice, Item, NewInvoice, Producer};
use domain::plans::Plan;
use domain::subscriptions::Subscription;
use foundation::calendar::{PaymentTerms, Period};
use foundation::error::Result;
use foundation::merchant_data::MerchantData;
use foundation::time::Timestamp;

/// Builds the invoice of a cycle, without storing it. A constraint rejects it if the cycle was already billed.
///
/// # Errors
/// 422 if the plan's amount is none that can be billed, which its validation prevents.
pub fn cycle_invoice(
    subscription: &Subscription,
    plan: &Plan,
    period: Period,
    now: Timestamp,
) -> Result<(Invoice, CreatedAs)> {
    let description = subscription.description.as_ref().unwrap_or(&plan.name);
    let item = Item { description: description.clone(), quantity: 1, unit_amount: plan.amount };
    let new = NewInvoice {
        customer_id: subscription.customer_id,
        currency: plan.currency,
        description: Some(description.clone()),
        bill: Bill::new(None, Some(vec![item]), None, None)?,
        due: Due::Terms(PaymentTerms::DueOnReceipt),
        cycle: Some((Producer::Subscription(subscription.id), period)),
        merchant_data: MerchantData { metadata: subscription.metadata.clone(), external_id: None },
    };
    let draft = new.into_draft(subscription.account_id, subscription.mode, now);
    Ok((draft, CreatedAs::Scheduled(subscription.payment_method_id)))
}
