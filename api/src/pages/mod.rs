//! Payment pages for cardholders, of invoices and payment links (docs/billing.md, Payment pages). They are not part of
//! /v1: there is no key, and the secret URL grants access. No cookies, no card numbers, no third-party scripts.

mod challenge;
mod documents;
mod error_page;
mod invoice_lines;
mod layout;
mod messages;
mod notices;
mod pay_form;
mod pay_response;
mod posted_form;
mod reader;
mod receipt;
mod receipts_by_email;
mod sheets;
mod token;
mod totals;
mod view;

use std::net::{IpAddr, SocketAddr};

use ::documents::{Picture, Sheet};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::REFRESH;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Extension, Router};
use domain::accounts::{self, Payee};
use domain::operations::Origin;
use domain::payments::Payment;
use egress::is_public;
use engine::PageAddress;
use engine::PageKind;
use engine::PageState;
use engine::PayOutcome;
use engine::PayPage;
use engine::PaySubmission;
use engine::Payable;
use foundation::error::Error;
use foundation::form::whole_number;
use foundation::queues;
use queue::Wake;

pub(crate) use self::documents::Documents;
use self::error_page::ErrorPage;
use self::pay_response::{Reply, Sender};
use self::reader::Reader;
use self::token::Token;
use self::view::FormState;
use crate::app::App;
use crate::elements::CardTokenizationConfig;
use crate::error::ApiError;
use crate::request_layer::client_address;
use crate::retry;
use crate::waiting::{self, Waiting};

/// The routes. Responses must not be cached or framed, and load nothing from other servers.
pub(crate) fn router(app: &App) -> Router<App> {
    Router::new()
        .route("/pay/i/{token}", page_of(PageKind::Invoice))
        .route("/pay/l/{token}", page_of(PageKind::Link))
        .route("/pay/i/{token}/invoice.pdf", get(invoice_pdf))
        .route("/pay/i/{token}/receipt.pdf", receipt_pdf(PageKind::Invoice))
        .route("/pay/l/{token}/receipt.pdf", receipt_pdf(PageKind::Link))
        .merge(challenge::router())
        .merge(receipts_by_email::router())
        .route("/pay/", any(nothing_here))
        .route("/pay/{*path}", any(nothing_here))
        .layer(from_fn(retry::run))
        .layer(from_fn_with_state(app.clone(), limit_by_address))
}

async fn nothing_here() -> ErrorPage {
    ApiError::no_route("no such page").into()
}

fn page_of(kind: PageKind) -> axum::routing::MethodRouter<App> {
    let show = async move |State(app): State<App>, Extension(reader): Extension<Reader>, Token(token): Token| {
        let address = PageAddress { kind, token: &token };
        render(&app, address, reader, StatusCode::OK, &FormState::default()).await
    };
    let pay = async move |State(app): State<App>, Token(token): Token, request: Request| {
        pay(&app, kind, &token, request).await
    };
    get(show).post(pay).fallback(async || ErrorPage::from(ApiError::method_not_allowed()))
}

/// Determines the reader, applies the rate limit of the client address, and adds the bodies of errors and the page
/// headers.
async fn limit_by_address(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let (sender, reader) = (Sender::of(&request), Reader::of(&request));
    request.extensions_mut().insert(reader);
    let decision = app.limits.acquire_page(client_address(&request)).await;
    let response = if decision.allowed {
        next.run(request).await
    } else {
        ErrorPage::from(ApiError::rate_limited(decision)).into_response()
    };
    let mut response = error_page::render(sender, reader, response);
    layout::set_page_headers(response.headers_mut());
    response
}

async fn invoice_pdf(
    State(app): State<App>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    Extension(reader): Extension<Reader>,
    Token(token): Token,
) -> Result<Response, ErrorPage> {
    let page = page_of_document(&app, PageAddress { kind: PageKind::Invoice, token: &token }, reader).await?;
    let Payable::Invoice(invoice) = &page.payable else { return Err(ApiError::no_route("no such document").into()) };
    let name = invoice.number.map_or_else(|| invoice.id.to_string(), |number| number.to_string());
    written(&app, &token, &page, (sheets::invoice(reader, &page, invoice), &name), client.ip()).await
}

/// The receipt of a page that was paid; 404 before.
fn receipt_pdf(kind: PageKind) -> axum::routing::MethodRouter<App> {
    let receipt = async move |State(app): State<App>,
                              ConnectInfo(client): ConnectInfo<SocketAddr>,
                              Extension(reader): Extension<Reader>,
                              Token(token): Token| {
        let page = page_of_document(&app, PageAddress { kind, token: &token }, reader).await?;
        match sheets::receipt(reader, &page) {
            Some(sheet) => written(&app, &token, &page, (sheet, "receipt"), client.ip()).await,
            None => Err(ErrorPage::from(ApiError::no_route("no such document"))),
        }
    };
    get(receipt)
}

/// The document, with the merchant's logo if it has one. It counts as a large response until this client has read it.
async fn written(
    app: &App,
    token: &str,
    PayPage { payee, .. }: &PayPage,
    (sheet, name): (Sheet, &str),
    client: IpAddr,
) -> Result<Response, ErrorPage> {
    let response = async {
        let permit = app.large_responses.acquire(client, payee.account_id).await?;
        let pdf = app.documents.pdf(payee.account_id, with_logo(app, payee, sheet)).await?;
        Ok::<_, Error>(documents::response(permit.hold(pdf), name))
    };
    counted(app, token, response.await).await
}

/// The result of a step of a document, which does not count for its page if this process or Postgres was not able to do it
/// now. What fails each time counts, because it has cost as much.
async fn counted<T>(app: &App, token: &str, result: Result<T, Error>) -> Result<T, ErrorPage> {
    if matches!(result, Err(Error::Busy(_) | Error::Database(_))) {
        app.limits.refund_document(token).await;
    }
    Ok(result?)
}

/// The page of a document, unless its documents were requested too often.
async fn page_of_document(app: &App, address: PageAddress<'_>, reader: Reader) -> Result<PayPage, ErrorPage> {
    let decision = app.limits.acquire_document(address.token).await;
    if !decision.allowed {
        return Err(ApiError::rate_limited(decision).into());
    }
    let token = address.token;
    counted(app, token, engine::open_page(&app.db, address, reader.payment, app.clock.now()).await).await
}

async fn with_logo(app: &App, payee: &Payee, sheet: Sheet) -> Result<Sheet, Error> {
    let Some(logo) = &payee.logo else { return Ok(sheet) };
    let png = accounts::logo(&*app.db, logo.id).await?;
    Ok(Sheet { logo: png.map(|png| Picture { png, text: payee.name.clone() }), ..sheet })
}

/// Renders the page in its current state.
async fn render(
    app: &App,
    address: PageAddress<'_>,
    reader: Reader,
    status: StatusCode,
    form: &FormState,
) -> Result<Response, ErrorPage> {
    let page = engine::open_page(&app.db, address, reader.payment, app.clock.now()).await?;
    let tokenization_config = CardTokenizationConfig::of_payee(app, &page.payee);
    let (title, body) = view::render(reader, &page, address.token, tokenization_config.as_ref(), form);
    let card = tokenization_config.as_ref().filter(|_| page.state == PageState::Open);
    let mut response = layout::page_of(&page.payee, reader, status, &title, &body, card);
    if matches!(page.state, PageState::UnderWay | PageState::Returning) {
        let has_action = page.payment.as_ref().is_some_and(|payment| notices::action_of(payment).is_some());
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
    let (sender, reader) = (Sender::of(&request), Reader::of(&request));
    let texts = reader.texts();
    let payer = client_address(&request).to_canonical();
    let fields = posted_form::read(request).await?;
    let tip_selected = posted_form::value(&fields, "tip").is_some();
    let renewals_selected = posted_form::value(&fields, "renewals").is_some();
    let show_again = async |status, message| match (sender, message) {
        (Sender::Form, message) => {
            let form = FormState { message, tip_selected, renewals_selected };
            render(app, address, reader, status, &form).await
        }
        (Sender::Script, Some(message)) => Ok(sender.response(status, Reply::ShowMessage(&[message]))),
        (Sender::Script, None) => Ok(sender.response(status, Reply::GoTo(&reader.page(token)))),
    };
    let Some(card) = posted_form::value(&fields, "token").filter(|card| !card.is_empty() && !card.contains('\0'))
    else {
        return show_again(StatusCode::UNPROCESSABLE_ENTITY, Some(texts.no_card_sent())).await;
    };
    // 0 never matches the displayed total, so an invalid number is rejected.
    let total = posted_form::value(&fields, "amount").map(|amount| whole_number(&amount).unwrap_or(0));
    let (tips, renewals, language) = (tip_selected, renewals_selected, reader.chosen_language());
    let submission = PaySubmission { token: &card, tips, renewals, total, language };
    // The address of a load balancer does not identify the payer.
    let payer_address = is_public(payer).then(|| payer.to_string());
    let origin = Origin { payer_address, ..app.origin(None) };
    match engine::pay_page(&app.db, address, submission, &origin, &app.encryption, app.clock.now()).await {
        Ok(PayOutcome::Begun(payment, operation)) => {
            let waiter = app.replies.register(payment.id.uuid());
            app.publisher.post(queues::PAYMENTS, Wake { id: operation.uuid(), request_id: origin.request_id });
            let payment = waiting::outcome(app, Waiting::new(waiter), *payment).await;
            payment_response(app, address, sender, reader, &payment).await
        }
        // Already paid or expired: the page shows which. After a lost response, an earlier submission of this payer may
        // have paid.
        Ok(PayOutcome::Refused(_)) => {
            let again = posted_form::value(&fields, "again").is_some();
            let page = if again { reader.page(token) } else { reader.page_when_late(token) };
            Ok(sender.response(StatusCode::OK, Reply::GoTo(&page)))
        }
        Ok(PayOutcome::TotalChanged) => match sender {
            Sender::Form => show_again(StatusCode::CONFLICT, Some(texts.total_changed())).await,
            // Loads the page again, with the new total.
            Sender::Script => Ok(sender.response(StatusCode::CONFLICT, Reply::Submit)),
        },
        Ok(PayOutcome::NotChargeable) => show_again(StatusCode::UNPROCESSABLE_ENTITY, None).await,
        Err(Error::Invalid { param, .. }) if param == "currency" => {
            show_again(StatusCode::UNPROCESSABLE_ENTITY, Some(texts.currency_not_accepted())).await
        }
        Err(Error::Invalid { .. }) => show_again(StatusCode::UNPROCESSABLE_ENTITY, Some(texts.card_unusable())).await,
        Err(Error::Conflict(_)) => show_again(StatusCode::CONFLICT, Some(texts.card_already_used())).await,
        Err(Error::NotSupported(_)) => show_again(StatusCode::NOT_IMPLEMENTED, None).await,
        Err(
            error @ (Error::NotFound(_)
            | Error::NotEntitled(_)
            | Error::NotConnected(_)
            | Error::Busy(_)
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
    reader: Reader,
    payment: &Payment,
) -> Result<Response, ErrorPage> {
    let back = reader.page_of(address.token, payment);
    if let Some(action) = notices::action_of(payment) {
        let reply = Reply::Challenge { location: &format!("../a/{action}"), back: &back };
        return Ok(sender.response(StatusCode::OK, reply));
    }
    if sender == Sender::Script {
        match engine::open_page(&app.db, address, Some(payment.id), app.clock.now()).await {
            Ok(page) => {
                // The payment may have changed since, and this message is final: the page is not loaded again.
                let current = page.payment.as_ref().unwrap_or(payment);
                let lines = messages::on_page(reader.texts(), &page, current);
                if let Some(lines) = lines.filter(|_| page.state == PageState::Open) {
                    return Ok(sender.response(StatusCode::OK, Reply::ShowMessage(&lines)));
                }
            }
            // The payment has begun, so an error page would say wrongly that nothing was charged.
            Err(error) => tracing::warn!(%error, payment = %payment.id, "the page could not be read after a payment"),
        }
    }
    Ok(sender.response(StatusCode::OK, Reply::GoTo(&back)))
}
