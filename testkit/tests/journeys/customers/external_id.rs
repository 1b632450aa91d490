//! The merchant's own id of a customer: written once, unique, and found again.

use anyhow::Result;
use serde_json::{Value, json};

use super::{CUSTOMERS, ada};
use crate::support::{conflict, created, id, ids, invalid, merchant, ok, together, with};

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
