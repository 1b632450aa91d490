//! Who takes a card from a browser.

use common::accounts::{Mode, Payee};
use common::checkout::FieldSession;
use common::providers::ProviderKind;
use url::Url;

use crate::app::App;
use crate::pages::html::Text;

/// Who changes a card for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taker {
    /// The script itself, which knows the test cards. Nothing is sent.
    Mock,
    /// The card gateway.
    Gateway {
        /// Its scheme, host and port.
        origin: String,
        /// Where a card is sent.
        token_url: String,
        /// By what it knows the account; public.
        app_key: String,
    },
}

impl Taker {
    /// Who takes the cards of this account's payers; nobody if its provider cannot be reached from a browser.
    pub(crate) fn of_payee(app: &App, payee: &Payee) -> Option<Self> {
        let taker = Self::find(app, payee.provider, payee.mode, payee.field_key.as_deref());
        taker.filter(|_| payee.takes_payments)
    }

    /// Who takes the card of a checkout session.
    pub(super) fn of_session(app: &App, session: &FieldSession) -> Option<Self> {
        Self::find(app, session.provider, session.mode, session.field_key.as_deref())
    }

    fn find(app: &App, provider: ProviderKind, mode: Mode, field_key: Option<&str>) -> Option<Self> {
        match provider {
            ProviderKind::Mock => (mode == Mode::Test).then_some(Self::Mock),
            ProviderKind::CardGateway => Self::gateway(app.card_gateway_url.as_deref()?, field_key?),
        }
    }

    fn gateway(base: &str, app_key: &str) -> Option<Self> {
        let origin = Url::parse(base).ok()?.origin();
        origin.is_tuple().then(|| Self::Gateway {
            origin: origin.ascii_serialization(),
            token_url: format!("{base}/services/field_token"),
            app_key: app_key.to_owned(),
        })
    }

    /// The one server that a page with this taker's card inputs may speak to, if any.
    pub(crate) fn origin(&self) -> Option<&str> {
        match self {
            Self::Mock => None,
            Self::Gateway { origin, .. } => Some(origin),
        }
    }

    /// What the script reads of the form.
    pub(crate) fn attributes(&self) -> String {
        match self {
            Self::Mock => "data-provider=\"mock\"".to_owned(),
            Self::Gateway { token_url, app_key, .. } => format!(
                "data-provider=\"processor\" data-token-url=\"{}\" data-app-key=\"{}\"",
                Text(token_url),
                Text(app_key)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_reached_at_its_origin() {
        let taker = Taker::gateway("https://cards.example:8443/gw", "a\"b").expect("a gateway");
        assert_eq!(taker.origin(), Some("https://cards.example:8443"));
        let attributes = "data-provider=\"processor\" \
                          data-token-url=\"https://cards.example:8443/gw/services/field_token\" data-app-key=\"a&quot;b\"";
        assert_eq!(taker.attributes(), attributes);
        assert_eq!(Taker::gateway("not a url", "key"), None);
    }
}
