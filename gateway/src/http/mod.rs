//! The API: forms in, envelopes out. `OPERATIONS` is every script there is.

mod body;
pub mod envelope;
mod fields;
mod form;
mod journal;
mod operations;
pub mod public;
pub mod pulse;
pub mod rate_limits;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::{any, get, post};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{Any, CorsLayer};

pub use envelope::Reply;
pub(crate) use fields::{amount, currency, decent, name, routable};
pub use form::Form;

use crate::accounts::{self, Account};
use crate::app::{App, Lifetime};
use crate::failure::{Code, Failure, Result};
use crate::{ani, report, scripts};

/// A request whose caller is known.
pub struct Call {
    /// What is at hand.
    pub app: App,
    /// Who calls.
    pub account: Account,
    /// What was sent.
    pub form: Form,
    /// How long it may take to begin.
    pub lifetime: Lifetime,
}

type Answer = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

/// An operation of the API.
struct Operation {
    script: &'static str,
    /// What it answers where nothing was entered and nothing can be said.
    fallback: Code,
    handler: fn(Call) -> Answer,
}

/// After an answer that took longer the connection is closed. Whatever was sent behind the request has lain there as long, and
/// would be taken for new.
const SLOW: Duration = Duration::from_secs(1);

/// How a success is counted.
const SUCCEEDED: &str = "00";
/// How a request is counted that a limit refused before its keys were looked at.
const LIMITED: &str = "limited";

const OPERATIONS: [Operation; 11] = [
    Operation { script: "sale.php", fallback: Code::EntryFailed, handler: |call| Box::pin(operations::sale(call)) },
    Operation {
        script: "authorize.php",
        fallback: Code::EntryFailed,
        handler: |call| Box::pin(operations::authorize(call)),
    },
    Operation {
        script: "capture.php",
        fallback: Code::UpdateFailed,
        handler: |call| Box::pin(operations::capture(call)),
    },
    Operation { script: "void.php", fallback: Code::UpdateFailed, handler: |call| Box::pin(operations::void(call)) },
    Operation {
        script: "refund.php",
        fallback: Code::UpdateFailed,
        handler: |call| Box::pin(operations::refund(call)),
    },
    Operation {
        script: "unreference_refund.php",
        fallback: Code::EntryFailed,
        handler: |call| Box::pin(operations::credit(call)),
    },
    Operation {
        script: "wallet_sale.php",
        fallback: Code::EntryFailed,
        handler: |call| Box::pin(operations::wallet_sale(call)),
    },
    Operation {
        script: "account_validation.php",
        fallback: Code::EntryFailed,
        handler: |call| Box::pin(ani::inquire(call)),
    },
    Operation {
        script: "add_card.php",
        fallback: Code::EntryFailed,
        handler: |call| Box::pin(operations::add_card(call)),
    },
    Operation { script: "report.php", fallback: Code::Unknown, handler: |call| Box::pin(report::report(call)) },
    Operation { script: "account.php", fallback: Code::Unknown, handler: |call| Box::pin(accounts::show(call)) },
];

/// Counts requests from nought by the codes that are watched, so that the first of each is seen as a rise.
pub fn count_from_nought() {
    const WATCHED: [Code; 8] = [
        Code::Username,
        Code::ApiKey,
        Code::Unknown,
        Code::Declined,
        Code::SaleLimit,
        Code::MonthlyLimit,
        Code::TransactionLimit,
        Code::AddressLimit,
    ];
    for Operation { script, .. } in OPERATIONS {
        for code in WATCHED.map(Code::code).into_iter().chain([SUCCEEDED, LIMITED]) {
            metrics::counter!("gateway_requests_total", "script" => script, "code" => code).increment(0);
        }
        let _ = metrics::histogram!("gateway_request_seconds", "script" => script);
    }
}

/// Every route.
pub fn router(app: App) -> Router {
    let cors = CorsLayer::new().allow_origin(Any).allow_methods([Method::POST]).allow_headers([header::CONTENT_TYPE]);
    let browsers = Router::new()
        .route("/services/proxynization", post(public::proxynization))
        .route("/services/field_token", post(public::field_token))
        .route("/services/wallet_token", post(public::wallet_token))
        // Before the layer, which must see OPTIONS first.
        .method_not_allowed_fallback(not_allowed)
        .layer(cors);
    Router::new()
        .route("/apis/{script}", any(operate))
        .route("/services/3ds/{token}", get(public::challenge).post(public::decision))
        .route("/services/field", get(scripts::field))
        .merge(scripts::files())
        .merge(browsers)
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(journal::others))
        .with_state(app)
}

async fn operate(
    State(app): State<App>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let lifetime = Lifetime::begins();
    // What is not even text names no script either.
    let script = path.map_or_else(|_| String::new(), |Path(script)| script);
    let Some(operation) = OPERATIONS.iter().find(|operation| operation.script == script) else {
        return unknown().await;
    };
    if request.method() != Method::POST {
        let mut response = not_allowed().await;
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    // Of its own, so that it goes on though the caller hangs up: what was begun is ended.
    let work = app.work.clone();
    let answered = work.spawn(answer(app, operation, from.ip(), request, lifetime)).await;
    let mut response = answered.unwrap_or_else(|_| failed(operation, Failure::Unknown));
    if lifetime.elapsed() > SLOW {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn answer(
    app: App,
    operation: &'static Operation,
    client: IpAddr,
    request: Request,
    lifetime: Lifetime,
) -> Response {
    let form = match body::form(request, lifetime).await {
        Ok(form) => form,
        Err(refused) => return refused.into_response(),
    };
    let mut caller = journal::Caller { client, named: form.get("username").map(str::to_owned), account: None };
    let result = called(app, operation, form, lifetime, &mut caller).await;
    let code = match &result {
        Ok(_) => SUCCEEDED,
        Err(Failure::Refused(code, _)) => code.code(),
        Err(Failure::NotEntered(_)) => operation.fallback.code(),
        Err(Failure::TooMany { .. }) => LIMITED,
        Err(Failure::Unknown) => Code::Unknown.code(),
    };
    metrics::counter!("gateway_requests_total", "script" => operation.script, "code" => code).increment(1);
    metrics::histogram!("gateway_request_seconds", "script" => operation.script)
        .record(lifetime.elapsed().as_secs_f64());
    journal::operation(operation.script, code, &caller, lifetime);
    let mut response = match result {
        Ok(reply) => reply.into_response(),
        Err(failure) => failed(operation, failure),
    };
    response.extensions_mut().insert(journal::Noted);
    response
}

async fn called(
    app: App,
    operation: &Operation,
    form: Form,
    lifetime: Lifetime,
    caller: &mut journal::Caller,
) -> Result<Reply> {
    // Reading may be late.
    if operation.fallback != Code::Unknown && !app.pulse.is_steady() {
        return Err(Failure::NotEntered("the gateway was paused, and nothing was entered"));
    }
    // Days, limits and `valid_until` go by the clock.
    if operation.fallback != Code::Unknown && app.clock.verify(&app.db).await.is_err() {
        return Err(Failure::NotEntered("the gateway's clock is wrong, and nothing was entered"));
    }
    let account = let_in(&app, caller.client, &form).await?;
    caller.account = Some(account.username.clone());
    let lifetime = bounded(&app, &form, lifetime)?;
    (operation.handler)(Call { app, account, form, lifetime }).await
}

/// The account that a caller proves to be, if not too many attempts have failed before this one.
async fn let_in(app: &App, from: IpAddr, form: &Form) -> Result<Account> {
    let attempt = app.rate_limits.attempt(from, form).await?;
    let (username, api_key) = (form.get("username"), form.get("api_key"));
    let account = accounts::authenticate(&app.db, &app.vaulting.pepper, username, api_key).await;
    match &account {
        Ok(_) => app.rate_limits.forgive(attempt, true).await,
        Err(Failure::Refused(..)) => app.rate_limits.fail(attempt).await,
        // Nothing was found out.
        Err(Failure::NotEntered(_) | Failure::TooMany { .. } | Failure::Unknown) => {
            app.rate_limits.forgive(attempt, false).await;
        }
    }
    account
}

/// A caller may say until when its request may be entered: one that was stopped before it sent it, and has been given up on by
/// others since, then does nothing when it goes on.
fn bounded(app: &App, form: &Form, lifetime: Lifetime) -> Result<Lifetime> {
    const NAME: &str = "valid_until";
    let Some(text) = form.get(NAME) else { return Ok(lifetime) };
    let until: i64 = text.parse().map_err(|_| Failure::field(NAME, "is not a time in milliseconds"))?;
    let left = until.saturating_sub(app.clock.now().as_millisecond());
    let lifetime = lifetime.at_most(Duration::from_millis(u64::try_from(left).unwrap_or(0)));
    lifetime.check().map(|()| lifetime)
}

fn failed(operation: &Operation, failure: Failure) -> Response {
    envelope::failure(failure, operation.fallback)
}

async fn unknown() -> Response {
    envelope::error(StatusCode::NOT_FOUND, Code::Unknown, "Unknown script")
}

async fn not_allowed() -> Response {
    envelope::error(StatusCode::METHOD_NOT_ALLOWED, Code::Unknown, "Method not allowed")
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    envelope::error(StatusCode::INTERNAL_SERVER_ERROR, Code::Unknown, Code::Unknown.meaning())
}
