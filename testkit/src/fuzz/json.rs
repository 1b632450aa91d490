//! JSON, printed by hand where a printer would make it right.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

use super::text::{Bytes, mutated, texts};

/// Values at the edges of something, some of which are no JSON.
const ODD: [&str; 62] = [
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

/// Stands where text is put in that a printer would not print.
const MARK: &str = "\u{f8ff}here\u{f8ff}";

fn odd() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(&ODD[..]).prop_map(str::to_owned),
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
    /// Another value.
    Other(Index, String),
    /// Another text, a little different, where there is one.
    Text(Index, Box<str>),
    Gone(Index),
    /// Before the value another one, under the same key.
    Twice(Index, String),
    /// A field that nobody has asked for.
    More(Index, String, String),
    /// Two values in each other's place.
    Swapped(Index, Index),
}

/// The places of all values, as JSON pointers; the whole is the first.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                places(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                places(value, &format!("{at}/{i}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The place and the value there, but for the whole, which is only chosen where there is nothing else.
fn chosen(value: &Value, index: Index) -> String {
    let mut found = Vec::new();
    places(value, "", &mut found);
    if found.len() > 1 { found[1 + index.index(found.len() - 1)].clone() } else { String::new() }
}

fn put(value: &mut Value, at: &str, new: Value) -> Value {
    value.pointer_mut(at).map(|place| std::mem::replace(place, new)).unwrap_or_default()
}

fn print(value: &Value, raw: &str) -> String {
    value.to_string().replacen(&format!("\"{MARK}\""), raw, 1)
}

fn changed(mut value: Value, change: Change) -> String {
    let mark = || Value::String(MARK.to_owned());
    match change {
        Change::Other(index, odd) => {
            let at = chosen(&value, index);
            put(&mut value, &at, mark());
            print(&value, &odd)
        }
        Change::Text(index, text) => {
            let at = chosen(&value, index);
            put(&mut value, &at, Value::String(text.into()));
            value.to_string()
        }
        Change::Gone(index) => {
            let at = chosen(&value, index);
            let (parent, key) = at.rsplit_once('/').unwrap_or_default();
            match value.pointer_mut(parent) {
                Some(Value::Object(fields)) => drop(fields.remove(&key.replace("~1", "/").replace("~0", "~"))),
                Some(Value::Array(items)) => drop(items.remove(key.parse().unwrap_or(0))),
                _ => {}
            }
            value.to_string()
        }
        Change::Twice(index, odd) => {
            let at = chosen(&value, index);
            let former = put(&mut value, &at, mark());
            let (parent, key) = at.rsplit_once('/').unwrap_or_default();
            let is_field = value.pointer(parent).is_some_and(Value::is_object);
            let again = if is_field { format!("{}:{former}", Value::from(key)) } else { former.to_string() };
            print(&value, &format!("{odd},{again}"))
        }
        Change::More(index, key, odd) => {
            let mut found = Vec::new();
            places(&value, "", &mut found);
            found.retain(|at| value.pointer(at).is_some_and(Value::is_object));
            if !found.is_empty() {
                let at = found[index.index(found.len())].clone();
                value.pointer_mut(&at).and_then(Value::as_object_mut).map(|fields| fields.insert(key, mark()));
            }
            print(&value, &odd)
        }
        Change::Swapped(one, other) => {
            let (one, other) = (chosen(&value, one), chosen(&value, other));
            if !one.starts_with(&other) && !other.starts_with(&one) {
                let first = put(&mut value, &one, Value::Null);
                let second = put(&mut value, &other, first);
                put(&mut value, &one, second);
            }
            value.to_string()
        }
    }
}

/// The value as text with one change in its structure, and at times with changed bytes. Now and then it is as it was.
pub fn json(valid: Value) -> impl Strategy<Value = Bytes> {
    let mut found = Vec::new();
    places(&valid, "", &mut found);
    let strings: Vec<String> = found.iter().filter_map(|at| Some(valid.pointer(at)?.as_str()?.to_owned())).collect();
    let text = if strings.is_empty() { Just("x".to_owned()).boxed() } else { select(strings).boxed() };
    let text = text.prop_flat_map(mutated).prop_map(String::into_boxed_str);
    let place = any::<Index>;
    let change = prop_oneof![
        6 => (place(), odd()).prop_map(|(at, odd)| Change::Other(at, odd)),
        3 => (place(), text).prop_map(|(at, text)| Change::Text(at, text)),
        2 => place().prop_map(Change::Gone),
        1 => (place(), odd()).prop_map(|(at, odd)| Change::Twice(at, odd)),
        1 => (place(), texts(), odd()).prop_map(|(at, key, odd)| Change::More(at, key, odd)),
        1 => (place(), place()).prop_map(|(one, other)| Change::Swapped(one, other)),
    ];
    let whole = valid.clone();
    let changed = change.prop_map(move |change| Bytes(changed(valid.clone(), change).into_bytes())).boxed();
    prop_oneof![
        8 => changed.clone(),
        2 => super::edited_bytes(changed),
        2 => super::mutated_bytes(whole.to_string()),
        1 => odd().prop_map(|odd| Bytes(odd.into_bytes())),
    ]
}

/// Any JSON value, most often one that is nearly something.
pub fn anything() -> impl Strategy<Value = Value> {
    let known: Vec<Value> = ODD.iter().filter_map(|odd| serde_json::from_str(odd).ok()).collect();
    let leaf = prop_oneof![
        4 => select(known),
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

    /// A generator that never changes anything would let every property hold.
    #[test]
    fn most_of_what_comes_is_changed_and_much_of_it_is_json() {
        let valid = json!({"amount": 1, "items": [{"a/b": "x"}, {"c": null}]});
        let mut source = Source::from_env();
        let drawn: Vec<_> = (0..2_000).map(|_| source.draw(&json(valid.clone()))).collect();
        let read: Vec<Value> = drawn.iter().filter_map(|text| serde_json::from_slice(text).ok()).collect();
        assert!(read.len() > 700, "{} of 2000 are JSON", read.len());
        let same = read.iter().filter(|value| **value == valid).count();
        assert!(same < 500, "{same} of 2000 are unchanged");
        let lacks = |field: &str| read.iter().filter(|value| value.is_object() && value[field].is_null()).count();
        assert!(lacks("amount") > 10 && lacks("items") > 10);
    }
}
