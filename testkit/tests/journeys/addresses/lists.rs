//! The addresses of one customer, page by page.

use anyhow::Result;

use super::{ADDRESSES, UNKNOWN, address, make_default};
use crate::support::{ids, invalid, is_listed, merchant, not_found, ok, refuses_what_is_no_page};

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
    is_listed(&merchant.api, &list, &made).await.map(drop)
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
    let list = format!("{ADDRESSES}?customerId={one}&");
    assert_eq!(ids(&merchant.api.get(&list).await?), [mine]);
    refuses_what_is_no_page(&merchant.api, &list, &[&theirs, UNKNOWN, &one]).await
}
