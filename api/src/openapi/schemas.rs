//! Adjusts the derived schemas to the behavior of the API: scalars are inlined, a response field is never `null`, and a
//! request field may be `null` unless it is required.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

/// Lists the values of a response field to which values may be added. Programs generated from an `enum` would reject
/// those.
pub(super) const OPEN_ENUM: &str = "x-extensible-enum";

/// The fields that mean the same in every object.
const COMMON: [(&str, &str); 12] = [
    ("id", "Identifies the object."),
    ("object", "The type of the object."),
    ("livemode", "Whether it is about real money: `false` in test accounts."),
    ("createdAt", "When the object was created."),
    (
        "version",
        "Rises with each change that the object shows. Of two copies, the one with the higher version is newer.",
    ),
    ("currency", "The ISO 4217 code of the currency of all its amounts."),
    ("metadata", "Your own data, as names with values."),
    ("externalId", "Your own id of the object."),
    ("brand", "The brand of the card, such as `visa`."),
    ("last4", "The last four digits of the card's number."),
    ("expMonth", "The month in which the card expires."),
    ("expYear", "The year in which the card expires."),
];

const REFERENCE: &str = "#/components/schemas/";

/// Schemas by name, as `utoipa` derives them.
pub(crate) type Schemas = Vec<(String, RefOr<Schema>)>;

/// Schemas by name, as JSON.
pub(super) type Named = BTreeMap<String, Value>;

fn values(schemas: Schemas) -> Named {
    schemas.into_iter().map(|(name, schema)| (name, serde_json::to_value(schema).unwrap_or_default())).collect()
}

/// The component schemas of responses. Objects keep their names; all other named schemas are inlined.
pub(super) fn of_responses(schemas: Schemas) -> Named {
    let named = values(schemas);
    let mut objects: Named = named.iter().filter(|(_, schema)| is_object(schema)).map(clone).collect();
    for schema in objects.values_mut() {
        inline_references(schema, &named, &is_scalar);
        adjust_response(schema);
    }
    objects
}

/// The schema of the body of a webhook, which refers to no other.
pub(super) fn of_webhook<T: ToSchema>() -> Value {
    let mut named = Schemas::new();
    T::schemas(&mut named);
    let mut schema = serde_json::to_value(T::schema()).unwrap_or_default();
    inline_references(&mut schema, &values(named), &|_| true);
    adjust_response(&mut schema);
    schema
}

fn adjust_response(schema: &mut Value) {
    walk(schema, &mut |schema| {
        remove_null(schema);
        open_enumeration(schema);
        describe_common_fields(schema);
    });
}

/// The component schema of a request body. An update that omits a field changes nothing, whatever its default.
pub(super) fn of_body(body: &RefOr<Schema>, required: &[&str], is_update: bool, fields: Schemas) -> Value {
    let named = values(fields);
    let mut schema = serde_json::to_value(body).unwrap_or_default();
    inline_references(&mut schema, &named, &|_| true);
    walk(&mut schema, &mut |schema| {
        if remove_null(schema) {
            add_null(schema);
        }
        if is_object(schema) {
            schema["additionalProperties"] = json!(false);
        }
    });
    if is_update {
        let fields = schema["properties"].as_object_mut().into_iter().flatten();
        fields.filter_map(|(_, field)| field.as_object_mut()).for_each(|field| drop(field.remove("default")));
    }
    for name in required {
        remove_null(&mut schema["properties"][name]);
    }
    let map = schema.as_object_mut().expect("a body is an object");
    map.remove("required");
    if !required.is_empty() {
        map.insert("required".to_owned(), json!(required));
    }
    schema
}

/// Describes the common fields of an object that have no description of their own.
fn describe_common_fields(schema: &mut Value) {
    let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (name, description) in COMMON {
        if let Some(field) = fields.get_mut(name).and_then(Value::as_object_mut) {
            field.entry("description").or_insert_with(|| description.into());
        }
    }
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

/// Visits nested schemas first, then the schema itself.
fn walk(schema: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    match schema {
        Value::Object(map) => map.values_mut().for_each(|value| walk(value, visit)),
        Value::Array(items) => items.iter_mut().for_each(|value| walk(value, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    visit(schema);
}

/// Replaces references by the schemas for which `should_inline` holds. The field's own description is kept.
fn inline_references(schema: &mut Value, named: &Named, should_inline: &impl Fn(&Value) -> bool) {
    walk(schema, &mut |schema| {
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix(REFERENCE));
        let Some(found) = name.and_then(|name| named.get(name)).filter(|found| should_inline(found)) else { return };
        let mut merged = found.clone();
        // The inlined schema may contain references itself, such as the fields of a line item.
        inline_references(&mut merged, named, should_inline);
        if let (Some(into), Some(own)) = (merged.as_object_mut(), schema.as_object()) {
            into.extend(own.iter().filter(|(key, _)| *key != "$ref").map(clone));
        }
        *schema = merged;
    });
}

/// Removes `null` from the allowed types; returns whether it was allowed.
fn remove_null(schema: &mut Value) -> bool {
    let Some(map) = schema.as_object_mut() else { return false };
    if let Some(types) = map.get_mut("type").and_then(Value::as_array_mut) {
        let before = types.len();
        types.retain(|name| name != "null");
        let removed = types.len() < before;
        if let [only] = types.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
        if let Some(values) = map.get_mut("enum").and_then(Value::as_array_mut) {
            values.retain(|value| !value.is_null());
        }
        return removed;
    }
    let Some(choices) = map.get_mut("oneOf").and_then(Value::as_array_mut) else { return false };
    let before = choices.len();
    choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
    let removed = choices.len() < before;
    if let [Value::Object(only)] = choices.as_slice() {
        let only: Map<String, Value> = only.clone();
        map.remove("oneOf");
        for (key, value) in only {
            map.entry(key).or_insert(value);
        }
    }
    removed
}

/// Allows values that are added later, unless there is a single one, which identifies the kind of object.
fn open_enumeration(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    if let Some(values) = map.remove("enum") {
        let is_open = values.as_array().is_some_and(|values| values.len() > 1);
        map.insert(if is_open { OPEN_ENUM } else { "enum" }.to_owned(), values);
    }
}

fn add_null(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    if let Some(kind) = map.get("type").cloned() {
        map.insert("type".to_owned(), json!([kind, "null"]));
        if let Some(values) = map.get_mut("enum").and_then(Value::as_array_mut) {
            values.push(Value::Null);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_removed_and_added() {
        let mut value = json!({"oneOf": [{"type": "null"}, {"type": "string", "enum": ["a"]}], "description": "d"});
        assert!(remove_null(&mut value));
        assert_eq!(value, json!({"type": "string", "enum": ["a"], "description": "d"}));
        assert!(!remove_null(&mut value));
        add_null(&mut value);
        assert_eq!(value, json!({"type": ["string", "null"], "enum": ["a", null], "description": "d"}));
        assert!(remove_null(&mut value));
        assert_eq!(value["type"], "string");
    }

    #[test]
    fn references_are_inlined() {
        let named = Named::from([("Id".to_owned(), json!({"type": "string", "description": "an id"}))]);
        let mut schema = json!({"properties": {"id": {"$ref": "#/components/schemas/Id", "description": "its id"}}});
        inline_references(&mut schema, &named, &is_scalar);
        assert_eq!(schema, json!({"properties": {"id": {"type": "string", "description": "its id"}}}));

        let named = Named::from([
            ("Item".to_owned(), json!({"properties": {"n": {"$ref": "#/components/schemas/Count"}}})),
            ("Count".to_owned(), json!({"type": "integer"})),
        ]);
        let mut items = json!({"type": "array", "items": {"$ref": "#/components/schemas/Item"}});
        inline_references(&mut items, &named, &|_| true);
        assert_eq!(items, json!({"type": "array", "items": {"properties": {"n": {"type": "integer"}}}}));
    }
}
