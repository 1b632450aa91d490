//! Posted forms. Only the requested fields are read; the rest is neither stored nor logged.

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::HeaderValue;
use foundation::error::Error;

use crate::body::{self, single_header};
use crate::error::ApiError;
use crate::retry::read_body;

/// The query parameter with the id of the reader's own payment.
pub(super) const PAYMENT: &str = "payment";

/// In bytes.
const MAX_FORM: usize = 8 * 1024;

/// Reads the body of a form.
///
/// # Errors
/// 422 if it is not a form, 413 over the limit, 408 after a timeout.
pub(super) async fn read(request: Request) -> Result<Bytes, ApiError> {
    let content_type = single_header(request.headers(), "Content-Type")?.map(HeaderValue::as_bytes);
    let essence = content_type.and_then(|value| value.split(|b| *b == b';').next()).unwrap_or_default().trim_ascii();
    if !essence.eq_ignore_ascii_case(b"application/x-www-form-urlencoded") {
        let message = "Content-Type must be application/x-www-form-urlencoded";
        return Err(Error::invalid("Content-Type", message).into());
    }
    let (parts, body) = request.into_parts();
    read_body(&parts.extensions, body::read(body, MAX_FORM)).await
}

/// The first value of a form field or query parameter.
pub(super) fn value(encoded: &[u8], name: &str) -> Option<String> {
    url::form_urlencoded::parse(encoded).find(|(field, _)| field == name).map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated_bytes, noise, texts};

    #[test]
    fn a_field_is_found_by_its_exact_name() {
        let sent = b"number=4242424242424242&token=tok_ok%21+x&token=second&=&&x";
        assert_eq!(value(sent, "token").as_deref(), Some("tok_ok! x"));
        assert_eq!(value(sent, "other"), None);
        assert_eq!(value(b"", "token"), None);
        assert_eq!(value(b"token", "token").as_deref(), Some(""));
        assert_eq!(value(b"token=%ff", "token").as_deref(), Some("\u{fffd}"));
    }

    #[test]
    fn values_are_returned_as_entered() {
        check(prop_oneof![mutated_bytes("token=tok_ok&amount=1250&tip=1"), noise()], |sent| {
            let token = value(&sent, "token");
            assert!(token.is_none_or(|token| token.len() <= 3 * sent.len()));
        });
        check((texts(), texts()), |(card, other)| {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            let form = form.append_pair("x", &other).append_pair("token", &card).append_pair("token", &other).finish();
            assert_eq!(value(form.as_bytes(), "token"), Some(card));
        });
    }
}
