//! What a command prints: the same facts as JSON for programs and as lines for people.

use serde_json::{Map, Value};

/// A JSON object, in the order in which people read it.
pub(crate) struct Output(Vec<(&'static str, Value)>);

impl Output {
    /// Facts under their names; those that are null are left out.
    pub(crate) fn new(facts: Vec<(&'static str, Value)>) -> Self {
        Self(facts.into_iter().filter(|(_, value)| !value.is_null()).collect())
    }

    /// The facts as a JSON object.
    pub(crate) fn into_json(self) -> Value {
        Value::Object(self.0.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
    }

    /// Prints on standard output.
    pub(crate) fn print(self, json: bool) {
        if json {
            println!("{}", self.into_json());
            return;
        }
        for (name, value) in &self.0 {
            if let Value::Array(rows) = value {
                rows.iter().for_each(print_row);
            } else {
                println!("{name:<16} {}", text(value));
            }
        }
    }
}

fn print_row(row: &Value) {
    let Value::Object(fields) = row else { return println!("{}", text(row)) };
    let facts: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
    println!("{}", facts.join("  "));
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
