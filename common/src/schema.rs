//! Schemas of what the compiler cannot read off a type: texts with a form, words of a closed list. They stand in the
//! document at `/openapi.json` (docs/architecture.md, The document of the API).

use serde_json::json;
use utoipa::openapi::{KnownFormat, Object, ObjectBuilder, SchemaFormat, Type};

use crate::money::MAX_AMOUNT;

/// A schema for a field, as `#[schema(schema_with = …)]` takes it.
pub type Field = utoipa::openapi::RefOr<utoipa::openapi::Schema>;

/// What no text of a request has: control characters.
pub const NO_CONTROL: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";

/// A text that is one of these words.
pub fn word(words: impl IntoIterator<Item = &'static str>) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
}

/// A text of this form.
pub fn text(pattern: &str, example: &str) -> Object {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).examples([json!(example)]).build()
}

/// A pattern of these codes, each in any case.
pub fn any_case(codes: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let letter = |c: char| format!("[{c}{}]", c.to_ascii_lowercase());
    let codes: Vec<String> = codes.into_iter().map(|code| code.as_ref().chars().map(letter).collect()).collect();
    format!("^({})$", codes.join("|"))
}

/// A whole number.
pub fn whole(minimum: i64, maximum: i64) -> Object {
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

/// An instant.
pub fn instant() -> Object {
    let pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$";
    let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
    ObjectBuilder::from(text(pattern, "2026-11-21T09:30:00.123Z")).format(Some(format)).build()
}

/// A day.
pub fn day() -> Object {
    let format = SchemaFormat::KnownFormat(KnownFormat::Date);
    ObjectBuilder::from(text("^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "2026-11-21")).format(Some(format)).build()
}

/// The address of a page of ours.
pub fn page() -> Field {
    let format = SchemaFormat::Custom("uri".to_owned());
    ObjectBuilder::new().schema_type(Type::String).format(Some(format)).build().into()
}

/// An amount in an answer.
pub fn amount() -> Field {
    whole(0, MAX_AMOUNT).into()
}

/// The last four digits of a card.
pub fn last4() -> Field {
    text("^[0-9]{4}$", "4242").into()
}

/// A month of a year.
pub fn month() -> Field {
    whole(1, 12).into()
}

/// A year in four digits.
pub fn year() -> Field {
    whole(1000, 9999).into()
}

/// Gives a type the schema of an expression, under its own name.
#[macro_export]
macro_rules! schema_is {
    ($name:ty, $schema:expr) => {
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $schema.into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}

pub use schema_is;

macro_rules! kinds {
    ($($name:ident)*) => {$(
        /// The word in `object`.
        pub fn $name() -> Field {
            word([stringify!($name)]).into()
        }
    )*};
}

kinds!(address capabilities checkout_session collection_attempt customer invoice list payment payment_link payment_method plan recurring_invoice refund subscription test_clock token webhook_delivery webhook_endpoint);
