//! Pagination: the cursor is the id of the last row of the previous page.

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::form::whole_number;
use crate::id::{Id, first_id};
use crate::schema;
use crate::time::Timestamp;

/// The default page size.
pub const DEFAULT_LIMIT: i64 = 10;
/// The maximum page size.
pub const MAX_LIMIT: i64 = 100;

/// How many rows of a whole list are read at once.
const CHUNK: i64 = 500;

#[derive(Clone, Copy, Debug)]
enum Rows {
    /// So many.
    Page(i64),
    /// [`CHUNK`] at once, until all are read.
    All,
}

/// The requested page.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<Id> {
    rows: Rows,
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
        Ok(Self { rows: Rows::Page(limit), starting_after })
    }
}

impl<Id: Copy> PageRequest<Id> {
    /// Looks up the row of the cursor, if there is one.
    ///
    /// # Errors
    /// 422 naming `startingAfter` if there is no such row; the errors of `find`.
    pub async fn check_cursor<T, F>(&self, find: impl FnOnce(Id) -> F) -> Result<()>
    where
        F: Future<Output = Result<Option<T>>>,
    {
        match self.starting_after {
            Some(cursor) => find(cursor).await?.map(drop).ok_or_else(unknown_cursor),
            None => Ok(()),
        }
    }
}

impl<Id> PageRequest<Id> {
    /// The next rows of a whole list.
    pub const fn chunk(starting_after: Option<Id>) -> Self {
        Self { rows: Rows::All, starting_after }
    }

    /// Whether the whole list is read.
    pub const fn is_chunk(&self) -> bool {
        matches!(self.rows, Rows::All)
    }

    const fn limit(&self) -> i64 {
        match self.rows {
            Rows::Page(limit) => limit,
            Rows::All => CHUNK,
        }
    }

    /// The number of rows to query: one more than the page size, to determine whether more follow.
    pub fn fetch(&self) -> i64 {
        self.limit() + 1
    }

    /// The page of rows that were queried with [`PageRequest::fetch`].
    pub fn page<T>(&self, mut rows: Vec<T>) -> Page<T> {
        let size = usize::try_from(self.limit()).expect("a limit is positive");
        let has_more = rows.len() > size;
        rows.truncate(size);
        Page { data: rows, has_more }
    }
}

impl<T: Id> PageRequest<T> {
    /// The ids to read, from the first on and below the second: after the cursor, and created in a range of time that
    /// includes its start only.
    pub fn ids(&self, created_from: Option<Timestamp>, created_to: Option<Timestamp>) -> (Uuid, Uuid) {
        let cursor = self.starting_after.map_or(Uuid::max(), Id::as_uuid);
        (created_from.map_or(Uuid::nil(), first_id), created_to.map_or(cursor, |to| first_id(to).min(cursor)))
    }
}

/// Sorts rows that were read for several values of a filter.
pub fn newest_first<T>(mut rows: Vec<T>, id: impl Fn(&T) -> Uuid) -> Vec<T> {
    rows.sort_unstable_by_key(|row| std::cmp::Reverse(id(row)));
    rows
}

/// What to read for a filter of several values, any of which matches: each in turn, or all rows.
pub fn each<T: Copy>(values: &[T]) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.iter().copied().map(Some).collect() }
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
    /// Converts each row.
    pub fn map<V>(self, convert: impl FnMut(T) -> V) -> Page<V> {
        Page { data: self.data.into_iter().map(convert).collect(), has_more: self.has_more }
    }
}

/// A list in API responses (docs/api.md, Lists).
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = List, description = "A page of a list.")]
pub struct ListView<T> {
    #[schema(schema_with = schema::list)]
    object: &'static str,
    /// The objects of this page.
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
