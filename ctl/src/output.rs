//! What a command prints: the same facts as JSON for programs, and as lines and tables for people.

use std::process::ExitCode;

use comfy_table::{Table, presets};
use common::console::{complain, print};
use serde::Serialize;
use serde_json::{Map, Value};

/// A JSON object, in the order in which people read it, and how the process ends.
pub(crate) struct Output {
    facts: Vec<(&'static str, Value)>,
    /// Lists that people see as tables, and the columns that they see. The JSON has all.
    tables: Vec<(&'static str, &'static [&'static str])>,
    /// For people, in the place of the facts.
    lines: Option<Vec<String>>,
    code: u8,
}

impl Output {
    /// Facts under their names; those that are null are left out.
    pub(crate) fn new(facts: Vec<(&'static str, Value)>) -> Self {
        let facts = facts.into_iter().filter(|(_, value)| !value.is_null()).collect();
        Self { facts, tables: vec![], lines: None, code: 0 }
    }

    /// A list of rows, of which people see these columns.
    pub(crate) fn list(name: &'static str, rows: impl Iterator<Item = Self>, columns: &'static [&'static str]) -> Self {
        Self::new(vec![(name, rows.map(Self::into_json).collect())]).table(name, columns)
    }

    /// A list of rows as they name their own fields, of which people see these columns.
    pub(crate) fn rows(
        name: &'static str,
        rows: &[impl Serialize],
        columns: &'static [&'static str],
    ) -> Result<Self, serde_json::Error> {
        let rows = rows.iter().map(|row| serde_json::to_value(row).map(without_nulls)).collect::<Result<Value, _>>()?;
        Ok(Self::new(vec![(name, rows)]).table(name, columns))
    }

    /// The same with other facts behind it.
    pub(crate) fn and(mut self, facts: Vec<(&'static str, Value)>) -> Self {
        self.facts.extend(facts.into_iter().filter(|(_, value)| !value.is_null()));
        self
    }

    /// The same, but people see the list of this name as a table of these columns.
    pub(crate) fn table(mut self, name: &'static str, columns: &'static [&'static str]) -> Self {
        self.tables.push((name, columns));
        self
    }

    /// The same, but people read these lines.
    pub(crate) fn lines(self, lines: Vec<String>) -> Self {
        Self { lines: Some(lines), ..self }
    }

    /// The same, but the process ends with this code.
    pub(crate) fn exit(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// The facts alone.
    pub(crate) fn into_facts(self) -> Vec<(&'static str, Value)> {
        self.facts
    }

    /// The facts as a JSON object.
    pub(crate) fn into_json(self) -> Value {
        Value::Object(self.facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
    }

    /// Prints on standard output.
    pub(crate) fn print(self, json: bool) -> ExitCode {
        let code = ExitCode::from(self.code);
        let text = if json { self.into_json().to_string() } else { self.for_people() };
        match print(text) {
            Ok(()) => code,
            Err(error) => {
                complain(format_args!("ctl: standard output: {error}"));
                ExitCode::FAILURE
            }
        }
    }

    fn for_people(&self) -> String {
        if let Some(lines) = &self.lines {
            return lines.join("\n");
        }
        let mut lines = Vec::new();
        for (name, value) in &self.facts {
            let columns = self.tables.iter().find(|(table, _)| table == name).map(|(_, columns)| *columns);
            match (value.as_array().map(Vec::as_slice), columns) {
                (Some([]), _) => lines.push(format!("{name:<16} none")),
                (Some(rows), Some(columns)) => lines.push(table(rows, columns)),
                (Some(rows), None) => lines.extend(rows.iter().map(row)),
                (None, _) => lines.push(format!("{name:<16} {}", row(value))),
            }
        }
        lines.join("\n")
    }
}

fn without_nulls(mut row: Value) -> Value {
    if let Some(fields) = row.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    row
}

/// Aligned columns under their names; one that has nothing in any row is left out.
fn table(rows: &[Value], columns: &[&'static str]) -> String {
    let filled = |column: &&&str| rows.iter().any(|row| row.get(**column).is_some_and(|value| !value.is_null()));
    let columns: Vec<_> = columns.iter().filter(filled).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns.iter().map(|column| column.replace('_', " ").to_uppercase()));
    for row in rows {
        let cell = |column: &&&str| row.get(**column).filter(|value| !value.is_null()).map_or("–".to_owned(), text);
        table.add_row(columns.iter().map(cell));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
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

/// As people read it. Much of it was written by merchants and their customers: what would move the cursor of a terminal, or worse,
/// is spelt out.
fn text(value: &Value) -> String {
    let Some(text) = value.as_str() else { return value.to_string() };
    let spelt = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    text.chars().map(spelt).collect()
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

    #[test]
    fn a_list_is_a_table_of_aligned_columns() {
        let row =
            |id: &str, name: &str| Output::new(vec![("id", json!(id)), ("name", json!(name)), ("hidden", json!(1))]);
        let rows = [row("acct_1", "Ada"), row("acct_2", "A longer\u{1b}[2J name"), row("acct_3", "漢字")];
        let list = Output::list("accounts", rows.into_iter(), &["id", "ended_at", "name", "id"])
            .and(vec![("more", json!(true))]);
        let shown = list.for_people();
        let expected = "ID      NAME                    ID\n\
                        acct_1  Ada                     acct_1\n\
                        acct_2  A longer\\u{1b}[2J name  acct_2\n\
                        acct_3  漢字                    acct_3\n\
                        more             true";
        assert_eq!(shown, expected);
        assert_eq!(list.into_json()["accounts"][1]["name"], "A longer\u{1b}[2J name", "programs get what is stored");
        let none = Output::list("accounts", std::iter::empty(), &["id"]);
        assert_eq!(none.for_people(), "accounts         none");
    }
}
