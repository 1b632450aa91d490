//! The lists of /v1.

use domain::addresses::{self, Address, AddressView};
use domain::customers::{self, Customer, CustomerView};
use domain::disputes::{self, Dispute, DisputeView};
use domain::events::{self, EventView};
use domain::invoices::{self, AttemptView, Invoice, InvoiceView, attempts};
use domain::payment_links::{self, PaymentLink, PaymentLinkView};
use domain::payment_methods::{self, PaymentMethod, PaymentMethodView};
use domain::payments::{self, PaymentView, RefundView, refunds};
use domain::plans::{self, Plan, PlanView};
use domain::recurring_invoices::{self, RecurringInvoice, RecurringInvoiceView};
use domain::subscriptions::{self, Subscription, SubscriptionView};
use domain::webhooks::deliveries::{self, Delivery};
use domain::webhooks::endpoints::{self, Endpoint};
use domain::webhooks::{DeliveryView, EndpointView};
use foundation::error::Result;
use foundation::filter::{ExternalIdFilter, NoFilter, Reference};
use foundation::id::{
    AccountId, AddressId, CollectionAttemptId, CustomerId, DisputeId, EventId, InvoiceId, PaymentId, PaymentLinkId,
    PaymentMethodId, PlanId, RecurringInvoiceId, RefundId, SubscriptionId, WebhookDeliveryId, WebhookEndpointId,
};
use foundation::page::{Page, PageRequest};

use crate::app::App;
use crate::listing::{Listed, Source};
use crate::openapi::operation_doc::OperationDoc;

/// Describes a list: its summary, filters, cursor and row, and how to read a page and render a row.
macro_rules! lists {
    ($(
        $name:ident($summary:literal): $filter:ty, $id:ty, $row:ty => $view:ident $(<$lifetime:lifetime>)?,
        read($source:ident, $page:ident) $read:expr,
        id($id_row:ident) $get_id:expr,
        view($view_row:ident, $livemode:ident) $render:expr,
        $({ $($rest:item)* })?
    )*) => {$(
        pub(crate) struct $name;

        impl Listed for $name {
            type Filter = $filter;
            type Id = $id;
            type Row = $row;
            type View<'a> = $view $(<$lifetime>)?;

            const SUMMARY: &'static str = $summary;

            async fn read($source: &Source<'_, $filter>, $page: PageRequest<$id>) -> Result<Page<$row>> {
                $read.await
            }

            fn id($id_row: &$row) -> $id {
                $get_id
            }

            #[allow(unused_variables)]
            fn view($view_row: &$row, $livemode: bool) -> Self::View<'_> {
                $render
            }

            $($($rest)*)?
        }
    )*

        #[cfg(test)]
        mod tests {
            use super::*;
            use crate::listing::csv::amounts_without_currency;

            #[test]
            fn every_amount_of_every_list_has_a_currency() {
                $(assert_eq!(amounts_without_currency::<$view>(), [] as [Vec<String>; 0], stringify!($name));)*
            }
        }
    };
}

foundation::filters! {
    /// The cards that are listed.
    pub(crate) struct CardFilter {
        /// The customer.
        customer_id("customerId"): Option<Reference<CustomerId>>,
        /// Your own id, matched exactly.
        external_id("externalId"): Option<ExternalIdFilter>,
    }
}

foundation::filters! {
    /// The addresses that are listed.
    pub(crate) struct AddressFilter {
        /// The customer.
        customer_id("customerId"): Option<Reference<CustomerId>>,
    }
}

async fn customer_of(app: &App, account: AccountId, id: Option<&Reference<CustomerId>>) -> Result<Customer> {
    let id = CustomerId::from_request(id.map_or("", |id| id.text()))?;
    customers::retrieve(&app.db, account, id).await
}

lists! {
    Customers("List customers"): customers::Filter, CustomerId, Customer => CustomerView<'a>,
    read(source, page) customers::list(&source.app.db, source.caller.account_id, source.filter, page),
    id(row) row.id,
    view(row, livemode) CustomerView::new(row, livemode),

    PaymentMethods("List a customer's cards"): CardFilter, PaymentMethodId, PaymentMethod => PaymentMethodView<'a>,
    read(source, page) cards(source, page),
    id(row) row.id,
    view(row, livemode) PaymentMethodView::new(row),
    {
        const DESCRIPTION: &'static str = "Active cards: the default card first, then newest first.";
        const ERRORS: &'static [u16] = &[404, 422];
        const REQUIRED: &'static [&'static str] = &["customerId"];
    }

    Payments("List payments"): payments::Filter, PaymentId, payments::Listed => PaymentView<'a>,
    read(source, page) payments::list(&source.app.db, source.caller.account_id, source.filter, page),
    id(row) row.payment.id,
    view(row, livemode) PaymentView::new(&row.payment, &row.refunds),

    Refunds("List refunds"): refunds::Filter, RefundId, refunds::Listed => RefundView,
    read(source, page) refunds::list(&source.app.db, source.caller.account_id, source.filter, page),
    id(row) row.refund.id,
    view(row, livemode) RefundView::new(&row.refund, row.currency, livemode),

    Disputes("List disputes"): disputes::Filter, DisputeId, Dispute => DisputeView,
    read(source, page) disputes::list(&source.app.db, source.caller.account_id, source.filter, page),
    id(row) row.id,
    view(row, livemode) DisputeView::new(row, livemode),

    Addresses("List a customer's addresses"): AddressFilter, AddressId, Address => AddressView<'a>,
    read(source, page) addresses_of(source, page),
    id(row) row.id,
    view(row, livemode) AddressView::new(row, livemode),
    {
        const ERRORS: &'static [u16] = &[404, 422];
        const REQUIRED: &'static [&'static str] = &["customerId"];
    }

    Events("List events"): events::Filter, EventId, EventView => EventView,
    read(source, page) super::events::list(source, page),
    id(row) row.id,
    view(row, livemode) row.clone(),
    { const DESCRIPTION: &'static str = "Newest first, or with `after` oldest first."; }

    Plans("List plans"): plans::Filter, PlanId, Plan => PlanView<'a>,
    read(source, page) plans::list(&source.app.db, source.caller.account_id, source.filter, page),
    id(row) row.id,
    view(row, livemode) PlanView::new(row, livemode),

    Subscriptions("List subscriptions"): subscriptions::Filter, SubscriptionId, Subscription => SubscriptionView<'a>,
    read(source, page) subscriptions::list(&source.app.db, source.caller.account_id, source.filter, page),
    id(row) row.id,
    view(row, livemode) SubscriptionView::new(row),
    { const DESCRIPTION: &'static str = "Newest first, including cancelled subscriptions."; }

    Invoices("List invoices"): invoices::Filter, InvoiceId, Invoice => InvoiceView<'a>,
    read(source, page) invoices::list(&source.app.db, source.caller.account_id, source.filter, page),
    id(row) row.id,
    view(row, livemode) InvoiceView::new(row),
    { const DESCRIPTION: &'static str = "Newest first, including drafts and voided invoices."; }

    Attempts("List the attempts to collect an invoice"): NoFilter, CollectionAttemptId, attempts::Attempt => AttemptView<'a>,
    read(source, page) attempts_of(source, page),
    id(row) row.id,
    view(row, livemode) AttemptView::new(row),
    {
        const DESCRIPTION: &'static str = "Oldest first.";
        const ERRORS: &'static [u16] = &[404, 422];

        fn doc() -> OperationDoc {
            OperationDoc::new(Self::SUMMARY, Self::DESCRIPTION).errors(Self::ERRORS).path_id::<InvoiceId>()
        }
    }

    RecurringInvoices("List recurring invoices"):
        recurring_invoices::Filter, RecurringInvoiceId, RecurringInvoice => RecurringInvoiceView<'a>,
    read(source, page) recurring_invoices::list(&source.app.db, source.caller.account_id, source.filter, page),
    id(row) row.id,
    view(row, livemode) RecurringInvoiceView::new(row),

    PaymentLinks("List payment links"): payment_links::Filter, PaymentLinkId, PaymentLink => PaymentLinkView<'a>,
    read(source, page) links(source, page),
    id(row) row.id,
    view(row, livemode) PaymentLinkView::new(row),

    WebhookEndpoints("List webhook endpoints"): NoFilter, WebhookEndpointId, Endpoint => EndpointView<'a>,
    read(source, page) endpoints::list(&source.app.db, source.caller.account_id, page),
    id(row) row.id,
    view(row, livemode) EndpointView::new(row, livemode),

    WebhookDeliveries("List webhook deliveries"): deliveries::Filter, WebhookDeliveryId, Delivery => DeliveryView<'a>,
    read(source, page) deliveries::list(&source.app.db, source.caller.account_id, source.filter, page),
    id(row) row.id,
    view(row, livemode) DeliveryView::new(row, livemode),
    {
        const DESCRIPTION: &'static str = "Newest first: one for each attempt, past or scheduled.";
        const ERRORS: &'static [u16] = &[404, 422];
    }
}

async fn cards(source: &Source<'_, CardFilter>, page: PageRequest<PaymentMethodId>) -> Result<Page<PaymentMethod>> {
    let Source { app, caller, filter, .. } = source;
    let customer = customer_of(app, caller.account_id, filter.customer_id.as_ref()).await?;
    let default = customer.default_payment_method_id;
    let external_id = filter.external_id.as_deref();
    payment_methods::list(&app.db, caller.account_id, customer.id, default, external_id, page).await
}

async fn addresses_of(source: &Source<'_, AddressFilter>, page: PageRequest<AddressId>) -> Result<Page<Address>> {
    let Source { app, caller, filter, .. } = source;
    let customer = customer_of(app, caller.account_id, filter.customer_id.as_ref()).await?;
    addresses::list(&app.db, caller.account_id, customer.id, page).await
}

async fn attempts_of(
    source: &Source<'_, NoFilter>,
    page: PageRequest<CollectionAttemptId>,
) -> Result<Page<attempts::Attempt>> {
    attempts::list(&source.app.db, source.caller.account_id, InvoiceId::from_request(source.parent)?, page).await
}

async fn links(
    source: &Source<'_, payment_links::Filter>,
    page: PageRequest<PaymentLinkId>,
) -> Result<Page<PaymentLink>> {
    let now = source.app.now(source.caller).await?;
    payment_links::list(&source.app.db, source.caller.account_id, source.filter, page, now).await
}
