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

/// The value of a new cookie: a name, and its keyed hash with the user's e-mail address. If a code was accepted, the name
/// says of which second factor: who has had only the password, however often, has no attempts of their own at codes.
pub(crate) fn new(app: &App, email: &str, factor: Option<&str>) -> String {
    let device = factor.into_iter().fold(random_hex(DEVICE), |name, factor| format!("{name}-{factor}"));
    let seal = hex(&app.api.peppers().current().hash(&sealed(&device, email)));
    format!("{device}.{seal}")
}

/// The name of the device if this user has signed in with it. A new pepper makes all devices unknown.
pub(crate) fn known<'a>(app: &App, headers: &'a HeaderMap, email: &str) -> Option<&'a str> {
    let (device, seal) = cookie_named(NAME, headers)?.split_once('.')?;
    let seal = foundation::crypto::unhex(seal)?;
    app.api.peppers().current().matches(&sealed(device, email), &seal).then_some(device)
}

/// Whether a code of this second factor was accepted when the device got its name.
pub(crate) fn has_passed(device: &str, factor: &str) -> bool {
    device.split_once('-').is_some_and(|(_, passed)| passed == factor)
}

/// Whether another user was the last one to sign in with this browser.
pub(crate) fn is_of_another(app: &App, headers: &HeaderMap, email: &str) -> bool {
    cookie_named(NAME, headers).is_some() && known(app, headers, email).is_none()
}

fn sealed(device: &str, email: &str) -> String {
    format!("portal device {device} {}", email.to_lowercase())
}
