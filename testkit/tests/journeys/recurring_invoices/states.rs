//! Where a recurring invoice stands: stopped, resumed without a backlog, and never anything the constraints refuse.

use anyhow::Result;
use serde_json::json;

use super::{
    ask, cadence, day, days_pass, has_produced, invoices, make, merchant, periods, recurring, set, shown, sleeper,
    starting_today, template, told, update,
};
use crate::support::{conflict, created, id, ok, together, uuid, with, without};

#[tokio::test]
async fn it_is_paused_resumed_and_cancelled() -> Result<()> {
    let merchant = merchant().await?;
    let made = sleeper(&merchant).await?;
    let active = shown(&merchant, &made).await?;
    let stopped = |status: &str| with(without(active.clone(), "nextInvoiceDate"), "status", status);
    for (what, expected) in [
        ("resume", active.clone()),
        ("pause", stopped("paused")),
        ("pause", stopped("paused")),
        ("resume", active.clone()),
        ("pause", stopped("paused")),
        ("cancel", stopped("cancelled")),
        ("cancel", stopped("cancelled")),
    ] {
        let answer = ask(&merchant, &made, what).await?;
        assert_eq!(ok(&answer), &expected, "{what}");
        assert_eq!(shown(&merchant, &made).await?, expected);
    }
    for what in ["pause", "resume"] {
        conflict(&ask(&merchant, &made, what).await?);
    }
    conflict(&update(&merchant, &made, json!({"name": "Again"})).await?);
    let events = merchant.books.events(&made).await?;
    let expected = [("paused", "paused"), ("resumed", "active"), ("paused", "paused"), ("cancelled", "cancelled")];
    let expected = expected.map(|(kind, status)| {
        let object = if status == "active" { active.clone() } else { stopped(status) };
        (format!("recurring_invoice.{kind}"), object)
    });
    assert_eq!(events, expected, "what changes nothing is no event");
    Ok(())
}

#[tokio::test]
async fn a_completed_one_may_only_be_cancelled() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let body = with(recurring(&customer, cadence("monthly", 1)), "endDate", day(&merchant, 0).await?);
    let made = id(&make(&merchant, body).await?)?;
    let completed = has_produced(&merchant, &made, 1).await?;
    assert_eq!(completed["status"], "completed");
    for what in ["pause", "resume"] {
        conflict(&ask(&merchant, &made, what).await?);
    }
    conflict(&update(&merchant, &made, json!({"name": "Again"})).await?);
    assert_eq!(shown(&merchant, &made).await?, completed);
    assert_eq!(ok(&ask(&merchant, &made, "cancel").await?), &with(completed, "status", "cancelled"));
    let [invoice] = &invoices(&merchant, &made).await?[..] else { panic!("one invoice") };
    assert_eq!(invoice["status"], "open", "its invoices are not affected");
    assert_eq!(told(&merchant, &made).await?, ["recurring_invoice.completed", "recurring_invoice.cancelled"]);
    Ok(())
}

#[tokio::test]
async fn what_was_missed_while_paused_is_not_made_up_for() -> Result<()> {
    let merchant = merchant().await?;
    let made = starting_today(&merchant, "weekly", 1).await?;
    has_produced(&merchant, &made, 1).await?;
    ok(&ask(&merchant, &made, "pause").await?);
    days_pass(&merchant, &made, 24).await?;
    // While it is paused others go on: whoever runs them has seen it too.
    let witness = starting_today(&merchant, "weekly", 1).await?;
    has_produced(&merchant, &witness, 1).await?;
    assert_eq!(periods(&merchant, &made).await?.len(), 1);
    let resumed = ask(&merchant, &made, "resume").await?;
    assert_eq!(ok(&resumed)["nextInvoiceDate"], day(&merchant, 4).await?.as_str(), "a date of its own, from today on");
    let other = starting_today(&merchant, "weekly", 1).await?;
    has_produced(&merchant, &other, 1).await?;
    assert_eq!(periods(&merchant, &made).await?.len(), 1, "no backlog");
    assert_eq!(shown(&merchant, &made).await?, resumed.body);
    Ok(())
}

#[tokio::test]
async fn of_many_that_stop_and_resume_at_once_each_does_its_part_once() -> Result<()> {
    let merchant = merchant().await?;
    for _ in 0..3 {
        let made = sleeper(&merchant).await?;
        let answers = together(24, async |i| match i % 4 {
            0 => ask(&merchant, &made, "pause").await,
            1 => ask(&merchant, &made, "resume").await,
            2 => update(&merchant, &made, json!({"template": template(100 + i as i64)})).await,
            _ if i > 12 => ask(&merchant, &made, "cancel").await,
            _ => ask(&merchant, &made, "pause").await,
        })
        .await?;
        assert!(answers.iter().all(|answer| [200, 409].contains(&answer.status)));
        let last = shown(&merchant, &made).await?;
        assert_eq!(last["status"], "cancelled");
        let events = told(&merchant, &made).await?;
        let count = |kind: &str| events.iter().filter(|told| told.ends_with(kind)).count();
        assert_eq!(count(".cancelled"), 1, "{events:?}");
        assert!(count(".paused") - count(".resumed") <= 1, "they take turns: {events:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_schema_refuses_what_none_is() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let (active, paused) = (sleeper(&merchant).await?, sleeper(&merchant).await?);
    ok(&ask(&merchant, &paused, "pause").await?);
    let theirs = shown(&stranger, &sleeper(&stranger).await?).await?["customerId"].clone();
    let foreign = format!("customer_id = '{}'", uuid(theirs.as_str().unwrap_or_default())?);
    for (recurring, columns, constraint) in [
        (&active, "status = 'paused'", "recurring_invoices_only_active_has_next"),
        (&active, "status = 'completed'", "recurring_invoices_only_active_has_next"),
        (&active, "next_date = NULL", "recurring_invoices_next_is_whole"),
        (&active, "next_run_at = NULL", "recurring_invoices_next_is_whole"),
        (&active, "next_date = NULL, next_run_at = NULL", "recurring_invoices_only_active_has_next"),
        (&active, "next_date = '2090-01-14'", "recurring_invoices_next_within_dates"),
        (&active, "end_date = '2090-01-20', next_date = '2090-01-21'", "recurring_invoices_next_within_dates"),
        (&active, "end_date = '2090-01-14'", "recurring_invoices_ends_after_start"),
        (&active, "anchor = '2090-01-14'", "recurring_invoices_anchored_from_start"),
        (&active, "failure_count = 3", "recurring_invoices_parked_after_three_failures"),
        (&paused, "failure_count = 1", "recurring_invoices_parked_after_three_failures"),
        (&paused, "status = 'parked'", "recurring_invoices_parked_after_three_failures"),
        (&paused, "status = 'active'", "recurring_invoices_only_active_has_next"),
        (&active, "cadence_unit = 'daily', day_of_month = 1", "recurring_invoices_day_of_months"),
        (&active, "cadence_unit = 'weekly', last_day_of_month = true", "recurring_invoices_day_of_months"),
        (&active, "day_of_month = 1, last_day_of_month = true", "recurring_invoices_one_day"),
        (&active, "cadence_interval = 37", "recurring_invoices_cadence_interval_check"),
        (&active, "day_of_month = 32", "recurring_invoices_day_of_month_check"),
        (&active, "template = '[]'", "recurring_invoices_template_check"),
        (&active, foreign.as_str(), "recurring_invoices_customer"),
    ] {
        let refused = set(&merchant, recurring, columns).await.expect_err(columns);
        let named = refused.as_database_error().and_then(|error| error.constraint());
        assert_eq!(named, Some(constraint), "{columns}: {refused}");
    }
    // Nor may an invoice name one that is another customer's.
    let customer = merchant.customer().await?;
    let owed = json!({"customerId": customer, "currency": "USD", "amount": 100});
    let invoice = id(created(&merchant.api.post("/v1/invoices", owed).await?))?;
    let query = "UPDATE invoices SET recurring_invoice_id = $2, billing_period = 'p' WHERE id = $1";
    let refused = sqlx::query(query)
        .bind(uuid(&invoice)?)
        .bind(uuid(&active)?)
        .execute(&merchant.books.db)
        .await
        .expect_err("another customer's");
    assert!(refused.to_string().contains("invoices_recurring_invoice"), "{refused}");
    assert_eq!(shown(&merchant, &active).await?["status"], "active");
    Ok(())
}
