//! Invoices page by page, and what is no invoice of the account.

use anyhow::Result;

use super::{INVOICES, UNKNOWN, ask, draft, invoice, shown};
use crate::support::{id, ids, invalid, merchant, not_found, ok, walk};

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
    for limit in [1, 2, 5, 11, 100] {
        assert_eq!(walk(&merchant.api, &list, limit).await?, made, "pages of {limit}");
    }
    let page = merchant.api.get(&list).await?;
    assert_eq!(ids(&page), made[..10], "ten where no limit is given");
    assert_eq!(page.body["data"][4], shown(&merchant, &made[4]).await?, "a row is the invoice as it stands");
    for cursor in [theirs.as_str(), UNKNOWN, "nonsense", "", &customer] {
        invalid(&merchant.api.get(&format!("{list}startingAfter={cursor}")).await?, "startingAfter");
    }
    for limit in ["0", "101", "abc"] {
        invalid(&merchant.api.get(&format!("{list}limit={limit}")).await?, "limit");
    }
    Ok(())
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
