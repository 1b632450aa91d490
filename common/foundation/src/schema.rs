//! OpenAPI schemas that cannot be derived from a Rust type, such as patterns and enumerations. They appear in
//! `/openapi.json` (docs/architecture.md, OpenAPI document).

use std::sync::LazyLock;

use serde_json::json;
use utoipa::openapi::{KnownFormat, Object, ObjectBuilder, SchemaFormat, Type};

use crate::money::{Currency, MAX_AMOUNT};

/// The schema of a field for `#[schema(schema_with = …)]`, which ignores the comment on the field.
pub type Field = utoipa::openapi::RefOr<utoipa::openapi::Schema>;

/// A pattern for texts without control characters.
pub const NO_CONTROL: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";

/// A string with one of these values.
pub fn enumeration(values: impl IntoIterator<Item = &'static str>) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values)).build()
}

/// A string with one of these values, each with its kind and its meaning, which the description lists.
pub fn explained(
    introduction: &str,
    values: impl IntoIterator<Item = (&'static str, &'static str, &'static str)>,
) -> Object {
    let mut description = introduction.to_owned();
    let names = values.into_iter().map(|(name, kind, meaning)| {
        description += &format!("\n- `{name}` ({kind}): {meaning}");
        name
    });
    let names: Vec<_> = names.collect();
    ObjectBuilder::from(enumeration(names)).description(Some(description)).build()
}

/// A string that matches a pattern.
pub fn text(pattern: &str, example: &str) -> Object {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).examples([json!(example)]).build()
}

/// A case-insensitive pattern of these codes.
pub fn any_case(codes: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let letter = |c: char| format!("[{c}{}]", c.to_ascii_lowercase());
    let codes: Vec<String> = codes.into_iter().map(|code| code.as_ref().chars().map(letter).collect()).collect();
    format!("^({})$", codes.join("|"))
}

/// An integer in a range.
pub fn integer(minimum: i64, maximum: i64) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(int(minimum)))
        .maximum(Some(int(maximum)))
        .build()
}

fn int(n: i64) -> utoipa::Number {
    utoipa::Number::Int(isize::try_from(n).unwrap_or(isize::MAX))
}

/// An id with this prefix.
pub fn id(prefix: &str) -> Object {
    text(&format!("^{prefix}[0-7][0-9A-HJKMNP-TV-Z]{{25}}$"), &format!("{prefix}01KAJ4M2V8Q0S5T7W9X1Y3Z5A7"))
}

/// A timestamp in UTC with milliseconds.
pub fn timestamp() -> Object {
    let pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$";
    let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
    ObjectBuilder::from(text(pattern, "2026-11-21T09:30:00.123Z")).format(Some(format)).build()
}

/// A timestamp in a request, with any offset.
pub fn instant() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples([json!("2026-11-21T09:30:00Z")])
        .build()
}

/// A text of up to `max` characters that is not empty.
pub fn bounded_text(max: usize) -> Object {
    ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(max)).build()
}

/// A date.
pub fn date() -> Object {
    let format = SchemaFormat::KnownFormat(KnownFormat::Date);
    ObjectBuilder::from(text("^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "2026-11-21")).format(Some(format)).build()
}

/// The code of a currency in a request, in any case.
pub fn currency_code() -> Object {
    static PATTERN: LazyLock<String> = LazyLock::new(|| any_case(Currency::active_codes()));
    text(&PATTERN, "USD")
}

/// The version of an object.
pub fn version() -> Field {
    integer(1, MAX_AMOUNT).into()
}

/// The last four digits of a card.
pub fn last4() -> Field {
    text("^[0-9]{4}$", "4242").into()
}

/// The month of a card's expiry.
pub fn month() -> Field {
    integer(1, 12).into()
}

/// A year with four digits.
pub fn year() -> Field {
    integer(1000, 9999).into()
}

/// Implements `ToSchema` for a type with the given schema. Its name contains the path, as types of several modules may
/// have one name.
#[macro_export]
macro_rules! schema_is {
    ($name:ty, $schema:expr) => {
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $schema.into()
            }
        }

        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                std::any::type_name::<Self>().into()
            }
        }
    };
}

/// Defines types for `#[schema(value_type = …)]`, each with the given schema. Unlike with `schema_with`, the comment on
/// the field becomes its description.
#[macro_export]
macro_rules! field_types {
    ($($visibility:vis $name:ident = $schema:expr;)*) => {$(
        #[derive(Debug)]
        $visibility enum $name {}
        $crate::schema::schema_is!($name, $schema);
    )*};
}

pub use {field_types, schema_is};

field_types! {
    pub Amount = integer(0, MAX_AMOUNT);
    pub PositiveAmount = integer(1, MAX_AMOUNT);
    pub PageUrl = ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::Custom("uri".to_owned())))
        .build();
}

schema_is!(Currency, text("^[A-Z]{3}$", "USD"));

macro_rules! kinds {
    ($($name:ident)*) => {$(
        /// The value of `object`.
        pub fn $name() -> Field {
            enumeration([stringify!($name)]).into()
        }
    )*};
}

kinds!(address capabilities checkout_session collection_attempt customer dispute event invoice list payment payment_link payment_method plan recurring_invoice refund settlement subscription test_clock token webhook_delivery webhook_endpoint);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_of_currency_codes_matches_those_of_currencies_only() {
        let pattern = currency_code().pattern.expect("a pattern");
        assert!(
            pattern.contains("|[Uu][Ss][Dd]|")
                && !pattern.contains("[Xx][Xx][Xx]")
                && !pattern.contains("[Cc][Hh][Ee]")
        );
    }
}
