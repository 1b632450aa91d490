//! The configuration of a card form: the provider that its script sends the card to, in exchange for a token.

use domain::accounts::{Mode, Payee};
use domain::checkout::FieldSession;
use providers::ProviderKind;
use url::Url;

use crate::app::App;
use crate::html::Text;

/// What the script of a card form must know about the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CardTokenizationConfig {
    /// The script itself maps test cards to test tokens, so no card leaves the browser.
    Mock,
    Gateway {
        /// Scheme, host and port of the gateway, for the Content-Security-Policy.
        origin: String,
        /// The URL that the card is posted to.
        token_url: String,
        /// Identifies the account at the gateway; public.
        app_key: String,
    },
}

impl CardTokenizationConfig {
    /// The configuration for an account's payment pages; `None` if the account cannot accept payments, or its provider
    /// cannot take cards from a browser.
    pub(crate) fn of_payee(app: &App, payee: &Payee) -> Option<Self> {
        let tokenization_config = Self::find(app, payee.provider, payee.mode, payee.field_key.as_deref());
        tokenization_config.filter(|_| payee.accepts_payments)
    }

    /// The configuration for the card field of a checkout session; `None` as above.
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

    /// The only origin, besides this service, that the page may connect to.
    pub(crate) fn origin(&self) -> Option<&str> {
        match self {
            Self::Mock => None,
            Self::Gateway { origin, .. } => Some(origin),
        }
    }

    /// The attributes of the form element, from which the script reads this configuration.
    pub(crate) fn attributes(&self) -> String {
        match self {
            Self::Mock => "data-provider=\"mock\"".to_owned(),
            Self::Gateway { token_url, app_key, .. } => format!(
                "data-provider=\"gateway\" data-token-url=\"{}\" data-app-key=\"{}\"",
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
    fn the_gateway_origin_has_no_path() {
        let tokenization_config =
            CardTokenizationConfig::gateway("https://cards.example:8443/gw", "a\"b").expect("a gateway");
        assert_eq!(tokenization_config.origin(), Some("https://cards.example:8443"));
        let attributes = "data-provider=\"gateway\" \
                          data-token-url=\"https://cards.example:8443/gw/services/field_token\" data-app-key=\"a&quot;b\"";
        assert_eq!(tokenization_config.attributes(), attributes);
        assert_eq!(CardTokenizationConfig::gateway("not a url", "key"), None);
    }
}
