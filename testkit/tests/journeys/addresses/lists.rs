//! Listing a customer's addresses in pages.

use anyhow::Result;

use super::{ADDRESSES, UNKNOWN, address, make_default};
use crate::support::{assert_invalid_pages_rejected, assert_listed, ids, invalid, merchant, not_found, ok};

#[tokio::test]
async fn pages_contain_each_address_once_newest_first() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, other) = (merchant.customer().await?, merchant.customer().await?);
    let list = format!("{ADDRESSES}?customerId={customer}&");
    assert!(ids(&merchant.api.get(&list).await?).is_empty());
    let mut addresses = Vec::new();
    for _ in 0..11 {
        addresses.insert(0, address(&merchant, &customer).await?);
        address(&merchant, &other).await?;
    }
    // Unlike a default card, a default address does not move to the front.
    ok(&make_default(&merchant, &addresses[5], "billing").await?);
    assert_listed(&merchant.api, &list, &addresses).await.map(drop)
}

#[tokio::test]
async fn a_list_contains_one_customers_addresses() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let (one, other) = (merchant.customer().await?, merchant.customer().await?);
    let (own_address, other_address) = (address(&merchant, &one).await?, address(&merchant, &other).await?);
    invalid(&merchant.api.get(ADDRESSES).await?, "customerId");
    for unknown in ["cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", ""] {
        not_found(&merchant.api.get(&format!("{ADDRESSES}?customerId={unknown}")).await?);
    }
    not_found(&other_merchant.api.get(&format!("{ADDRESSES}?customerId={one}")).await?);
    let list = format!("{ADDRESSES}?customerId={one}&");
    assert_eq!(ids(&merchant.api.get(&list).await?), [own_address]);
    assert_invalid_pages_rejected(&merchant.api, &list, &[&other_address, UNKNOWN, &one]).await
}
