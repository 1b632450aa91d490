//! Custom fields: an update replaces, clears or keeps them, and no invalid row is silently dropped.

use anyhow::Result;
use serde_json::{Value, json};

use super::{CUSTOMERS, ada, field};
use crate::support::{created, id, ids, invalid, merchant, ok, with};

#[tokio::test]
async fn custom_fields_are_replaced_cleared_or_unchanged() -> Result<()> {
    let merchant = merchant().await?;
    let (a, b) = (field("A", "boolean", true), field("B", "date", "2024-02-29"));
    for clearing in [json!([]), Value::Null] {
        let response = merchant.api.post(CUSTOMERS, with(ada(), "customFields", json!([a, b]))).await?;
        let path = format!("{CUSTOMERS}/{}", id(created(&response))?);
        let unchanged = merchant.api.post(&path, json!({"phone": "1"})).await?;
        assert_eq!(ok(&unchanged)["customFields"], json!([a, b]));
        let replaced = merchant.api.post(&path, json!({"customFields": [b]})).await?;
        assert_eq!(ok(&replaced)["customFields"], json!([b]));
        let cleared = merchant.api.post(&path, json!({"customFields": clearing})).await?;
        assert_eq!(ok(&cleared)["customFields"], json!([]));
    }
    Ok(())
}

#[tokio::test]
async fn names_are_words_of_any_script_in_one_spelling() -> Result<()> {
    let merchant = merchant().await?;
    let names = ["\u{917}\u{94d}\u{930}\u{93e}\u{939}\u{915}", "\u{e17}\u{e35}\u{e48}\u{e2d}\u{e22}\u{e39}\u{e48} 2"];
    for name in names {
        let rows = json!([field(name, "text", "x")]);
        let response = merchant.api.post(CUSTOMERS, with(ada(), "customFields", rows.clone())).await?;
        assert_eq!(created(&response)["customFields"], rows);
    }
    // Forty characters, though more when decomposed, and composed when stored.
    let decomposed = "Gro\u{308}\u{df}e ".repeat(6) + "Gro\u{308}\u{df}";
    let response =
        merchant.api.post(CUSTOMERS, with(ada(), "customFields", json!([field(&decomposed, "text", "x")]))).await?;
    let composed = decomposed.replace("o\u{308}", "\u{f6}");
    assert_eq!(composed.chars().count(), 40);
    assert_eq!(created(&response)["customFields"][0]["name"], composed);
    for same in [["Stra\u{df}e", "STRASSE"], ["Gr\u{f6}\u{df}e", "GRO\u{308}SSE"], ["\u{3a3}", "\u{3c2}"]] {
        let rows = same.map(|name| field(name, "text", "x"));
        invalid(&merchant.api.post(CUSTOMERS, with(ada(), "customFields", json!(rows))).await?, "customFields[1]");
    }
    for mark_first in ["\u{308}o", "\u{93e}"] {
        let rows = json!([field(mark_first, "text", "x")]);
        invalid(&merchant.api.post(CUSTOMERS, with(ada(), "customFields", rows)).await?, "customFields[0]");
    }
    Ok(())
}

#[tokio::test]
async fn an_invalid_row_is_named_and_nothing_is_stored() -> Result<()> {
    let merchant = merchant().await?;
    let valid = field("Right", "text", "");
    let invalid_rows = [
        field("1a", "text", "x"),
        field("", "text", "x"),
        field(&"n".repeat(41), "text", "x"),
        field("a.b", "text", "x"),
        field("RIGHT", "text", "twice, in any case"),
        field("a", "text", "x".repeat(501)),
        field("a", "text", "bell\u{7}"),
        field("a", "text", "next line\u{85}"),
        field("a", "text", 1),
        field("a", "number", 12),
        field("a", "number", "1e3"),
        field("a", "number", "+1"),
        field("a", "number", ".5"),
        field("a", "number", "9".repeat(51)),
        field("a", "boolean", "true"),
        field("a", "date", "2023-02-29"),
        field("a", "date", "2023-2-01"),
        field("a", "colour", "red"),
        json!({"name": "a", "type": "text"}),
        json!({"name": "a", "value": "x"}),
        json!({"type": "text", "value": "x"}),
        json!("row"),
        Value::Null,
    ];
    let customer = format!("{CUSTOMERS}/{}", merchant.customer().await?);
    for row in invalid_rows {
        let rows = json!([valid, row]);
        invalid(&merchant.api.post(CUSTOMERS, with(ada(), "customFields", rows.clone())).await?, "customFields[1]");
        invalid(&merchant.api.post(&customer, json!({"customFields": rows})).await?, "customFields[1]");
    }
    let rows = |n: usize| Value::Array((0..n).map(|i| field(&format!("f{i}"), "text", "x")).collect());
    invalid(&merchant.api.post(CUSTOMERS, with(ada(), "customFields", rows(21))).await?, "customFields");
    assert_eq!(ok(&merchant.api.get(&customer).await?)["customFields"], json!([]));
    assert_eq!(ids(&merchant.api.get(CUSTOMERS).await?).len(), 1);
    let longest = json!([
        field(&"n".repeat(40), "text", "é".repeat(500)),
        field("b", "number", format!("-{}", "9".repeat(49))),
        field("c", "boolean", false),
    ]);
    for full in [rows(20), longest] {
        assert_eq!(
            created(&merchant.api.post(CUSTOMERS, with(ada(), "customFields", full.clone())).await?)["customFields"],
            full
        );
    }
    Ok(())
}
