//! The dates on which invoices are produced, and when these dates start.

use anyhow::Result;
use serde_json::json;
use sqlx::Row;

use super::{
    backdate_start, create_future, current, day, invoices, make, merchant, periods, set, starting_in_2090,
    wait_for_invoices,
};
use crate::support::{cluster, eventually, id, uuid, with, without};

#[tokio::test]
async fn day_31_returns_after_short_months_and_the_last_date_completes() -> Result<()> {
    let merchant = merchant().await?;
    let body = starting_in_2090(&merchant.customer().await?, json!({"unit": "monthly", "dayOfMonth": 31}));
    let made = id(&make(&merchant, with(body, "endDate", "2091-01-01")).await?)?;
    set(&merchant, &made, "start_date = '2024-01-31', anchor = '2024-01-31'").await?;
    set(&merchant, &made, "next_date = '2024-01-31', next_run_at = '2024-01-31', end_date = '2024-05-31'").await?;
    let completed = wait_for_invoices(&merchant, &made, 5).await?;
    let expected = [
        "2024-01-31/2024-02-28",
        "2024-02-29/2024-03-30",
        "2024-03-31/2024-04-29",
        "2024-04-30/2024-05-30",
        "2024-05-31/2024-06-29",
    ];
    assert_eq!(periods(&merchant, &made).await?, expected, "every missed cycle is produced");
    let invoices = invoices(&merchant, &made).await?;
    let numbers: Vec<_> = invoices.iter().map(|invoice| invoice["number"].clone()).collect();
    assert_eq!(
        json!(numbers),
        json!(["INV-000001", "INV-000002", "INV-000003", "INV-000004", "INV-000005"]),
        "in order"
    );
    assert_eq!(completed["status"], "completed");
    assert!(completed.get("nextInvoiceDate").is_none(), "{completed}");
    let events = merchant.books.events(&made).await?;
    assert_eq!(events, [("recurring_invoice.completed".to_owned(), completed)]);
    Ok(())
}

#[tokio::test]
async fn dates_start_in_the_time_zone_of_the_account() -> Result<()> {
    let merchant = merchant().await?;
    let made = create_future(&merchant).await?;
    let starts_in = async |zone: &str| -> Result<bool> {
        let query = "SELECT next_run_at = next_date::timestamp AT TIME ZONE $2 FROM recurring_invoices WHERE id = $1";
        Ok(sqlx::query_scalar(query).bind(uuid(&made)?).bind(zone).fetch_one(&merchant.books.db).await?)
    };
    let zone: String = sqlx::query_scalar("SELECT timezone FROM accounts WHERE id = $1")
        .bind(merchant.books.account)
        .fetch_one(&merchant.books.db)
        .await?;
    assert!(starts_in(&zone).await?);
    // The account moves west, where the day has not started yet.
    cluster().await?.ctl(&["accounts", "set", &merchant.account.id, "--timezone", "Pacific/Honolulu"]).await?;
    set(&merchant, &made, "next_run_at = now() - interval '1 minute'").await?;
    eventually("the deferral", async || Ok(starts_in("Pacific/Honolulu").await?.then_some(()))).await?;
    let after = current(&merchant, &made).await?;
    assert_eq!((&after["nextInvoiceDate"], &after["occurrenceCount"]), (&json!("2090-01-15"), &json!(0)));
    Ok(())
}

#[tokio::test]
async fn cycles_run_twice_produce_one_invoice() -> Result<()> {
    let merchant = merchant().await?;
    let made = create_future(&merchant).await?;
    set(&merchant, &made, "cadence_unit = 'daily', cadence_interval = 5").await?;
    backdate_start(&merchant, &made, &day(&merchant, -11).await?).await?;
    let after = wait_for_invoices(&merchant, &made, 3).await?;
    let billed = periods(&merchant, &made).await?;
    // Moving the next date back violates a constraint, except in rows of the previous release.
    let moved_back = "next_date = anchor, next_run_at = now() - interval '11 days'";
    let error = set(&merchant, &made, moved_back).await.expect_err("the day was already billed");
    assert!(error.to_string().contains("recurring_invoices_next_after_billed"), "{error}");
    set(&merchant, &made, &format!("{moved_back}, last_billed_date = NULL")).await?;
    eventually("billed dates to be skipped", async || {
        Ok((current(&merchant, &made).await?["nextInvoiceDate"] == after["nextInvoiceDate"]).then_some(()))
    })
    .await?;
    assert_eq!(without(current(&merchant, &made).await?, "version"), without(after, "version"));
    assert_eq!(periods(&merchant, &made).await?, billed);
    let row = sqlx::query("SELECT count(*) AS count FROM invoices WHERE recurring_invoice_id = $1").bind(uuid(&made)?);
    assert_eq!(row.fetch_one(&merchant.books.db).await?.try_get::<i64, _>("count")?, 3);
    Ok(())
}
