//! Every location in a request that can hold an object id, from the OpenAPI document. A parameter or body field that is
//! not listed here fails the test, so that a new one cannot be added without an isolation test.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Client;

/// Text fields of bodies that are not ids of an account's objects.
const NOT_IDS: &[&str] = &[
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
    // Dates and times.
    "collectAt",
    "dueAt",
    "endDate",
    "expiresAt",
    "startAt",
    "startDate",
    "to",
    // Scoped to an account: `external_ids_and_keys_are_scoped_to_an_account`.
    "externalId",
    // Scoped to an account at the provider: card_gateway::tokens.
    "upstreamToken",
];

/// Text fields of bodies that are ids, with the kind of object.
const ID_FIELDS: &[(&str, &str)] = &[
    ("customerId", "cus"),
    ("paymentMethodId", "pm"),
    ("paymentToken", "token"),
    ("planId", "plan"),
    ("sessionId", "cs"),
];

/// Parameters that are not ids.
const NOT_ID_PARAMETERS: &[&str] = &[
    "limit",
    "wait",
    "Origin",
    "Idempotency-Key",
    // Filters of an account's own rows.
    "status",
    "type",
    "email",
    "name",
    "number",
    "currency",
    "last4",
    "amountFrom",
    "amountTo",
    "createdFrom",
    "createdTo",
    "dueFrom",
    "dueTo",
    "day",
];

/// Where a request holds an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Location {
    Path,
    Query(String),
    Body(String),
}

/// An operation of the OpenAPI document.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) name: String,
    pub(super) method: Method,
    pub(super) path: String,
    /// Locations of ids, with the kind of object.
    pub(super) slots: Vec<(Location, String)>,
    /// Required query parameters.
    required: BTreeSet<String>,
    example: Value,
}

impl Operation {
    /// Whether the response is a page of objects.
    pub(super) fn is_list(&self) -> bool {
        self.slots
            .contains(&(Location::Query("startingAfter".to_owned()), self.cursor().unwrap_or_default().to_owned()))
    }

    fn cursor(&self) -> Option<&str> {
        self.kind(&Location::Query("startingAfter".to_owned()))
    }

    fn kind(&self, location: &Location) -> Option<&str> {
        self.slots.iter().find(|(slot, _)| slot == location).map(|(_, kind)| kind.as_str())
    }

    /// Whether browsers call it with a publishable key.
    pub(super) fn is_for_browsers(&self) -> bool {
        ["checkout_sessions.create", "tokens.create"].contains(&self.name.as_str())
    }

    /// The example request with ids from `own`, except the id given for one location.
    pub(super) fn request(
        &self,
        own: impl Fn(&str) -> String,
        location: Option<(&Location, &str)>,
    ) -> (String, Option<String>) {
        let at = |slot: &Location| location.filter(|(location, _)| *location == slot).map(|(_, id)| id.to_owned());
        let (mut path, mut body, mut query) = (self.path.clone(), self.example.clone(), Vec::new());
        for (slot, kind) in &self.slots {
            match slot {
                Location::Path => path = path.replace("{id}", &at(slot).unwrap_or_else(|| own(kind))),
                Location::Query(name) => {
                    let id = at(slot).or_else(|| self.required.contains(name).then(|| own(kind)));
                    query.extend(id.map(|id| format!("{name}={id}")));
                }
                Location::Body(name) => {
                    let id = at(slot).or_else(|| self.example.get(name).map(|_| own(kind)));
                    if let Some(id) = id {
                        body[name] = id.into();
                    }
                }
            }
        }
        // A payment accepts only one source.
        if self.name == "payments.create" && body.get("paymentMethodId").is_some() {
            body.as_object_mut().expect("a body").remove("paymentToken");
        }
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        (path, (!self.example.is_null()).then(|| body.to_string()))
    }
}

/// Reads the operations from `/openapi.json`.
pub(super) async fn operations(api: &Client) -> Result<Vec<Operation>> {
    let document = api.get("/openapi.json").await?.body;
    let (mut operations, mut unknown) = (Vec::new(), Vec::new());
    for (path, methods) in document["paths"].as_object().context("paths")? {
        for (method, description) in methods.as_object().context("methods")? {
            let name = description["operationId"].as_str().context("a name")?.to_owned();
            let mut slots = Vec::new();
            let mut required = BTreeSet::new();
            for parameter in description["parameters"].as_array().into_iter().flatten() {
                let (parameter_name, location) = (text(parameter, "name"), text(parameter, "in"));
                match kind_of_parameter(parameter) {
                    Some(kind) if location == "path" => slots.push((Location::Path, kind)),
                    Some(kind) if location == "query" => {
                        if parameter["required"] == true {
                            required.insert(parameter_name.clone());
                        }
                        slots.push((Location::Query(parameter_name), kind));
                    }
                    None if NOT_ID_PARAMETERS.contains(&parameter_name.as_str()) && location != "path" => {}
                    _ => unknown.push(format!("{name}: {location} {parameter_name}")),
                }
            }
            let content = &description["requestBody"]["content"]["application/json"];
            for (field, nested) in texts(&document, &content["schema"]) {
                match ID_FIELDS.iter().find(|(name, _)| *name == field) {
                    Some((_, kind)) if !nested => slots.push((Location::Body(field), (*kind).to_owned())),
                    None if NOT_IDS.contains(&field.as_str()) => {}
                    _ => unknown.push(format!("{name}: body {field}")),
                }
            }
            let method = method.to_uppercase().parse()?;
            let example = content["example"].clone();
            operations.push(Operation { name, method, path: path.clone(), slots, required, example });
        }
    }
    assert!(
        unknown.is_empty(),
        "list in tenant_isolation/document.rs whether these are ids:\n  {}",
        unknown.join("\n  ")
    );
    let slots: usize = operations.iter().map(|operation| operation.slots.len()).sum();
    assert!(operations.len() >= 58 && slots >= 60, "{} operations with {slots} locations", operations.len());
    Ok(operations)
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// The kind of object, from the pattern of an id (`^cus_[…`); `externalId` is treated as a kind.
fn kind_of_parameter(parameter: &Value) -> Option<String> {
    if parameter["name"] == "externalId" {
        return Some("externalId".to_owned());
    }
    // The id of an object of any kind.
    if parameter["name"] == "objectId" {
        return Some("pay".to_owned());
    }
    let (kind, _) = parameter["schema"]["pattern"].as_str()?.strip_prefix('^')?.split_once("_[")?;
    Some(kind.to_owned())
}

/// The free-text fields of a body, with whether each is nested.
fn texts(document: &Value, schema: &Value) -> BTreeSet<(String, bool)> {
    fn walk(document: &Value, schema: &Value, nested: bool, found: &mut BTreeSet<(String, bool)>) {
        let schema = resolved(document, schema);
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let field = resolved(document, field);
            let is_type = |kind: &str| {
                field["type"] == kind || field["type"].as_array().is_some_and(|all| all.contains(&json!(kind)))
            };
            if is_type("string") && field.get("enum").is_none() {
                found.insert((name.clone(), nested));
            }
            walk(document, field, true, found);
            // The strings of a list are listed under the name of the list.
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
