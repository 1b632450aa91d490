//! Pages for cardholders, of invoices and of payment links (docs/billing.md, Payment pages). They are no operations of /v1:
//! who opens one has no key, and the address is what lets them in. No script, no cookie, no card number.

mod challenge;
mod form;
mod html;
mod problem;
mod view;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{ConnectInfo, RawPathParams, RawQuery, Request, State};
use axum::http::StatusCode;
use axum::http::header::{LOCATION, REFRESH};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use common::error::Error;
use common::flows::{self, PageAddress, PageKind, PageState, Paying};
use common::id::PaymentId;
use common::queues;
use queue::Wake;

use self::problem::Problem;
use crate::answer::Refusal;
use crate::app::App;
use crate::envelope::RequestId;
use crate::waiting::{self, Waiting};

/// After so many seconds a page that waits for an outcome looks again.
const LOOK_AGAIN: &str = "3";
/// Names, in the address, the payment that whoever reads the page has made.
const PAYMENT: &str = "payment";

type Path = Result<RawPathParams, RawPathParamsRejection>;

/// The routes. Whatever they answer is a page that a browser may keep nowhere, frame nowhere, and fetch nothing for.
pub(crate) fn router(app: &App) -> Router<App> {
    Router::new()
        .route("/pay/i/{token}", page_of(PageKind::Invoice))
        .route("/pay/l/{token}", page_of(PageKind::Link))
        .merge(challenge::router())
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
    let address = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let verdict = app.limits.take_payer(address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
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
    shown(app, PageAddress { kind, token }, named, StatusCode::OK, None).await
}

/// The page as it stands, with something to say about what was just sent.
async fn shown(
    app: &App,
    address: PageAddress<'_>,
    payment: Option<PaymentId>,
    status: StatusCode,
    remark: Option<&str>,
) -> Result<Response, Problem> {
    let page = flows::open_page(&app.db, address, payment, app.clock.now()).await?;
    let (title, body) = view::render(&page, remark);
    let mut response = html::page(status, html::Text(&title), &body);
    if page.state == PageState::UnderWay {
        response.headers_mut().insert(REFRESH, axum::http::HeaderValue::from_static(LOOK_AGAIN));
    }
    Ok(response)
}

/// Pays, waits for the outcome as POST /v1/payments does, and sends the browser back to the page, which shows it. So a reload
/// never pays twice.
async fn pay(
    app: &App,
    kind: PageKind,
    token: &str,
    request_id: RequestId,
    request: Request,
) -> Result<Response, Problem> {
    let address = PageAddress { kind, token };
    let sent = form::read(request).await?;
    let Some(card) = form::value(&sent, "token").filter(|card| !card.contains('\0')) else {
        return shown(app, address, None, StatusCode::UNPROCESSABLE_ENTITY, Some("Please choose a card.")).await;
    };
    let origin = app.origin(request_id);
    match flows::pay_page(&app.db, address, &card, &origin, &app.encryption, app.clock.now()).await {
        Ok(Paying::Begun(payment, operation)) => {
            let waiter = app.replies.register(payment.id.uuid());
            app.push(queues::MONEY, Wake { id: operation.uuid(), request_id: origin.request_id });
            let payment = waiting::outcome(app, Waiting::new(waiter), *payment).await;
            Ok(back_to(&format!("{token}?{PAYMENT}={}", payment.id)))
        }
        // Somebody was first, or its time was up: the page says so.
        Ok(Paying::Refused(_)) => Ok(back_to(token)),
        Err(Error::Invalid { .. }) => {
            let remark = "The card could not be used. Nothing was charged; please try again.";
            shown(app, address, None, StatusCode::UNPROCESSABLE_ENTITY, Some(remark)).await
        }
        Err(Error::Conflict(_)) => {
            let remark = "The card was read for another payment before. Nothing was charged; please try again.";
            shown(app, address, None, StatusCode::CONFLICT, Some(remark)).await
        }
        Err(Error::NotSupported(_)) => shown(app, address, None, StatusCode::NOT_IMPLEMENTED, None).await,
        Err(error @ (Error::NotFound(_) | Error::NotEntitled(_) | Error::Database(_) | Error::Internal(_))) => {
            Err(error.into())
        }
    }
}

/// Relative to the page's own address, so that it holds behind whatever the outside calls this service.
fn back_to(place: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response()
}
