//! Who reads a page: the language, and how links keep it.

use axum::extract::Request;
use axum::http::header::ACCEPT_LANGUAGE;
use domain::payments::Payment;
use foundation::id::PaymentId;
use foundation::money::Currency;
use maud::{Markup, html};
use texts::{Language, Texts};

use super::posted_form::{PAYMENT, value};
use crate::html::Price;

/// The query parameter with the chosen language.
pub(super) const LANG: &str = "lang";
/// The query parameter of a page shown after a submission that came too late to be charged.
const LATE: &str = "late";

/// The reader of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    pub(super) language: Language,
    /// Whether the language was chosen in the URL, so that links must repeat it.
    is_chosen: bool,
    /// The reader's own payment, by the URL.
    pub(super) payment: Option<PaymentId>,
    /// Whether the reader's submission was refused because of the page's state.
    pub(super) is_late: bool,
}

impl Reader {
    pub(super) fn of(request: &Request) -> Self {
        let query = request.uri().query().unwrap_or_default().as_bytes();
        let lang = value(query, LANG);
        let accepted = request.headers().get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        let language = Language::of_request(lang.as_deref(), accepted);
        Self {
            language,
            is_chosen: lang.as_deref().and_then(Language::of_tag) == Some(language),
            payment: value(query, PAYMENT).and_then(|id| id.parse().ok()),
            is_late: value(query, LATE).is_some(),
        }
    }

    /// The reader, in the language that was chosen before, unless this URL chooses one.
    pub(super) fn or_language(self, code: Option<&str>) -> Self {
        match code.and_then(Language::of_tag) {
            Some(language) if !self.is_chosen => Self { language, is_chosen: true, ..self },
            Some(_) | None => self,
        }
    }

    /// The code of the language, if it was chosen.
    pub(super) fn chosen_language(self) -> Option<&'static str> {
        self.is_chosen.then(|| self.language.code())
    }

    pub(super) fn texts(self) -> &'static Texts {
        self.language.texts()
    }

    pub(super) fn price(self, minor: i64, currency: Currency) -> Price {
        Price::new(self.language, minor, currency)
    }

    /// The page's URL, relative to itself.
    pub(super) fn page(self, token: &str) -> String {
        if self.is_chosen { format!("{token}{}", self.query(&[])) } else { token.to_owned() }
    }

    /// The page's URL for the reader's payment.
    pub(super) fn page_of(self, token: &str, payment: &Payment) -> String {
        format!("{token}{}", self.query(&[(PAYMENT, &payment.id.to_string())]))
    }

    /// The page's URL after a submission that came too late.
    pub(super) fn page_when_late(self, token: &str) -> String {
        format!("{token}{}", self.query(&[(LATE, "1")]))
    }

    /// The URL of a document of the page, relative to the page.
    pub(super) fn document(self, token: &str, name: &str) -> String {
        let payment = self.payment.map(|id| id.to_string());
        let payment = payment.as_ref().map(|id| (PAYMENT, id.as_str()));
        format!("{token}/{name}{}", self.query(payment.as_slice()))
    }

    /// The query of a link that keeps the language; not empty, so that it also replaces the query of the current page.
    pub(super) fn query(self, pairs: &[(&str, &str)]) -> String {
        let language = self.chosen_language().map(|code| (LANG, code));
        let mut query = url::form_urlencoded::Serializer::for_suffix(String::from("?"), 1);
        query.extend_pairs(pairs.iter().copied().chain(language)).finish()
    }

    /// Links to the same page in each language.
    pub(super) fn languages(self) -> Markup {
        let payment = self.payment.map(|id| id.to_string());
        let late = self.is_late.then_some((LATE, "1"));
        let kept: Vec<_> = payment.iter().map(|id| (PAYMENT, id.as_str())).chain(late).collect();
        html! {
            nav.languages aria-label=(self.texts().language()) {
                @for language in Language::iter().copied() {
                    @let link = Self { language, is_chosen: true, ..self }.query(&kept);
                    @let is_current = (language == self.language).then_some("true");
                    a href=(link) lang=(language.code()) hreflang=(language.code()) aria-current=[is_current] {
                        (language.language_name())
                    }
                }
            }
        }
    }
}
