//! Request bodies: JSON objects of bounded size. Each error names its field.
//!
//! The field types are strict. Their errors name what is expected and never repeat the value.

mod cadence;
mod calendar;
mod json;
mod merchant_data;
mod nested;
mod strict;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use domain::addresses::Role;
use domain::checkout::Intent;
use domain::events::EventType;
use domain::plans::Interval;
use domain::webhooks;
use foundation::body::ReadError;
use foundation::calendar::PaymentTerms;
use foundation::country::Country;
use foundation::email;
use foundation::error::Error;
use foundation::header::{self, Repeated};
use foundation::money::{Currency, MAX_AMOUNT};
use foundation::schema::{self, schema_is};
use foundation::time::Timestamp;
use foundation::web_url;
use providers::capabilities::Permission;
use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::Value;
use utoipa::openapi::{Object, ObjectBuilder, SchemaFormat, Type};

pub(crate) use self::cadence::{CadenceInterval, CadenceUnit, DayOfMonth, InvoiceMode};
pub(crate) use self::calendar::{Day, Zone};
pub(crate) use self::json::{field, paths};
pub(crate) use self::merchant_data::{ExternalId, Metadata, merchant_data};
pub(crate) use self::nested::{Nested, optional_list};
use self::strict::strict;
use crate::error::ApiError;

/// In bytes.
pub(crate) const MAX_BODY: usize = 64 * 1024;
/// How long a client may take to send the body, after the head.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// The parsed body of a request, and the operation of its route. `unknown_fields::read` inserts it before every handler
/// of the route table.
#[derive(Clone)]
pub(crate) struct ValidatedBody {
    pub(crate) json: Arc<Value>,
    pub(crate) operation: Option<Permission>,
}

/// The deserialized body.
pub(crate) struct Body<T> {
    pub(crate) fields: T,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let body = parts.extensions.get::<ValidatedBody>().ok_or_else(ApiError::internal)?;
        Self::from_json(&body.json)
    }
}

impl<T: DeserializeOwned> Body<T> {
    fn from_json(json: &Value) -> Result<Self, ApiError> {
        let fields = serde_path_to_error::deserialize(json).map_err(|error| {
            let param = error.path().to_string();
            let message = format!("{param} {}", error.inner());
            Error::invalid(param, message)
        })?;
        Ok(Self { fields })
    }

    /// Parses a body without the check for unknown fields.
    #[cfg(test)]
    pub(crate) fn of(content_type: Option<&[u8]>, bytes: &[u8]) -> Result<(Self, Value), ApiError> {
        let json = parse(content_type, bytes)?;
        reject_nul(&json)?;
        Ok((Self::from_json(&json)?, json))
    }
}

/// The value of a header that may be sent once.
///
/// # Errors
/// 422 naming a repeated header.
pub(crate) fn single_header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a HeaderValue>, Error> {
    header::single(headers, name).map_err(|Repeated| Error::invalid(name, format!("{name} must be sent once")))
}

/// Parses a body. An empty one is an empty object.
///
/// # Errors
/// 422 if it is not a JSON object, or an object has the same key twice.
pub(crate) fn parse(content_type: Option<&[u8]>, bytes: &[u8]) -> Result<Value, Error> {
    if bytes.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    if !content_type.is_some_and(is_json) {
        return Err(Error::invalid("Content-Type", "Content-Type must be application/json"));
    }
    let json = json::parse(bytes)?;
    if json.is_object() { Ok(json) } else { Err(Error::invalid("", "the body must be a JSON object")) }
}

/// Reads a body of up to `limit` bytes.
///
/// # Errors
/// 413 over the limit, 408 after a timeout, 422 if the body ends early.
pub(crate) async fn read(body: axum::body::Body, limit: usize) -> Result<Bytes, ApiError> {
    foundation::body::read(body, limit, TIMEOUT).await.map_err(|error| unread(error, limit))
}

/// Why a body of up to `limit` bytes was not read within [`TIMEOUT`].
pub(crate) fn unread(error: ReadError, limit: usize) -> ApiError {
    match error {
        ReadError::TooLong => ApiError::body_too_large(limit),
        ReadError::TooLate => ApiError::body_timeout(TIMEOUT),
        ReadError::Incomplete => Error::invalid("", "the body could not be read").into(),
    }
}

fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"application/json")
}

/// Postgres cannot store NUL in text, so it is rejected here, naming the field.
pub(crate) fn reject_nul(json: &Value) -> Result<(), Error> {
    fn within(value: &Value, path: String) -> Result<(), Error> {
        match value {
            Value::String(text) if text.contains('\0') => {
                let message = format!("{path} must not contain the character U+0000");
                Err(Error::invalid(path, message))
            }
            Value::Array(items) => {
                items.iter().enumerate().try_for_each(|(i, item)| within(item, format!("{path}[{i}]")))
            }
            // A field of the body itself has a known name, or is refused by it.
            Value::Object(fields) if !path.is_empty() && fields.keys().any(|key| key.contains('\0')) => {
                let message = format!("{path} must not have names that contain the character U+0000");
                Err(Error::invalid(path, message))
            }
            Value::Object(fields) => fields.iter().try_for_each(|(key, item)| within(item, field(&path, key))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }
    within(json, String::new())
}

/// A required field.
///
/// # Errors
/// 422 naming the field.
pub(crate) fn required<T>(name: &'static str, value: Option<T>) -> Result<T, Error> {
    value.ok_or_else(|| Error::invalid(name, format!("{name} is required")))
}

/// Distinguishes a missing field (`None`) from `null` (`Some(None)`), with `#[serde(default, deserialize_with)]`.
pub(crate) fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(from).map(Some)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckoutIntent(pub(crate) Intent);

impl<'de> Deserialize<'de> for CheckoutIntent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "one of one_time, store", |value| match value.as_str()? {
            "one_time" => Some(Self(Intent::OneTime)),
            "store" => Some(Self(Intent::Store)),
            _ => None,
        })
    }
}

schema_is!(CheckoutIntent, schema::enumeration(["one_time", "store"]));

/// An event type that an endpoint can enable, by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventName(pub(crate) EventType);

impl<'de> Deserialize<'de> for EventName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(
            from,
            "an event type, such as payment.captured; /docs lists them, and an empty list means all",
            |value| {
                let name = value.as_str()?;
                EventType::subscribable().find(|event| event.name() == name).map(Self)
            },
        )
    }
}

schema_is!(EventName, schema::enumeration(EventType::subscribable().map(EventType::name)));

/// Whether deliveries are sent to a webhook endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndpointStatus(pub(crate) webhooks::EndpointStatus);

impl<'de> Deserialize<'de> for EndpointStatus {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "one of enabled, disabled", |value| {
            let name = value.as_str()?;
            webhooks::EndpointStatus::ALL.into_iter().find(|status| status.name() == name).map(Self)
        })
    }
}

schema_is!(EndpointStatus, schema::enumeration(webhooks::EndpointStatus::ALL.map(|status| status.name())));

/// A positive amount in minor units. `10.0`, `1e3`, `"10"` and `true` are rejected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount(pub(crate) i64);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let expected = "a whole number of minor units from 1 to 9007199254740991";
        strict(from, expected, |value| value.as_i64().filter(|n| (1..=MAX_AMOUNT).contains(n)).map(Self))
    }
}

schema_is!(Amount, schema::integer(1, MAX_AMOUNT));

/// An amount in minor units that may be 0, such as a tax.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NonNegativeAmount(pub(crate) i64);

impl<'de> Deserialize<'de> for NonNegativeAmount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let expected = "a whole number of minor units from 0 to 9007199254740991";
        strict(from, expected, |value| value.as_i64().filter(|n| (0..=MAX_AMOUNT).contains(n)).map(Self))
    }
}

schema_is!(NonNegativeAmount, schema::integer(0, MAX_AMOUNT));

/// 1 or more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity(pub(crate) i64);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let expected = "a whole number from 1 to 9007199254740991";
        strict(from, expected, |value| value.as_i64().filter(|n| (1..=MAX_AMOUNT).contains(n)).map(Self))
    }
}

schema_is!(Quantity, schema::integer(1, MAX_AMOUNT));

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag(pub(crate) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "true or false", |value| value.as_bool().map(Self))
    }
}

schema_is!(Flag, Object::with_type(Type::Boolean));

/// A currency code, case-insensitive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrencyCode(pub(crate) Currency);

impl<'de> Deserialize<'de> for CurrencyCode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "an ISO 4217 currency code, such as USD", |value| Currency::active(value.as_str()?).ok().map(Self))
    }
}

schema_is!(CurrencyCode, schema::currency_code());

/// A country code, case-insensitive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountryCode(pub(crate) Country);

impl<'de> Deserialize<'de> for CountryCode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "an ISO 3166-1 alpha-2 country code, such as US", |value| value.as_str()?.parse().ok().map(Self))
    }
}

schema_is!(CountryCode, schema::text(&Country::pattern(), "US"));

/// The purpose of a default address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressRole(pub(crate) Role);

impl<'de> Deserialize<'de> for AddressRole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "one of billing, shipping", |value| match value.as_str()? {
            "billing" => Some(Self(Role::Billing)),
            "shipping" => Some(Self(Role::Shipping)),
            _ => None,
        })
    }
}

schema_is!(AddressRole, schema::enumeration(["billing", "shipping"]));

/// The unit of a plan's billing interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanInterval(pub(crate) Interval);

impl<'de> Deserialize<'de> for PlanInterval {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "one of day, week, month, year", |value| {
            let name = value.as_str()?;
            Interval::ALL.into_iter().find(|interval| interval.name() == name).map(Self)
        })
    }
}

schema_is!(PlanInterval, schema::enumeration(Interval::ALL.map(Interval::name)));

/// The number of intervals between two charges. Bounded here by the maximum for `day`; longer intervals allow less.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntervalCount(pub(crate) i32);

impl<'de> Deserialize<'de> for IntervalCount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "a whole number from 1 to 1095", |value| {
            let count = i32::try_from(value.as_i64()?).ok()?;
            (1..=Interval::Day.max_count()).contains(&count).then_some(Self(count))
        })
    }
}

schema_is!(IntervalCount, schema::integer(1, Interval::Day.max_count().into()));

/// The payment terms of an invoice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms(pub(crate) PaymentTerms);

impl<'de> Deserialize<'de> for Terms {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "one of due_on_receipt, net_7, net_15, net_30, net_60", |value| {
            let name = value.as_str()?;
            PaymentTerms::ALL.into_iter().find(|terms| terms.name() == name).map(Self)
        })
    }
}

schema_is!(Terms, schema::enumeration(PaymentTerms::ALL.map(PaymentTerms::name)));

/// An RFC 3339 timestamp with any offset, from the year 1 to [`Timestamp::MAX`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant(pub(crate) Timestamp);

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let expected =
            "an RFC 3339 timestamp with an offset, such as 2026-11-21T09:30:00Z, and at most 9999-12-30T22:00:00Z";
        strict(from, expected, |value| Timestamp::parse(value.as_str()?).map(Self))
    }
}

schema_is!(Instant, schema::instant());

/// A string of 1 to 255 characters without control characters.
#[derive(Clone, Debug)]
pub(crate) struct Text(pub(crate) String);

fn bounded_text(value: &Value, max: usize) -> Option<&str> {
    let text = value.as_str()?;
    let length = text.chars().count();
    ((1..=max).contains(&length) && !text.chars().any(char::is_control)).then_some(text)
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let expected = "a string of 1 to 255 characters without control characters";
        strict(from, expected, |value| {
            bounded_text(value, domain::customers::MAX_TEXT).map(|text| Self(text.to_owned()))
        })
    }
}

schema_is!(Text, bounded(schema::NO_CONTROL).build());

/// A string of 1 to 500 characters without control characters.
#[derive(Clone, Debug)]
pub(crate) struct Description(pub(crate) String);

impl Description {
    const MAX: usize = 500;
}

impl<'de> Deserialize<'de> for Description {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "a string of 1 to 500 characters without control characters", |value| {
            bounded_text(value, Self::MAX).map(|text| Self(text.to_owned()))
        })
    }
}

schema_is!(Description, bounded(schema::NO_CONTROL).max_length(Some(Description::MAX)).build());

/// The schema of a [`Text`] with this pattern.
fn bounded(pattern: &str) -> ObjectBuilder {
    let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern));
    text.min_length(Some(1)).max_length(Some(domain::customers::MAX_TEXT))
}

/// One e-mail address.
#[derive(Clone, Debug)]
pub(crate) struct Email(pub(crate) String);

impl<'de> Deserialize<'de> for Email {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "one e-mail address of up to 254 characters, such as ada@example.com", |value| {
            value.as_str().filter(|text| email::is_email(text)).map(|text| Self(text.to_owned()))
        })
    }
}

schema_is!(
    Email,
    bounded(&email::pattern())
        .max_length(Some(email::MAX_LENGTH))
        .examples([serde_json::json!("ada@example.com")])
        .build()
);

/// An id, token or session. The handler validates it; its length is limited by the body's.
#[derive(Clone, Debug)]
pub(crate) struct Reference(pub(crate) String);

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "a string", |value| value.as_str().map(|text| Self(text.to_owned())))
    }
}

schema_is!(Reference, Object::with_type(Type::String));

/// An http(s) URL, as given.
#[derive(Clone, Debug)]
pub(crate) struct WebUrl(pub(crate) String);

impl<'de> Deserialize<'de> for WebUrl {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "an http(s) URL of up to 2048 characters", |value| {
            value.as_str().filter(|text| web_url::parse(text).is_ok()).map(|text| Self(text.to_owned()))
        })
    }
}

schema_is!(
    WebUrl,
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::Custom("iri".to_owned())))
        .pattern(Some("^[Hh][Tt][Tt][Pp][Ss]?://"))
        .max_length(Some(web_url::MAX_LENGTH))
        .build()
);
