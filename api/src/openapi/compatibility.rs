//! The committed docs/openapi.json is the document of the program. A change that breaks clients needs an entry in the
//! changelog.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use testkit::tools::project_root;

use crate::routes::endpoints;

/// Set to write the file instead of comparing it.
const UPDATE: &str = "UPDATE_OPENAPI";

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn texts(value: &Value) -> BTreeSet<&str> {
    value.as_array().into_iter().flatten().chain(value.is_string().then_some(value)).filter_map(Value::as_str).collect()
}

/// Collects what breaks clients of the old document.
struct Comparison {
    found: Vec<String>,
}

impl Comparison {
    fn of(old: &Value, new: &Value) -> Vec<String> {
        let mut comparison = Self { found: Vec::new() };
        let mut bodies = BTreeSet::new();
        for (path, methods) in entries(&old["paths"]) {
            for (method, operation) in entries(methods) {
                let body = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
                bodies.extend(body.as_str().and_then(|reference| reference.rsplit('/').next()));
                comparison.operation(&format!("{method} {path}"), operation, &new["paths"][path][method]);
            }
        }
        for kind in entries(&old["webhooks"]).map(|(kind, _)| kind) {
            comparison.note(new["webhooks"].get(kind).is_none(), kind, "the event is gone");
        }
        let schemas = &new["components"]["schemas"];
        for (name, schema) in entries(&old["components"]["schemas"]) {
            comparison.schema(name, schema, &schemas[name], bodies.contains(name.as_str()));
        }
        comparison.found
    }

    fn note(&mut self, is_breaking: bool, place: &str, what: &str) {
        if is_breaking {
            self.found.push(format!("{place}: {what}"));
        }
    }

    fn operation(&mut self, place: &str, old: &Value, new: &Value) {
        if new.is_null() {
            return self.note(true, place, "the operation is gone");
        }
        let parameters = |operation: &Value| operation["parameters"].as_array().cloned().unwrap_or_default();
        for after in parameters(new) {
            let name = after["name"].as_str().unwrap_or_default();
            let before = parameters(old).into_iter().find(|before| before["name"] == after["name"]);
            let was_required = before.is_some_and(|before| before["required"] == true);
            self.note(after["required"] == true && !was_required, &format!("{place} {name}"), "is required now");
        }
        for before in parameters(old) {
            let place = format!("{place} {}", before["name"].as_str().unwrap_or_default());
            match parameters(new).into_iter().find(|after| after["name"] == before["name"]) {
                Some(after) => self.schema(&place, &before["schema"], &after["schema"], true),
                None => self.note(true, &place, "the parameter is gone"),
            }
        }
        let body = |operation: &Value| operation["requestBody"]["content"]["application/json"]["schema"].clone();
        self.note(!body(old).is_null() && body(old) != body(new), place, "takes another body");
        for (status, before) in entries(&old["responses"]).filter(|(status, _)| status.starts_with('2')) {
            let after = &new["responses"][status];
            self.note(before["content"] != after["content"], place, &format!("{status} has another body"));
        }
    }

    fn schema(&mut self, place: &str, old: &Value, new: &Value, is_request: bool) {
        if new.is_null() {
            return self.note(true, place, "is gone");
        }
        // A request may allow more than before, a response may contain less.
        let (wide, narrow) = if is_request { (new, old) } else { (old, new) };
        self.note(old["$ref"] != new["$ref"], place, "is another object");
        self.note(!texts(&narrow["type"]).is_subset(&texts(&wide["type"])), place, "has another type");
        let is_narrower = match (wide["enum"].is_array(), narrow["enum"].is_array()) {
            (true, true) => !texts(&narrow["enum"]).is_subset(&texts(&wide["enum"])),
            (limited, before) => limited && !before,
        };
        self.note(is_narrower, place, "has other values");
        if is_request {
            for limit in ["maximum", "maxLength", "maxItems", "maxProperties"] {
                let lower = new[limit].as_i64().is_some_and(|new| old[limit].as_i64().is_none_or(|old| new < old));
                self.note(lower, place, &format!("{limit} is lower"));
            }
            for limit in ["minimum", "minLength", "minItems"] {
                let higher = new[limit].as_i64().is_some_and(|new| old[limit].as_i64().is_none_or(|old| new > old));
                self.note(higher, place, &format!("{limit} is higher"));
            }
            let is_other = |rule: &str| !new[rule].is_null() && new[rule] != old[rule];
            self.note(is_other("pattern") || is_other("format"), place, "has another form");
        }
        let (must, already) = if is_request { (new, old) } else { (old, new) };
        for name in texts(&must["required"]).difference(&texts(&already["required"])) {
            let what = if is_request { "is required now" } else { "may be absent now" };
            self.note(true, &format!("{place}.{name}"), what);
        }
        for (name, before) in entries(&old["properties"]) {
            self.schema(&format!("{place}.{name}"), before, &new["properties"][name], is_request);
        }
        for nested in ["items", "additionalProperties"].into_iter().filter(|nested| old[*nested].is_object()) {
            self.schema(&format!("{place}.{nested}"), &old[nested], &new[nested], is_request);
        }
        for (i, before) in old["oneOf"].as_array().into_iter().flatten().enumerate() {
            self.schema(&format!("{place}.oneOf[{i}]"), before, &new["oneOf"][i], is_request);
        }
    }
}

#[test]
fn the_committed_document_is_current_and_changes_that_break_clients_are_in_the_changelog() {
    let mut document = super::document(&endpoints(), "https://pay.example");
    // Samples follow from the rest.
    for operation in document["paths"].as_object_mut().expect("paths").values_mut() {
        for operation in operation.as_object_mut().expect("methods").values_mut() {
            operation.as_object_mut().expect("an operation").remove("x-codeSamples");
        }
    }
    let path = project_root().join("docs/openapi.json");
    let committed = fs::read_to_string(&path).expect("docs/openapi.json");
    let committed: Value = serde_json::from_str(&committed).expect("JSON");
    let changelog = fs::read_to_string(project_root().join("CHANGELOG.md")).expect("the changelog");
    let unmentioned: Vec<_> = Comparison::of(&committed, &document)
        .into_iter()
        .filter(|change| !change.split_once(": ").is_some_and(|(place, _)| changelog.contains(&format!("`{place}`"))))
        .collect();
    assert!(unmentioned.is_empty(), "breaks clients without an entry in CHANGELOG.md: {unmentioned:#?}");
    if std::env::var_os(UPDATE).is_some() {
        let text = serde_json::to_string_pretty(&document).expect("JSON");
        fs::write(path, text + "\n").expect("docs/openapi.json is writable");
    } else {
        assert!(document == committed, "docs/openapi.json is not current; run this test with {UPDATE}=1 to write it");
    }
}

#[test]
fn changes_that_break_clients_are_found() {
    let document = |body: Value, object: Value| {
        let reference =
            |name| json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}});
        let operation = json!({
            "parameters": [{"name": "limit", "required": false, "schema": {"type": "integer", "maximum": 100}}],
            "requestBody": {"content": reference("New")},
            "responses": {"200": {"content": reference("Object")}},
        });
        json!({"paths": {"/v1/objects": {"post": operation}}, "components": {"schemas": {"New": body, "Object": object}}})
    };
    let body = |fields: Value, required: Value| json!({"properties": fields, "required": required});
    let (text, count) = (json!({"type": "string", "maxLength": 9}), json!({"type": "integer"}));
    let old = document(body(json!({"a": text}), json!([])), body(json!({"a": text, "b": count}), json!(["a"])));
    assert_eq!(Comparison::of(&old, &old), Vec::<String>::new());
    let more = document(
        body(json!({"a": {"type": ["string", "null"], "maxLength": 10}, "c": text}), json!([])),
        body(json!({"a": text, "b": count, "c": text}), json!(["a", "b"])),
    );
    assert_eq!(Comparison::of(&old, &more), Vec::<String>::new());
    let less = document(
        body(json!({"a": {"type": "string", "maxLength": 8}, "c": text}), json!(["c"])),
        body(json!({"a": {"type": ["string", "null"]}}), json!([])),
    );
    let expected = [
        "New.c: is required now",
        "New.a: maxLength is lower",
        "Object.a: may be absent now",
        "Object.a: has another type",
        "Object.b: is gone",
    ];
    assert_eq!(Comparison::of(&old, &less), expected);
    assert_eq!(Comparison::of(&old, &json!({}))[0], "post /v1/objects: the operation is gone");
}
