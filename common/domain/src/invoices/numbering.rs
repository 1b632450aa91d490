//! Invoice numbers: consecutive per account, starting at 1, without gaps.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use utoipa::openapi::Object;

use foundation::filter::FilterValue;
use foundation::schema;

/// A number, displayed as `INV-000001`; at least six digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(transparent)]
pub struct Number(i64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "INV-{:06}", self.0)
    }
}

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FilterValue for Number {
    fn expected() -> Cow<'static, str> {
        "the number of an invoice, such as INV-000001".into()
    }

    fn parse(text: &str) -> Option<Self> {
        let number = Self(text.get(4..)?.parse().ok()?);
        number.to_string().eq_ignore_ascii_case(text).then_some(number)
    }

    fn schema() -> Object {
        schema::text("^INV-[0-9]{6,}$", "INV-000001")
    }
}

schema::schema_is!(Number, <Number as FilterValue>::schema());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_padded_and_never_truncated() {
        assert_eq!(Number(1).to_string(), "INV-000001");
        assert_eq!(Number(999_999).to_string(), "INV-999999");
        assert_eq!(Number(1_000_000).to_string(), "INV-1000000");
    }
}
