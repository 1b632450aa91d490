//! Rows made in SQL by copying others: thousands of them through the API would take minutes.

use sqlx::AssertSqlSafe;

/// A statement that inserts a copy of each of these rows, `t`, with the columns in `own` replaced: names and values, which
/// may use what else `rows` selects from.
pub(crate) fn copies(table: &str, rows: &str, own: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(copies_text(table, rows, own))
}

/// As [`copies`], returning the ids.
pub(crate) fn copies_with_ids(table: &str, rows: &str, own: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!("{} RETURNING id", copies_text(table, rows, own)))
}

fn copies_text(table: &str, rows: &str, own: &str) -> String {
    // In the select list, `(function(…)).*` would call the function once for each column.
    format!(
        "INSERT INTO {table} SELECT copied.* FROM {rows},
         LATERAL jsonb_populate_record(NULL::{table}, to_jsonb(t) || jsonb_build_object({own})) AS copied"
    )
}
