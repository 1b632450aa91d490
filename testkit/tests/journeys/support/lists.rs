//! What is true of every list. A list is named by its path, which ends with `?` or `&`.

use anyhow::Result;
use serde_json::Value;
use testkit::Client;

use super::{ids, invalid};

/// Every id of a list, read in pages of `limit`.
pub(crate) async fn walk(api: &Client, list: &str, limit: usize) -> Result<Vec<String>> {
    let mut seen: Vec<String> = Vec::new();
    loop {
        let after = seen.last().map(|id| format!("&startingAfter={id}")).unwrap_or_default();
        let page = api.get(&format!("{list}limit={limit}{after}")).await?;
        seen.extend(ids(&page));
        if page.body["hasMore"] == false {
            return Ok(seen);
        }
        assert_eq!(page.body["data"].as_array().map(Vec::len), Some(limit), "a page with more after it is full");
    }
}

/// The list shows these in this order, in pages of any size. Answers the first ten, which are shown where no limit is given.
pub(crate) async fn is_listed(api: &Client, list: &str, expected: &[String]) -> Result<Value> {
    for limit in [1, 2, 5, 11, 100] {
        assert_eq!(walk(api, list, limit).await?, expected, "pages of {limit}");
    }
    let page = api.get(list).await?;
    assert_eq!(ids(&page), expected[..expected.len().min(10)], "ten where no limit is given");
    Ok(page.body["data"].clone())
}

/// These ids, as what is none at all, are no place in the list to go on from; and a page has from one to a hundred rows.
pub(crate) async fn refuses_what_is_no_page(api: &Client, list: &str, foreign: &[&str]) -> Result<()> {
    for cursor in [foreign, &["nonsense", ""]].concat() {
        invalid(&api.get(&format!("{list}startingAfter={cursor}")).await?, "startingAfter");
    }
    for limit in ["0", "101", "abc"] {
        invalid(&api.get(&format!("{list}limit={limit}")).await?, "limit");
    }
    Ok(())
}
