//! Invoice numbers: consecutive per account, starting at 1, without gaps.

use std::fmt;

use serde::Serialize;

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

schema::schema_is!(Number, schema::text("^INV-[0-9]{6,}$", "INV-000001"));

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
