//! The route table.

pub(crate) mod addresses;
pub(crate) mod capabilities;
pub(crate) mod checkout;
pub(crate) mod collections;
pub(crate) mod customers;
pub(crate) mod disputes;
pub(crate) mod events;
mod hints;
pub(crate) mod invoices;
pub(crate) mod lists;
pub(crate) mod merchant_data;
pub(crate) mod payment_links;
pub(crate) mod payment_methods;
pub(crate) mod payments;
pub(crate) mod plans;
pub(crate) mod recurring_invoices;
pub(crate) mod settlements;
pub(crate) mod subscriptions;
pub(crate) mod test_clock;
#[cfg(test)]
mod tests;
pub(crate) mod webhook_deliveries;
pub(crate) mod webhook_endpoints;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use axum::middleware::from_fn_with_state;
use axum::response::Redirect;
use providers::capabilities::Permission as Op;
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::elements;
use crate::endpoint::{Endpoint, delete, get, list, post};
use crate::error::ApiError;
use crate::guard::Access::{AnySecret, Browser, Secret, TestSecret};
use crate::hooks;
use crate::logos;
use crate::openapi::{self, operations as docs};
use crate::pages;
use crate::request_layer;
use crate::retry;

/// Every operation of /v1, with its required access and its documentation.
#[rustfmt::skip]
pub(crate) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/v1/capabilities", AnySecret, capabilities::list, docs::capabilities),
        post("/v1/customers", Secret(Op::CustomersCreate), customers::create, docs::customers_create),
        list::<lists::Customers>("/v1/customers", Secret(Op::CustomersList)),
        get("/v1/customers/{id}", Secret(Op::CustomersRetrieve), customers::retrieve, docs::customers_retrieve),
        post("/v1/customers/{id}", Secret(Op::CustomersUpdate), customers::update, docs::customers_update),
        delete("/v1/customers/{id}", Secret(Op::CustomersDelete), customers::delete, docs::customers_delete),
        post("/v1/payment_methods", Secret(Op::PaymentMethodsCreate), payment_methods::create, docs::payment_methods_create),
        list::<lists::PaymentMethods>("/v1/payment_methods", Secret(Op::PaymentMethodsList)),
        get("/v1/payment_methods/{id}", Secret(Op::PaymentMethodsRetrieve), payment_methods::retrieve, docs::payment_methods_retrieve),
        delete("/v1/payment_methods/{id}", Secret(Op::PaymentMethodsDelete), payment_methods::delete, docs::payment_methods_delete),
        post("/v1/payment_methods/{id}", Secret(Op::PaymentMethodsUpdate), payment_methods::update, docs::payment_methods_update),
        post("/v1/payment_methods/{id}/default", Secret(Op::PaymentMethodsDefault), payment_methods::set_default, docs::payment_methods_default),
        post("/v1/payments", Secret(Op::PaymentsCreate), payments::create, docs::payments_create),
        list::<lists::Payments>("/v1/payments", Secret(Op::PaymentsList)),
        get("/v1/payments/{id}", Secret(Op::PaymentsRetrieve), payments::retrieve, docs::payments_retrieve),
        post("/v1/payments/{id}", Secret(Op::PaymentsUpdate), payments::update, docs::payments_update),
        post("/v1/payments/{id}/capture", Secret(Op::PaymentsCapture), payments::capture, docs::payments_capture),
        post("/v1/payments/{id}/void", Secret(Op::PaymentsVoid), payments::void, docs::payments_void),
        post("/v1/payments/{id}/refund", Secret(Op::PaymentsRefund), payments::refund, docs::payments_refund),
        list::<lists::Refunds>("/v1/refunds", Secret(Op::RefundsList)),
        get("/v1/refunds/{id}", Secret(Op::RefundsRetrieve), payments::retrieve_refund, docs::refunds_retrieve),
        list::<lists::Disputes>("/v1/disputes", Secret(Op::DisputesList)),
        get("/v1/disputes/{id}", Secret(Op::DisputesRetrieve), disputes::retrieve, docs::disputes_retrieve),
        get("/v1/settlements", Secret(Op::SettlementsRetrieve), settlements::retrieve, docs::settlements_retrieve),
        post("/v1/addresses", Secret(Op::AddressesCreate), addresses::create, docs::addresses_create),
        list::<lists::Addresses>("/v1/addresses", Secret(Op::AddressesList)),
        get("/v1/addresses/{id}", Secret(Op::AddressesRetrieve), addresses::retrieve, docs::addresses_retrieve),
        post("/v1/addresses/{id}", Secret(Op::AddressesUpdate), addresses::update, docs::addresses_update),
        post("/v1/addresses/{id}/default", Secret(Op::AddressesDefault), addresses::set_default, docs::addresses_default),
        post("/v1/plans", Secret(Op::PlansCreate), plans::create, docs::plans_create),
        list::<lists::Plans>("/v1/plans", Secret(Op::PlansList)),
        get("/v1/plans/{id}", Secret(Op::PlansRetrieve), plans::retrieve, docs::plans_retrieve),
        post("/v1/plans/{id}", Secret(Op::PlansUpdate), plans::update, docs::plans_update),
        post("/v1/subscriptions", Secret(Op::SubscriptionsCreate), subscriptions::create, docs::subscriptions_create),
        list::<lists::Subscriptions>("/v1/subscriptions", Secret(Op::SubscriptionsList)),
        get("/v1/subscriptions/{id}", Secret(Op::SubscriptionsRetrieve), subscriptions::retrieve, docs::subscriptions_retrieve),
        post("/v1/subscriptions/{id}", Secret(Op::SubscriptionsUpdate), subscriptions::update, docs::subscriptions_update),
        post("/v1/subscriptions/{id}/cancel", Secret(Op::SubscriptionsCancel), subscriptions::cancel, docs::subscriptions_cancel),
        post("/v1/invoices", Secret(Op::InvoicesCreate), invoices::create, docs::invoices_create),
        list::<lists::Invoices>("/v1/invoices", Secret(Op::InvoicesList)),
        get("/v1/invoices/{id}", Secret(Op::InvoicesRetrieve), invoices::retrieve, docs::invoices_retrieve),
        post("/v1/invoices/{id}", Secret(Op::InvoicesUpdate), invoices::update, docs::invoices_update),
        post("/v1/invoices/{id}/issue", Secret(Op::InvoicesIssue), invoices::issue, docs::invoices_issue),
        post("/v1/invoices/{id}/void", Secret(Op::InvoicesVoid), invoices::void, docs::invoices_void),
        post("/v1/invoices/{id}/schedule", Secret(Op::InvoicesSchedule), invoices::schedule, docs::invoices_schedule),
        post("/v1/invoices/{id}/cancel_schedule", Secret(Op::InvoicesCancelSchedule), invoices::cancel_schedule, docs::invoices_cancel_schedule),
        list::<lists::Attempts>("/v1/invoices/{id}/attempts", Secret(Op::InvoicesAttempts)),
        post("/v1/invoices/scheduler/run", TestSecret(Op::InvoicesSchedulerRun), collections::run, docs::invoices_scheduler_run),
        post("/v1/recurring_invoices", Secret(Op::RecurringInvoicesCreate), recurring_invoices::create, docs::recurring_invoices_create),
        list::<lists::RecurringInvoices>("/v1/recurring_invoices", Secret(Op::RecurringInvoicesList)),
        get("/v1/recurring_invoices/{id}", Secret(Op::RecurringInvoicesRetrieve), recurring_invoices::retrieve, docs::recurring_invoices_retrieve),
        post("/v1/recurring_invoices/{id}", Secret(Op::RecurringInvoicesUpdate), recurring_invoices::update, docs::recurring_invoices_update),
        post("/v1/recurring_invoices/{id}/pause", Secret(Op::RecurringInvoicesPause), recurring_invoices::pause, docs::recurring_invoices_pause),
        post("/v1/recurring_invoices/{id}/resume", Secret(Op::RecurringInvoicesResume), recurring_invoices::resume, docs::recurring_invoices_resume),
        post("/v1/recurring_invoices/{id}/cancel", Secret(Op::RecurringInvoicesCancel), recurring_invoices::cancel, docs::recurring_invoices_cancel),
        post("/v1/payment_links", Secret(Op::PaymentLinksCreate), payment_links::create, docs::payment_links_create),
        list::<lists::PaymentLinks>("/v1/payment_links", Secret(Op::PaymentLinksList)),
        get("/v1/payment_links/{id}", Secret(Op::PaymentLinksRetrieve), payment_links::retrieve, docs::payment_links_retrieve),
        post("/v1/payment_links/{id}", Secret(Op::PaymentLinksUpdate), payment_links::update, docs::payment_links_update),
        post("/v1/payment_links/{id}/cancel", Secret(Op::PaymentLinksCancel), payment_links::cancel, docs::payment_links_cancel),
        post("/v1/webhook_endpoints", Secret(Op::WebhookEndpointsCreate), webhook_endpoints::create, docs::webhook_endpoints_create),
        list::<lists::WebhookEndpoints>("/v1/webhook_endpoints", Secret(Op::WebhookEndpointsList)),
        get("/v1/webhook_endpoints/{id}", Secret(Op::WebhookEndpointsRetrieve), webhook_endpoints::retrieve, docs::webhook_endpoints_retrieve),
        post("/v1/webhook_endpoints/{id}", Secret(Op::WebhookEndpointsUpdate), webhook_endpoints::update, docs::webhook_endpoints_update),
        delete("/v1/webhook_endpoints/{id}", Secret(Op::WebhookEndpointsDelete), webhook_endpoints::delete, docs::webhook_endpoints_delete),
        post("/v1/webhook_endpoints/{id}/rotate_secret", Secret(Op::WebhookEndpointsRotateSecret), webhook_endpoints::rotate_secret, docs::webhook_endpoints_rotate_secret),
        post("/v1/webhook_endpoints/{id}/test", Secret(Op::WebhookEndpointsTest), webhook_endpoints::test, docs::webhook_endpoints_test),
        list::<lists::WebhookDeliveries>("/v1/webhook_deliveries", Secret(Op::WebhookDeliveriesList)),
        get("/v1/webhook_deliveries/{id}", Secret(Op::WebhookDeliveriesRetrieve), webhook_deliveries::retrieve, docs::webhook_deliveries_retrieve),
        post("/v1/webhook_deliveries/{id}/replay", Secret(Op::WebhookDeliveriesReplay), webhook_deliveries::replay, docs::webhook_deliveries_replay),
        list::<lists::Events>("/v1/events", Secret(Op::EventsList)),
        get("/v1/events/{id}", Secret(Op::EventsRetrieve), events::retrieve, docs::events_retrieve),
        get("/v1/test_clock", TestSecret(Op::TestClockRetrieve), test_clock::retrieve, docs::test_clock_retrieve),
        post("/v1/test_clock/advance", TestSecret(Op::TestClockAdvance), test_clock::advance, docs::test_clock_advance),
        post("/v1/checkout_sessions", Browser(Op::CheckoutSessionsCreate), checkout::start_session, docs::checkout_sessions_create),
        post("/v1/tokens", Browser(Op::TokensCreate), checkout::exchange, docs::tokens_create),
    ]
}

/// Registers the counters that alerts watch at 0; otherwise the first failure would create the series and not show as
/// an increase.
pub(crate) fn register_failures_metrics() {
    for endpoint in endpoints() {
        for status in ["401", "429", "500"] {
            request_layer::requests(&endpoint.method.to_uppercase(), endpoint.path, status).increment(0);
        }
    }
    for outcome in ["retried", "failed"] {
        retry::aborted_requests(outcome).increment(0);
    }
}

/// The router of the API, its documentation, the payment pages and the card field.
pub(crate) fn router(app: App) -> Router {
    let documents = openapi::router(endpoints, &app.public_url);
    endpoints()
        .into_iter()
        .fold(documents, |router, endpoint| endpoint.register(router, &app))
        .merge(pages::router(&app))
        .merge(elements::router(&app))
        .merge(hooks::router())
        .merge(logos::router())
        .route("/", axum::routing::get(async || Redirect::temporary("/docs")))
        .fallback(async |uri: Uri| hints::no_route(uri.path()))
        .method_not_allowed_fallback(async || ApiError::method_not_allowed())
        // The limit is enforced where bodies are read; axum's own would return a different error body.
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(request_layer::panicked))
        .layer(from_fn_with_state(app.clone(), request_layer::check))
        .layer(from_fn_with_state(app.clone(), request_layer::wrap))
        .with_state(app)
}
