//! Compares requests and responses with Stripe's published description of its API, of which `distill.py` keeps the facts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::parameters::{ApiError, Parameters};

/// The description that the adapter's version of the API has.
#[derive(Deserialize)]
pub(super) struct Api {
    pub(super) version: String,
    /// The type of each parameter, by `POST /v1/refunds` and name.
    requests: BTreeMap<String, BTreeMap<String, Type>>,
    /// The type of each property, by the kind of object and name.
    objects: BTreeMap<String, BTreeMap<String, Type>>,
}

pub(super) static API: LazyLock<Api> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../data/stripe/api.json")).expect("the description is what distill.py wrote")
});

/// A type, as distill.py documents it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Type {
    Named(String),
    /// One of these strings.
    Enum(Vec<String>),
    Structured(Structured),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Structured {
    Nullable(Box<Type>),
    Any(Vec<Type>),
    Object(String),
    Expandable(String),
    Array(Box<Type>),
}

impl Type {
    /// Whether the value has this type; objects are compared by themselves.
    fn accepts(&self, value: &Value) -> bool {
        match self {
            Self::Named(name) => match &**name {
                "string" => value.is_string(),
                "integer" => value.is_i64(),
                "number" => value.is_number(),
                "boolean" => value.is_boolean(),
                "array" => value.is_array(),
                _ => value.is_object(),
            },
            Self::Enum(values) => value.as_str().is_some_and(|value| values.iter().any(|known| known == value)),
            Self::Structured(Structured::Nullable(inner)) => value.is_null() || inner.accepts(value),
            Self::Structured(Structured::Any(types)) => types.iter().any(|one| one.accepts(value)),
            Self::Structured(Structured::Object(kind)) => is_object(value, kind),
            Self::Structured(Structured::Expandable(kind)) => value.is_string() || is_object(value, kind),
            Self::Structured(Structured::Array(inner)) => {
                value.as_array().is_some_and(|items| items.iter().all(|item| inner.accepts(item)))
            }
        }
    }

    /// Whether the text of a form can have this type.
    fn accepts_text(&self, text: &str) -> bool {
        match self {
            Self::Named(name) if name == "boolean" => text == "true" || text == "false",
            // Numbers are checked by the operations, whose errors name them.
            Self::Named(_) => true,
            Self::Enum(values) => values.iter().any(|known| known == text),
            Self::Structured(Structured::Nullable(inner)) => inner.accepts_text(text),
            Self::Structured(Structured::Any(types)) => types.iter().any(|one| one.accepts_text(text)),
            Self::Structured(_) => true,
        }
    }
}

/// Whether the value is an object of this kind, of one of several kinds (`union`), or of one that does not name itself.
fn is_object(value: &Value, kind: &str) -> bool {
    value.is_object() && value.get("object").is_none_or(|named| kind == "union" || named == kind)
}

/// The parameters of an operation.
fn operation(method: &str, path: &str) -> Option<&'static BTreeMap<String, Type>> {
    let exact = API.requests.get(&format!("{method} {path}"));
    let is_template = |template: &str| {
        let (asked, template) = (path.split('/'), template.split('/'));
        asked.clone().count() == template.clone().count()
            && asked.zip(template).all(|(asked, part)| part.starts_with('{') || part == asked)
    };
    exact.or_else(|| {
        let of_method =
            API.requests.iter().filter_map(|(name, types)| Some((name.strip_prefix(method)?.trim(), types)));
        of_method.filter(|(template, _)| is_template(template)).map(|(_, types)| types).next()
    })
}

/// Refuses parameters that the operation does not have, as Stripe does.
pub(super) fn check_request(method: &str, path: &str, parameters: &Parameters) -> Result<(), ApiError> {
    let unknown_url = || ApiError::new(404, "invalid_request_error", "url_invalid", "Unrecognized request URL.");
    let known = operation(method, path).ok_or_else(unknown_url)?;
    for (name, value) in &parameters.0 {
        let general: Cow<'_, str> = match name.strip_prefix("metadata[") {
            Some(_) => "metadata[*]".into(),
            None => name.into(),
        };
        let Some(kind) = known.get(&*general) else {
            return Err(ApiError::parameter(name, "parameter_unknown", &format!("Received unknown parameter: {name}")));
        };
        if !kind.accepts_text(value) {
            return Err(ApiError::parameter(name, "parameter_invalid", &format!("Invalid {name}: {value}")));
        }
    }
    Ok(())
}

/// Compares each object of a response with its description.
pub(super) fn check_response(body: &Value) -> Result<(), String> {
    if let Value::Array(items) = body {
        return items.iter().try_for_each(check_response);
    }
    let Value::Object(fields) = body else { return Ok(()) };
    let kind = fields.get("object").and_then(Value::as_str).unwrap_or_default();
    if let Some(properties) = API.objects.get(kind) {
        for (name, value) in fields {
            let known = properties.get(name).ok_or_else(|| format!("{kind} has no property {name}"))?;
            if !known.accepts(value) {
                return Err(format!("{kind}.{name} cannot be {value}"));
            }
        }
    }
    fields.values().try_for_each(check_response)
}

/// The permission of a restricted key that a request needs, by Stripe's name.
pub(super) fn permission(method: &str, path: &str) -> Option<String> {
    let resource = match path.split('/').nth(2)? {
        "payment_intents" => "PaymentIntents",
        "refunds" => "Refunds",
        "disputes" => "Disputes",
        "balance_transactions" => "Balance transactions",
        "customers" => "Customers",
        "setup_intents" => "SetupIntents",
        "account" => "Account information",
        "charges" => "Charges",
        "payment_methods" => "PaymentMethods",
        _ => return None,
    };
    Some(format!("{resource}: {}", if method == "GET" { "read" } else { "write" }))
}
