//! Pagination: the cursor is the id of the last row of the previous page.

use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{Error, Result};
use crate::form::whole_number;
use crate::schema;

/// The default page size.
pub const DEFAULT_LIMIT: i64 = 10;
/// The maximum page size.
pub const MAX_LIMIT: i64 = 100;

/// The requested page.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<Id> {
    limit: i64,
    /// The last row of the previous page.
    pub starting_after: Option<Id>,
}

impl<Id: std::str::FromStr> PageRequest<Id> {
    /// Parses the query parameters `limit` and `startingAfter`.
    ///
    /// # Errors
    /// 422 naming `limit` (outside 1–100) or `startingAfter` (not an id of this kind).
    pub fn parse(limit: Option<&str>, starting_after: Option<&str>) -> Result<Self> {
        let limit = match limit {
            None => DEFAULT_LIMIT,
            Some(text) => whole_number(text)
                .filter(|n| (1..=MAX_LIMIT).contains(n))
                .ok_or_else(|| Error::invalid("limit", "limit must be a whole number from 1 to 100"))?,
        };
        let starting_after = starting_after.map(|text| text.parse().map_err(|_| unknown_cursor())).transpose()?;
        Ok(Self { limit, starting_after })
    }
}

impl<Id> PageRequest<Id> {
    /// The number of rows to query: one more than the page size, to determine whether more follow.
    pub fn fetch(&self) -> i64 {
        self.limit + 1
    }

    /// The page of rows that were queried with [`PageRequest::fetch`].
    pub fn page<T>(&self, mut rows: Vec<T>) -> Page<T> {
        let size = usize::try_from(self.limit).expect("a limit is from 1 to 100");
        let has_more = rows.len() > size;
        rows.truncate(size);
        Page { data: rows, has_more }
    }
}

/// The error for a cursor that is not in this list. Starting from the top instead would repeat rows.
pub fn unknown_cursor() -> Error {
    Error::invalid("startingAfter", "startingAfter must be the id of an object in this list")
}

/// A page of rows.
#[derive(Debug)]
pub struct Page<T> {
    pub data: Vec<T>,
    /// Whether another page follows.
    pub has_more: bool,
}

impl<T> Page<T> {
    /// Renders each row.
    pub fn views<'a, V>(&'a self, render: impl FnMut(&'a T) -> V) -> Page<V> {
        Page { data: self.data.iter().map(render).collect(), has_more: self.has_more }
    }
}

/// A list in API responses (docs/api.md, Lists).
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = List, description = "A page of a list.")]
pub struct ListView<T> {
    #[schema(schema_with = schema::list)]
    object: &'static str,
    data: Vec<T>,
    /// Whether another page follows.
    has_more: bool,
    /// Present if another page follows: pass it as `startingAfter`.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl<T> ListView<T> {
    /// `cursor` returns the id of a row.
    pub fn new(page: Page<T>, cursor: impl FnOnce(&T) -> String) -> Self {
        let next_cursor = page.data.last().filter(|_| page.has_more).map(cursor);
        Self { object: "list", data: page.data, has_more: page.has_more, next_cursor }
    }
}

#[cfg(test)]
mod tests {
    use proptest::option;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    use super::*;
    use crate::id::PaymentId;

    const ID: &str = "pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7";

    #[test]
    fn invalid_page_parameters_are_named_in_the_error() {
        let limits = || option::of(prop_oneof![mutated("10"), texts(), any::<i64>().prop_map(|n| n.to_string())]);
        let cursors = option::of(prop_oneof![mutated(ID), texts()]);
        check((limits(), cursors), |(limit, cursor)| {
            match PageRequest::<PaymentId>::parse(limit.as_deref(), cursor.as_deref()) {
                Ok(page) => {
                    assert!((2..=MAX_LIMIT + 1).contains(&page.fetch()), "{limit:?}");
                    assert!(limit.is_none_or(|text| text.bytes().all(|byte| byte.is_ascii_digit())));
                    assert_eq!(page.starting_after.map(|id| id.to_string()), cursor, "a cursor has one spelling");
                }
                Err(Error::Invalid { param, message }) => {
                    assert!(param == "limit" && limit.is_some() || param == "startingAfter" && cursor.is_some());
                    assert!(message.starts_with(&*param) && message.len() < 80, "{message}");
                }
                Err(other) => panic!("{other}"),
            }
        });
    }
}
