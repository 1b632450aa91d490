//! The whole route table.

pub(crate) mod addresses;
pub(crate) mod capabilities;
pub(crate) mod checkout;
pub(crate) mod collections;
pub(crate) mod customers;
pub(crate) mod invoices;
pub(crate) mod payment_links;
pub(crate) mod payment_methods;
pub(crate) mod payments;
pub(crate) mod plans;
pub(crate) mod recurring_invoices;
pub(crate) mod subscriptions;
pub(crate) mod test_clock;
#[cfg(test)]
mod tests;
pub(crate) mod webhook_deliveries;
pub(crate) mod webhook_endpoints;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use common::capabilities::Operation as Op;
use tower_http::catch_panic::CatchPanicLayer;

use crate::again;
use crate::answer::Refusal;
use crate::app::App;
use crate::elements;
use crate::endpoint::Door::{AnySecret, Browser, Secret, TestSecret};
use crate::endpoint::{Endpoint, delete, get, post};
use crate::envelope;
use crate::openapi::{self, operations as sheets};
use crate::pages;

/// Every operation of /v1, with what a key needs to be let in and what the document says.
#[rustfmt::skip]
pub(crate) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/v1/capabilities", AnySecret, capabilities::list, sheets::capabilities()),
        post("/v1/customers", Secret(Op::CustomersCreate), customers::create, sheets::customers_create()),
        get("/v1/customers", Secret(Op::CustomersList), customers::list, sheets::customers_list()),
        get("/v1/customers/{id}", Secret(Op::CustomersRetrieve), customers::retrieve, sheets::customers_retrieve()),
        post("/v1/customers/{id}", Secret(Op::CustomersUpdate), customers::update, sheets::customers_update()),
        post("/v1/payment_methods", Secret(Op::PaymentMethodsCreate), payment_methods::create, sheets::payment_methods_create()),
        get("/v1/payment_methods", Secret(Op::PaymentMethodsList), payment_methods::list, sheets::payment_methods_list()),
        post("/v1/payment_methods/{id}/default", Secret(Op::PaymentMethodsDefault), payment_methods::set_default, sheets::payment_methods_default()),
        post("/v1/payments", Secret(Op::PaymentsCreate), payments::create, sheets::payments_create()),
        get("/v1/payments", Secret(Op::PaymentsList), payments::list, sheets::payments_list()),
        get("/v1/payments/{id}", Secret(Op::PaymentsRetrieve), payments::retrieve, sheets::payments_retrieve()),
        post("/v1/payments/{id}/capture", Secret(Op::PaymentsCapture), payments::capture, sheets::payments_capture()),
        post("/v1/payments/{id}/void", Secret(Op::PaymentsVoid), payments::void, sheets::payments_void()),
        post("/v1/payments/{id}/refund", Secret(Op::PaymentsRefund), payments::refund, sheets::payments_refund()),
        post("/v1/addresses", Secret(Op::AddressesCreate), addresses::create, sheets::addresses_create()),
        get("/v1/addresses", Secret(Op::AddressesList), addresses::list, sheets::addresses_list()),
        get("/v1/addresses/{id}", Secret(Op::AddressesRetrieve), addresses::retrieve, sheets::addresses_retrieve()),
        post("/v1/addresses/{id}", Secret(Op::AddressesUpdate), addresses::update, sheets::addresses_update()),
        post("/v1/addresses/{id}/default", Secret(Op::AddressesDefault), addresses::set_default, sheets::addresses_default()),
        post("/v1/plans", Secret(Op::PlansCreate), plans::create, sheets::plans_create()),
        get("/v1/plans", Secret(Op::PlansList), plans::list, sheets::plans_list()),
        get("/v1/plans/{id}", Secret(Op::PlansRetrieve), plans::retrieve, sheets::plans_retrieve()),
        post("/v1/subscriptions", Secret(Op::SubscriptionsCreate), subscriptions::create, sheets::subscriptions_create()),
        get("/v1/subscriptions", Secret(Op::SubscriptionsList), subscriptions::list, sheets::subscriptions_list()),
        get("/v1/subscriptions/{id}", Secret(Op::SubscriptionsRetrieve), subscriptions::retrieve, sheets::subscriptions_retrieve()),
        post("/v1/subscriptions/{id}/cancel", Secret(Op::SubscriptionsCancel), subscriptions::cancel, sheets::subscriptions_cancel()),
        post("/v1/invoices", Secret(Op::InvoicesCreate), invoices::create, sheets::invoices_create()),
        get("/v1/invoices", Secret(Op::InvoicesList), invoices::list, sheets::invoices_list()),
        get("/v1/invoices/{id}", Secret(Op::InvoicesRetrieve), invoices::retrieve, sheets::invoices_retrieve()),
        post("/v1/invoices/{id}/issue", Secret(Op::InvoicesIssue), invoices::issue, sheets::invoices_issue()),
        post("/v1/invoices/{id}/void", Secret(Op::InvoicesVoid), invoices::void, sheets::invoices_void()),
        post("/v1/invoices/{id}/schedule", Secret(Op::InvoicesSchedule), invoices::schedule, sheets::invoices_schedule()),
        post("/v1/invoices/{id}/cancel_schedule", Secret(Op::InvoicesCancelSchedule), invoices::cancel_schedule, sheets::invoices_cancel_schedule()),
        get("/v1/invoices/{id}/attempts", Secret(Op::InvoicesAttempts), invoices::attempts, sheets::invoices_attempts()),
        post("/v1/invoices/scheduler/run", TestSecret(Op::InvoicesSchedulerRun), collections::run, sheets::invoices_scheduler_run()),
        post("/v1/recurring_invoices", Secret(Op::RecurringInvoicesCreate), recurring_invoices::create, sheets::recurring_invoices_create()),
        get("/v1/recurring_invoices", Secret(Op::RecurringInvoicesList), recurring_invoices::list, sheets::recurring_invoices_list()),
        get("/v1/recurring_invoices/{id}", Secret(Op::RecurringInvoicesRetrieve), recurring_invoices::retrieve, sheets::recurring_invoices_retrieve()),
        post("/v1/recurring_invoices/{id}", Secret(Op::RecurringInvoicesUpdate), recurring_invoices::update, sheets::recurring_invoices_update()),
        post("/v1/recurring_invoices/{id}/pause", Secret(Op::RecurringInvoicesPause), recurring_invoices::pause, sheets::recurring_invoices_pause()),
        post("/v1/recurring_invoices/{id}/resume", Secret(Op::RecurringInvoicesResume), recurring_invoices::resume, sheets::recurring_invoices_resume()),
        post("/v1/recurring_invoices/{id}/cancel", Secret(Op::RecurringInvoicesCancel), recurring_invoices::cancel, sheets::recurring_invoices_cancel()),
        post("/v1/payment_links", Secret(Op::PaymentLinksCreate), payment_links::create, sheets::payment_links_create()),
        get("/v1/payment_links", Secret(Op::PaymentLinksList), payment_links::list, sheets::payment_links_list()),
        get("/v1/payment_links/{id}", Secret(Op::PaymentLinksRetrieve), payment_links::retrieve, sheets::payment_links_retrieve()),
        post("/v1/payment_links/{id}/cancel", Secret(Op::PaymentLinksCancel), payment_links::cancel, sheets::payment_links_cancel()),
        post("/v1/webhook_endpoints", Secret(Op::WebhookEndpointsCreate), webhook_endpoints::create, sheets::webhook_endpoints_create()),
        get("/v1/webhook_endpoints", Secret(Op::WebhookEndpointsList), webhook_endpoints::list, sheets::webhook_endpoints_list()),
        get("/v1/webhook_endpoints/{id}", Secret(Op::WebhookEndpointsRetrieve), webhook_endpoints::retrieve, sheets::webhook_endpoints_retrieve()),
        post("/v1/webhook_endpoints/{id}", Secret(Op::WebhookEndpointsUpdate), webhook_endpoints::update, sheets::webhook_endpoints_update()),
        delete("/v1/webhook_endpoints/{id}", Secret(Op::WebhookEndpointsDelete), webhook_endpoints::delete, sheets::webhook_endpoints_delete()),
        post("/v1/webhook_endpoints/{id}/rotate_secret", Secret(Op::WebhookEndpointsRotateSecret), webhook_endpoints::rotate_secret, sheets::webhook_endpoints_rotate_secret()),
        get("/v1/webhook_deliveries", Secret(Op::WebhookDeliveriesList), webhook_deliveries::list, sheets::webhook_deliveries_list()),
        get("/v1/webhook_deliveries/{id}", Secret(Op::WebhookDeliveriesRetrieve), webhook_deliveries::retrieve, sheets::webhook_deliveries_retrieve()),
        post("/v1/webhook_deliveries/{id}/replay", Secret(Op::WebhookDeliveriesReplay), webhook_deliveries::replay, sheets::webhook_deliveries_replay()),
        get("/v1/test_clock", TestSecret(Op::TestClockRetrieve), test_clock::retrieve, sheets::test_clock_retrieve()),
        post("/v1/test_clock/advance", TestSecret(Op::TestClockAdvance), test_clock::advance, sheets::test_clock_advance()),
        post("/v1/checkout_sessions", Browser(Op::CheckoutSessionsCreate), checkout::start_session, sheets::checkout_sessions_create()),
        post("/v1/tokens", Browser(Op::TokensCreate), checkout::exchange, sheets::tokens_create()),
    ]
}

/// Counts failures of ours, wrong keys and refusals by limits from nought: one that came with its counter would not be seen as a rise.
pub(crate) fn count_failures_from_nought() {
    for endpoint in endpoints() {
        for status in ["401", "429", "500"] {
            envelope::answered(&endpoint.method.to_uppercase(), endpoint.path, status).increment(0);
        }
    }
    for outcome in ["again", "given_up"] {
        again::counted(outcome).increment(0);
    }
}

/// Every path of the API, and the document of them.
pub(crate) fn router(app: App) -> Router {
    let mut endpoints = endpoints();
    let documents = openapi::router(&mut endpoints, &app.public_url);
    endpoints
        .into_iter()
        .fold(documents, |router, endpoint| endpoint.join(router, &app))
        .merge(pages::router(&app))
        .merge(elements::router(&app))
        .fallback(async || Refusal::no_route())
        .method_not_allowed_fallback(async || Refusal::wrong_method())
        // The limit is enforced where bodies are read; axum's own would answer in another shape.
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(envelope::panicked))
        .layer(from_fn_with_state(app.clone(), envelope::wrap))
        .with_state(app)
}
