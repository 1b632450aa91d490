//! YAML files as JSON, with merged keys (`<<`).

use serde_json::Value;

/// The documents of a file.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("YAML")
}

/// All values at a path such as `spec.containers.env`. The items of lists add nothing to the path.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    if let Value::Array(items) = value {
        return items.iter().flat_map(|item| at(item, path)).collect();
    }
    if path.is_empty() {
        return vec![value];
    }
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    value.get(key).map(|value| at(value, rest)).unwrap_or_default()
}

/// A string, or a number or a Boolean as it is written.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The texts at a path.
pub(crate) fn texts<T: FromIterator<String>>(value: &Value, path: &str) -> T {
    at(value, path).into_iter().map(text).collect()
}

/// The entries of a map.
pub(crate) fn map(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}
