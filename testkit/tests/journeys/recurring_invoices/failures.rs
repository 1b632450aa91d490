//! An invoice that cannot be produced is tried again after an hour and after six, and then no more.

use anyhow::Result;
use serde_json::json;
use uuid::Uuid;

use super::{
    ask, cadence, day, has_produced, invoices, make, merchant, period, periods, recurring, set, shown, starting_today,
    told,
};
use crate::support::{Merchant, conflict, eventually, id, ok, uuid, with};

/// What can only come of a mistake: somebody has the next number already, so that nothing can be issued.
async fn takes_the_next_number(merchant: &Merchant) -> Result<Uuid> {
    let customer = uuid(&merchant.customer().await?)?;
    let query = sqlx::query_scalar(
        "INSERT INTO invoices (id, account_id, customer_id, status, number, currency, amount, due_at, issued_at, page_token,
             created_at)
         VALUES (new_ulid(clock_timestamp()), $1, $2, 'open', 1, 'USD', 500, now(), now(), gen_random_uuid()::text, now())
         RETURNING id",
    );
    Ok(query.bind(merchant.books.account).bind(customer).fetch_one(&merchant.books.db).await?)
}

async fn gives_it_back(merchant: &Merchant, invoice: Uuid) -> Result<()> {
    sqlx::query("DELETE FROM invoices WHERE id = $1").bind(invoice).execute(&merchant.books.db).await?;
    Ok(())
}

/// Waits until it has failed so often; answers in how many hours it is tried again.
async fn fails(merchant: &Merchant, recurring: &str, times: i32) -> Result<f64> {
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
async fn the_third_failure_in_a_row_parks_until_it_is_resumed() -> Result<()> {
    let merchant = merchant().await?;
    let wrong = takes_the_next_number(&merchant).await?;
    let made = starting_today(&merchant, "monthly", 1).await?;
    let before = shown(&merchant, &made).await?;
    assert_eq!(before["nextInvoiceDate"], day(&merchant, 0).await?.as_str());
    for (times, hours) in [(1, 1.0), (2, 6.0)] {
        let wait = fails(&merchant, &made, times).await?;
        assert!(wait <= hours && wait > hours - 0.5, "tried again in {wait} hours");
        assert_eq!(shown(&merchant, &made).await?, before, "nothing was produced, and its date stays");
        set(&merchant, &made, "next_run_at = now()").await?;
    }
    let parked = eventually("it is parked", async || {
        Ok(Some(shown(&merchant, &made).await?).filter(|shown| shown["status"] == "parked"))
    })
    .await?;
    assert!(parked.get("nextInvoiceDate").is_none(), "{parked}");
    assert_eq!((&parked["occurrenceCount"], invoices(&merchant, &made).await?.len()), (&json!(0), 0));
    assert_eq!(merchant.books.events(&made).await?, [("recurring_invoice.parked".to_owned(), parked)]);

    // What fails holds up no other: a draft needs no number.
    let body = with(recurring(&merchant.customer().await?, cadence("monthly", 1)), "mode", "draft_for_review");
    has_produced(&merchant, &id(&make(&merchant, body).await?)?, 1).await?;

    conflict(&ask(&merchant, &made, "pause").await?);
    gives_it_back(&merchant, wrong).await?;
    let resumed = ask(&merchant, &made, "resume").await?;
    assert_eq!(ok(&resumed), &before, "from today on, a fresh start");
    has_produced(&merchant, &made, 1).await?;
    let [invoice] = &invoices(&merchant, &made).await?[..] else { panic!("one invoice") };
    assert_eq!(
        (&invoice["number"], &invoice["status"]),
        (&json!("INV-000001"), &json!("open")),
        "no number was used up"
    );
    assert_eq!(told(&merchant, &made).await?, ["recurring_invoice.parked", "recurring_invoice.resumed"]);
    Ok(())
}

#[tokio::test]
async fn a_success_ends_the_series_and_bills_the_date_that_failed() -> Result<()> {
    let merchant = merchant().await?;
    let wrong = takes_the_next_number(&merchant).await?;
    let made = starting_today(&merchant, "daily", 5).await?;
    fails(&merchant, &made, 1).await?;
    set(&merchant, &made, "next_run_at = now()").await?;
    fails(&merchant, &made, 2).await?;
    gives_it_back(&merchant, wrong).await?;
    set(&merchant, &made, "next_run_at = now()").await?;
    let after = has_produced(&merchant, &made, 1).await?;
    assert_eq!(after["nextInvoiceDate"], day(&merchant, 5).await?.as_str());
    assert_eq!(periods(&merchant, &made).await?, [period(&merchant, 0, 5).await?]);
    let query = "SELECT failure_count FROM recurring_invoices WHERE id = $1";
    let failures: i32 = sqlx::query_scalar(query).bind(uuid(&made)?).fetch_one(&merchant.books.db).await?;
    assert_eq!(failures, 0);
    Ok(())
}

#[tokio::test]
async fn a_parked_one_may_be_cancelled() -> Result<()> {
    let merchant = merchant().await?;
    let made = starting_today(&merchant, "yearly", 1).await?;
    has_produced(&merchant, &made, 1).await?;
    set(&merchant, &made, "status = 'parked', failure_count = 3, next_date = NULL, next_run_at = NULL").await?;
    conflict(&ask(&merchant, &made, "pause").await?);
    assert_eq!(ok(&ask(&merchant, &made, "cancel").await?)["status"], "cancelled");
    Ok(())
}
