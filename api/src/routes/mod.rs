//! The whole route table.

mod capabilities;
mod checkout;
mod customers;
mod payment_methods;
mod payments;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use common::capabilities::Operation as Op;
use tower_http::catch_panic::CatchPanicLayer;

use crate::answer::Refusal;
use crate::app::App;
use crate::envelope;
use crate::guard::{any_secret, browser, secret};

/// Every path of the API, with what a key needs to be let in.
pub(crate) fn router(app: App) -> Router {
    let key = |operation, handler| secret(&app, operation, handler);
    Router::new()
        .route("/v1/capabilities", any_secret(&app, get(capabilities::list)))
        .route(
            "/v1/customers",
            key(Op::CustomersCreate, post(customers::create)).merge(key(Op::CustomersList, get(customers::list))),
        )
        .route(
            "/v1/customers/{id}",
            key(Op::CustomersRetrieve, get(customers::retrieve))
                .merge(key(Op::CustomersUpdate, post(customers::update))),
        )
        .route(
            "/v1/payment_methods",
            key(Op::PaymentMethodsCreate, post(payment_methods::create))
                .merge(key(Op::PaymentMethodsList, get(payment_methods::list))),
        )
        .route("/v1/payment_methods/{id}/default", key(Op::PaymentMethodsDefault, post(payment_methods::set_default)))
        .route(
            "/v1/payments",
            key(Op::PaymentsCreate, post(payments::create)).merge(key(Op::PaymentsList, get(payments::list))),
        )
        .route("/v1/payments/{id}", key(Op::PaymentsRetrieve, get(payments::retrieve)))
        .route("/v1/payments/{id}/capture", key(Op::PaymentsCapture, post(payments::capture)))
        .route("/v1/payments/{id}/void", key(Op::PaymentsVoid, post(payments::void)))
        .route("/v1/payments/{id}/refund", key(Op::PaymentsRefund, post(payments::refund)))
        .merge(browser(&app, "/v1/checkout_sessions", Op::CheckoutSessionsCreate, post(checkout::start_session)))
        .merge(browser(&app, "/v1/tokens", Op::TokensCreate, post(checkout::exchange)))
        .fallback(async || Refusal::no_route())
        .method_not_allowed_fallback(async || Refusal::wrong_method())
        // The limit is enforced where bodies are read; axum's own would answer in another shape.
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(envelope::panicked))
        .layer(from_fn_with_state(app.clone(), envelope::wrap))
        .with_state(app)
}
