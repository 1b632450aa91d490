//! The configuration of a card form: the provider that its script sends the card to, in exchange for a token.

use domain::accounts::{Mode, Payee};
use domain::checkout::FieldSession;
use maud::{Markup, html};
use providers::ProviderKind;
use texts::Texts;
use url::Url;

use super::card_inputs::{inputs, script_texts, stripe_inputs};
use super::scripts::{FIELD, FIELD_STRIPE, PAY, PAY_STRIPE, Script};
use super::stripe_origins::StripeOrigins;
use crate::app::App;

/// Sources that a Content-Security-Policy allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources<'a> {
    script: Option<&'a str>,
    frame: Option<(&'a str, &'a str)>,
    connect: Option<&'a str>,
    /// Browsers apply `form-action` to the redirect to a challenge after a form post.
    form_action: Option<&'a str>,
}

impl Sources<'_> {
    /// The directives of a payment page, which posts to this service.
    pub(crate) fn of_page(self) -> String {
        let also = |source: Option<&str>| source.map(|source| format!(" {source}")).unwrap_or_default();
        format!(
            "script-src 'self'{}; connect-src 'self'{}{}; form-action 'self'{}",
            also(self.script),
            also(self.connect),
            self.frames(),
            also(self.form_action),
        )
    }

    /// The directives of a card field, which sends the card to the provider only.
    pub(super) fn of_field(self) -> String {
        let script = self.script.map(|source| format!(" {source}")).unwrap_or_default();
        let connect = self.connect.map(|source| format!("; connect-src {source}")).unwrap_or_default();
        format!("script-src 'self'{script}{connect}{}; form-action 'none'", self.frames())
    }

    fn frames(self) -> String {
        self.frame.map(|(first, second)| format!("; frame-src {first} {second}")).unwrap_or_default()
    }
}

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
    Stripe {
        /// The publishable key of the account at Stripe.
        key: String,
        origins: StripeOrigins,
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
            ProviderKind::Stripe => {
                Some(Self::Stripe { key: field_key?.to_owned(), origins: app.stripe_origins.as_ref().clone() })
            }
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

    /// The sources, besides this service, that the Content-Security-Policy of a page with the form allows.
    pub(crate) fn sources(&self) -> Sources<'_> {
        match self {
            Self::Mock => Sources::default(),
            Self::Gateway { origin, .. } => {
                Sources { connect: Some(origin), form_action: Some(origin), ..Sources::default() }
            }
            Self::Stripe { origins: StripeOrigins { parts, api, challenges, .. }, .. } => Sources {
                script: Some(parts),
                frame: Some((parts, challenges)),
                connect: Some(api),
                form_action: Some(challenges),
            },
        }
    }

    /// The card inputs.
    pub(crate) fn inputs(&self, texts: &Texts) -> Markup {
        match self {
            Self::Mock | Self::Gateway { .. } => inputs(texts),
            Self::Stripe { .. } => stripe_inputs(texts),
        }
    }

    /// The elements of the scripts of a payment page; `folder` is that of our scripts, relative to the page.
    pub(crate) fn pay_scripts(&self, folder: &str) -> Markup {
        self.scripts(folder, &PAY, &PAY_STRIPE)
    }

    /// As [`Self::pay_scripts`], of a card field.
    pub(super) fn field_scripts(&self, folder: &str) -> Markup {
        self.scripts(folder, &FIELD, &FIELD_STRIPE)
    }

    fn scripts(&self, folder: &str, own: &Script, with_stripe: &Script) -> Markup {
        match self {
            Self::Mock | Self::Gateway { .. } => own.element(folder),
            // Stripe changes its script at any time, so it has no hash.
            Self::Stripe { origins, .. } => html! {
                script src={ (origins.script) "/v3/" } defer {}
                (with_stripe.element(folder))
            },
        }
    }

    /// The form around the inputs, from which the script reads this configuration and the texts that it shows.
    pub(crate) fn form(&self, purpose: FormPurpose<'_>, texts: &Texts, fields: &Markup) -> Markup {
        let (provider, token_url, app_key, key) = match self {
            Self::Mock => ("mock", None, None, None),
            Self::Gateway { token_url, app_key, .. } => ("gateway", Some(token_url), Some(app_key), None),
            Self::Stripe { key, .. } => ("stripe", None, None, Some(key)),
        };
        let (id, action, origin) = match purpose {
            FormPurpose::Pay { action } => ("pay", Some(action), None),
            FormPurpose::Field { origin } => ("card", None, Some(origin)),
        };
        html! {
            form id=(id) .card method=[action.map(|_| "post")] action=[action] novalidate autocomplete="on"
                data-provider=(provider) data-token-url=[token_url] data-app-key=[app_key] data-key=[key]
                data-origin=[origin] data-texts=(script_texts(texts)) { (fields) }
        }
    }
}

/// What the form is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FormPurpose<'a> {
    /// A payment page, which posts the token to this URL.
    Pay { action: &'a str },
    /// A card field, which sends the token to the page of this origin.
    Field { origin: &'a str },
}

#[cfg(test)]
mod tests {
    use texts::Language;

    use super::*;

    #[test]
    fn the_gateway_origin_has_no_path() {
        let tokenization_config =
            CardTokenizationConfig::gateway("https://cards.example:8443/gw", "a\"b").expect("a gateway");
        let origin = Some("https://cards.example:8443");
        let sources = Sources { connect: origin, form_action: origin, ..Sources::default() };
        assert_eq!(tokenization_config.sources(), sources);
        let form = tokenization_config.form(FormPurpose::Pay { action: "?" }, Language::En.texts(), &html! {});
        let attributes = "data-provider=\"gateway\" \
                          data-token-url=\"https://cards.example:8443/gw/services/field_token\" data-app-key=\"a&quot;b\"";
        assert!(form.into_string().contains(attributes));
        assert_eq!(CardTokenizationConfig::gateway("not a url", "key"), None);
    }
    #[test]
    fn the_policy_names_exactly_the_origins_of_the_provider() {
        let stripe = CardTokenizationConfig::Stripe { key: "pk_test_1".to_owned(), origins: StripeOrigins::new(None) };
        assert_eq!(
            stripe.sources().of_page(),
            "script-src 'self' https://js.stripe.com https://*.js.stripe.com; connect-src 'self' https://api.stripe.com; \
             frame-src https://js.stripe.com https://*.js.stripe.com https://hooks.stripe.com; form-action 'self' https://hooks.stripe.com"
        );
        assert_eq!(
            stripe.sources().of_field(),
            "script-src 'self' https://js.stripe.com https://*.js.stripe.com; connect-src https://api.stripe.com; \
             frame-src https://js.stripe.com https://*.js.stripe.com https://hooks.stripe.com; form-action 'none'"
        );
        assert_eq!(CardTokenizationConfig::Mock.sources().of_field(), "script-src 'self'; form-action 'none'");
        let other = StripeOrigins::new(Some("http://127.0.0.1:9/stripe"));
        assert_eq!((&*other.script, &*other.api), ("http://127.0.0.1:9", "http://127.0.0.1:9"));
    }
}
