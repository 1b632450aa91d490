//! Listing invoices, and invoices of other accounts.

use anyhow::Result;

use super::{INVOICES, UNKNOWN, draft, get_invoice, invoice, post_action};
use crate::support::{assert_invalid_pages_rejected, assert_listed, id, ids, merchant, not_found, ok};

#[tokio::test]
async fn invoices_are_listed_newest_first() -> Result<()> {
    let (merchant, other) = (merchant().await?, merchant().await?);
    let customer = merchant.customer().await?;
    let foreign = id(&invoice(&other, &other.customer().await?).await?)?;
    let list = format!("{INVOICES}?");
    assert!(ids(&merchant.api.get(&list).await?).is_empty());
    let mut made = vec![draft(&merchant, &customer, "net_7").await?];
    for _ in 0..10 {
        made.insert(0, id(&invoice(&merchant, &customer).await?)?);
    }
    ok(&post_action(&merchant, &made[4], "void").await?);
    let rows = assert_listed(&merchant.api, &list, &made).await?;
    assert_eq!(rows[4], get_invoice(&merchant, &made[4]).await?, "a row is the current invoice");
    assert_invalid_pages_rejected(&merchant.api, &list, &[&foreign, UNKNOWN, &customer]).await
}

#[tokio::test]
async fn invoices_of_other_accounts_are_not_found() -> Result<()> {
    let (merchant, other) = (merchant().await?, merchant().await?);
    let customer = other.customer().await?;
    let foreign = id(&invoice(&other, &customer).await?)?;
    let foreign_draft = draft(&other, &customer, "net_7").await?;
    for unknown in [&foreign, &foreign_draft, UNKNOWN, "nonsense", &customer] {
        not_found(&merchant.api.get(&format!("{INVOICES}/{unknown}")).await?);
        not_found(&post_action(&merchant, unknown, "issue").await?);
        not_found(&post_action(&merchant, unknown, "void").await?);
    }
    assert_eq!(get_invoice(&other, &foreign).await?["status"], "open");
    assert_eq!(get_invoice(&other, &foreign_draft).await?["status"], "draft");
    Ok(())
}
