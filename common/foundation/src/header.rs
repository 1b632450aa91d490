//! Headers that have one value.

use axum::http::{HeaderMap, HeaderValue};

/// The header was sent more than once. A proxy may have checked another value than the one that would be used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated;

/// The value of a header, if it was sent.
///
/// # Errors
/// It was sent more than once, even with the same value.
pub fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a HeaderValue>, Repeated> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(Repeated),
        (value, None) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::ORIGIN;

    use super::*;

    #[test]
    fn a_repeated_header_has_no_value() {
        let name = "Origin";
        let headers = |values: &[&'static str]| -> HeaderMap {
            values.iter().map(|value| (ORIGIN, HeaderValue::from_static(value))).collect()
        };
        assert_eq!(single(&headers(&[]), name), Ok(None));
        assert_eq!(single(&headers(&["a"]), name), Ok(Some(&HeaderValue::from_static("a"))));
        for repeated in [["a", "a"], ["a", "b"]] {
            assert_eq!(single(&headers(&repeated), name), Err(Repeated));
        }
    }
}
