//! Who is signed in, and in which account a page works.

use std::net::SocketAddr;
use std::sync::Arc;

use ::texts::Language;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::{AppendHeaders, IntoResponse as _, Redirect, Response};
use domain::accounts::{Caller, Mode};
use domain::users::{self, LIFETIME, SignedIn};
use foundation::crypto::{Secret, hex, unhex};

use crate::address::{is_page, mode_of};
use crate::app::App;
use crate::failure::Failure;
use crate::texts::set_language;

/// Browsers send it over TLS or loopback only, to this host only, and no script reads it.
const NAME: &str = "__Host-session";
/// The page that was requested without a session, and how many seconds it is kept for the sign-in.
const REQUESTED_PAGE: &str = "__Host-asked";
const REQUESTED_PAGE_LIFETIME: u64 = 600;

/// The cookie of the session.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    cookie_named(NAME, headers)
}

pub(crate) fn cookie_named<'a>(wanted: &str, headers: &'a HeaderMap) -> Option<&'a str> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('=')).find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

pub(crate) fn set_cookie(name: &str, value: &str, seconds: u64) -> String {
    format!("{name}={value}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax")
}

/// Sets the cookie of a session.
pub(crate) fn set_session(value: &Secret<String>) -> String {
    set_cookie(NAME, value.expose(), LIFETIME.as_secs())
}

pub(crate) fn remove_session() -> String {
    set_cookie(NAME, "", 0)
}

/// The page to which a sign-in leads: the one that was requested before it, or the first one.
pub(crate) fn requested_page(headers: &HeaderMap) -> String {
    let text = cookie_named(REQUESTED_PAGE, headers).and_then(unhex).and_then(|bytes| String::from_utf8(bytes).ok());
    text.filter(|text| is_page(text)).unwrap_or_else(|| "/".to_owned())
}

pub(crate) fn forget_requested_page() -> String {
    set_cookie(REQUESTED_PAGE, "", 0)
}

/// Sends the browser to the sign-in, after which it gets the page that it has requested.
fn sign_in_first(parts: &Parts) -> Response {
    let page = parts.uri.path_and_query().map(|page| page.as_str());
    let page = page.filter(|page| parts.method == Method::GET && is_page(page));
    let cookie = page.map(|page| set_cookie(REQUESTED_PAGE, &hex(page.as_bytes()), REQUESTED_PAGE_LIFETIME));
    (cookie.map(|cookie| AppendHeaders([(SET_COOKIE, cookie)])), Redirect::to("/sign-in")).into_response()
}

/// The user of the request. Without one, the browser is sent to the sign-in.
pub(crate) struct User {
    pub(crate) signed_in: SignedIn,
    pub(crate) cookie: Secret<String>,
}

impl FromRequestParts<App> for User {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let client = ConnectInfo::<SocketAddr>::from_request_parts(parts, app).await;
        let ConnectInfo(client) = client.map_err(|error| Failure::internal(error).into_response())?;
        // A client that sends invented cookies must not reach the database at any rate.
        if !app.may_ask(client.ip()).await {
            return Err(Failure::TooMany.into_response());
        }
        let cookie = cookie(&parts.headers).unwrap_or_default();
        let found = users::find_session(app.api.pool(), cookie).await;
        if let Ok(Some(SignedIn { language: Some(chosen), .. })) = &found
            && let Some(language) = Language::of_tag(chosen)
        {
            set_language(language);
        }
        match found {
            Ok(Some(signed_in)) if !app.may_open(signed_in.id, client.ip()).await => {
                Err(Failure::TooMany.into_response())
            }
            Ok(Some(signed_in)) => Ok(Self { signed_in, cookie: Secret::new(cookie.to_owned()) }),
            Ok(None) => Err(sign_in_first(parts)),
            Err(error) => Err(Failure::internal(error).into_response()),
        }
    }
}

/// The session of a user in one of the merchant's accounts.
#[derive(Clone)]
pub(crate) struct AccountSession {
    pub(crate) user: SignedIn,
    /// The session's cookie.
    pub(crate) cookie: Secret<String>,
    pub(crate) mode: Mode,
    /// The account's name.
    pub(crate) name: String,
    pub(crate) caller: Arc<Caller>,
    /// Whether the merchant has an account in the other mode as well.
    pub(crate) has_other: bool,
}

impl AccountSession {
    /// # Errors
    /// [`Failure::NotFound`] if the merchant has no account in this mode.
    pub(crate) async fn begin(app: &App, user: User, mode: &str) -> Result<Self, Failure> {
        let mode = mode_of(mode).ok_or(Failure::NotFound)?;
        let User { signed_in: user, cookie } = user;
        let (db, now) = (app.api.pool(), app.clock.now());
        let account = users::account(db, &user, mode, now).await.map_err(Failure::internal)?;
        let account = account.ok_or(Failure::NotFound)?;
        let caller = app.api.caller(account.key, user.role).await.map_err(Failure::internal)?;
        Ok(Self { user, cookie, mode, name: account.name, caller, has_other: account.has_other })
    }

    /// The same with the user as of now, for what is done some time after the request began.
    ///
    /// # Errors
    /// [`Failure::SignedOut`] if the session has ended.
    pub(crate) async fn again(&self, app: &App) -> Result<Self, Failure> {
        let found = users::find_session(app.api.pool(), self.cookie.expose()).await.map_err(Failure::internal)?;
        let user = User { signed_in: found.ok_or(Failure::SignedOut)?, cookie: self.cookie.clone() };
        Self::begin(app, user, self.mode.name()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_found_among_others() {
        for (header, found) in [
            ("__Host-session=ab", Some("ab")),
            ("a=b; __Host-session=ab; c=d", Some("ab")),
            ("session=ab", None),
            ("x__Host-session=ab", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(COOKIE, header.parse().expect("a header"))]);
            assert_eq!(cookie(&headers), found, "{header}");
        }
    }
}
