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
            if let Value::Array(rows) = value {
                rows.iter().for_each(print_row);
            } else {
                println!("{name:<16} {}", text(value));
            }
        }
        code
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
