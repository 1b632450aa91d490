//! Failed invoices are retried after one hour and after six hours, then the recurring invoice is parked.

use anyhow::Result;
use serde_json::json;
use uuid::Uuid;

use super::{
    ask, cadence, current, day, event_types, invoices, make, merchant, recurring, set, starting_today,
    wait_for_invoices,
};
use crate::support::{Merchant, conflict, eventually, id, ok, uuid, with, without};

/// Simulates a bug: another invoice has the next number, so that no invoice can be issued.
async fn occupy_next_number(merchant: &Merchant) -> Result<Uuid> {
    let customer = uuid(&merchant.customer().await?)?;
    let query = sqlx::query_scalar(
        "INSERT INTO invoices (id, account_id, customer_id, status, number, currency, amount, due_at, issued_at, page_token,
             created_at)
         VALUES (new_ulid(clock_timestamp()), $1, $2, 'open', 1, 'USD', 500, now(), now(), gen_random_uuid()::text, now())
         RETURNING id",
    );
    Ok(query.bind(merchant.books.account).bind(customer).fetch_one(&merchant.books.db).await?)
}

async fn release_number(merchant: &Merchant, invoice: Uuid) -> Result<()> {
    sqlx::query("DELETE FROM invoices WHERE id = $1").bind(invoice).execute(&merchant.books.db).await?;
    Ok(())
}

/// Waits until it has failed this many times; returns the hours until the next retry.
async fn wait_for_failure(merchant: &Merchant, recurring: &str, times: i32) -> Result<f64> {
    let id = uuid(recurring)?;
    eventually(&format!("failure {times}"), async || {
        let query = sqlx::query_scalar::<_, f64>(
            "SELECT (extract(epoch FROM next_run_at - now()) / 3600)::float8 FROM recurring_invoices
             WHERE id = $1 AND failure_count = $2 AND next_run_at > now()",
        );
        Ok(query.bind(id).bind(times).fetch_optional(&merchant.books.db).await?)
    })
    .await
}

#[tokio::test]
async fn the_third_consecutive_failure_parks_until_resumed() -> Result<()> {
    let merchant = merchant().await?;
    let conflicting = occupy_next_number(&merchant).await?;
    let made = starting_today(&merchant, "monthly", 1).await?;
    let before = current(&merchant, &made).await?;
    assert_eq!(before["nextInvoiceDate"], day(&merchant, 0).await?.as_str());
    for (times, hours) in [(1, 1.0), (2, 6.0)] {
        let wait = wait_for_failure(&merchant, &made, times).await?;
        assert!(wait <= hours && wait > hours - 0.5, "retried in {wait} hours");
        assert_eq!(current(&merchant, &made).await?, before, "no invoice, and the same date");
        set(&merchant, &made, "next_run_at = now()").await?;
    }
    let parked = eventually("the recurring invoice to be parked", async || {
        Ok(Some(current(&merchant, &made).await?).filter(|current| current["status"] == "parked"))
    })
    .await?;
    assert!(parked.get("nextInvoiceDate").is_none(), "{parked}");
    assert_eq!((&parked["occurrenceCount"], invoices(&merchant, &made).await?.len()), (&json!(0), 0));
    assert_eq!(merchant.books.events(&made).await?, [("recurring_invoice.parked".to_owned(), parked)]);

    // Other recurring invoices are not affected: a draft needs no number.
    let body = with(recurring(&merchant.customer().await?, cadence("monthly", 1)), "mode", "draft_for_review");
    wait_for_invoices(&merchant, &id(&make(&merchant, body).await?)?, 1).await?;

    conflict(&ask(&merchant, &made, "pause").await?);
    release_number(&merchant, conflicting).await?;
    let resumed = ask(&merchant, &made, "resume").await?;
    let resumed = without(ok(&resumed).clone(), "version");
    assert_eq!(resumed, without(before, "version"), "resumed from today on, without failures");
    wait_for_invoices(&merchant, &made, 1).await?;
    let [invoice] = &invoices(&merchant, &made).await?[..] else { panic!("one invoice") };
    assert_eq!(
        (&invoice["number"], &invoice["status"]),
        (&json!("INV-000001"), &json!("open")),
        "the failures used no number"
    );
    assert_eq!(event_types(&merchant, &made).await?, ["recurring_invoice.parked", "recurring_invoice.resumed"]);
    Ok(())
}

#[tokio::test]
async fn parked_recurring_invoices_can_be_cancelled() -> Result<()> {
    let merchant = merchant().await?;
    let made = starting_today(&merchant, "yearly", 1).await?;
    wait_for_invoices(&merchant, &made, 1).await?;
    set(&merchant, &made, "status = 'parked', failure_count = 3, next_date = NULL, next_run_at = NULL").await?;
    conflict(&ask(&merchant, &made, "pause").await?);
    assert_eq!(ok(&ask(&merchant, &made, "cancel").await?)["status"], "cancelled");
    Ok(())
}
