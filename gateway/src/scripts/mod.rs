//! What is served to browsers: the contract's scripts, the capture field and its parts. All files are built into the binary.

use axum::Router;
use axum::extract::Query;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use url::Url;

use crate::app::App;

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const FIELD: &str = include_str!("field.html");

/// The files, by their addresses.
const FILES: [(&str, &str, &str); 5] = [
    ("/services/proxynization_api.js", JAVASCRIPT, include_str!("proxynization_api.js")),
    ("/services/walletPaySandbox.js", JAVASCRIPT, include_str!("wallet_pay_sandbox.js")),
    ("/services/walletPay.js", JAVASCRIPT, include_str!("wallet_pay.js")),
    ("/services/field.js", JAVASCRIPT, include_str!("field.js")),
    ("/services/gateway.css", "text/css; charset=utf-8", include_str!("gateway.css")),
];

/// A route for each file. Merchants' pages may load them from anywhere.
pub fn files() -> Router<App> {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        let headers: [(HeaderName, &str); 3] = [
            (header::CONTENT_TYPE, kind),
            (header::CACHE_CONTROL, "public, max-age=300"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        router.route(path, get(async move || (headers, text)))
    })
}

/// Who frames the capture field.
#[derive(Deserialize)]
pub struct Framed {
    app_key: String,
    origin: String,
}

/// `GET /services/field?app_key=…&origin=…`: the capture field, to be framed by that origin and by no other.
pub async fn field(Query(framed): Query<Framed>) -> Response {
    let origin = Url::parse(&framed.origin).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let Some(origin) = origin.map(|url| url.origin().ascii_serialization()).filter(|origin| *origin == framed.origin)
    else {
        return (StatusCode::BAD_REQUEST, Html("<!doctype html><p>origin is not an origin\n")).into_response();
    };
    if framed.app_key.len() != 32 || !framed.app_key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return (StatusCode::BAD_REQUEST, Html("<!doctype html><p>app_key is not an app key\n")).into_response();
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
    // Both were checked to be of characters that mean nothing in HTML.
    let html = FIELD.replace("{origin}", &origin).replace("{app_key}", &framed.app_key);
    (headers, Html(html)).into_response()
}
