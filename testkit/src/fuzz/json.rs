//! Random JSON as text, including documents that no serializer would print.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

use super::text::{Bytes, mutated, texts};

/// Edge cases of many kinds; some are not valid JSON.
const EDGE_CASES: [&str; 62] = [
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "2",
    "1.0",
    "1.5",
    "-0",
    "-0.0",
    "1e3",
    "1E2",
    "1e400",
    "-1e400",
    "1e-400",
    "9007199254740991",
    "9007199254740992",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890",
    "01",
    "+1",
    ".5",
    "1.",
    "NaN",
    "Infinity",
    "'x'",
    "",
    r#""""#,
    r#"" ""#,
    r#""\u0000""#,
    r#""a\u0000b""#,
    r#""\ud800""#,
    r#""\udc00\ud800""#,
    r#""\ufeff""#,
    r#""1""#,
    r#""10.5""#,
    r#""1e3""#,
    r#""true""#,
    r#""USD""#,
    r#""jpy""#,
    r#""day""#,
    "[]",
    "[[]]",
    "{}",
    "[null]",
    "[{}]",
    r#"{"a":1}"#,
    r#""9999-12-31""#,
    r#""0000-01-01""#,
    r#""2026-02-30""#,
    r#""9999-12-31T23:59:59Z""#,
    r#""0001-01-01T00:00:00Z""#,
    r#""2026-11-21T09:30:00+23:59""#,
    r#""cus_00000000000000000000000000""#,
    r#""pm_7ZZZZZZZZZZZZZZZZZZZZZZZZZ""#,
    r#""https://shop.example/""#,
    r#""tok_ok""#,
];

/// A placeholder, replaced by raw text that no serializer would print.
const PLACEHOLDER: &str = "\u{f8ff}here\u{f8ff}";

fn edge_case() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(&EDGE_CASES[..]).prop_map(str::to_owned),
        2 => texts().prop_map(|text| Value::String(text).to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => any::<f64>().prop_map(|number| number.to_string()),
        1 => select(&[20usize, 120, 127, 128, 300, 5_000][..]).prop_map(|deep| "[".repeat(deep) + &"]".repeat(deep)),
        1 => select(&[20usize, 127, 200][..]).prop_map(|deep| "{\"a\":".repeat(deep) + "1" + &"}".repeat(deep)),
        1 => select(&[255usize, 256, 5_000, 40_000][..]).prop_map(|long| format!("\"{}\"", "é".repeat(long / 2))),
    ]
}

#[derive(Clone, Debug)]
enum Change {
    /// Replaces a value.
    Replace(Index, String),
    /// Replaces a value with a slightly changed string.
    ReplaceText(Index, Box<str>),
    Remove(Index),
    /// Inserts another value before the value, with the same key.
    Duplicate(Index, String),
    /// Adds an unknown field.
    AddField(Index, String, String),
    /// Swaps two values.
    Swap(Index, Index),
}

/// The JSON pointers of all values; that of the root is the first.
fn collect_pointers(value: &Value, pointer: &str, pointers: &mut Vec<String>) {
    pointers.push(pointer.to_owned());
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                collect_pointers(value, &format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), pointers);
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                collect_pointers(value, &format!("{pointer}/{i}"), pointers);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A random JSON pointer; the root only if there is nothing else.
fn random_pointer(value: &Value, index: Index) -> String {
    let mut pointers = Vec::new();
    collect_pointers(value, "", &mut pointers);
    if pointers.len() > 1 { pointers[1 + index.index(pointers.len() - 1)].clone() } else { String::new() }
}

fn replace_at(value: &mut Value, pointer: &str, new: Value) -> Value {
    value.pointer_mut(pointer).map(|slot| std::mem::replace(slot, new)).unwrap_or_default()
}

fn print_with(value: &Value, raw: &str) -> String {
    value.to_string().replacen(&format!("\"{PLACEHOLDER}\""), raw, 1)
}

fn apply(mut value: Value, change: Change) -> String {
    let placeholder = || Value::String(PLACEHOLDER.to_owned());
    match change {
        Change::Replace(index, edge_case) => {
            let pointer = random_pointer(&value, index);
            replace_at(&mut value, &pointer, placeholder());
            print_with(&value, &edge_case)
        }
        Change::ReplaceText(index, text) => {
            let pointer = random_pointer(&value, index);
            replace_at(&mut value, &pointer, Value::String(text.into()));
            value.to_string()
        }
        Change::Remove(index) => {
            let pointer = random_pointer(&value, index);
            let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
            match value.pointer_mut(parent) {
                Some(Value::Object(fields)) => drop(fields.remove(&key.replace("~1", "/").replace("~0", "~"))),
                Some(Value::Array(items)) => drop(items.remove(key.parse().unwrap_or(0))),
                _ => {}
            }
            value.to_string()
        }
        Change::Duplicate(index, edge_case) => {
            let pointer = random_pointer(&value, index);
            let original = replace_at(&mut value, &pointer, placeholder());
            let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
            let is_field = value.pointer(parent).is_some_and(Value::is_object);
            let repeated = if is_field { format!("{}:{original}", Value::from(key)) } else { original.to_string() };
            print_with(&value, &format!("{edge_case},{repeated}"))
        }
        Change::AddField(index, key, edge_case) => {
            let mut pointers = Vec::new();
            collect_pointers(&value, "", &mut pointers);
            pointers.retain(|pointer| value.pointer(pointer).is_some_and(Value::is_object));
            if !pointers.is_empty() {
                let pointer = pointers[index.index(pointers.len())].clone();
                value
                    .pointer_mut(&pointer)
                    .and_then(Value::as_object_mut)
                    .map(|fields| fields.insert(key, placeholder()));
            }
            print_with(&value, &edge_case)
        }
        Change::Swap(left, right) => {
            let (left, right) = (random_pointer(&value, left), random_pointer(&value, right));
            if !left.starts_with(&right) && !right.starts_with(&left) {
                let first = replace_at(&mut value, &left, Value::Null);
                let second = replace_at(&mut value, &right, first);
                replace_at(&mut value, &left, second);
            }
            value.to_string()
        }
    }
}

/// The value as text with one structural change and sometimes with changed bytes. Rarely it is unchanged.
pub fn json(valid: Value) -> impl Strategy<Value = Bytes> {
    let mut pointers = Vec::new();
    collect_pointers(&valid, "", &mut pointers);
    let strings: Vec<String> =
        pointers.iter().filter_map(|pointer| Some(valid.pointer(pointer)?.as_str()?.to_owned())).collect();
    let text = if strings.is_empty() { Just("x".to_owned()).boxed() } else { select(strings).boxed() };
    let text = text.prop_flat_map(mutated).prop_map(String::into_boxed_str);
    let index = any::<Index>;
    let change = prop_oneof![
        6 => (index(), edge_case()).prop_map(|(pointer, edge_case)| Change::Replace(pointer, edge_case)),
        3 => (index(), text).prop_map(|(pointer, text)| Change::ReplaceText(pointer, text)),
        2 => index().prop_map(Change::Remove),
        1 => (index(), edge_case()).prop_map(|(pointer, edge_case)| Change::Duplicate(pointer, edge_case)),
        1 => (index(), texts(), edge_case()).prop_map(|(pointer, key, edge_case)| Change::AddField(pointer, key, edge_case)),
        1 => (index(), index()).prop_map(|(left, right)| Change::Swap(left, right)),
    ];
    let unchanged = valid.clone();
    let changed = change.prop_map(move |change| Bytes(apply(valid.clone(), change).into_bytes())).boxed();
    prop_oneof![
        8 => changed.clone(),
        2 => super::edited_bytes(changed),
        2 => super::mutated_bytes(unchanged.to_string()),
        1 => edge_case().prop_map(|edge_case| Bytes(edge_case.into_bytes())),
    ]
}

/// Any JSON value, mostly edge cases.
pub fn anything() -> impl Strategy<Value = Value> {
    let edge_cases: Vec<Value> =
        EDGE_CASES.iter().filter_map(|edge_case| serde_json::from_str(edge_case).ok()).collect();
    let leaf = prop_oneof![
        4 => select(edge_cases),
        2 => texts().prop_map(Value::String),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(texts(), inner, 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fuzz::Source;

    /// A generator that never changed anything would let every property pass.
    #[test]
    fn most_inputs_are_changed_and_many_are_valid_json() {
        let valid = json!({"amount": 1, "items": [{"a/b": "x"}, {"c": null}]});
        let mut source = Source::from_env();
        let inputs: Vec<_> = (0..2_000).map(|_| source.draw(&json(valid.clone()))).collect();
        let parsed: Vec<Value> = inputs.iter().filter_map(|text| serde_json::from_slice(text).ok()).collect();
        assert!(parsed.len() > 700, "{} of 2000 are JSON", parsed.len());
        let unchanged_count = parsed.iter().filter(|value| **value == valid).count();
        assert!(unchanged_count < 500, "{unchanged_count} of 2000 are unchanged");
        let lacks = |field: &str| parsed.iter().filter(|value| value.is_object() && value[field].is_null()).count();
        assert!(lacks("amount") > 10 && lacks("items") > 10);
    }
}
