//! What a request sends, held against what its route knows: a field or parameter of another name is refused by that name. A
//! misspelt `capture` would take money, and a misspelt filter would list everything.
//!
//! What a route knows is read from its sheet, so the document and this check cannot differ.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use common::capabilities::Operation;
use common::error::Error;
use serde_json::Value;

use crate::again::body_of;
use crate::answer::Answer;
use crate::body::{self, MAX_BODY, field};
use crate::idempotency::IDEMPOTENCY_KEY;
use crate::openapi::sheet::Sheet;

/// Two names are near each other if no more changes than this make one of the other.
const NEAR: usize = 2;

/// What a route knows.
pub(crate) struct Known {
    operation: Option<Operation>,
    parameters: BTreeSet<String>,
    body: Shape,
}

/// The body of a request, read and checked, and the operation it asks for.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) json: Arc<Value>,
    pub(crate) operation: Option<Operation>,
}

/// Which fields a value of a body has.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    /// What is within is nobody's business here.
    Any,
    List(Box<Self>),
    Object(BTreeMap<String, Self>),
}

/// Reads query and body before the handler does.
pub(crate) async fn read(State(known): State<Arc<Known>>, request: Request, next: Next) -> Answer {
    let (mut parts, sent) = request.into_parts();
    known.check_query(parts.uri.query().unwrap_or_default())?;
    if parts.headers.get_all(IDEMPOTENCY_KEY).iter().count() > 1 {
        return Err(Error::invalid("Idempotency-Key", "Idempotency-Key must be sent once").into());
    }
    let bytes = body_of(&parts.extensions, sent, MAX_BODY).await?;
    let json = body::parse(parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes), &bytes)?;
    known.body.check(&json, "")?;
    body::refuse_nul(&json)?;
    parts.extensions.insert(Sent { json: Arc::new(json), operation: known.operation });
    Ok(next.run(Request::from_parts(parts, Body::empty())).await)
}

impl Known {
    /// What the sheet says.
    pub(crate) fn of(operation: Option<Operation>, sheet: &Sheet) -> Self {
        let in_query = sheet.parameters.iter().filter(|parameter| parameter["in"] == "query");
        let parameters = in_query.filter_map(|parameter| parameter["name"].as_str()).map(str::to_owned).collect();
        let body = sheet.body_schema().map_or_else(|| Shape::Object(BTreeMap::new()), |schema| Shape::of(&schema));
        Self { operation, parameters, body }
    }

    fn check_query(&self, query: &str) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        for (name, _) in url::form_urlencoded::parse(query.as_bytes()) {
            if !self.parameters.contains(&*name) {
                let known = self.parameters.iter().map(String::as_str);
                return Err(unknown(field("", &name), &name, "query parameter", known));
            }
            if seen.contains(&name) {
                return Err(Error::invalid(name.to_string(), format!("{name} must be sent once")));
            }
            seen.insert(name);
        }
        Ok(())
    }
}

impl Shape {
    /// The fields that a schema names.
    fn of(schema: &Value) -> Self {
        if let Some(properties) = schema["properties"].as_object() {
            return Self::Object(properties.iter().map(|(name, schema)| (name.clone(), Self::of(schema))).collect());
        }
        if schema.get("items").is_some() {
            return Self::List(Box::new(Self::of(&schema["items"])));
        }
        let choices = schema["oneOf"].as_array().into_iter().flatten().map(Self::of);
        choices.fold(Self::Any, Self::or)
    }

    /// Whatever one of two allows.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Object(mut one), Self::Object(other)) => {
                one.extend(other);
                Self::Object(one)
            }
            (Self::Any, known) | (known, Self::Any | Self::List(_) | Self::Object(_)) => known,
        }
    }

    /// Looks for a field that is not known. What is of another kind than expected is for the route to refuse.
    fn check(&self, value: &Value, path: &str) -> Result<(), Error> {
        match (self, value) {
            (Self::Object(known), Value::Object(fields)) => fields.iter().try_for_each(|(name, value)| {
                let path = field(path, name);
                match known.get(name) {
                    Some(shape) => shape.check(value, &path),
                    None => Err(unknown(path, name, "field", known.keys().map(String::as_str))),
                }
            }),
            (Self::List(items), Value::Array(values)) => {
                values.iter().enumerate().try_for_each(|(i, value)| items.check(value, &format!("{path}[{i}]")))
            }
            (Self::Any | Self::List(_) | Self::Object(_), _) => Ok(()),
        }
    }
}

/// A name that is not known, with the one that was meant, perhaps, or with all that are.
fn unknown<'a>(param: String, name: &str, what: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let known: Vec<_> = known.collect();
    let plain = |name: &str| name.replace(['_', '-', ' '], "").to_lowercase();
    let sent = plain(name);
    let distance = |known: &&str| strsim::osa_distance(&plain(known), &sent);
    let nearest = known.iter().copied().map(|known| (distance(&known), known)).min();
    // Of short names, everything would be near.
    let near = nearest.filter(|(distance, known)| *distance <= NEAR.min(known.len() / 3));
    let hint = match (near, known.is_empty()) {
        (Some((_, name)), _) => format!("did you mean {name}?"),
        (None, true) => "there is none".to_owned(),
        (None, false) => format!("known are {}", known.join(", ")),
    };
    let message = format!("{param} is no {what} of this operation: {hint}");
    Error::invalid(param, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::routes::endpoints;

    fn refused(result: Result<(), Error>) -> (String, String) {
        match result {
            Err(Error::Invalid { param, message }) => (param.into_owned(), message.into_owned()),
            other => panic!("{other:?}"),
        }
    }

    fn known(method: &str, path: &str) -> Known {
        let row = endpoints().into_iter().find(|row| row.method == method && row.path == path).expect("a route");
        Known::of(row.operation(), &row.sheet)
    }

    #[test]
    fn an_unknown_field_is_named_with_the_one_that_was_meant() {
        let payments = known("post", "/v1/payments").body;
        let sent = |body: Value| refused(payments.check(&body, ""));
        for (name, meant) in
            [("capure", "capture"), ("Amount", "amount"), ("payment_token", "paymentToken"), ("amuont", "amount")]
        {
            let (param, message) = sent(json!({name: 1}));
            assert!(param == name && message.ends_with(&format!("did you mean {meant}?")), "{message}");
        }
        let (param, message) = sent(json!({"zzz": 1}));
        assert!(param == "zzz" && message.contains("known are amount, capture"), "{message}");
        let (param, message) = sent(json!({"4242 4242 4242 4242": 1}));
        assert!(!param.contains("42") && !message.contains("42"), "{message}");
        let (param, message) = sent(json!({"x".repeat(60_000): 1}));
        assert!(param.chars().count() < 70 && message.len() < 400, "{message}");
        assert!(payments.check(&json!({"amount": 1, "currency": null}), "").is_ok());
    }

    #[test]
    fn so_it_is_within() {
        let invoices = known("post", "/v1/invoices").body;
        let (param, _) = refused(invoices.check(&json!({"items": [{"quantity": 1}, {"quantitty": 1}]}), ""));
        assert_eq!(param, "items[1].quantitty");
        let recurring = known("post", "/v1/recurring_invoices").body;
        let of = |body: Value| refused(recurring.check(&body, "")).0;
        assert_eq!(of(json!({"cadence": {"units": 1}})), "cadence.units");
        assert_eq!(of(json!({"template": {"items": [{"a": 1}]}})), "template.items[0].a");
        let customers = known("post", "/v1/customers").body;
        let row = |row: Value| customers.check(&json!({"customFields": [row]}), "");
        assert_eq!(refused(row(json!({"name": "a", "label": "b"}))).0, "customFields[0].label");
        assert!(row(json!({"name": "a", "type": "text", "value": "b"})).is_ok() && row(json!(1)).is_ok());
    }

    #[test]
    fn a_parameter_is_known_and_sent_once() {
        let payments = known("get", "/v1/payments");
        for (query, param, hint) in [
            ("starting_after=x", "starting_after", "did you mean startingAfter?"),
            ("limit=1&status=declined", "status", "known are limit, startingAfter"),
            ("limit=1&limit=1", "limit", "must be sent once"),
            ("%6cimi=1", "limi", "did you mean limit?"),
            ("=1", "(empty name)", "known are"),
            ("a%00=1", "a\\u{0}", "known are"),
        ] {
            let (named, message) = refused(payments.check_query(query));
            assert!(named == param && message.contains(hint), "{query}: {named}: {message}");
        }
        assert!(payments.check_query("limit=1&&startingAfter=%00").is_ok() && payments.check_query("").is_ok());
        let (_, message) = refused(known("get", "/v1/capabilities").check_query("limit=1"));
        assert!(message.ends_with("there is none"), "{message}");
    }
}
