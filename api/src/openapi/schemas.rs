//! Makes the derived schemas read as the API behaves: scalars stand where they are used, a field of an answer is never
//! `null`, and a field of a request may be, unless it is required.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::sheet::{BodySheet, Schemas};

const REFERENCE: &str = "#/components/schemas/";

pub(super) type Named = BTreeMap<String, Value>;

fn values(schemas: Schemas) -> Named {
    schemas.into_iter().map(|(name, schema)| (name, serde_json::to_value(schema).unwrap_or_default())).collect()
}

/// The components of answers. Objects keep their names; whatever else is named stands where it is used.
pub(super) fn of_answers(schemas: Schemas) -> Named {
    let named = values(schemas);
    let mut objects: Named = named.iter().filter(|(_, schema)| is_object(schema)).map(clone).collect();
    for schema in objects.values_mut() {
        put_in_place(schema, &named, &is_scalar);
        walk(schema, &mut |schema| {
            take_null(schema);
        });
    }
    objects
}

/// The component of a body.
pub(super) fn of_body(body: &BodySheet, fields: Schemas) -> Value {
    let named = values(fields);
    let mut schema = serde_json::to_value(&body.schema).unwrap_or_default();
    put_in_place(&mut schema, &named, &|_| true);
    walk(&mut schema, &mut |schema| {
        if take_null(schema) {
            add_null(schema);
        }
        if is_object(schema) {
            schema["additionalProperties"] = json!(false);
        }
    });
    for name in body.required {
        take_null(&mut schema["properties"][name]);
    }
    let map = schema.as_object_mut().expect("a body is an object");
    map.remove("required");
    if !body.required.is_empty() {
        map.insert("required".to_owned(), json!(body.required));
    }
    schema
}

fn clone((name, schema): (&String, &Value)) -> (String, Value) {
    (name.clone(), schema.clone())
}

fn is_object(schema: &Value) -> bool {
    schema.get("properties").is_some()
}

fn is_scalar(schema: &Value) -> bool {
    !is_object(schema)
}

/// Visits a schema after those within it.
fn walk(schema: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    match schema {
        Value::Object(map) => map.values_mut().for_each(|value| walk(value, visit)),
        Value::Array(items) => items.iter_mut().for_each(|value| walk(value, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    visit(schema);
}

/// Puts referenced schemas in the place of their references, where `wanted`. What the field says of itself stays.
fn put_in_place(schema: &mut Value, named: &Named, wanted: &impl Fn(&Value) -> bool) {
    walk(schema, &mut |schema| {
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix(REFERENCE));
        let Some(found) = name.and_then(|name| named.get(name)).filter(|found| wanted(found)) else { return };
        let mut merged = found.clone();
        // What stands there by now may refer to more: the fields of a row do.
        put_in_place(&mut merged, named, wanted);
        if let (Some(into), Some(own)) = (merged.as_object_mut(), schema.as_object()) {
            into.extend(own.iter().filter(|(key, _)| *key != "$ref").map(clone));
        }
        *schema = merged;
    });
}

/// Takes `null` away from what a schema allows. Whether it was there.
fn take_null(schema: &mut Value) -> bool {
    let Some(map) = schema.as_object_mut() else { return false };
    if let Some(types) = map.get_mut("type").and_then(Value::as_array_mut) {
        let before = types.len();
        types.retain(|one| one != "null");
        let taken = types.len() < before;
        if let [only] = types.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
        if let Some(words) = map.get_mut("enum").and_then(Value::as_array_mut) {
            words.retain(|word| !word.is_null());
        }
        return taken;
    }
    let Some(choices) = map.get_mut("oneOf").and_then(Value::as_array_mut) else { return false };
    let before = choices.len();
    choices.retain(|one| one.get("type").is_none_or(|kind| kind != "null"));
    let taken = choices.len() < before;
    if let [Value::Object(only)] = choices.as_slice() {
        let only: Map<String, Value> = only.clone();
        map.remove("oneOf");
        for (key, value) in only {
            map.entry(key).or_insert(value);
        }
    }
    taken
}

fn add_null(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    if let Some(kind) = map.get("type").cloned() {
        map.insert("type".to_owned(), json!([kind, "null"]));
        if let Some(words) = map.get_mut("enum").and_then(Value::as_array_mut) {
            words.push(Value::Null);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_taken_and_added() {
        let mut word = json!({"oneOf": [{"type": "null"}, {"type": "string", "enum": ["a"]}], "description": "d"});
        assert!(take_null(&mut word));
        assert_eq!(word, json!({"type": "string", "enum": ["a"], "description": "d"}));
        assert!(!take_null(&mut word));
        add_null(&mut word);
        assert_eq!(word, json!({"type": ["string", "null"], "enum": ["a", null], "description": "d"}));
        assert!(take_null(&mut word));
        assert_eq!(word["type"], "string");
    }

    #[test]
    fn a_reference_gives_way_to_what_it_names() {
        let named = Named::from([("Id".to_owned(), json!({"type": "string", "description": "an id"}))]);
        let mut schema = json!({"properties": {"id": {"$ref": "#/components/schemas/Id", "description": "its id"}}});
        put_in_place(&mut schema, &named, &is_scalar);
        assert_eq!(schema, json!({"properties": {"id": {"type": "string", "description": "its id"}}}));

        let named = Named::from([
            ("Row".to_owned(), json!({"properties": {"n": {"$ref": "#/components/schemas/Count"}}})),
            ("Count".to_owned(), json!({"type": "integer"})),
        ]);
        let mut rows = json!({"type": "array", "items": {"$ref": "#/components/schemas/Row"}});
        put_in_place(&mut rows, &named, &|_| true);
        assert_eq!(rows, json!({"type": "array", "items": {"properties": {"n": {"type": "integer"}}}}));
    }
}
