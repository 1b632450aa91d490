//! Every place of every route where the name of an object may stand, as the api's own document lists them. A route, a parameter
//! or a text of a body that this page does not know fails the test by its name: nobody can add one and forget the wall.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Client;

/// Texts of bodies that name no object of an account.
const PLAIN: &[&str] = &[
    "city",
    "company",
    "country",
    "currency",
    "description",
    "email",
    "firstName",
    "lastName",
    "line1",
    "line2",
    "name",
    "phone",
    "postalCode",
    "returnUrl",
    "state",
    "timezone",
    "url",
    // Dates and instants.
    "collectAt",
    "dueAt",
    "endDate",
    "expiresAt",
    "startAt",
    "startDate",
    "to",
    // It is free in each account: `names_are_free_in_each_account`.
    "externalId",
    // It is the provider's, and bound to its account there: card_gateway::tokens.
    "upstreamToken",
];

/// Texts of bodies that name one, and what.
const NAMES: &[(&str, &str)] = &[
    ("customerId", "cus"),
    ("paymentMethodId", "pm"),
    ("paymentToken", "token"),
    ("planId", "plan"),
    ("sessionId", "cs"),
];

/// Parameters that name no object.
const PLAIN_PARAMETERS: &[&str] = &["limit", "status", "Origin", "Idempotency-Key"];

/// Where a name stands in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query(String),
    Body(String),
}

/// An operation of the document.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) name: String,
    pub(super) method: Method,
    pub(super) path: String,
    /// Where names of objects may stand, and of which kind they are.
    pub(super) slots: Vec<(Place, String)>,
    /// Parameters of its query without which it is refused.
    required: BTreeSet<String>,
    example: Value,
}

impl Operation {
    /// Whether it answers with a page of objects.
    pub(super) fn is_list(&self) -> bool {
        self.slots.contains(&(Place::Query("startingAfter".to_owned()), self.cursor().unwrap_or_default().to_owned()))
    }

    fn cursor(&self) -> Option<&str> {
        self.kind(&Place::Query("startingAfter".to_owned()))
    }

    fn kind(&self, place: &Place) -> Option<&str> {
        self.slots.iter().find(|(slot, _)| slot == place).map(|(_, kind)| kind.as_str())
    }

    /// Whether it is for a page of the merchant and not for its server.
    pub(super) fn is_for_browsers(&self) -> bool {
        ["checkout_sessions.create", "tokens.create"].contains(&self.name.as_str())
    }

    /// The request that the document shows, with `own` in place of what it names, but `id` in `place`.
    pub(super) fn request(
        &self,
        own: impl Fn(&str) -> String,
        place: Option<(&Place, &str)>,
    ) -> (String, Option<String>) {
        let at = |slot: &Place| place.filter(|(place, _)| *place == slot).map(|(_, id)| id.to_owned());
        let (mut path, mut body, mut query) = (self.path.clone(), self.example.clone(), Vec::new());
        for (slot, kind) in &self.slots {
            match slot {
                Place::Path => path = path.replace("{id}", &at(slot).unwrap_or_else(|| own(kind))),
                Place::Query(name) => {
                    let id = at(slot).or_else(|| self.required.contains(name).then(|| own(kind)));
                    query.extend(id.map(|id| format!("{name}={id}")));
                }
                Place::Body(name) => {
                    let id = at(slot).or_else(|| self.example.get(name).map(|_| own(kind)));
                    if let Some(id) = id {
                        body[name] = id.into();
                    }
                }
            }
        }
        // A payment has one source.
        if self.name == "payments.create" && body.get("paymentMethodId").is_some() {
            body.as_object_mut().expect("a body").remove("paymentToken");
        }
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        (path, (!self.example.is_null()).then(|| body.to_string()))
    }
}

/// Reads the document that the api shows.
pub(super) async fn operations(api: &Client) -> Result<Vec<Operation>> {
    let document = api.get("/openapi.json").await?.body;
    let (mut operations, mut unknown) = (Vec::new(), Vec::new());
    for (path, methods) in document["paths"].as_object().context("paths")? {
        for (method, described) in methods.as_object().context("methods")? {
            let name = described["operationId"].as_str().context("a name")?.to_owned();
            let mut slots = Vec::new();
            let mut required = BTreeSet::new();
            for parameter in described["parameters"].as_array().into_iter().flatten() {
                let (parameter_name, place) = (text(parameter, "name"), text(parameter, "in"));
                match kind_of_parameter(parameter) {
                    Some(kind) if place == "path" => slots.push((Place::Path, kind)),
                    Some(kind) if place == "query" => {
                        if parameter["required"] == true {
                            required.insert(parameter_name.clone());
                        }
                        slots.push((Place::Query(parameter_name), kind));
                    }
                    None if PLAIN_PARAMETERS.contains(&parameter_name.as_str()) && place != "path" => {}
                    _ => unknown.push(format!("{name}: {place} {parameter_name}")),
                }
            }
            let content = &described["requestBody"]["content"]["application/json"];
            for (field, nested) in texts(&document, &content["schema"]) {
                match NAMES.iter().find(|(name, _)| *name == field) {
                    Some((_, kind)) if !nested => slots.push((Place::Body(field), (*kind).to_owned())),
                    None if PLAIN.contains(&field.as_str()) => {}
                    _ => unknown.push(format!("{name}: body {field}")),
                }
            }
            let method = method.to_uppercase().parse()?;
            let example = content["example"].clone();
            operations.push(Operation { name, method, path: path.clone(), slots, required, example });
        }
    }
    assert!(unknown.is_empty(), "say in walls/document.rs whether these name an object:\n  {}", unknown.join("\n  "));
    let slots: usize = operations.iter().map(|operation| operation.slots.len()).sum();
    assert!(operations.len() >= 58 && slots >= 60, "{} operations with {slots} places", operations.len());
    Ok(operations)
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// By the pattern of an id, which begins with its kind: `^cus_[…`. The one name that a merchant gives is a kind, too.
fn kind_of_parameter(parameter: &Value) -> Option<String> {
    if parameter["name"] == "externalId" {
        return Some("externalId".to_owned());
    }
    let (kind, _) = parameter["schema"]["pattern"].as_str()?.strip_prefix('^')?.split_once("_[")?;
    Some(kind.to_owned())
}

/// Each field of a body that takes any text, and whether it stands within another.
fn texts(document: &Value, schema: &Value) -> BTreeSet<(String, bool)> {
    fn walk(document: &Value, schema: &Value, nested: bool, found: &mut BTreeSet<(String, bool)>) {
        let schema = resolved(document, schema);
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let field = resolved(document, field);
            let of = |kind: &str| {
                field["type"] == kind || field["type"].as_array().is_some_and(|all| all.contains(&json!(kind)))
            };
            if of("string") && field.get("enum").is_none() {
                found.insert((name.clone(), nested));
            }
            walk(document, field, true, found);
            // Of a list of texts, its name says what they are.
            if resolved(document, &field["items"])["type"] == "string" && field["items"].get("enum").is_none() {
                found.insert((name.clone(), true));
            }
            walk(document, &field["items"], true, found);
        }
    }
    let mut found = BTreeSet::new();
    walk(document, schema, false, &mut found);
    found
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
    name.and_then(|path| document.pointer(path)).unwrap_or(schema)
}
