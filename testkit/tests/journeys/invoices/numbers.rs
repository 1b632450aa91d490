//! Invoice numbers count from 1 in each account without gaps, despite concurrency and failures.

use anyhow::Result;

use super::{INVOICES, draft, get_invoice, invoice, minimal, post_action};
use crate::support::{Merchant, concurrently, conflict, created, id, merchant, not_found, ok, refused, uuid};

/// The numbers of all issued invoices of the account, sorted.
async fn numbers(merchant: &Merchant) -> Result<Vec<i64>> {
    let query = "SELECT number FROM invoices WHERE account_id = $1 AND number IS NOT NULL ORDER BY number";
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).fetch_all(&merchant.books.db).await?)
}

fn upto(last: i64) -> Vec<i64> {
    (1..=last).collect()
}

#[tokio::test]
async fn concurrent_invoices_get_numbers_without_gaps() -> Result<()> {
    let merchants = [merchant().await?, merchant().await?];
    let customers = [merchants[0].customer().await?, merchants[1].customer().await?];
    // Thirty invoices for each of two accounts, concurrent with requests that are rejected.
    let responses = concurrently(80, async |i| {
        let (merchant, customer) = (&merchants[i % 2], &customers[i % 2]);
        if i < 60 {
            return Ok(Some(merchant.api.post(INVOICES, minimal(customer, 100)).await?));
        }
        not_found(&merchant.api.post(INVOICES, minimal(&customers[(i + 1) % 2], 100)).await?);
        Ok(None)
    })
    .await?;
    for (of, merchant) in merchants.iter().enumerate() {
        let created_here =
            responses.iter().enumerate().filter(|(i, _)| i % 2 == of).filter_map(|(_, response)| response.as_ref());
        let mut returned: Vec<_> =
            created_here.map(|response| created(response)["number"].as_str().unwrap_or_default()).collect();
        returned.sort_unstable();
        let expected: Vec<_> = (1..=30).map(|n| format!("INV-{n:06}")).collect();
        assert_eq!(returned, expected, "each account has its own numbers");
        assert_eq!(numbers(merchant).await?, upto(30));
    }
    Ok(())
}

#[tokio::test]
async fn drafts_get_exactly_one_number_when_they_are_issued() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let (one, two) = (draft(&merchant, &customer, "net_7").await?, draft(&merchant, &customer, "net_7").await?);
    assert_eq!(invoice(&merchant, &customer).await?["number"], "INV-000001", "drafts use no number");
    // Issue both drafts ten times each, concurrent with new invoices.
    let responses = concurrently(30, async |i| match i % 3 {
        0 => post_action(&merchant, &one, "issue").await,
        1 => post_action(&merchant, &two, "issue").await,
        _ => merchant.api.post(INVOICES, minimal(&customer, 100)).await,
    })
    .await?;
    let (issued, refused): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status != 409);
    assert_eq!(refused.len(), 18, "each draft is issued once");
    refused.into_iter().for_each(conflict);
    let issued = issued.into_iter().filter(|response| response.status == 200);
    assert_eq!(issued.map(|response| assert_eq!(ok(response)["status"], "open")).count(), 2);
    assert_eq!(numbers(&merchant).await?, upto(13));
    Ok(())
}

#[tokio::test]
async fn failed_issues_release_their_number() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    invoice(&merchant, &customer).await?;
    // Simulates a bug: another invoice already has the next number.
    let conflicting = uuid(&draft(&merchant, &customer, "net_7").await?)?;
    let issue = "UPDATE invoices SET status = 'open', number = 2, issued_at = now(), due_at = now() WHERE id = $1";
    sqlx::query(issue).bind(conflicting).execute(&merchant.books.db).await?;
    let next_draft = draft(&merchant, &customer, "net_7").await?;
    refused(&merchant.api.post(INVOICES, minimal(&customer, 100)).await?, 500, "api_error");
    refused(&post_action(&merchant, &next_draft, "issue").await?, 500, "api_error");
    assert_eq!(get_invoice(&merchant, &next_draft).await?["status"], "draft", "the failed issue had no effect");
    assert_eq!(numbers(&merchant).await?, upto(2));
    sqlx::query("DELETE FROM invoices WHERE id = $1").bind(conflicting).execute(&merchant.books.db).await?;
    let response = post_action(&merchant, &next_draft, "issue").await?;
    assert_eq!(ok(&response)["number"], "INV-000002");
    let next = invoice(&merchant, &customer).await?;
    assert_eq!(next["number"], "INV-000003");
    ok(&post_action(&merchant, &id(&next)?, "void").await?);
    assert_eq!(invoice(&merchant, &customer).await?["number"], "INV-000004", "a voided invoice keeps its number");
    Ok(())
}
