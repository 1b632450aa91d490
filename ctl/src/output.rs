//! The output of a command: the same fields as JSON for programs, and as lines and tables for a terminal.

use std::process::ExitCode;

use comfy_table::{Table, presets};
use foundation::console::{one_line, print_error, print_json, print_lines};
use serde::Serialize;
use serde_json::{Map, Value};

/// The fields of a JSON object in the order of the text output, and the exit code.
pub(crate) struct Output {
    fields: Vec<(&'static str, Value)>,
    /// Fields that the text output shows as tables, with the columns shown. The JSON output has all columns.
    tables: Vec<(&'static str, &'static [&'static str])>,
    /// Replaces the fields in the text output.
    lines: Option<Vec<String>>,
    code: u8,
}

impl Output {
    /// Omits fields that are null.
    pub(crate) fn new(fields: Vec<(&'static str, Value)>) -> Self {
        let fields = fields.into_iter().filter(|(_, value)| !value.is_null()).collect();
        Self { fields, tables: vec![], lines: None, code: 0 }
    }

    /// A list of rows; the text output shows these columns.
    pub(crate) fn list(name: &'static str, rows: impl Iterator<Item = Self>, columns: &'static [&'static str]) -> Self {
        Self::new(vec![(name, rows.map(Self::into_json).collect())]).table(name, columns)
    }

    /// Like [`Self::list`], with the fields that each row serializes.
    pub(crate) fn rows(
        name: &'static str,
        rows: &[impl Serialize],
        columns: &'static [&'static str],
    ) -> Result<Self, serde_json::Error> {
        let rows = rows.iter().map(|row| to_value(row).map(without_nulls)).collect::<Result<Value, _>>()?;
        Ok(Self::new(vec![(name, rows)]).table(name, columns))
    }

    /// Appends fields that are not null.
    pub(crate) fn and(mut self, fields: Vec<(&'static str, Value)>) -> Self {
        self.fields.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
        self
    }

    /// Shows the list of this name as a table of these columns in the text output.
    pub(crate) fn table(mut self, name: &'static str, columns: &'static [&'static str]) -> Self {
        self.tables.push((name, columns));
        self
    }

    /// Replaces the text output with these lines.
    pub(crate) fn lines(self, lines: Vec<String>) -> Self {
        Self { lines: Some(lines), ..self }
    }

    /// Sets the exit code.
    pub(crate) fn exit(self, code: u8) -> Self {
        Self { code, ..self }
    }

    pub(crate) fn into_fields(self) -> Vec<(&'static str, Value)> {
        self.fields
    }

    pub(crate) fn into_json(self) -> Value {
        Value::Object(self.fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
    }

    pub(crate) fn print(self, json: bool) -> ExitCode {
        let code = ExitCode::from(self.code);
        let printed = if json { print_json(&self.into_json()) } else { print_lines(&self.into_lines()) };
        match printed {
            Ok(()) => code,
            Err(error) => {
                print_error(format_args!("ctl: standard output: {error}"));
                ExitCode::FAILURE
            }
        }
    }

    fn into_lines(self) -> Vec<String> {
        if let Some(lines) = self.lines {
            return lines;
        }
        let mut lines = Vec::new();
        for (name, value) in &self.fields {
            let columns = self.tables.iter().find(|(table, _)| table == name).map(|(_, columns)| *columns);
            match (value.as_array().map(Vec::as_slice), columns) {
                (Some([]), _) => lines.push(format!("{name:<16} none")),
                (Some(rows), Some(columns)) => lines.extend(table(rows, columns).lines().map(str::to_owned)),
                (Some(rows), None) => lines.extend(rows.iter().map(row)),
                (None, _) => lines.push(format!("{name:<16} {}", row(value))),
            }
        }
        lines
    }
}

/// The JSON of a row. An integer beyond 64 bits, such as a large sum, becomes a floating-point number.
pub(crate) fn to_value(row: &impl Serialize) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&serde_json::to_string(row)?)
}

fn without_nulls(mut row: Value) -> Value {
    if let Some(fields) = row.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    row
}

/// Aligned columns under their names, without columns that are empty in every row.
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

/// Fields that come first in a line, without their name, so that a list can be scanned by time and event.
const FIRST: [&str; 3] = ["at", "what", "action"];

fn row(value: &Value) -> String {
    let Value::Object(fields) = value else { return text(value) };
    let first = FIRST.iter().filter_map(|name| fields.get(*name).map(text));
    let others = fields.iter().filter(|(name, value)| !FIRST.contains(&name.as_str()) && !value.is_null());
    let others = others.map(|(name, value)| format!("{name}={}", text(value)));
    first.chain(others).collect::<Vec<_>>().join("  ")
}

/// The text of a value, escaped before it is aligned.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| one_line(&value.to_string()), one_line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_start_with_time_and_event() {
        let event = json!({"amount": 5, "at": "2026-01-01", "error": null, "id": "op_1", "what": "operation written"});
        assert_eq!(row(&event), "2026-01-01  operation written  amount=5  id=op_1");
        assert_eq!(row(&json!({"id": "pay_1", "refunds": []})), "id=pay_1  refunds=[]");
        assert_eq!(row(&json!("https://shop.example")), "https://shop.example");
    }

    #[test]
    fn lists_are_aligned_tables_without_control_characters() {
        let row =
            |id: &str, name: &str| Output::new(vec![("id", json!(id)), ("name", json!(name)), ("hidden", json!(1))]);
        let rows =
            || [row("acct_1", "Ada"), row("acct_2", "A longer\u{1b}[2J name"), row("acct_3", "漢字")].into_iter();
        let list =
            || Output::list("accounts", rows(), &["id", "ended_at", "name", "id"]).and(vec![("more", json!(true))]);
        let expected = [
            "ID      NAME                    ID",
            "acct_1  Ada                     acct_1",
            "acct_2  A longer\\u{1b}[2J name  acct_2",
            "acct_3  漢字                    acct_3",
            "more             true",
        ];
        assert_eq!(list().into_lines(), expected);
        assert_eq!(list().into_json()["accounts"][1]["name"], "A longer\u{1b}[2J name");
        let none = Output::list("accounts", std::iter::empty(), &["id"]);
        assert_eq!(none.into_lines(), ["accounts         none"]);
    }
}
