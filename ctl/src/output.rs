//! What a command prints: the same facts as JSON for programs and as lines for people.

use std::process::ExitCode;

use serde_json::{Map, Value};

/// A JSON object, in the order in which people read it, and how the process ends.
pub(crate) struct Output {
    facts: Vec<(&'static str, Value)>,
    /// For people, in the place of the facts.
    lines: Option<Vec<String>>,
    code: u8,
}

impl Output {
    /// Facts under their names; those that are null are left out.
    pub(crate) fn new(facts: Vec<(&'static str, Value)>) -> Self {
        Self { facts: facts.into_iter().filter(|(_, value)| !value.is_null()).collect(), lines: None, code: 0 }
    }

    /// The same, but people read these lines.
    pub(crate) fn lines(self, lines: Vec<String>) -> Self {
        Self { lines: Some(lines), ..self }
    }

    /// The same, but the process ends with this code.
    pub(crate) fn exit(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// The facts as a JSON object.
    pub(crate) fn into_json(self) -> Value {
        Value::Object(self.facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
    }

    /// Prints on standard output.
    pub(crate) fn print(self, json: bool) -> ExitCode {
        let code = ExitCode::from(self.code);
        if json {
            println!("{}", self.into_json());
            return code;
        }
        if let Some(lines) = self.lines {
            lines.iter().for_each(|line| println!("{line}"));
            return code;
        }
        for (name, value) in &self.facts {
            match value.as_array().map(Vec::as_slice) {
                Some([]) => println!("{name:<16} none"),
                Some(rows) => rows.iter().for_each(|value| println!("{}", row(value))),
                None => println!("{name:<16} {}", row(value)),
            }
        }
        code
    }
}

/// What is read down a list, when it was and what it was, comes first and without a name.
const FIRST: [&str; 3] = ["at", "what", "action"];

fn row(value: &Value) -> String {
    let Value::Object(fields) = value else { return text(value) };
    let first = FIRST.iter().filter_map(|name| fields.get(*name).map(text));
    let others = fields.iter().filter(|(name, value)| !FIRST.contains(&name.as_str()) && !value.is_null());
    let others = others.map(|(name, value)| format!("{name}={}", text(value)));
    first.chain(others).collect::<Vec<_>>().join("  ")
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_begins_with_when_and_what() {
        let event = json!({"amount": 5, "at": "2026-01-01", "error": null, "id": "op_1", "what": "operation written"});
        assert_eq!(row(&event), "2026-01-01  operation written  amount=5  id=op_1");
        assert_eq!(row(&json!({"id": "pay_1", "refunds": []})), "id=pay_1  refunds=[]");
        assert_eq!(row(&json!("https://shop.example")), "https://shop.example");
    }
}
