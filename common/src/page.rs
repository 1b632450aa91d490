//! Pages of lists: a cursor is the id of the last row seen.

use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{Error, Result};
use crate::schema;

/// The size of a page that asks for none.
pub const DEFAULT_LIMIT: i64 = 10;
/// The largest page.
pub const MAX_LIMIT: i64 = 100;

/// Which page is wanted.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<Id> {
    limit: i64,
    /// The last row of the page before.
    pub starting_after: Option<Id>,
}

impl<Id: std::str::FromStr> PageRequest<Id> {
    /// Reads the two query parameters.
    ///
    /// # Errors
    /// 422 naming `limit` (outside 1–100) or `startingAfter` (not an id of this kind).
    pub fn parse(limit: Option<&str>, starting_after: Option<&str>) -> Result<Self> {
        let limit = match limit {
            None => DEFAULT_LIMIT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|n| (1..=MAX_LIMIT).contains(n))
                .ok_or_else(|| Error::invalid("limit", "limit must be a whole number from 1 to 100"))?,
        };
        let starting_after = starting_after.map(|text| text.parse().map_err(|_| unknown_cursor())).transpose()?;
        Ok(Self { limit, starting_after })
    }
}

impl<Id> PageRequest<Id> {
    /// Rows to ask the database for: one more than the page holds, which tells whether there are more.
    pub fn fetch(&self) -> i64 {
        self.limit + 1
    }

    /// The page of rows fetched with [`PageRequest::fetch`].
    pub fn page<T>(&self, mut rows: Vec<T>) -> Page<T> {
        let size = usize::try_from(self.limit).expect("a limit is from 1 to 100");
        let has_more = rows.len() > size;
        rows.truncate(size);
        Page { data: rows, has_more }
    }
}

/// A cursor that names no row of this list: never a restart from the top.
pub fn unknown_cursor() -> Error {
    Error::invalid("startingAfter", "startingAfter names no object of this list")
}

/// Some rows of a list, and whether there are more.
#[derive(Debug)]
pub struct Page<T> {
    /// The rows.
    pub data: Vec<T>,
    /// Whether another page follows.
    pub has_more: bool,
}

impl<T> Page<T> {
    /// The page with each row rendered.
    pub fn views<'a, V>(&'a self, render: impl FnMut(&'a T) -> V) -> Page<V> {
        Page { data: self.data.iter().map(render).collect(), has_more: self.has_more }
    }
}

/// A list as the API answers it (docs/api.md, Lists).
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = List, description = "A page of a list.")]
pub struct ListView<T> {
    #[schema(schema_with = schema::list)]
    object: &'static str,
    data: Vec<T>,
    /// Whether another page follows.
    has_more: bool,
    /// Only if there is more: as `startingAfter` it gives the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl<T> ListView<T> {
    /// Renders a page; `cursor` gives the id of a row.
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
    fn a_page_is_within_its_limits_or_the_parameter_is_named() {
        let limits = || option::of(prop_oneof![mutated("10"), texts(), any::<i64>().prop_map(|n| n.to_string())]);
        let cursors = option::of(prop_oneof![mutated(ID), texts()]);
        check((limits(), cursors), |(limit, cursor)| {
            match PageRequest::<PaymentId>::parse(limit.as_deref(), cursor.as_deref()) {
                Ok(page) => {
                    assert!((2..=MAX_LIMIT + 1).contains(&page.fetch()), "{limit:?}");
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
