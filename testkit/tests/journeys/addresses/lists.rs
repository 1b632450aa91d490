//! The addresses of one customer, page by page.

use anyhow::Result;

use super::{ADDRESSES, UNKNOWN, address, make_default};
use crate::support::{ids, invalid, merchant, not_found, ok, walk};

#[tokio::test]
async fn pages_hold_each_address_once_and_newest_first() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, other) = (merchant.customer().await?, merchant.customer().await?);
    let list = format!("{ADDRESSES}?customerId={customer}&");
    assert!(ids(&merchant.api.get(&list).await?).is_empty());
    let mut made = Vec::new();
    for _ in 0..11 {
        made.insert(0, address(&merchant, &customer).await?);
        address(&merchant, &other).await?;
    }
    // Unlike the default card, a default address keeps its place.
    ok(&make_default(&merchant, &made[5], "billing").await?);
    for limit in [1, 2, 5, 11, 100] {
        assert_eq!(walk(&merchant.api, &list, limit).await?, made, "pages of {limit}");
    }
    assert_eq!(ids(&merchant.api.get(&list).await?), made[..10], "ten where no limit is given");
    Ok(())
}

#[tokio::test]
async fn a_list_is_of_one_customer() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let (one, other) = (merchant.customer().await?, merchant.customer().await?);
    let (mine, theirs) = (address(&merchant, &one).await?, address(&merchant, &other).await?);
    invalid(&merchant.api.get(ADDRESSES).await?, "customerId");
    for unknown in ["cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", ""] {
        not_found(&merchant.api.get(&format!("{ADDRESSES}?customerId={unknown}")).await?);
    }
    not_found(&stranger.api.get(&format!("{ADDRESSES}?customerId={one}")).await?);
    let list = format!("{ADDRESSES}?customerId={one}");
    assert_eq!(ids(&merchant.api.get(&list).await?), [mine]);
    for limit in ["0", "101", "abc"] {
        invalid(&merchant.api.get(&format!("{list}&limit={limit}")).await?, "limit");
    }
    for cursor in [theirs.as_str(), UNKNOWN, "nonsense", "", &one] {
        invalid(&merchant.api.get(&format!("{list}&startingAfter={cursor}")).await?, "startingAfter");
    }
    Ok(())
}
