//! Forms and query strings (`application/x-www-form-urlencoded`), decoded strictly.

use percent_encoding::percent_decode;

/// What is not valid UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub enum NotUtf8 {
    Name,
    /// The value of the field with this name.
    Value(String),
}

/// The fields in their order. A lenient decoder would replace invalid bytes, so that different values become equal.
///
/// # Errors
/// For each field that is not valid UTF-8.
pub fn fields(encoded: &[u8]) -> impl Iterator<Item = Result<(String, String), NotUtf8>> {
    encoded.split(|byte| *byte == b'&').filter(|field| !field.is_empty()).map(|field| {
        let (name, value) = match field.iter().position(|byte| *byte == b'=') {
            Some(at) => (&field[..at], &field[at + 1..]),
            None => (field, &[][..]),
        };
        let name = decode(name).ok_or(NotUtf8::Name)?;
        match decode(value) {
            Some(value) => Ok((name, value)),
            None => Err(NotUtf8::Value(name)),
        }
    })
}

/// A number in plain digits: no sign, no blanks.
pub fn whole_number(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn decode(encoded: &[u8]) -> Option<String> {
    let spaces: Vec<u8> = encoded.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    String::from_utf8(percent_decode(&spaces).collect()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated_bytes, noise};

    #[test]
    fn what_is_not_utf_8_is_named() {
        for bad in ["Zo%EB", "%C3", "%ed%a0%80", "%ff", "%C3+%A9"] {
            let sent = format!("a=1&name={bad}&b=2");
            let read: Vec<_> = fields(sent.as_bytes()).collect();
            assert_eq!(read[0], Ok(("a".to_owned(), "1".to_owned())));
            assert_eq!(read[1], Err(NotUtf8::Value("name".to_owned())), "{bad}");
            assert_eq!(fields(format!("{bad}=x").as_bytes()).next(), Some(Err(NotUtf8::Name)), "{bad}");
        }
        assert_eq!(fields(b"a=Zo\xeb").next(), Some(Err(NotUtf8::Value("a".to_owned()))));
    }

    #[test]
    fn whole_numbers_are_plain_digits() {
        assert_eq!((whole_number("5"), whole_number("007"), whole_number("0")), (Some(5), Some(7), Some(0)));
        for bad in ["", "+5", "-5", " 5", "5.0", "5e1", "\u{665}", "9223372036854775808"] {
            assert_eq!(whole_number(bad), None, "{bad}");
        }
    }

    #[test]
    fn valid_forms_are_decoded_as_browsers_encode_them() {
        check(prop_oneof![mutated_bytes("a=1&b=+x%20y&c=&d&e=%C3%A9%EF%BF%BD&=&&%zz=%"), noise()], |sent| {
            let Ok(read) = fields(&sent).collect::<Result<Vec<_>, _>>() else { return };
            assert_eq!(read, url::form_urlencoded::parse(&sent).into_owned().collect::<Vec<_>>());
        });
    }
}
