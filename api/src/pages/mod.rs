//! Payment pages for cardholders, of invoices and payment links (docs/billing.md, Payment pages). They are not part of
//! /v1: there is no key, and the secret URL grants access. No cookies, no card numbers, no third-party scripts.

mod challenge;
mod error_page;
mod layout;
mod messages;
mod pay_form;
mod pay_response;
mod posted_form;
mod price;
mod receipt;
mod token;
mod totals;
mod view;

use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::http::header::REFRESH;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use domain::operations::Origin;
use domain::payments::Payment;
use egress::is_public;
use engine::PageAddress;
use engine::PageKind;
use engine::PageState;
use engine::PayOutcome;
use engine::PaySubmission;
use foundation::error::Error;
use foundation::form::whole_number;
use foundation::id::PaymentId;
use foundation::queues;
use queue::Wake;

use self::error_page::ErrorPage;
use self::pay_response::{Reply, Sender};
use self::token::Token;
use self::view::FormState;
use crate::app::App;
use crate::elements::CardTokenizationConfig;
use crate::error::ApiError;
use crate::html::Text;
use crate::request_layer::client_address;
use crate::retry;
use crate::waiting::{self, Waiting};

/// The routes. Responses must not be cached or framed, and load nothing from other servers.
pub(crate) fn router(app: &App) -> Router<App> {
    Router::new()
        .route("/pay/i/{token}", page_of(PageKind::Invoice))
        .route("/pay/l/{token}", page_of(PageKind::Link))
        .merge(challenge::router())
        .layer(from_fn(retry::run))
        .layer(from_fn_with_state(app.clone(), limit_by_address))
}

fn page_of(kind: PageKind) -> axum::routing::MethodRouter<App> {
    let show =
        async move |State(app): State<App>, Token(token): Token, query: RawQuery| show(&app, kind, &token, query).await;
    let pay = async move |State(app): State<App>, Token(token): Token, request: Request| {
        pay(&app, kind, &token, request).await
    };
    get(show).post(pay).fallback(async || ErrorPage::from(ApiError::method_not_allowed()))
}

/// Applies the rate limit of the client address, and adds the page headers to every response.
async fn limit_by_address(State(app): State<App>, request: Request, next: Next) -> Response {
    let sender = Sender::of(&request);
    let decision = app.limits.acquire_page(client_address(&request)).await;
    let response = if decision.allowed {
        next.run(request).await
    } else {
        ErrorPage::from(ApiError::rate_limited(decision)).into_response()
    };
    let mut response = error_page::for_sender(sender, response);
    layout::set_page_headers(response.headers_mut());
    response
}

async fn show(app: &App, kind: PageKind, token: &str, RawQuery(query): RawQuery) -> Result<Response, ErrorPage> {
    let query = query.unwrap_or_default();
    let payment = posted_form::value(query.as_bytes(), posted_form::PAYMENT).and_then(|id| id.parse().ok());
    let form = FormState { message: None, tip_selected: false };
    render(app, PageAddress { kind, token }, payment, StatusCode::OK, form).await
}

/// Renders the page in its current state.
async fn render(
    app: &App,
    address: PageAddress<'_>,
    payment: Option<PaymentId>,
    status: StatusCode,
    form: FormState<'_>,
) -> Result<Response, ErrorPage> {
    let page = engine::open_page(&app.db, address, payment, app.clock.now()).await?;
    let tokenization_config = CardTokenizationConfig::of_payee(app, &page.payee);
    let (title, body) = view::render(&page, tokenization_config.as_ref(), form);
    let title = Text(&title);
    let mut response = match &tokenization_config {
        Some(tokenization_config) if page.state == PageState::Open => {
            layout::card_page(status, title, &body, tokenization_config)
        }
        _ => layout::page(status, title, &body),
    };
    if matches!(page.state, PageState::UnderWay | PageState::Returning) {
        let has_action = page.payment.as_ref().is_some_and(|payment| view::action_of(payment).is_some());
        let seconds = if has_action || page.state == PageState::Returning {
            layout::SLOW_REFRESH_SECONDS
        } else {
            layout::REFRESH_SECONDS
        };
        response.headers_mut().insert(REFRESH, HeaderValue::from_static(seconds));
    }
    Ok(response)
}

/// Pays, waits for the outcome as POST /v1/payments does, and redirects the browser back to the page, so that a reload
/// never pays twice. A payment that needs a challenge is redirected to it. The page's script gets the same in JSON, and
/// stays on the page after a decline.
async fn pay(app: &App, kind: PageKind, token: &str, request: Request) -> Result<Response, ErrorPage> {
    let address = PageAddress { kind, token };
    let sender = Sender::of(&request);
    let payer = client_address(&request).to_canonical();
    let fields = posted_form::read(request).await?;
    let tip_selected = posted_form::value(&fields, "tip").is_some();
    let show_again = async |status, message| match (sender, message) {
        (Sender::Form, _) => render(app, address, None, status, FormState { message, tip_selected }).await,
        (Sender::Script, Some(message)) => Ok(sender.response(status, Reply::ShowMessage(&[message]))),
        (Sender::Script, None) => Ok(sender.response(status, Reply::GoTo(token))),
    };
    let Some(card) = posted_form::value(&fields, "token").filter(|card| !card.is_empty() && !card.contains('\0'))
    else {
        return show_again(StatusCode::UNPROCESSABLE_ENTITY, Some("No card was sent. Please enter it again.")).await;
    };
    // 0 never matches the displayed total, so an invalid number is rejected.
    let total = posted_form::value(&fields, "amount").map(|amount| whole_number(&amount).unwrap_or(0));
    let submission = PaySubmission { token: &card, tips: tip_selected, total };
    // The address of a load balancer does not identify the payer.
    let payer_address = is_public(payer).then(|| payer.to_string());
    let origin = Origin { payer_address, ..app.origin(None) };
    match engine::pay_page(&app.db, address, submission, &origin, &app.encryption, app.clock.now()).await {
        Ok(PayOutcome::Begun(payment, operation)) => {
            let waiter = app.replies.register(payment.id.uuid());
            app.publisher.post(queues::MONEY, Wake { id: operation.uuid(), request_id: origin.request_id });
            let payment = waiting::outcome(app, Waiting::new(waiter), *payment).await;
            payment_response(app, address, sender, &payment).await
        }
        // Already paid or expired: the page shows which.
        Ok(PayOutcome::Refused(_)) => Ok(sender.response(StatusCode::OK, Reply::GoTo(token))),
        Ok(PayOutcome::TotalChanged) => {
            let message = "The amount has changed. Nothing was charged; please check the new amount before you pay.";
            match sender {
                Sender::Form => show_again(StatusCode::CONFLICT, Some(message)).await,
                // Loads the page again, with the new total.
                Sender::Script => Ok(sender.response(StatusCode::CONFLICT, Reply::Submit)),
            }
        }
        Ok(PayOutcome::TotalTooLarge) => show_again(StatusCode::UNPROCESSABLE_ENTITY, None).await,
        Err(Error::Invalid { param, .. }) if param == "currency" => {
            let message = "Cards cannot be charged in this currency here. Nothing was charged.";
            show_again(StatusCode::UNPROCESSABLE_ENTITY, Some(message)).await
        }
        Err(Error::Invalid { .. }) => {
            let message = "The card could not be used. Nothing was charged; please try again.";
            show_again(StatusCode::UNPROCESSABLE_ENTITY, Some(message)).await
        }
        Err(Error::Conflict(_)) => {
            let message = "The card details were already used for a payment. Nothing was charged; please try again.";
            show_again(StatusCode::CONFLICT, Some(message)).await
        }
        Err(Error::NotSupported(_)) => show_again(StatusCode::NOT_IMPLEMENTED, None).await,
        Err(
            error @ (Error::NotFound(_)
            | Error::NotEntitled(_)
            | Error::NotConnected(_)
            | Error::Database(_)
            | Error::Internal(_)),
        ) => Err(error.into()),
    }
}

/// Where the browser goes after a payment. URLs are relative to the page, so that they work under any public host and
/// path prefix.
async fn payment_response(
    app: &App,
    address: PageAddress<'_>,
    sender: Sender,
    payment: &Payment,
) -> Result<Response, ErrorPage> {
    let back = format!("{}?{}={}", address.token, posted_form::PAYMENT, payment.id);
    if let Some(action) = view::action_of(payment) {
        let reply = Reply::Challenge { location: &format!("../a/{action}"), back: &back };
        return Ok(sender.response(StatusCode::OK, reply));
    }
    if sender == Sender::Script {
        let page = engine::open_page(&app.db, address, Some(payment.id), app.clock.now()).await?;
        // The payment may have changed since, and this message is final: the page is not loaded again.
        let current = page.payment.as_ref().unwrap_or(payment);
        let lines = messages::of_payment(current, page.state).filter(|_| page.state == PageState::Open);
        if let Some(lines) = lines {
            return Ok(sender.response(StatusCode::OK, Reply::ShowMessage(&lines)));
        }
    }
    Ok(sender.response(StatusCode::OK, Reply::GoTo(&back)))
}
