//! The HTTP API: forms in, envelopes out. `OPERATIONS` lists every script.

mod access_log;
mod account;
mod account_validation;
pub mod app;
mod body;
mod call;
mod card;
mod challenge;
mod envelope;
mod fields;
mod form;
mod operations;
mod public;
pub mod rate_limits;
mod report;
mod scripts;
pub mod stall_detector;

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
use foundation::form::whole_number;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{Any, CorsLayer};

use crate::accounts::{self, Account};
use crate::deadline::Deadline;
use crate::failure::{Code, Failure, Result};
use crate::transactions::TransactionKind;
use app::App;
use call::Call;
use envelope::Reply;
use form::Form;
use rate_limits::Attempt;

type HandlerFuture = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

struct Operation {
    script: &'static str,
    /// The code for a request that was not entered and has no code of its own.
    fallback: Code,
    handler: fn(Call) -> HandlerFuture,
}

/// After a slower response the connection is closed: a request pipelined behind it has waited as long in the socket and
/// would wrongly count as new.
const SLOW_RESPONSE: Duration = Duration::from_secs(1);

/// Metric label of a success.
const SUCCEEDED: &str = "00";
/// Metric label of a request that a rate limit refused before authentication.
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
        handler: |call| Box::pin(operations::change(call, TransactionKind::Capture)),
    },
    Operation {
        script: "void.php",
        fallback: Code::UpdateFailed,
        handler: |call| Box::pin(operations::change(call, TransactionKind::Void)),
    },
    Operation {
        script: "refund.php",
        fallback: Code::UpdateFailed,
        handler: |call| Box::pin(operations::change(call, TransactionKind::Refund)),
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
        handler: |call| Box::pin(account_validation::inquire(call)),
    },
    Operation {
        script: "add_card.php",
        fallback: Code::EntryFailed,
        handler: |call| Box::pin(operations::add_card(call)),
    },
    Operation { script: "report.php", fallback: Code::Unknown, handler: |call| Box::pin(report::show(call)) },
    Operation { script: "account.php", fallback: Code::Unknown, handler: |call| Box::pin(account::show(call)) },
];

/// Registers the counters of the watched codes at 0, so that the first increment is visible.
pub fn register_metrics() {
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

pub fn router(app: App) -> Router {
    let cors = CorsLayer::new().allow_origin(Any).allow_methods([Method::POST]).allow_headers([header::CONTENT_TYPE]);
    let browsers = Router::new()
        .route("/services/proxynization", post(public::proxynization))
        .route("/services/field_token", post(public::field_token))
        .route("/services/wallet_token", post(public::wallet_token))
        // Must come before the CORS layer, which has to see OPTIONS first.
        .method_not_allowed_fallback(not_allowed)
        .layer(cors);
    Router::new()
        .route("/apis/{script}", any(dispatch))
        .route("/services/3ds/{token}", get(public::challenge_page).post(public::decision))
        .route("/services/field", get(scripts::field))
        .merge(scripts::files())
        .merge(browsers)
        .fallback(unknown_script)
        .method_not_allowed_fallback(not_allowed)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(access_log::middleware))
        .with_state(app)
}

async fn dispatch(
    State(app): State<App>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let deadline = Deadline::start();
    // A path that is not valid UTF-8 names no script.
    let script = path.map_or_else(|_| String::new(), |Path(script)| script);
    let Some(operation) = OPERATIONS.iter().find(|operation| operation.script == script) else {
        return unknown_script().await;
    };
    if request.method() != Method::POST {
        let mut response = not_allowed().await;
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    // In a task of its own, so that an entered transaction is finished even if the client disconnects.
    let work = app.work.clone();
    let handled = work.spawn(handle(app, operation, from.ip(), request, deadline)).await;
    let mut response = handled.unwrap_or_else(|_| envelope::failure(Failure::Unknown, operation.fallback));
    if deadline.elapsed() > SLOW_RESPONSE {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn handle(
    app: App,
    operation: &'static Operation,
    client: IpAddr,
    request: Request,
    deadline: Deadline,
) -> Response {
    let mut caller = access_log::Caller { client, claimed: None, account: None };
    let result = match app.rate_limits.begin_attempt(client).await {
        Ok(attempt) => {
            let form = match body::form(request, deadline).await {
                Ok(form) => form,
                Err(refused) => return refused.into_response(),
            };
            caller.claimed = form.get("username").map(str::to_owned);
            execute(app, operation, attempt, form, deadline, &mut caller).await
        }
        Err(too_many) => Err(too_many),
    };
    let code = match &result {
        Ok(_) => SUCCEEDED,
        Err(Failure::Refused(code, _)) => code.code(),
        Err(Failure::NotEntered(_)) => operation.fallback.code(),
        Err(Failure::TooMany { .. }) => LIMITED,
        Err(Failure::Unknown) => Code::Unknown.code(),
    };
    metrics::counter!("gateway_requests_total", "script" => operation.script, "code" => code).increment(1);
    metrics::histogram!("gateway_request_seconds", "script" => operation.script)
        .record(deadline.elapsed().as_secs_f64());
    access_log::operation(operation.script, code, &caller, deadline);
    let mut response = match result {
        Ok(reply) => reply.into_response(),
        Err(failure) => envelope::failure(failure, operation.fallback),
    };
    response.extensions_mut().insert(access_log::Logged);
    response
}

async fn execute(
    app: App,
    operation: &Operation,
    attempt: Attempt,
    form: Form,
    deadline: Deadline,
    caller: &mut access_log::Caller,
) -> Result<Reply> {
    let account = authenticate(&app, operation, attempt, &form).await?;
    caller.account = Some(account.username.clone());
    let deadline = apply_valid_until(&app, &form, deadline)?;
    (operation.handler)(Call { app, account, form, deadline }).await
}

/// Authenticates the caller, unless too many attempts have failed before, or nothing can be entered now.
async fn authenticate(app: &App, operation: &Operation, mut attempt: Attempt, form: &Form) -> Result<Account> {
    let account = match check_process(app, operation).await {
        Ok(()) => {
            attempt = app.rate_limits.identify(attempt, form).await?;
            let (username, api_key) = (form.get("username"), form.get("api_key"));
            accounts::authenticate(&app.db, &app.crypto, username, api_key).await
        }
        Err(not_entered) => Err(not_entered),
    };
    match &account {
        Ok(_) => app.rate_limits.release(attempt, true).await,
        Err(Failure::Refused(..)) => app.rate_limits.record_failure(attempt).await,
        // The attempt was neither right nor wrong, so it does not count.
        Err(Failure::NotEntered(_) | Failure::TooMany { .. } | Failure::Unknown) => {
            app.rate_limits.release(attempt, false).await;
        }
    }
    account
}

async fn check_process(app: &App, operation: &Operation) -> Result<()> {
    // After a stall, requests read from sockets may be old.
    if operation.fallback != Code::Unknown && !app.stall_detector.is_steady() {
        return Err(Failure::NotEntered("the gateway was suspended"));
    }
    // Days, limits and `valid_until` depend on the clock.
    if operation.fallback != Code::Unknown && app.clock.verify(&app.db).await.is_err() {
        return Err(Failure::NotEntered("the gateway's clock is wrong"));
    }
    Ok(())
}

/// Applies the caller's `valid_until`: if the caller was suspended before sending and others no longer wait for the
/// request, the late request has no effect.
fn apply_valid_until(app: &App, form: &Form, deadline: Deadline) -> Result<Deadline> {
    const NAME: &str = "valid_until";
    let Some(text) = form.get(NAME) else { return Ok(deadline) };
    let until = whole_number(text).ok_or(Failure::field(NAME, "must be a time in milliseconds since 1970"))?;
    let left = until.saturating_sub(app.clock.now().as_millisecond());
    let deadline = deadline.capped_at(Duration::from_millis(u64::try_from(left).unwrap_or(0)));
    deadline.check().map(|()| deadline)
}

async fn unknown_script() -> Response {
    envelope::error(StatusCode::NOT_FOUND, Code::Unknown, "Unknown script")
}

async fn not_allowed() -> Response {
    envelope::error(StatusCode::METHOD_NOT_ALLOWED, Code::Unknown, "Method not allowed")
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    envelope::error(StatusCode::INTERNAL_SERVER_ERROR, Code::Unknown, Code::Unknown.description())
}
