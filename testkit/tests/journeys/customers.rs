//! Customers: what is kept, what an update changes, and the merchant's own id that is written once.

use anyhow::Result;
use serde_json::{Value, json};

use crate::support::{conflict, created, id, ids, invalid, merchant, not_found, ok, refused, together, with, without};

const CUSTOMERS: &str = "/v1/customers";

fn ada() -> Value {
    json!({"email": "ada@example.com"})
}

fn field(name: &str, kind: &str, value: impl Into<Value>) -> Value {
    json!({"name": name, "type": kind, "value": value.into()})
}

#[tokio::test]
async fn what_is_sent_is_kept_and_the_rest_is_absent() -> Result<()> {
    let merchant = merchant().await?;
    let answer = merchant.api.post(CUSTOMERS, ada()).await?;
    let made = created(&answer);
    let plain = without(without(made.clone(), "id"), "createdAt");
    let expected =
        json!({"object": "customer", "livemode": false, "email": "ada@example.com", "name": "ada", "customFields": []});
    assert_eq!(plain, expected);
    assert!(id(made)?.starts_with("cus_"));

    let rows = json!([field("Size", "text", "L"), field("Age-1_b c", "number", "-3.14")]);
    let full =
        json!({"email": "b@example.com", "name": "Bea", "phone": "+1 555", "externalId": "b-1", "customFields": rows});
    let answer = merchant.api.post(CUSTOMERS, with(full.clone(), "unheardOf", 1)).await?;
    for (name, value) in full.as_object().expect("an object") {
        assert_eq!(&created(&answer)[name], value);
    }
    assert!(answer.body.get("unheardOf").is_none());
    let read = merchant.api.get(&format!("{CUSTOMERS}/{}", id(&answer.body)?)).await?;
    assert_eq!(ok(&read), &answer.body);
    not_found(&merchant.api.get(&format!("{CUSTOMERS}/b-1")).await?);
    Ok(())
}

#[tokio::test]
async fn fields_are_strict() -> Result<()> {
    let merchant = merchant().await?;
    invalid(&merchant.api.post(CUSTOMERS, json!({})).await?, "email");
    let wrong = [
        ("email", vec![json!(null), json!(""), json!("ada"), json!("@b"), json!("a@"), json!("a b@c"), json!(1)]),
        ("name", vec![json!(1), json!(""), json!("a\nb"), json!("x".repeat(256))]),
        ("phone", vec![json!(5), json!(""), json!({})]),
        ("externalId", vec![json!(1), json!(""), json!("x".repeat(256))]),
        ("customFields", vec![json!({}), json!("a"), json!(1)]),
    ];
    let customer = format!("{CUSTOMERS}/{}", merchant.customer().await?);
    for (name, values) in wrong {
        for value in values {
            invalid(&merchant.api.post(CUSTOMERS, with(ada(), name, value.clone())).await?, name);
            if value != Value::Null {
                invalid(&merchant.api.post(&customer, json!({name: value})).await?, name);
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_name_defaults_once_to_the_local_part() -> Result<()> {
    let merchant = merchant().await?;
    for (email, name) in [("grace.hopper+x@example.com", "grace.hopper+x"), ("\"a@b\"@example.com", "\"a@b\"")] {
        let answer = merchant.api.post(CUSTOMERS, json!({"email": email, "name": null})).await?;
        assert_eq!(created(&answer)["name"], name);
        let path = format!("{CUSTOMERS}/{}", id(&answer.body)?);
        let moved = merchant.api.post(&path, json!({"email": "new@example.com"})).await?;
        assert_eq!((&ok(&moved)["name"], &moved.body["email"]), (&json!(name), &json!("new@example.com")));
    }
    Ok(())
}

#[tokio::test]
async fn an_update_changes_only_what_is_sent() -> Result<()> {
    let merchant = merchant().await?;
    let made = merchant.api.post(CUSTOMERS, with(with(ada(), "phone", "1"), "externalId", "x")).await?;
    let path = format!("{CUSTOMERS}/{}", id(created(&made))?);
    let named = merchant.api.post(&path, json!({"name": "Ada L."})).await?;
    assert_eq!(ok(&named), &with(made.body.clone(), "name", "Ada L."));
    for nothing in [json!({}), json!({"name": null, "phone": null, "email": null}), json!({"unheardOf": 1})] {
        assert_eq!(ok(&merchant.api.post(&path, nothing).await?), &named.body);
    }
    assert_eq!(ok(&merchant.api.get(&path).await?), &named.body);
    Ok(())
}

#[tokio::test]
async fn custom_fields_are_replaced_cleared_or_left() -> Result<()> {
    let merchant = merchant().await?;
    let (a, b) = (field("A", "boolean", true), field("B", "date", "2024-02-29"));
    for clearing in [json!([]), Value::Null] {
        let made = merchant.api.post(CUSTOMERS, with(ada(), "customFields", json!([a, b]))).await?;
        let path = format!("{CUSTOMERS}/{}", id(created(&made))?);
        let left = merchant.api.post(&path, json!({"phone": "1"})).await?;
        assert_eq!(ok(&left)["customFields"], json!([a, b]));
        let replaced = merchant.api.post(&path, json!({"customFields": [b]})).await?;
        assert_eq!(ok(&replaced)["customFields"], json!([b]));
        let cleared = merchant.api.post(&path, json!({"customFields": clearing})).await?;
        assert_eq!(ok(&cleared)["customFields"], json!([]));
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_row_is_named_and_nothing_is_kept() -> Result<()> {
    let merchant = merchant().await?;
    let right = field("Right", "text", "");
    let wrong = [
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
    for row in wrong {
        let rows = json!([right, row]);
        invalid(&merchant.api.post(CUSTOMERS, with(ada(), "customFields", rows.clone())).await?, "customFields[1]");
        invalid(&merchant.api.post(&customer, json!({"customFields": rows})).await?, "customFields[1]");
    }
    let rows = |n: usize| Value::Array((0..n).map(|i| field(&format!("f{i}"), "text", "x")).collect());
    invalid(&merchant.api.post(CUSTOMERS, with(ada(), "customFields", rows(21))).await?, "customFields");
    assert_eq!(ok(&merchant.api.get(&customer).await?)["customFields"], json!([]));
    assert_eq!(ids(&merchant.api.get(CUSTOMERS).await?).len(), 1);
    let widest = json!([
        field(&"n".repeat(40), "text", "é".repeat(500)),
        field("b", "number", format!("-{}", "9".repeat(49))),
        field("c", "boolean", false),
    ]);
    for full in [rows(20), widest] {
        assert_eq!(
            created(&merchant.api.post(CUSTOMERS, with(ada(), "customFields", full.clone())).await?)["customFields"],
            full
        );
    }
    Ok(())
}

#[tokio::test]
async fn an_external_id_is_written_once() -> Result<()> {
    let merchant = merchant().await?;
    let made = merchant.api.post(CUSTOMERS, with(ada(), "externalId", Value::Null)).await?;
    assert!(created(&made).get("externalId").is_none());
    let path = format!("{CUSTOMERS}/{}", id(&made.body)?);
    ok(&merchant.api.post(&path, json!({"externalId": null})).await?);
    let set = merchant.api.post(&path, json!({"externalId": "crm-7"})).await?;
    assert_eq!(ok(&set)["externalId"], "crm-7");
    assert_eq!(ok(&merchant.api.post(&path, json!({"externalId": "crm-7"})).await?), &set.body);
    for change in [json!("crm-8"), json!("CRM-7"), Value::Null] {
        conflict(&merchant.api.post(&path, json!({"externalId": change, "name": "never"})).await?);
    }
    assert_eq!(ok(&merchant.api.get(&path).await?), &set.body, "a refused update changes nothing");

    conflict(&merchant.api.post(CUSTOMERS, with(ada(), "externalId", "crm-7")).await?);
    let other = format!("{CUSTOMERS}/{}", merchant.customer().await?);
    conflict(&merchant.api.post(&other, json!({"externalId": "crm-7"})).await?);
    let stranger = crate::support::merchant().await?;
    created(&stranger.api.post(CUSTOMERS, with(ada(), "externalId", "crm-7")).await?);
    Ok(())
}

#[tokio::test]
async fn of_many_with_one_external_id_one_is_made() -> Result<()> {
    let merchant = merchant().await?;
    let answers = together(16, async |_| merchant.api.post(CUSTOMERS, with(ada(), "externalId", "same")).await).await?;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!(won.len(), 1);
    lost.into_iter().for_each(conflict);

    let (one, other) = (merchant.customer().await?, merchant.customer().await?);
    let answers = together(8, async |i| {
        let customer = if i % 2 == 0 { &one } else { &other };
        merchant.api.post(&format!("{CUSTOMERS}/{customer}"), json!({"externalId": "later"})).await
    })
    .await?;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!(won.len(), 4, "one customer has it, and re-sending it is no conflict");
    lost.into_iter().for_each(conflict);
    Ok(())
}

#[tokio::test]
async fn the_list_is_filtered_by_the_exact_external_id() -> Result<()> {
    let merchant = merchant().await?;
    let stranger = crate::support::merchant().await?;
    created(&stranger.api.post(CUSTOMERS, with(ada(), "externalId", "theirs")).await?);
    let mut made = Vec::new();
    for external in ["a", "ab", "a b&c"] {
        made.push(id(created(&merchant.api.post(CUSTOMERS, with(ada(), "externalId", external)).await?))?);
    }
    for (query, found) in [("a", Some(0)), ("ab", Some(1)), ("a%20b%26c", Some(2)), ("A", None), ("theirs", None)] {
        let page = merchant.api.get(&format!("{CUSTOMERS}?externalId={query}")).await?;
        assert_eq!(ids(&page), found.map(|i: usize| made[i].clone()).into_iter().collect::<Vec<_>>(), "{query}");
    }
    invalid(&merchant.api.get(&format!("{CUSTOMERS}?externalId=")).await?, "externalId");
    made.reverse();
    assert_eq!(ids(&merchant.api.get(CUSTOMERS).await?), made, "newest first");
    let first = merchant.api.get(&format!("{CUSTOMERS}?limit=2")).await?;
    assert_eq!(ids(&first), made[..2]);
    let rest = merchant.api.get(&format!("{CUSTOMERS}?limit=2&startingAfter={}", made[1])).await?;
    assert_eq!(ids(&rest), made[2..]);
    Ok(())
}

#[tokio::test]
async fn another_accounts_customer_is_as_unknown_as_any() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let customer = merchant.customer().await?;
    let foreign = stranger.api.get(&format!("{CUSTOMERS}/{customer}")).await?;
    let unknown = stranger.api.get(&format!("{CUSTOMERS}/cus_01ARZ3NDEKTSV4RRFFQ69G5FAV")).await?;
    not_found(&foreign);
    assert_eq!(foreign.body, unknown.body);
    not_found(&stranger.api.post(&format!("{CUSTOMERS}/{customer}"), json!({"name": "mine"})).await?);
    // What the body says wrong comes before what the path names.
    invalid(&stranger.api.post(&format!("{CUSTOMERS}/{customer}"), json!({"name": 1})).await?, "name");
    refused(&stranger.api.get(&format!("/v1/payment_methods?customerId={customer}")).await?, 404, "not_found");
    Ok(())
}
