//! Pages for cardholders, of invoices and of payment links (docs/billing.md, Payment pages). They are no operations of /v1:
//! who opens one has no key, and the address is what lets them in. No cookie, no card number, and nobody else's script.

mod challenge;
mod form;
pub(crate) mod html;
mod pay_form;
mod price;
mod problem;
mod receipt;
mod reply;
mod sum;
mod view;
mod words;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, RawQuery, Request, State};
use axum::http::header::REFRESH;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use common::egress::is_public;
use common::error::Error;
use common::flows::{self, Offer, PageAddress, PageKind, PageState, Paying};
use common::id::PaymentId;
use common::operations::Origin;
use common::payments::Payment;
use common::queues;
use queue::Wake;

use self::problem::Problem;
use self::reply::{Reply, Sender};
use self::view::Telling;
use crate::again;
use crate::answer::Refusal;
use crate::app::App;
use crate::elements::Taker;
use crate::envelope::RequestId;
use crate::waiting::{self, Waiting};

/// After so many seconds a page that waits for an outcome looks again.
const LOOK_AGAIN: &str = "3";
/// And one on which something is to be pressed: seldom enough not to be in the way.
const LOOK_SELDOM: &str = "15";
/// Names, in the address, the payment that whoever reads the page has made.
const PAYMENT: &str = "payment";

type Path = Result<RawPathParams, RawPathParamsRejection>;

/// The routes. Whatever they answer is a page that a browser may keep nowhere, frame nowhere, and fetch nothing for.
pub(crate) fn router(app: &App) -> Router<App> {
    Router::new()
        .route("/pay/i/{token}", page_of(PageKind::Invoice))
        .route("/pay/l/{token}", page_of(PageKind::Link))
        .merge(challenge::router())
        .layer(from_fn(again::run))
        .layer(from_fn_with_state(app.clone(), let_in))
}

fn page_of(kind: PageKind) -> axum::routing::MethodRouter<App> {
    let show =
        async move |State(app): State<App>, path: Path, query: RawQuery| show(&app, kind, &token(path)?, query).await;
    let pay = async move |State(app): State<App>, id: RequestId, path: Path, request: Request| {
        pay(&app, kind, &token(path)?, id, request).await
    };
    get(show).post(pay).fallback(async || Problem::from(Refusal::wrong_method()))
}

/// Strangers are counted by their address, and a page is shielded whatever is on it.
async fn let_in(State(app): State<App>, request: Request, next: Next) -> Response {
    let verdict = app.limits.take_page(html::address_of(&request)).await;
    let mut response = if verdict.allowed() {
        next.run(request).await
    } else {
        Problem::from(Refusal::too_many(verdict)).into_response()
    };
    html::shield(response.headers_mut());
    response
}

/// What the address ends with. Bytes that are no text name nothing.
fn token(path: Path) -> Result<String, Problem> {
    let path = path.map_err(|_| Refusal::no_route())?;
    let token = path.iter().find(|(name, _)| *name == "token").map(|(_, value)| value);
    token.filter(|token| !token.contains('\0')).map(str::to_owned).ok_or_else(|| Refusal::no_route().into())
}

async fn show(app: &App, kind: PageKind, token: &str, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let query = query.unwrap_or_default();
    let named = form::value(query.as_bytes(), PAYMENT).and_then(|id| id.parse().ok());
    let telling = Telling { remark: None, tips: false };
    shown(app, PageAddress { kind, token }, named, StatusCode::OK, telling).await
}

/// The page as it stands, with something to say about what was just sent.
async fn shown(
    app: &App,
    address: PageAddress<'_>,
    payment: Option<PaymentId>,
    status: StatusCode,
    telling: Telling<'_>,
) -> Result<Response, Problem> {
    let page = flows::open_page(&app.db, address, payment, app.clock.now()).await?;
    let taker = Taker::of_payee(app, &page.payee);
    let (title, body) = view::render(&page, taker.as_ref(), telling);
    let title = html::Text(&title);
    let mut response = match &taker {
        Some(taker) if page.state == PageState::Open => html::card_page(status, title, &body, taker),
        _ => html::page(status, title, &body),
    };
    if page.state == PageState::UnderWay {
        let is_asked = page.payment.as_ref().is_some_and(|payment| view::action_of(payment).is_some());
        let again = if is_asked { LOOK_SELDOM } else { LOOK_AGAIN };
        response.headers_mut().insert(REFRESH, HeaderValue::from_static(again));
    }
    Ok(response)
}

/// Pays, waits for the outcome as POST /v1/payments does, and sends the browser back to the page, which shows it. So a reload
/// never pays twice. Who is asked by his bank is sent there. The page's own script is told the same, and stays on the page
/// after a decline.
async fn pay(
    app: &App,
    kind: PageKind,
    token: &str,
    request_id: RequestId,
    request: Request,
) -> Result<Response, Problem> {
    let address = PageAddress { kind, token };
    let sender = Sender::of(&request);
    let payer = html::address_of(&request).to_canonical();
    let sent = form::read(request).await?;
    let tips = form::value(&sent, "tip").is_some();
    let again = async |status, remark| match (sender, remark) {
        (Sender::Form, _) => shown(app, address, None, status, Telling { remark, tips }).await,
        (Sender::Script, Some(remark)) => Ok(sender.answer(status, Reply::Say(&[remark]))),
        (Sender::Script, None) => Ok(sender.answer(status, Reply::Go(token))),
    };
    let Some(card) = form::value(&sent, "token").filter(|card| !card.is_empty() && !card.contains('\0')) else {
        return again(StatusCode::UNPROCESSABLE_ENTITY, Some("No card was sent. Please enter it again.")).await;
    };
    // What is no number is no sum that anyone was shown.
    let total = form::value(&sent, "amount").map(|amount| amount.parse().unwrap_or(0));
    let offer = Offer { token: &card, tips, total };
    // That of a balancer is all payers'.
    let payer_address = is_public(payer).then(|| payer.to_string());
    let origin = Origin { payer_address, ..app.origin(request_id, None) };
    match flows::pay_page(&app.db, address, offer, &origin, &app.encryption, app.clock.now()).await {
        Ok(Paying::Begun(payment, operation)) => {
            let waiter = app.replies.register(payment.id.uuid());
            app.push(queues::MONEY, Wake { id: operation.uuid(), request_id: origin.request_id });
            let payment = waiting::outcome(app, Waiting::new(waiter), *payment).await;
            became(app, address, sender, &payment).await
        }
        // Somebody was first, or its time was up: the page says so.
        Ok(Paying::Refused(_)) => Ok(sender.answer(StatusCode::OK, Reply::Go(token))),
        Ok(Paying::OtherTotal) => {
            let remark =
                "The amount has changed meanwhile. Nothing was charged; please look at it again before you pay.";
            match sender {
                Sender::Form => again(StatusCode::CONFLICT, Some(remark)).await,
                // The whole page is to be shown anew, with the other sum.
                Sender::Script => Ok(sender.answer(StatusCode::OK, Reply::Submit)),
            }
        }
        Ok(Paying::TooMuch) => again(StatusCode::UNPROCESSABLE_ENTITY, None).await,
        Err(Error::Invalid { param, .. }) if param == "currency" => {
            let remark = "No card can be charged in this currency here. Nothing was charged.";
            again(StatusCode::UNPROCESSABLE_ENTITY, Some(remark)).await
        }
        Err(Error::Invalid { .. }) => {
            let remark = "The card could not be used. Nothing was charged; please try again.";
            again(StatusCode::UNPROCESSABLE_ENTITY, Some(remark)).await
        }
        Err(Error::Conflict(_)) => {
            let remark = "The card was read for another payment before. Nothing was charged; please try again.";
            again(StatusCode::CONFLICT, Some(remark)).await
        }
        Err(Error::NotSupported(_)) => again(StatusCode::NOT_IMPLEMENTED, None).await,
        Err(
            error @ (Error::NotFound(_)
            | Error::NotEntitled(_)
            | Error::NotConnected(_)
            | Error::Database(_)
            | Error::Internal(_)),
        ) => Err(error.into()),
    }
}

/// Where a browser goes whose payment stands like this. The addresses are relative to the page's own, so that they hold behind
/// whatever the outside calls this service.
async fn became(app: &App, address: PageAddress<'_>, sender: Sender, payment: &Payment) -> Result<Response, Problem> {
    let back = format!("{}?{PAYMENT}={}", address.token, payment.id);
    if let Some(action) = view::action_of(payment) {
        return Ok(sender.answer(StatusCode::OK, Reply::Bank { location: &format!("../a/{action}"), back: &back }));
    }
    if sender == Sender::Script {
        let page = flows::open_page(&app.db, address, Some(payment.id), app.clock.now()).await?;
        let lines = words::of_payment(payment, page.state).filter(|_| page.state == PageState::Open);
        if let Some(lines) = lines {
            return Ok(sender.answer(StatusCode::OK, Reply::Say(&lines)));
        }
    }
    Ok(sender.answer(StatusCode::OK, Reply::Go(&back)))
}
