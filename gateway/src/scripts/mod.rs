//! What is served to browsers: the contract's scripts, the capture field and its parts. All files are built into the binary.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use url::Url;

use crate::accounts;
use crate::app::App;
use crate::failure::{Code, Failure};
use crate::http::envelope;

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const FIELD: &str = include_str!("field.html");

/// The files, by their addresses.
const FILES: [(&str, &str, &str); 7] = [
    ("/services/proxynization_api.js", JAVASCRIPT, include_str!("proxynization_api.js")),
    ("/services/walletPaySandbox.js", JAVASCRIPT, include_str!("wallet_pay_sandbox.js")),
    ("/services/walletPay.js", JAVASCRIPT, include_str!("wallet_pay.js")),
    ("/services/field.js", JAVASCRIPT, include_str!("field.js")),
    ("/services/bank.js", JAVASCRIPT, include_str!("bank.js")),
    ("/services/bank.css", "text/css; charset=utf-8", include_str!("bank.css")),
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

/// `GET /services/field?app_key=…&origin=…`: the capture field, to be framed by that origin and by no other. The account must have
/// registered it: any page may call this with an app key, which is public.
pub async fn field(
    State(app): State<App>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    framed: Result<Query<Framed>, QueryRejection>,
) -> Response {
    if let Err(too_many) = app.rate_limits.browser(from.ip()).await {
        return envelope::failure(too_many, Code::Unknown);
    }
    let Ok(Query(Framed { app_key, origin })) = framed else {
        return wrong("app_key and origin are needed, each once");
    };
    if !is_origin(&origin) {
        return wrong("origin is not an origin");
    }
    if app_key.len() != 32 || !app_key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return wrong("app_key is not an app key");
    }
    match accounts::by_app_key(&app.db, Some(&app_key)).await {
        Ok(account) if account.allowed_origins.contains(&origin) => {}
        Ok(_) | Err(Failure::Refused(..)) => return unregistered(),
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
    // Both were checked to be of characters that mean nothing here.
    let html = FIELD.replace("{origin}", &origin).replace("{app_key}", &app_key);
    (headers, Html(html)).into_response()
}

/// Whether it is an origin as browsers write one, of characters that mean nothing in a policy or in HTML. Names of hosts may
/// have others: `https://*` is a URL.
pub(crate) fn is_origin(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ":/.-_[]".contains(c);
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    text.chars().all(plain) && url.is_some_and(|url| url.origin().ascii_serialization() == text)
}

fn wrong(what: &'static str) -> Response {
    (StatusCode::BAD_REQUEST, Html(format!("<!doctype html><p>{what}\n"))).into_response()
}

/// The same for an unknown app key. Nobody may frame this.
fn unregistered() -> Response {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let page = Html("<!doctype html><p>origin is not registered for the account of this app_key\n");
    (StatusCode::FORBIDDEN, headers, page).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    #[test]
    fn an_origin_says_nothing_else() {
        for good in ["https://shop.example", "http://localhost:3000", "https://[2001:db8::1]", "http://a_b-c.example"] {
            assert!(is_origin(good), "{good}");
        }
        for bad in
            ["", "null", "*", "https://shop.example/", "https://SHOP.example", "https://a.example https://b.example"]
        {
            assert!(!is_origin(bad), "{bad}");
        }
        for c in "\"';*=()&,$!+`{}~".chars() {
            assert!(!is_origin(&format!("https://a{c}b.example")), "{c}");
        }
    }

    #[test]
    fn whatever_is_an_origin_means_nothing_in_a_policy_or_in_html() {
        check(prop_oneof![mutated("https://shop.example:8443"), mutated("http://[::1]:80"), texts()], |text| {
            if is_origin(&text) {
                assert!(!text.contains(|c: char| c.is_whitespace() || "\"'<>;,*&\\".contains(c)), "{text}");
                assert!(text.starts_with("https://") || text.starts_with("http://"), "{text}");
            }
        });
    }
}
