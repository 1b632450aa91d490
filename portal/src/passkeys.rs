//! What the pages for passkeys share. A browser makes and uses passkeys with a script only.

use domain::users::PasskeySite;
use maud::{Markup, html};
use url::Url;

use crate::assets;
use crate::texts::text;

/// Where browsers get what they need to make a passkey, and to sign in with one.
pub(crate) const REGISTRATION: &str = "/passkeys/registration";
pub(crate) const SIGN_IN: &str = "/passkeys/sign-in";

/// What the script does with a form.
#[derive(Clone, Copy)]
pub(crate) enum Ceremony {
    Create,
    Get,
}

/// The site of the portal with this URL; `None` if its host has no name, which browsers require of passkeys.
pub(crate) fn site(url: &Url) -> Option<PasskeySite> {
    let host = url.domain()?;
    Some(PasskeySite::new(host, &url.origin().ascii_serialization(), "Unified Payments"))
}

/// The field of a hidden form that the script shows, and fills in when the form is sent; and what is shown if the browser
/// provides nothing.
pub(crate) fn field(ceremony: Ceremony) -> Markup {
    let (name, options) = match ceremony {
        Ceremony::Create => ("create", REGISTRATION),
        Ceremony::Get => ("get", SIGN_IN),
    };
    html! {
        input type="hidden" name="credential" data-passkey=(name) data-options=(options);
        p.problem role="alert" data-failed hidden { (text("The browser provided no passkey. Please try again.")) }
        script src=(assets::PASSKEYS) defer {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passkeys_need_the_name_of_a_host() {
        for (url, has_name) in [
            ("https://portal.example", true),
            ("http://localhost:8070", true),
            ("http://127.0.0.1:8070", false),
            ("http://[::1]:8070", false),
        ] {
            assert_eq!(site(&Url::parse(url).expect("a URL")).is_some(), has_name, "{url}");
        }
    }
}
