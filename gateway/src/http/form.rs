//! The fields of a form. They are never printed, because they include keys and card numbers.

use std::collections::HashMap;
use std::net::IpAddr;

use foundation::card_number::excerpt;
use foundation::form::{NotUtf8, fields};

use crate::failure::{Code, Failure, Result};

/// Maximum length of a text in characters.
const MAX_TEXT: usize = 255;

/// A submitted form. If a field occurs twice, the last value counts.
pub(super) struct Form(HashMap<String, String>);

impl Form {
    /// Reads `application/x-www-form-urlencoded`. Input that is not a form just has none of the expected fields.
    ///
    /// # Errors
    /// A1 with the field's name if it is not valid UTF-8, also for a field that no operation has.
    pub(super) fn parse(body: &[u8]) -> Result<Self> {
        let read = fields(body).collect::<Result<_, _>>().map(Self);
        read.map_err(|field| match field {
            NotUtf8::Name => Code::EntryFailed.because("the name of a field is not valid UTF-8"),
            NotUtf8::Value(name) => Failure::field(&excerpt(&name), "is not valid UTF-8"),
        })
    }

    /// A field without surrounding white space; `None` if it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// A text of up to 255 characters.
    ///
    /// # Errors
    /// A1 with the field's name if it is longer or contains control characters.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>> {
        self.text_up_to(name, MAX_TEXT)
    }

    /// A text of up to `max` characters.
    ///
    /// # Errors
    /// A1 with the field's name if it is longer or contains control characters.
    pub(super) fn text_up_to(&self, name: &str, max: usize) -> Result<Option<String>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        if text.chars().count() > max {
            return Err(Failure::field(name, "is too long"));
        }
        if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
            return Err(Failure::field(name, "contains control characters"));
        }
        Ok(Some(text.to_owned()))
    }

    /// A required text without a code of its own.
    ///
    /// # Errors
    /// A1 with the field's name.
    pub(super) fn required(&self, name: &str) -> Result<String> {
        self.text(name)?.ok_or_else(|| Failure::field(name, "is missing"))
    }

    /// Whether a field is `Y`; defaults to `N`.
    ///
    /// # Errors
    /// A1 with the field's name for any other value.
    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        match self.get(name) {
            None | Some("N") => Ok(false),
            Some("Y") => Ok(true),
            Some(_) => Err(Failure::field(name, "must be Y or N")),
        }
    }

    /// The cardholder's IP address, if given.
    ///
    /// # Errors
    /// 22 if it is invalid.
    pub(super) fn client_ip(&self) -> Result<Option<IpAddr>> {
        let Some(text) = self.get("client_ip") else { return Ok(None) };
        text.parse::<IpAddr>().map(|ip| Some(ip.to_canonical())).map_err(|_| Code::Address.refuse())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated_bytes, noise, texts};

    #[test]
    fn fields_are_decoded_as_browsers_encode_them() {
        let form = Form::parse(b"a=1&a=2&b=+x%20y+&c=&d&e=%C3%A9&memo=%00").expect("a form");
        assert_eq!(form.get("a"), Some("2"));
        assert_eq!(form.get("b"), Some("x y"));
        assert_eq!((form.get("c"), form.get("d"), form.get("z")), (None, None, None));
        assert_eq!(form.get("e"), Some("é"));
        assert!(form.text("memo").is_err());
        assert!(Form::parse(b"\x00{]").expect("a form").get("username").is_none());
    }

    #[test]
    fn what_is_not_utf_8_is_refused_without_repeating_a_card_number() {
        for (sent, mentions) in [
            (&b"memo=%EB"[..], "memo"),
            (b"\xff\x00{]", "the name of a field"),
            (b"4242424242424242=%EB", "(number redacted)"),
        ] {
            match Form::parse(sent) {
                Err(Failure::Refused(code, why)) => {
                    assert!(code == Code::EntryFailed && why.contains(mentions), "{why}")
                }
                _ => panic!("{sent:?} was not refused"),
            }
        }
    }

    #[test]
    fn addresses_are_canonical() {
        let ip = |text: &str| Form::parse(format!("client_ip={text}").as_bytes()).expect("a form").client_ip();
        assert_eq!(ip("::ffff:192.0.2.1").expect("an address").expect("there").to_string(), "192.0.2.1");
        assert!(ip("").expect("none").is_none());
        for bad in ["1.2.3", "300.1.1.1", "localhost", "::1::"] {
            assert!(ip(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn any_bytes_parse_and_errors_name_the_field() {
        let sent =
            "username=shop&api_key=k&amount=12.00&memo=a%0Ab&email_receipt=Y&client_ip=192.0.2.1&first_name=J%C3%A9";
        check(prop_oneof![mutated_bytes(sent), noise()], |bytes| {
            let Ok(form) = Form::parse(&bytes) else { return };
            for name in ["username", "amount", "memo", "email_receipt", "first_name"] {
                match form.text(name) {
                    Ok(Some(text)) => {
                        assert!((1..=MAX_TEXT).contains(&text.chars().count()) && text == text.trim());
                        assert!(!text.contains('\0') && form.required(name).is_ok());
                    }
                    Ok(None) => assert!(form.get(name).is_none()),
                    Err(Failure::Refused(code, why)) => {
                        assert!(code == Code::EntryFailed && why.contains(name) && why.len() < 200, "{why}");
                    }
                    Err(other) => panic!("{other:?}"),
                }
                let flag = form.flag(name);
                assert_eq!(matches!(flag, Ok(true)), form.get(name) == Some("Y"));
                assert_eq!(flag.is_err(), !matches!(form.get(name), None | Some("Y" | "N")));
            }
            if let Ok(Some(ip)) = form.client_ip() {
                assert_eq!(ip, ip.to_canonical());
            }
        });
    }

    #[test]
    fn values_are_unchanged_except_for_surrounding_space() {
        check((texts(), texts()), |(former, text)| {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            let sent = form.append_pair("memo", &former).append_pair("memo", &text).finish();
            let form = Form::parse(sent.as_bytes()).expect("a form");
            assert_eq!(form.get("memo").unwrap_or_default(), text.trim());
        });
    }
}
