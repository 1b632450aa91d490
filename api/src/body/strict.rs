//! Values of one exact type. Their errors never repeat the value.

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::Value;

/// Converts a JSON value with `read`; if it returns `None`, the error names what was expected.
pub(super) fn strict<'de, T, D: Deserializer<'de>>(
    from: D,
    expected: &'static str,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<T, D::Error> {
    let value = Value::deserialize(from)?;
    read(&value).ok_or_else(|| D::Error::custom(format_args!("must be {expected}")))
}
