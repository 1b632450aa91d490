//! Files for browsers, embedded in the binary: the contract's scripts, and the card field with its parts.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use foundation::web_url::WebOrigin;
use maud::{DOCTYPE, Markup, html};
use serde::Deserialize;

use super::app::App;
use super::envelope;
use crate::accounts;
use crate::failure::{Code, Failure};

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, content type and content.
const FILES: [(&str, &str, &str); 7] = [
    ("/services/proxynization_api.js", JAVASCRIPT, include_str!("proxynization_api.js")),
    ("/services/walletPaySandbox.js", JAVASCRIPT, include_str!("wallet_pay_sandbox.js")),
    ("/services/walletPay.js", JAVASCRIPT, include_str!("wallet_pay.js")),
    ("/services/field.js", JAVASCRIPT, include_str!("field.js")),
    ("/services/bank.js", JAVASCRIPT, include_str!("bank.js")),
    ("/services/bank.css", "text/css; charset=utf-8", include_str!("bank.css")),
    ("/services/gateway.css", "text/css; charset=utf-8", include_str!("gateway.css")),
];

/// A route for each file. Pages of any origin may load them.
pub(super) fn files() -> Router<App> {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        let headers: [(HeaderName, &str); 3] = [
            (header::CONTENT_TYPE, kind),
            (header::CACHE_CONTROL, "public, max-age=300"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        router.route(path, get(async move || (headers, text)))
    })
}

/// Query parameters of the card field.
#[derive(Deserialize)]
pub(super) struct FieldQuery {
    app_key: String,
    origin: String,
}

/// `GET /services/field?app_key=…&origin=…`: the card field, which only that origin may frame. The account must have
/// registered the origin, because app keys are public and any page could send one.
pub(super) async fn field(
    State(app): State<App>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    query: Result<Query<FieldQuery>, QueryRejection>,
) -> Response {
    if let Err(too_many) = app.rate_limits.check_browser(from.ip()).await {
        return envelope::failure(too_many, Code::Unknown);
    }
    let Ok(Query(FieldQuery { app_key, origin })) = query else {
        return bad_request("app_key and origin are each required exactly once");
    };
    if !origin.parse::<WebOrigin>().is_ok_and(|parsed| parsed.as_str() == origin) {
        return bad_request("origin must be an origin such as https://shop.example");
    }
    if app_key.len() != 32 || !app_key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return bad_request("app_key must be 32 hexadecimal digits");
    }
    match accounts::by_app_key(&app.db, &app_key).await {
        Ok(account) if account.allowed_origins.contains(&origin) => {}
        Ok(_) | Err(Failure::Refused(..)) => return not_registered(),
        Err(failure) => return envelope::failure(failure, Code::Unknown),
    }
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; \
         base-uri 'none'; frame-ancestors {origin}"
    );
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy.as_str()),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, Html(field_page(&origin, &app_key).into_string())).into_response()
}

fn field_page(origin: &str, app_key: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Card" }
                link rel="stylesheet" href="gateway.css";
                script src="field.js" defer {}
            }
            body.field data-origin=(origin) data-app-key=(app_key) {
                main {
                    h1.visually-hidden { "Card details" }
                    form #card method="post" autocomplete="on" novalidate {
                        label {
                            "Card number "
                            input #creditcard_number inputmode="numeric" autocomplete="cc-number" maxlength="23"
                                aria-describedby="error" required;
                        }
                        label.part {
                            "Month "
                            input #expire_month inputmode="numeric" autocomplete="cc-exp-month" placeholder="MM" maxlength="2"
                                aria-describedby="error" required;
                        }
                        label.part {
                            "Year "
                            input #expire_year inputmode="numeric" autocomplete="cc-exp-year" placeholder="YYYY" maxlength="4"
                                aria-describedby="error" required;
                        }
                        label.part {
                            "Security code "
                            input #cvv inputmode="numeric" autocomplete="cc-csc" maxlength="4"
                                aria-describedby="error" required;
                        }
                        label {
                            "Name on card "
                            input #name autocomplete="cc-name" maxlength="255"
                                aria-describedby="error" required;
                        }
                        label.part {
                            "Postal code "
                            input #zip_code autocomplete="postal-code" maxlength="32"
                                aria-describedby="error" required;
                        }
                        label.part {
                            "Country "
                            input #country_code autocomplete="country" placeholder="US" maxlength="2"
                                aria-describedby="error" required;
                        }
                        p #error .error role="alert" {}
                    }
                }
                noscript { "Entering a card here requires JavaScript." }
            }
        }
    }
}

fn bad_request(what: &'static str) -> Response {
    (StatusCode::BAD_REQUEST, Html(format!("<!doctype html><p>{what}\n"))).into_response()
}

/// Also for an unknown app key. No page may frame this response.
fn not_registered() -> Response {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let page = Html("<!doctype html><p>origin is not registered for the account of this app_key\n");
    (StatusCode::FORBIDDEN, headers, page).into_response()
}
