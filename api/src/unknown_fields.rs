//! Rejects body fields and query parameters that a route does not have. Otherwise a misspelt `capture` would capture
//! money, and a misspelt filter would list everything.
//!
//! The names come from the route's [`OperationDoc`], so the OpenAPI document and this check cannot differ.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use foundation::error::Error;
use foundation::form::{self, NotUtf8};
use providers::capabilities::Permission;
use serde_json::Value;

use crate::body::{self, MAX_BODY, ValidatedBody, field};
use crate::error::ApiResult;
use crate::openapi::operation_doc::OperationDoc;
use crate::replays;
use crate::retry::read_body;
use crate::used_key::UsedKey;

/// The largest edit distance at which a name is suggested.
const MAX_EDIT_DISTANCE: usize = 2;
/// Unknown fields that one message names.
const MAX_NAMED: usize = 50;

/// The input that a route accepts.
pub(crate) struct InputSpec {
    operation: Option<Permission>,
    /// The query parameters, and whether they may be repeated.
    parameters: BTreeMap<String, bool>,
    body: Shape,
}

/// The input of a route, built at its first request.
pub(crate) type LazySpec = LazyLock<InputSpec, Box<dyn FnOnce() -> InputSpec + Send>>;

/// The fields that a JSON value may have.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    /// Not checked here.
    Any,
    List(Box<Self>),
    Object(BTreeMap<String, Self>),
}

/// Parses and checks the query and the body before the handler runs.
pub(crate) async fn read(State(spec): State<Arc<LazySpec>>, request: Request, next: Next) -> Response {
    let has_ignored_key =
        spec.operation.is_some_and(replays::ignores_key) && request.headers().contains_key(&replays::IDEMPOTENCY_KEY);
    let response = read_and_run(&spec, request, next).await.into_response();
    if has_ignored_key { replays::mark_not_honoured(response) } else { response }
}

async fn read_and_run(spec: &InputSpec, request: Request, next: Next) -> ApiResult {
    let (mut parts, body) = request.into_parts();
    spec.check_query(parts.uri.query().unwrap_or_default())?;
    body::single_header(&parts.headers, "Idempotency-Key")?;
    let content_type = body::single_header(&parts.headers, "Content-Type")?;
    let bytes = read_body(&parts.extensions, body::read(body, MAX_BODY)).await?;
    if let Some(key) = parts.extensions.get::<UsedKey>() {
        key.check_again().await?;
    }
    let json = body::parse(content_type.map(HeaderValue::as_bytes), &bytes)?;
    spec.check_body(&json, &bytes)?;
    body::reject_nul(&json)?;
    parts.extensions.insert(ValidatedBody { json: Arc::new(json), operation: spec.operation });
    Ok(next.run(Request::from_parts(parts, Body::empty())).await)
}

impl InputSpec {
    pub(crate) fn of(operation: Option<Permission>, doc: &OperationDoc) -> Self {
        let in_query = doc.parameters.iter().filter(|parameter| parameter["in"] == "query");
        let parameters = in_query.filter_map(|parameter| {
            let repeated = parameter["schema"]["type"] == "array";
            Some((parameter["name"].as_str()?.to_owned(), repeated))
        });
        let parameters = parameters.collect();
        let body = doc.body_schema().map_or_else(|| Shape::Object(BTreeMap::new()), |schema| Shape::of(&schema));
        Self { operation, parameters, body }
    }

    fn check_query(&self, query: &str) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        for parameter in form::fields(query.as_bytes()) {
            let name = match parameter {
                Ok((name, _)) => name,
                Err(NotUtf8::Name) => return Err(Error::invalid("", "the query string must be valid UTF-8")),
                Err(NotUtf8::Value(name)) => {
                    let name = field("", &name);
                    let message = format!("{name} must be valid UTF-8");
                    return Err(Error::invalid(name, message));
                }
            };
            let Some(repeated) = self.parameters.get(&name) else {
                let known = self.parameters.keys().map(String::as_str).collect();
                return Err(Unknown::new(field("", &name), &name, known).error("query parameter"));
            };
            if !seen.insert(name.clone()) && !repeated {
                let message = format!("{name} must be sent once");
                return Err(Error::invalid(name, message));
            }
        }
        Ok(())
    }

    /// Names all unknown fields at once, in the order of the body.
    fn check_body(&self, json: &Value, bytes: &[u8]) -> Result<(), Error> {
        let mut unknown = Vec::new();
        self.body.find_unknown(json, "", &mut unknown);
        if unknown.len() > 1 {
            let paths = body::paths(bytes);
            let places: BTreeMap<_, _> = paths.iter().enumerate().rev().map(|(i, path)| (path, i)).collect();
            unknown.sort_by_key(|unknown| places.get(&unknown.param).copied().unwrap_or(usize::MAX));
        }
        let mut unknown = unknown.into_iter();
        let Some(first) = unknown.next() else { return Ok(()) };
        let others: Vec<_> = unknown.collect();
        if others.is_empty() {
            return Err(first.error("field"));
        }
        let more = (others.len() + 1).saturating_sub(MAX_NAMED);
        let named = [&first].into_iter().chain(&others).take(MAX_NAMED).map(Unknown::with_suggestion);
        let mut names = named.collect::<Vec<_>>().join(", ");
        if more > 0 {
            names = format!("{names} and {more} more");
        }
        let message = format!("{names} are not fields of this operation");
        Err(Error::invalid(first.param, message))
    }
}

impl Shape {
    /// The fields of a JSON schema.
    fn of(schema: &Value) -> Self {
        if let Some(properties) = schema["properties"].as_object() {
            return Self::Object(properties.iter().map(|(name, schema)| (name.clone(), Self::of(schema))).collect());
        }
        if schema.get("items").is_some() {
            return Self::List(Box::new(Self::of(&schema["items"])));
        }
        let choices = schema["oneOf"].as_array().into_iter().flatten().map(Self::of);
        choices.fold(Self::Any, Self::union)
    }

    /// Allows the fields of both.
    fn union(self, other: Self) -> Self {
        match (self, other) {
            (Self::Object(mut one), Self::Object(other)) => {
                one.extend(other);
                Self::Object(one)
            }
            (Self::Any, known) | (known, Self::Any | Self::List(_) | Self::Object(_)) => known,
        }
    }

    /// Finds unknown fields. Values of the wrong type are rejected when the handler deserializes the body.
    fn find_unknown<'a>(&'a self, value: &Value, path: &str, unknown: &mut Vec<Unknown<'a>>) {
        match (self, value) {
            (Self::Object(known), Value::Object(fields)) => {
                for (name, value) in fields {
                    let path = field(path, name);
                    match known.get(name) {
                        Some(shape) => shape.find_unknown(value, &path, unknown),
                        None => unknown.push(Unknown::new(path, name, known.keys().map(String::as_str).collect())),
                    }
                }
            }
            (Self::List(items), Value::Array(values)) => {
                for (i, value) in values.iter().enumerate() {
                    items.find_unknown(value, &format!("{path}[{i}]"), unknown);
                }
            }
            (Self::Any | Self::List(_) | Self::Object(_), _) => {}
        }
    }
}

/// A name that an operation does not have.
struct Unknown<'a> {
    param: String,
    known: Vec<&'a str>,
    /// The nearest known name, if one is near.
    meant: Option<&'a str>,
}

impl<'a> Unknown<'a> {
    fn new(param: String, name: &str, known: Vec<&'a str>) -> Self {
        let plain = |name: &str| name.replace(['_', '-', ' '], "").to_lowercase();
        let sent = plain(name);
        let distance = |known: &&str| strsim::osa_distance(&plain(known), &sent);
        let nearest = known.iter().copied().map(|known| (distance(&known), known)).min();
        // Any name is within two edits of a very short one.
        let near = nearest.filter(|(distance, known)| *distance <= MAX_EDIT_DISTANCE.min(known.len() / 3));
        Self { param, meant: near.map(|(_, known)| known), known }
    }

    fn with_suggestion(&self) -> String {
        self.meant.map_or_else(|| self.param.clone(), |meant| format!("{} (did you mean {meant}?)", self.param))
    }

    /// The error for this name alone; it suggests the nearest known one, or lists them all.
    fn error(self, what: &str) -> Error {
        let hint = match (self.meant, self.known.is_empty()) {
            (Some(meant), _) => format!("did you mean {meant}?"),
            (None, true) => "it has none".to_owned(),
            (None, false) => format!("expected one of {}", self.known.join(", ")),
        };
        let message = format!("{} is not a {what} of this operation: {hint}", self.param);
        Error::invalid(self.param, message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::endpoint::Endpoint;
    use crate::routes::endpoints;

    fn rejection(result: Result<(), Error>) -> (String, String) {
        match result {
            Err(Error::Invalid { param, message }) => (param.into_owned(), message.into_owned()),
            other => panic!("{other:?}"),
        }
    }

    fn spec(method: &str, path: &str) -> InputSpec {
        let is_match = |endpoint: &Endpoint| endpoint.method == method && endpoint.path == path;
        let endpoint = endpoints().into_iter().find(is_match).expect("a route");
        InputSpec::of(endpoint.access.operation(), &endpoint.doc)
    }

    #[test]
    fn unknown_fields_are_rejected_with_a_suggestion() {
        let payments = spec("post", "/v1/payments");
        let sent = |body: Value| rejection(payments.check_body(&body, body.to_string().as_bytes()));
        for (name, meant) in
            [("capure", "capture"), ("Amount", "amount"), ("payment_token", "paymentToken"), ("amuont", "amount")]
        {
            let (param, message) = sent(json!({name: 1}));
            assert!(param == name && message.ends_with(&format!("did you mean {meant}?")), "{message}");
        }
        let (param, message) = sent(json!({"zzz": 1}));
        assert!(param == "zzz" && message.contains("expected one of amount, capture"), "{message}");
        let (param, message) = sent(json!({"4242 4242 4242 4242": 1}));
        assert!(!param.contains("42") && !message.contains("42"), "{message}");
        let (param, message) = sent(json!({"x".repeat(60_000): 1}));
        assert!(param.chars().count() < 70 && message.len() < 400, "{message}");
        assert!(payments.check_body(&json!({"amount": 1, "currency": null}), b"").is_ok());
    }

    #[test]
    fn all_unknown_fields_are_named_in_the_order_of_the_body() {
        let invoices = spec("post", "/v1/invoices");
        let sent = |body: &str| {
            let json = serde_json::from_str(body).expect("JSON");
            rejection(invoices.check_body(&json, body.as_bytes()))
        };
        let body = r#"{"zzz": 1, "amount": 1, "items": [{"quantity": 1}, {"quantitty": 1, "b": 1}], "aaa": {"c": 1}}"#;
        let (param, message) = sent(body);
        assert_eq!(param, "zzz");
        let names = "zzz, items[1].quantitty (did you mean quantity?), items[1].b, aaa";
        assert_eq!(message, format!("{names} are not fields of this operation"));
        let many: String = (0..9000).map(|i| format!("\"{}\": 1,", 99_999 - i)).collect();
        let (param, message) = sent(&format!("{{{many}\"amount\": 1}}"));
        assert_eq!(param, "99999");
        assert!(message.contains("99950 and 8950 more are not") && message.len() < 1000, "{message}");
    }

    #[test]
    fn unknown_fields_of_nested_objects_are_rejected() {
        let check = |path: &str, body: &Value| spec("post", path).check_body(body, b"");
        let (param, _) = rejection(check("/v1/invoices", &json!({"items": [{"quantity": 1}, {"quantitty": 1}]})));
        assert_eq!(param, "items[1].quantitty");
        let of = |body: Value| rejection(check("/v1/recurring_invoices", &body)).0;
        assert_eq!(of(json!({"cadence": {"units": 1}})), "cadence.units");
        assert_eq!(of(json!({"template": {"items": [{"a": 1}]}})), "template.items[0].a");
        let row = |row: Value| check("/v1/customers", &json!({"customFields": [row]}));
        assert_eq!(rejection(row(json!({"name": "a", "label": "b"}))).0, "customFields[0].label");
        assert!(row(json!({"name": "a", "type": "text", "value": "b"})).is_ok() && row(json!(1)).is_ok());
    }

    #[test]
    fn unknown_and_repeated_query_parameters_are_rejected() {
        let endpoints = spec("get", "/v1/webhook_endpoints");
        for (query, param, hint) in [
            ("starting_after=x", "starting_after", "did you mean startingAfter?"),
            ("limit=1&status=declined", "status", "expected one of limit, startingAfter"),
            ("limit=1&limit=1", "limit", "must be sent once"),
            ("%6cimi=1", "limi", "did you mean limit?"),
            ("=1", "(empty name)", "expected one of"),
            ("a%00=1", "a\\u{0}", "expected one of"),
            ("limit=1&startingAfter=%EB", "startingAfter", "must be valid UTF-8"),
            ("%EB=1", "", "the query string must be valid UTF-8"),
        ] {
            let (named, message) = rejection(endpoints.check_query(query));
            assert!(named == param && message.contains(hint), "{query}: {named}: {message}");
        }
        assert!(endpoints.check_query("limit=1&&startingAfter=%00").is_ok() && endpoints.check_query("").is_ok());
        assert!(spec("get", "/v1/payments").check_query("status=declined&status=failed").is_ok());
        let (_, message) = rejection(spec("get", "/v1/capabilities").check_query("limit=1"));
        assert!(message.ends_with("it has none"), "{message}");
    }
}
