//! The dates on which invoices are produced, and when these dates start.

use anyhow::Result;
use serde_json::{Value, json};
use sqlx::Row;

use super::{
    RECURRING, backdate_start, cadence, create_future, current, day, event_types, invoices, make, merchant, period,
    periods, recurring, set, starting_in_2090, wait_for_invoices,
};
use crate::support::{cluster, eventually, id, invalid, uuid, with, without};

#[tokio::test]
async fn the_first_date_is_the_first_match_from_the_start() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let on = |unit: &str, day: i32| with(cadence(unit, 1), "dayOfMonth", day);
    for (cadence, last, start, first) in [
        (cadence("daily", 36), false, "2090-12-31", "2090-12-31"),
        (cadence("weekly", 2), false, "2090-12-31", "2090-12-31"),
        (cadence("monthly", 1), false, "2090-01-31", "2090-01-31"),
        (on("monthly", 31), false, "2090-02-01", "2090-02-28"),
        (on("monthly", 30), false, "2092-02-01", "2092-02-29"),
        (on("monthly", 15), false, "2090-01-16", "2090-02-15"),
        (cadence("monthly", 1), true, "2090-04-02", "2090-04-30"),
        (on("yearly", 15), false, "2090-03-20", "2091-03-15"),
        (cadence("yearly", 1), true, "2092-02-10", "2092-02-29"),
    ] {
        let body = with(with(recurring(&customer, cadence), "startDate", start), "lastDayOfMonth", last);
        let made = make(&merchant, body.clone()).await?;
        assert_eq!((&made["nextInvoiceDate"], &made["startDate"]), (&json!(first), &json!(start)), "{body}");
    }
    Ok(())
}

#[tokio::test]
async fn past_start_dates_create_no_backlog() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    for (start, next) in [(-10, 4), (-14, 0), (-7, 0), (-1, 6)] {
        let body = with(recurring(&customer, cadence("weekly", 1)), "startDate", day(&merchant, start).await?);
        let made = make(&merchant, body).await?;
        assert_eq!(made["nextInvoiceDate"], day(&merchant, next).await?.as_str(), "from {start} days");
        if next == 0 {
            wait_for_invoices(&merchant, &id(&made)?, 1).await?;
            assert_eq!(periods(&merchant, &id(&made)?).await?, [period(&merchant, 0, 7).await?]);
        }
        let after = current(&merchant, &id(&made)?).await?;
        let expected = if next == 0 { 7 } else { next };
        assert_eq!(after["nextInvoiceDate"], day(&merchant, expected).await?.as_str());
    }
    Ok(())
}

#[tokio::test]
async fn end_dates_are_inclusive_and_must_leave_a_date() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let body = starting_in_2090(&customer, cadence("monthly", 1));
    make(&merchant, with(body.clone(), "endDate", "2090-01-15")).await?;
    let with_end = |end: Value| with(body.clone(), "endDate", end);
    invalid(&merchant.api.post(RECURRING, with_end(json!("2090-01-14"))).await?, "endDate");
    let none_matches = with(with_end(json!("2090-02-14")), "cadence", json!({"unit": "monthly", "dayOfMonth": 14}));
    make(&merchant, none_matches.clone()).await?;
    let none_matches = with(none_matches, "endDate", "2090-02-13");
    invalid(&merchant.api.post(RECURRING, none_matches).await?, "endDate");
    let passed = with(recurring(&customer, cadence("daily", 1)), "startDate", day(&merchant, -9).await?);
    let passed = with(passed, "endDate", day(&merchant, -1).await?);
    invalid(&merchant.api.post(RECURRING, passed).await?, "endDate");
    // Without a start date it starts today, after the end date.
    let yesterday = with(recurring(&customer, cadence("daily", 1)), "endDate", day(&merchant, -1).await?);
    invalid(&merchant.api.post(RECURRING, yesterday).await?, "endDate");
    let beyond = with(recurring(&customer, cadence("daily", 1)), "startDate", "9999-12-31");
    invalid(&merchant.api.post(RECURRING, beyond).await?, "startDate");
    Ok(())
}

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
async fn missed_cycles_are_produced_in_order() -> Result<()> {
    let merchant = merchant().await?;
    let made = create_future(&merchant).await?;
    set(&merchant, &made, "cadence_unit = 'daily', cadence_interval = 3").await?;
    backdate_start(&merchant, &made, &day(&merchant, -10).await?).await?;
    let after = wait_for_invoices(&merchant, &made, 4).await?;
    assert_eq!(
        (&after["status"], after["nextInvoiceDate"].as_str()),
        (&json!("active"), Some(&*day(&merchant, 2).await?))
    );
    let mut expected = Vec::new();
    for from in [-10, -7, -4, -1] {
        expected.push(period(&merchant, from, 3).await?);
    }
    assert_eq!(periods(&merchant, &made).await?, expected);
    assert!(
        event_types(&merchant, &made).await?.is_empty(),
        "producing an invoice writes no event of the recurring invoice"
    );
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
