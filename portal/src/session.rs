//! Who is signed in, and in which account a page works.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Redirect, Response};
use domain::accounts::{Caller, Mode};
use domain::users::{self, SignedIn};
use foundation::crypto::Secret;

use crate::address::mode_of;
use crate::app::App;
use crate::failure::Failure;

/// Browsers send it over TLS or loopback only, to this host only, and no script reads it.
pub(crate) const NAME: &str = "__Host-session";

/// The cookie of the session.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    cookie_named(NAME, headers)
}

pub(crate) fn cookie_named<'a>(wanted: &str, headers: &'a HeaderMap) -> Option<&'a str> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('=')).find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// The user of the request. Without one, the browser is sent to the sign-in.
pub(crate) struct User {
    signed_in: SignedIn,
    cookie: Secret<String>,
}

impl FromRequestParts<App> for User {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let cookie = cookie(&parts.headers).unwrap_or_default();
        match users::find_session(app.api.pool(), cookie).await {
            Ok(Some(signed_in)) if !app.may_open(signed_in.id).await => Err(Failure::TooMany.into_response()),
            Ok(Some(signed_in)) => Ok(Self { signed_in, cookie: Secret::new(cookie.to_owned()) }),
            Ok(None) => Err(Redirect::to("/sign-in").into_response()),
            Err(error) => Err(Failure::internal(error).into_response()),
        }
    }
}

/// A user in an account.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) user: SignedIn,
    /// Of the user's session.
    pub(crate) cookie: Secret<String>,
    pub(crate) mode: Mode,
    /// The account's name.
    pub(crate) name: String,
    pub(crate) caller: Arc<Caller>,
    /// Whether the merchant has an account in the other mode as well.
    pub(crate) has_other: bool,
}

impl Work {
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
