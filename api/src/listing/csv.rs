//! A whole list as CSV (RFC 4180), streamed in chunks. If a chunk cannot be read, the connection is closed before the end
//! of the response.

use std::fmt::Display;
use std::future::ready;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;
use csv::{Terminator, Writer, WriterBuilder};
use domain::accounts::Caller;
use foundation::error::{Error, Result};
use foundation::money::{Currency, Money};
use foundation::page::PageRequest;
use futures_util::StreamExt as _;
use futures_util::stream::{once, try_unfold};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Ref, RefOr};

use super::request::{ListRequest, Units};
use super::{Listed, Source};
use crate::app::App;
use crate::error::ApiResult;

/// Characters with which a spreadsheet recognizes a formula.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// The path of a field, such as `card` and `last4`.
type Column = Vec<String>;

/// What remains to be sent.
struct Export<L: Listed> {
    app: App,
    caller: Arc<Caller>,
    request: ListRequest<L>,
    units: Units,
    columns: Vec<Column>,
    /// The last row that was read; `None` if no row follows.
    last: Option<L::Id>,
}

/// Responds when the first rows are read: until then, errors are those of a page.
pub(super) async fn respond<L: Listed>(
    app: App,
    caller: Arc<Caller>,
    request: ListRequest<L>,
    units: Units,
) -> ApiResult {
    let columns = columns::<L::View<'static>>();
    let mut header = writer();
    header.write_record(columns.iter().map(|column| column.join("."))).map_err(failed)?;
    let mut export = Export { app, caller, request, units, columns, last: None };
    let first = export.rows(None, header).await?;
    let rest = try_unfold(export, async |mut export: Export<L>| {
        let Some(last) = export.last.take() else { return Ok::<_, Error>(None) };
        let rows = export.rows(Some(last), writer()).await.inspect_err(|error| {
            tracing::warn!(%error, "an export was aborted");
        })?;
        Ok(Some((rows, export)))
    });
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8; header=present"),
        (CONTENT_DISPOSITION, "attachment; filename=\"export.csv\""),
    ];
    Ok((headers, Body::from_stream(once(ready(Ok(first))).chain(rest))).into_response())
}

fn writer() -> Writer<Vec<u8>> {
    WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new())
}

impl<L: Listed> Export<L> {
    /// Writes the next rows.
    async fn rows(&mut self, after: Option<L::Id>, mut writer: Writer<Vec<u8>>) -> Result<Bytes> {
        let Self { app, caller, request, columns, units, .. } = &*self;
        let source = Source { app, caller, filter: &request.filter, parent: &request.parent };
        let rows = L::read(&source, PageRequest::chunk(after)).await?;
        for row in &rows.data {
            let row = serde_json::to_value(L::view(row, caller.livemode())).map_err(failed)?;
            writer.write_record(columns.iter().map(|column| cell(&row, column, *units))).map_err(failed)?;
        }
        let bytes = writer.into_inner().map_err(failed)?;
        self.last = rows.data.last().filter(|_| rows.has_more).map(L::id);
        Ok(bytes.into())
    }
}

fn failed(error: impl Display) -> Error {
    Error::internal(format!("CSV: {error}"))
}

/// The text of a field; empty if the row does not have it.
fn cell(row: &Value, column: &[String], units: Units) -> String {
    let text = match column.iter().try_fold(row, |value, name| value.get(name)) {
        None | Some(Value::Null) => String::new(),
        Some(Value::Number(number)) if units == Units::Major && is_amount(column) => {
            let money = number.as_i64().zip(currency(row, column)).map(|(minor, currency)| Money { minor, currency });
            return money.map_or_else(|| number.to_string(), Money::to_decimal);
        }
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    if text.starts_with(FORMULA) { format!("'{text}") } else { text }
}

fn is_amount(column: &[String]) -> bool {
    column.last().is_some_and(|name| name.starts_with("amount"))
}

/// The currency of an amount: that of the nearest object around it which has one.
fn currency(row: &Value, column: &[String]) -> Option<Currency> {
    let objects =
        (0..column.len()).rev().map(|depth| column[..depth].iter().try_fold(row, |value, name| value.get(name)));
    objects.flatten().find_map(|object| object.get("currency")).and_then(|code| code.as_str()?.parse().ok())
}

/// The amounts of a view for which no currency is found.
#[cfg(test)]
pub(crate) fn amounts_without_currency<V: ToSchema>() -> Vec<Column> {
    let columns = columns::<V>();
    let mut row = Value::Null;
    for column in columns.iter().filter(|column| column.last().is_some_and(|name| name == "currency")) {
        *column.iter().fold(&mut row, |object, name| &mut object[name.as_str()]) = "USD".into();
    }
    columns.into_iter().filter(|column| is_amount(column) && currency(&row, column).is_none()).collect()
}

/// The fields of a view in their order. Those of nested objects have the path to them, lists and free objects are one
/// column.
fn columns<V: ToSchema>() -> Vec<Column> {
    let mut named = vec![];
    V::schemas(&mut named);
    let mut columns = vec![];
    collect(&V::schema(), &named, &mut vec![], &mut columns);
    columns
}

fn collect(schema: &RefOr<Schema>, named: &[(String, RefOr<Schema>)], path: &mut Column, columns: &mut Vec<Column>) {
    if let Some(fields) = fields(schema, named) {
        for (name, field) in fields {
            path.push(name.clone());
            collect(field, named, path, columns);
            path.pop();
        }
    } else {
        columns.push(path.clone());
    }
}

type Fields<'a> = Vec<(&'a String, &'a RefOr<Schema>)>;

/// The fields of an object, which may be optional.
fn fields<'a>(schema: &'a RefOr<Schema>, named: &'a [(String, RefOr<Schema>)]) -> Option<Fields<'a>> {
    match schema {
        RefOr::Ref(Ref { ref_location, .. }) => {
            let name = ref_location.rsplit('/').next()?;
            named.iter().find(|(known, _)| known == name).and_then(|(_, schema)| fields(schema, named))
        }
        RefOr::T(Schema::Object(object)) if !object.properties.is_empty() => Some(object.properties.iter().collect()),
        RefOr::T(Schema::OneOf(choices)) => choices.items.iter().find_map(|choice| fields(choice, named)),
        RefOr::T(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_the_fields_in_their_order() {
        let columns: Vec<_> =
            columns::<domain::payments::PaymentView<'static>>().iter().map(|column| column.join(".")).collect();
        assert_eq!(columns[..4], ["id", "object", "livemode", "createdAt"], "{columns:?}");
        assert!(columns.contains(&"card.last4".to_owned()) && columns.contains(&"refunds".to_owned()), "{columns:?}");
        assert!(!columns.contains(&"card".to_owned()), "{columns:?}");
    }

    #[test]
    fn amounts_are_in_the_requested_units() {
        let row = json!({"amount": 123_450, "amountTax": -5, "amountPaid": 0, "currency": "USD", "version": 7});
        let yen = json!({"amount": 500, "currency": "JPY"});
        let cell = |row: &Value, name: &str, units| super::cell(row, &[name.to_owned()], units);
        assert_eq!(cell(&row, "amount", Units::Minor), "123450");
        for (row, name, shown) in [
            (&row, "amount", "1234.50"),
            (&row, "amountTax", "-0.05"),
            (&row, "amountPaid", "0.00"),
            (&row, "version", "7"),
            (&yen, "amount", "500"),
        ] {
            assert_eq!(cell(row, name, Units::Major), shown, "{name}");
        }
        let nested = json!({"template": {"currency": "USD", "amountTax": 825}});
        assert_eq!(super::cell(&nested, &["template", "amountTax"].map(str::to_owned), Units::Major), "8.25");
    }

    #[test]
    fn cells_that_a_spreadsheet_would_execute_are_prefixed() {
        let row = json!({"a": "=1+1", "b": {"c": "\t1"}, "d": -5, "e": ["=1"], "f": "x=1", "g": true});
        let text = |path: &str| cell(&row, &path.split('.').map(str::to_owned).collect::<Vec<_>>(), Units::Minor);
        assert_eq!(
            ["a", "b.c", "d", "e", "f", "g", "h", "b.z"].map(text),
            ["'=1+1", "'\t1", "'-5", "[\"=1\"]", "x=1", "true", "", ""]
        );
    }
}
