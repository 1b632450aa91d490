//! Numbers run from 1 on for each account, without gaps, whoever asks at once and whatever fails.

use anyhow::Result;

use super::{INVOICES, ask, draft, invoice, owed, shown};
use crate::support::{Merchant, conflict, created, id, merchant, not_found, ok, refused, together, uuid};

/// The numbers of all issued invoices of the account, sorted.
async fn numbers(merchant: &Merchant) -> Result<Vec<i64>> {
    let query = "SELECT number FROM invoices WHERE account_id = $1 AND number IS NOT NULL ORDER BY number";
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).fetch_all(&merchant.books.db).await?)
}

fn upto(last: i64) -> Vec<i64> {
    (1..=last).collect()
}

#[tokio::test]
async fn many_at_once_leave_no_gap() -> Result<()> {
    let merchants = [merchant().await?, merchant().await?];
    let customers = [merchants[0].customer().await?, merchants[1].customer().await?];
    // Each of two accounts thirty times at once, and beside them what is refused.
    let answers = together(80, async |i| {
        let (merchant, customer) = (&merchants[i % 2], &customers[i % 2]);
        if i < 60 {
            return Ok(Some(merchant.api.post(INVOICES, owed(customer, 100)).await?));
        }
        not_found(&merchant.api.post(INVOICES, owed(&customers[(i + 1) % 2], 100)).await?);
        Ok(None)
    })
    .await?;
    for (of, merchant) in merchants.iter().enumerate() {
        let answered =
            answers.iter().enumerate().filter(|(i, _)| i % 2 == of).filter_map(|(_, answer)| answer.as_ref());
        let mut told: Vec<_> = answered.map(|answer| created(answer)["number"].as_str().unwrap_or_default()).collect();
        told.sort_unstable();
        let expected: Vec<_> = (1..=30).map(|n| format!("INV-{n:06}")).collect();
        assert_eq!(told, expected, "each account has its own");
        assert_eq!(numbers(merchant).await?, upto(30));
    }
    Ok(())
}

#[tokio::test]
async fn a_draft_has_its_number_from_the_issue_and_gets_one_alone() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let (one, two) = (draft(&merchant, &customer, "net_7").await?, draft(&merchant, &customer, "net_7").await?);
    assert_eq!(invoice(&merchant, &customer).await?["number"], "INV-000001", "drafts have taken none");
    // Both drafts ten times at once, and new invoices beside them.
    let answers = together(30, async |i| match i % 3 {
        0 => ask(&merchant, &one, "issue").await,
        1 => ask(&merchant, &two, "issue").await,
        _ => merchant.api.post(INVOICES, owed(&customer, 100)).await,
    })
    .await?;
    let (issued, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status != 409);
    assert_eq!(refused.len(), 18, "each draft is issued once");
    refused.into_iter().for_each(conflict);
    let issued = issued.into_iter().filter(|answer| answer.status == 200);
    assert_eq!(issued.map(|answer| assert_eq!(ok(answer)["status"], "open")).count(), 2);
    assert_eq!(numbers(&merchant).await?, upto(13));
    Ok(())
}

#[tokio::test]
async fn an_issue_that_fails_gives_its_number_back() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    invoice(&merchant, &customer).await?;
    // What can only come of a mistake: somebody has the next number already.
    let wrong = uuid(&draft(&merchant, &customer, "net_7").await?)?;
    let issue = "UPDATE invoices SET status = 'open', number = 2, issued_at = now(), due_at = now() WHERE id = $1";
    sqlx::query(issue).bind(wrong).execute(&merchant.books.db).await?;
    let written = draft(&merchant, &customer, "net_7").await?;
    refused(&merchant.api.post(INVOICES, owed(&customer, 100)).await?, 500, "api_error");
    refused(&ask(&merchant, &written, "issue").await?, 500, "api_error");
    assert_eq!(shown(&merchant, &written).await?["status"], "draft", "nothing was done");
    assert_eq!(numbers(&merchant).await?, upto(2));
    sqlx::query("DELETE FROM invoices WHERE id = $1").bind(wrong).execute(&merchant.books.db).await?;
    let answer = ask(&merchant, &written, "issue").await?;
    assert_eq!(ok(&answer)["number"], "INV-000002");
    let next = invoice(&merchant, &customer).await?;
    assert_eq!(next["number"], "INV-000003");
    ok(&ask(&merchant, &id(&next)?, "void").await?);
    assert_eq!(invoice(&merchant, &customer).await?["number"], "INV-000004", "a voided one keeps its number");
    Ok(())
}
