//! Listing payments: order, cursors and limits.

use anyhow::Result;

use crate::support::{concurrently, created, id, ids, invalid, list_all, merchant, ok};

#[tokio::test]
async fn pages_list_each_payment_once_newest_first() -> Result<()> {
    let merchant = merchant().await?;
    assert!(ids(&merchant.api.get("/v1/payments").await?).is_empty());
    let mut made = Vec::new();
    for amount in 1..=4 {
        made.push(id(created(&merchant.pay(amount).await?))?);
    }
    made.reverse();
    for limit in [1, 2, 3, 4, 100] {
        assert_eq!(list_all(&merchant.api, "/v1/payments?", limit).await?, made, "pages of {limit}");
    }
    concurrently(7, async |_| merchant.pay(1).await).await?;
    let first = merchant.api.get("/v1/payments").await?;
    assert_eq!(ids(&first).len(), 10, "the default limit is ten");
    assert_eq!(ok(&first)["hasMore"], true);
    let all = list_all(&merchant.api, "/v1/payments?", 5).await?;
    assert_eq!(all.len(), 11);
    assert!(all.is_sorted_by(|newer, older| newer > older), "ids are ordered by time");
    Ok(())
}

#[tokio::test]
async fn cursors_must_name_a_row_of_the_list() -> Result<()> {
    let merchant = merchant().await?;
    let other_merchant = crate::support::merchant().await?;
    let foreign = id(created(&other_merchant.pay(100).await?))?;
    let customer = merchant.customer().await?;
    merchant.pay(100).await?;
    for cursor in [foreign.as_str(), "pay_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", "", &customer] {
        invalid(&merchant.api.get(&format!("/v1/payments?startingAfter={cursor}")).await?, "startingAfter");
    }
    Ok(())
}

#[tokio::test]
async fn limits_are_from_1_to_100() -> Result<()> {
    let merchant = merchant().await?;
    for limit in ["0", "101", "abc", "-1", "1.5", "", "1e1", "99999999999999999999"] {
        for list in ["payments", "customers"] {
            invalid(&merchant.api.get(&format!("/v1/{list}?limit={limit}")).await?, "limit");
        }
    }
    for limit in [1, 100] {
        ok(&merchant.api.get(&format!("/v1/payments?limit={limit}")).await?);
    }
    Ok(())
}
