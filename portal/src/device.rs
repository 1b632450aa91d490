//! Browsers that have signed in before. Their attempts are counted apart, so that who guesses a user's password elsewhere
//! does not lock the user out.

use axum::http::HeaderMap;
use foundation::crypto::{hex, random_hex};

use crate::app::App;
use crate::session::cookie_named;

pub(crate) const NAME: &str = "__Host-device";
/// In seconds.
pub(crate) const LIFETIME: u64 = 365 * 86_400;
/// Bytes of the device's name.
const DEVICE: usize = 16;

/// The value of a new cookie: a name, and its keyed hash with the user's e-mail address.
pub(crate) fn new(app: &App, email: &str) -> String {
    let device = random_hex(DEVICE);
    let seal = hex(&app.api.peppers().current().hash(&sealed(&device, email)));
    format!("{device}.{seal}")
}

/// The name of the device if this user has signed in with it. A new pepper makes all devices unknown.
pub(crate) fn known<'a>(app: &App, headers: &'a HeaderMap, email: &str) -> Option<&'a str> {
    let (device, seal) = cookie_named(NAME, headers)?.split_once('.')?;
    let seal = foundation::crypto::unhex(seal)?;
    app.api.peppers().current().matches(&sealed(device, email), &seal).then_some(device)
}

fn sealed(device: &str, email: &str) -> String {
    format!("portal device {device} {}", email.to_lowercase())
}
