//! Checks that hold for every list endpoint. A list is given by its path, ending in `?` or `&`.

use anyhow::Result;
use serde_json::Value;
use testkit::Client;

use super::{ids, invalid};

/// Reads every id of a list in pages of `limit`.
pub(crate) async fn list_all(api: &Client, list: &str, limit: usize) -> Result<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let after = all.last().map(|id| format!("&startingAfter={id}")).unwrap_or_default();
        let page = api.get(&format!("{list}limit={limit}{after}")).await?;
        all.extend(ids(&page));
        if page.body["hasMore"] == false {
            return Ok(all);
        }
        assert_eq!(page.body["data"].as_array().map(Vec::len), Some(limit), "a page with hasMore must be full");
    }
}

/// Asserts that the list has these ids in this order for several page sizes. Returns the first page with the default
/// limit of ten.
pub(crate) async fn assert_listed(api: &Client, list: &str, expected: &[String]) -> Result<Value> {
    for limit in [1, 2, 5, 11, 100] {
        assert_eq!(list_all(api, list, limit).await?, expected, "pages of {limit}");
    }
    let page = api.get(list).await?;
    assert_eq!(ids(&page), expected[..expected.len().min(10)], "the default limit is ten");
    Ok(page.body["data"].clone())
}

/// Foreign and malformed cursors are rejected, and so is a limit outside 1..=100.
pub(crate) async fn assert_invalid_pages_rejected(api: &Client, list: &str, foreign: &[&str]) -> Result<()> {
    for cursor in [foreign, &["nonsense", ""]].concat() {
        invalid(&api.get(&format!("{list}startingAfter={cursor}")).await?, "startingAfter");
    }
    for limit in ["0", "101", "abc"] {
        invalid(&api.get(&format!("{list}limit={limit}")).await?, "limit");
    }
    Ok(())
}
