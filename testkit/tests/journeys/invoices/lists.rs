//! Invoices page by page, and what is no invoice of the account.

use anyhow::Result;

use super::{INVOICES, UNKNOWN, ask, draft, invoice, shown};
use crate::support::{id, ids, is_listed, merchant, not_found, ok, refuses_what_is_no_page};

#[tokio::test]
async fn invoices_are_listed_newest_first() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let customer = merchant.customer().await?;
    let theirs = id(&invoice(&stranger, &stranger.customer().await?).await?)?;
    let list = format!("{INVOICES}?");
    assert!(ids(&merchant.api.get(&list).await?).is_empty());
    let mut made = vec![draft(&merchant, &customer, "net_7").await?];
    for _ in 0..10 {
        made.insert(0, id(&invoice(&merchant, &customer).await?)?);
    }
    ok(&ask(&merchant, &made[4], "void").await?);
    let rows = is_listed(&merchant.api, &list, &made).await?;
    assert_eq!(rows[4], shown(&merchant, &made[4]).await?, "a row is the invoice as it stands");
    refuses_what_is_no_page(&merchant.api, &list, &[&theirs, UNKNOWN, &customer]).await
}

#[tokio::test]
async fn another_accounts_invoice_is_as_unknown_as_any() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let customer = stranger.customer().await?;
    let theirs = id(&invoice(&stranger, &customer).await?)?;
    let written = draft(&stranger, &customer, "net_7").await?;
    for unknown in [&theirs, &written, UNKNOWN, "nonsense", &customer] {
        not_found(&merchant.api.get(&format!("{INVOICES}/{unknown}")).await?);
        not_found(&ask(&merchant, unknown, "issue").await?);
        not_found(&ask(&merchant, unknown, "void").await?);
    }
    assert_eq!(shown(&stranger, &theirs).await?["status"], "open");
    assert_eq!(shown(&stranger, &written).await?["status"], "draft");
    Ok(())
}
