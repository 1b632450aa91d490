//! Recurring invoice states: pause, resume without a backlog, cancel, and consistency by database constraints.

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    ask, backdate_by, cadence, create_future, current, day, event_types, invoices, make, merchant, periods, recurring,
    set, starting_today, template, update, wait_for_invoices,
};
use crate::support::{concurrently, conflict, created, id, ok, uuid, with, without};

#[tokio::test]
async fn recurring_invoices_can_be_paused_resumed_and_cancelled() -> Result<()> {
    let merchant = merchant().await?;
    let made = create_future(&merchant).await?;
    let unversioned = |object: Value| without(object, "version");
    let active = unversioned(current(&merchant, &made).await?);
    let stopped = |status: &str| with(without(active.clone(), "nextInvoiceDate"), "status", status);
    for (action, expected) in [
        ("resume", active.clone()),
        ("pause", stopped("paused")),
        ("pause", stopped("paused")),
        ("resume", active.clone()),
        ("pause", stopped("paused")),
        ("cancel", stopped("cancelled")),
        ("cancel", stopped("cancelled")),
    ] {
        let response = ask(&merchant, &made, action).await?;
        assert_eq!(unversioned(ok(&response).clone()), expected, "{action}");
        assert_eq!(&current(&merchant, &made).await?, ok(&response));
    }
    for action in ["pause", "resume"] {
        conflict(&ask(&merchant, &made, action).await?);
    }
    conflict(&update(&merchant, &made, json!({"name": "Again"})).await?);
    let events = merchant.books.events(&made).await?;
    let events: Vec<_> = events.into_iter().map(|(kind, object)| (kind, unversioned(object))).collect();
    let expected = [("paused", "paused"), ("resumed", "active"), ("paused", "paused"), ("cancelled", "cancelled")];
    let expected = expected.map(|(kind, status)| {
        let object = if status == "active" { active.clone() } else { stopped(status) };
        (format!("recurring_invoice.{kind}"), object)
    });
    assert_eq!(events, expected, "actions without effect write no event");
    Ok(())
}

#[tokio::test]
async fn completed_recurring_invoices_can_only_be_cancelled() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let body = with(recurring(&customer, cadence("monthly", 1)), "endDate", day(&merchant, 0).await?);
    let made = id(&make(&merchant, body).await?)?;
    let completed = wait_for_invoices(&merchant, &made, 1).await?;
    assert_eq!(completed["status"], "completed");
    for action in ["pause", "resume"] {
        conflict(&ask(&merchant, &made, action).await?);
    }
    conflict(&update(&merchant, &made, json!({"name": "Again"})).await?);
    assert_eq!(current(&merchant, &made).await?, completed);
    let raised = completed["version"].as_i64().map(|version| version + 1);
    let cancelled = with(with(completed, "status", "cancelled"), "version", raised);
    assert_eq!(ok(&ask(&merchant, &made, "cancel").await?), &cancelled);
    let [invoice] = &invoices(&merchant, &made).await?[..] else { panic!("one invoice") };
    assert_eq!(invoice["status"], "open", "its invoices are not affected");
    assert_eq!(event_types(&merchant, &made).await?, ["recurring_invoice.completed", "recurring_invoice.cancelled"]);
    Ok(())
}

#[tokio::test]
async fn cycles_missed_while_paused_are_not_produced() -> Result<()> {
    let merchant = merchant().await?;
    let made = starting_today(&merchant, "weekly", 1).await?;
    wait_for_invoices(&merchant, &made, 1).await?;
    ok(&ask(&merchant, &made, "pause").await?);
    backdate_by(&merchant, &made, 24).await?;
    // Once a scheduler has run another one, it has also seen the paused one.
    let witness = starting_today(&merchant, "weekly", 1).await?;
    wait_for_invoices(&merchant, &witness, 1).await?;
    assert_eq!(periods(&merchant, &made).await?.len(), 1);
    let resumed = ask(&merchant, &made, "resume").await?;
    assert_eq!(
        ok(&resumed)["nextInvoiceDate"],
        day(&merchant, 4).await?.as_str(),
        "the next matching date from today on"
    );
    let other = starting_today(&merchant, "weekly", 1).await?;
    wait_for_invoices(&merchant, &other, 1).await?;
    assert_eq!(periods(&merchant, &made).await?.len(), 1, "no backlog");
    assert_eq!(current(&merchant, &made).await?, resumed.body);
    Ok(())
}

#[tokio::test]
async fn concurrent_pauses_and_resumes_take_effect_once() -> Result<()> {
    let merchant = merchant().await?;
    for _ in 0..3 {
        let made = create_future(&merchant).await?;
        let responses = concurrently(24, async |i| match i % 4 {
            0 => ask(&merchant, &made, "pause").await,
            1 => ask(&merchant, &made, "resume").await,
            2 => update(&merchant, &made, json!({"template": template(100 + i as i64)})).await,
            _ if i > 12 => ask(&merchant, &made, "cancel").await,
            _ => ask(&merchant, &made, "pause").await,
        })
        .await?;
        assert!(responses.iter().all(|response| [200, 409].contains(&response.status)));
        let last = current(&merchant, &made).await?;
        assert_eq!(last["status"], "cancelled");
        let events = event_types(&merchant, &made).await?;
        let count = |kind: &str| events.iter().filter(|event| event.ends_with(kind)).count();
        assert_eq!(count(".cancelled"), 1, "{events:?}");
        assert!(count(".paused") - count(".resumed") <= 1, "pauses and resumes alternate: {events:?}");
    }
    Ok(())
}

#[tokio::test]
async fn constraints_reject_inconsistent_recurring_invoices() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let (active, paused) = (create_future(&merchant).await?, create_future(&merchant).await?);
    ok(&ask(&merchant, &paused, "pause").await?);
    let foreign_customer =
        current(&other_merchant, &create_future(&other_merchant).await?).await?["customerId"].clone();
    let foreign = format!("customer_id = '{}'", uuid(foreign_customer.as_str().unwrap_or_default())?);
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
        let error = set(&merchant, recurring, columns).await.expect_err(columns);
        let violated = error.as_database_error().and_then(|error| error.constraint());
        assert_eq!(violated, Some(constraint), "{columns}: {error}");
    }
    // An invoice cannot refer to a recurring invoice of another customer.
    let customer = merchant.customer().await?;
    let body = json!({"customerId": customer, "currency": "USD", "amount": 100});
    let invoice = id(created(&merchant.api.post("/v1/invoices", body).await?))?;
    let query = "UPDATE invoices SET recurring_invoice_id = $2, billing_period = 'p' WHERE id = $1";
    let error = sqlx::query(query)
        .bind(uuid(&invoice)?)
        .bind(uuid(&active)?)
        .execute(&merchant.books.db)
        .await
        .expect_err("a recurring invoice of another customer");
    assert!(error.to_string().contains("invoices_recurring_invoice"), "{error}");
    assert_eq!(current(&merchant, &active).await?["status"], "active");
    Ok(())
}
