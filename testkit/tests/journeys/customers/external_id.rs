//! The merchant's own id of a customer: write-once, unique and usable as a filter.

use anyhow::Result;
use serde_json::{Value, json};

use super::{CUSTOMERS, ada};
use crate::support::{concurrently, conflict, created, id, ids, invalid, merchant, ok, with};

#[tokio::test]
async fn an_external_id_is_write_once() -> Result<()> {
    let merchant = merchant().await?;
    let original = merchant.api.post(CUSTOMERS, with(ada(), "externalId", Value::Null)).await?;
    assert!(created(&original).get("externalId").is_none());
    let path = format!("{CUSTOMERS}/{}", id(&original.body)?);
    ok(&merchant.api.post(&path, json!({"externalId": null})).await?);
    let set = merchant.api.post(&path, json!({"externalId": "crm-7"})).await?;
    assert_eq!(ok(&set)["externalId"], "crm-7");
    assert_eq!(ok(&merchant.api.post(&path, json!({"externalId": "crm-7"})).await?), &set.body);
    for change in [json!("crm-8"), json!("CRM-7"), Value::Null] {
        conflict(&merchant.api.post(&path, json!({"externalId": change, "name": "never"})).await?);
    }
    assert_eq!(ok(&merchant.api.get(&path).await?), &set.body, "a rejected update changes nothing");

    conflict(&merchant.api.post(CUSTOMERS, with(ada(), "externalId", "crm-7")).await?);
    let other = format!("{CUSTOMERS}/{}", merchant.customer().await?);
    conflict(&merchant.api.post(&other, json!({"externalId": "crm-7"})).await?);
    let other_merchant = crate::support::merchant().await?;
    created(&other_merchant.api.post(CUSTOMERS, with(ada(), "externalId", "crm-7")).await?);
    Ok(())
}

#[tokio::test]
async fn concurrent_creates_with_one_external_id_create_one_customer() -> Result<()> {
    let merchant = merchant().await?;
    let responses =
        concurrently(16, async |_| merchant.api.post(CUSTOMERS, with(ada(), "externalId", "same")).await).await?;
    let (succeeded, rejected): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 201);
    assert_eq!(succeeded.len(), 1);
    rejected.into_iter().for_each(conflict);

    let (one, other) = (merchant.customer().await?, merchant.customer().await?);
    let responses = concurrently(8, async |i| {
        let customer = if i % 2 == 0 { &one } else { &other };
        merchant.api.post(&format!("{CUSTOMERS}/{customer}"), json!({"externalId": "later"})).await
    })
    .await?;
    let (succeeded, rejected): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 200);
    assert_eq!(succeeded.len(), 4, "one customer has it, and sending it again is not a conflict");
    rejected.into_iter().for_each(conflict);
    Ok(())
}

#[tokio::test]
async fn the_list_filter_matches_the_exact_external_id() -> Result<()> {
    let merchant = merchant().await?;
    let other_merchant = crate::support::merchant().await?;
    created(&other_merchant.api.post(CUSTOMERS, with(ada(), "externalId", "theirs")).await?);
    let mut customers = Vec::new();
    for external in ["a", "ab", "a b&c"] {
        customers.push(id(created(&merchant.api.post(CUSTOMERS, with(ada(), "externalId", external)).await?))?);
    }
    for (query, index) in [("a", Some(0)), ("ab", Some(1)), ("a%20b%26c", Some(2)), ("A", None), ("theirs", None)] {
        let page = merchant.api.get(&format!("{CUSTOMERS}?externalId={query}")).await?;
        assert_eq!(ids(&page), index.map(|i: usize| customers[i].clone()).into_iter().collect::<Vec<_>>(), "{query}");
    }
    invalid(&merchant.api.get(&format!("{CUSTOMERS}?externalId=")).await?, "externalId");
    customers.reverse();
    assert_eq!(ids(&merchant.api.get(CUSTOMERS).await?), customers, "newest first");
    let first = merchant.api.get(&format!("{CUSTOMERS}?limit=2")).await?;
    assert_eq!(ids(&first), customers[..2]);
    let rest = merchant.api.get(&format!("{CUSTOMERS}?limit=2&startingAfter={}", customers[1])).await?;
    assert_eq!(ids(&rest), customers[2..]);
    Ok(())
}
