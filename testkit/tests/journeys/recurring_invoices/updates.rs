//! Updates and the next date that results from them.

use anyhow::Result;
use serde_json::json;

use super::{
    ask, cadence, current, day, event_types, make, merchant, row, starting_in_2090, starting_today, template, update,
    wait_for_invoices,
};
use crate::support::{conflict, id, invalid, ok, with};

#[tokio::test]
async fn updates_change_only_the_sent_fields() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let body = with(with(starting_in_2090(&customer, cadence("monthly", 3)), "endDate", "2091-12-31"), "name", "Rent");
    let mut made = make(&merchant, body).await?;
    let path = id(&made)?;
    let unchanged = update(&merchant, &path, json!({"name": null, "endDate": null, "cadence": null})).await?;
    assert_eq!(ok(&unchanged), &made);
    for (name, value) in [
        ("name", json!("Heating")),
        ("mode", json!("draft_for_review")),
        ("template", json!({"currency": "EUR", "paymentTerms": "due_on_receipt", "items": [row("Tea", 2, 5)]})),
        ("endDate", json!("2092-12-31")),
        ("customerId", json!(customer)),
    ] {
        // The customer is the same one.
        let raised = made["version"].as_i64().map(|version| version + i64::from(name != "customerId"));
        made = with(with(made, name, value.clone()), "version", raised);
        let response = update(&merchant, &path, json!({name: value})).await?;
        assert_eq!(ok(&response), &made, "{name}");
    }
    // The returned object has fields that an update does not accept.
    invalid(&update(&merchant, &path, made.clone()).await?, "createdAt");
    assert_eq!(current(&merchant, &path).await?, made);
    assert!(event_types(&merchant, &path).await?.is_empty(), "updates write no event");
    Ok(())
}

#[tokio::test]
async fn updates_are_validated_like_creations() -> Result<()> {
    let merchant = merchant().await?;
    let made =
        make(&merchant, starting_in_2090(&merchant.customer().await?, json!({"unit": "monthly", "dayOfMonth": 31})))
            .await?;
    let path = id(&made)?;
    let other = merchant.customer().await?;
    for (body, param) in [
        (json!({"customerId": other}), "customerId"),
        (json!({"name": ""}), "name"),
        (json!({"cadence": {"interval": 2}}), "cadence.unit"),
        (json!({"cadence": {"unit": "monthly", "interval": 37}}), "cadence.interval"),
        (json!({"cadence": {"unit": "daily", "dayOfMonth": 1}}), "cadence.dayOfMonth"),
        (json!({"lastDayOfMonth": true}), "lastDayOfMonth"),
        (json!({"startDate": "2090-02-30"}), "startDate"),
        (json!({"startDate": "9999-12-31", "cadence": {"unit": "monthly", "dayOfMonth": 1}}), "startDate"),
        (json!({"endDate": "2090-01-14"}), "endDate"),
        (json!({"endDate": "2091-01-14", "startDate": "2091-01-15"}), "endDate"),
        (json!({"mode": "auto"}), "mode"),
        (json!({"template": {"currency": "USD"}}), "template.items"),
        (json!({"template": with(template(1), "items", json!([row("Nothing", 1, 0)]))}), "template.items"),
    ] {
        invalid(&update(&merchant, &path, body.clone()).await?, param);
        assert_eq!(current(&merchant, &path).await?, made, "{body}");
    }
    let with_end = update(&merchant, &path, json!({"endDate": "2091-01-01"})).await?;
    assert_eq!(ok(&with_end)["endDate"], "2091-01-01");
    invalid(&update(&merchant, &path, json!({"startDate": "2091-01-02"})).await?, "startDate");
    let last = json!({"cadence": {"unit": "monthly"}, "lastDayOfMonth": true});
    assert_eq!(ok(&update(&merchant, &path, last).await?)["lastDayOfMonth"], true);
    invalid(&update(&merchant, &path, json!({"cadence": {"unit": "weekly"}})).await?, "lastDayOfMonth");
    let weekly = json!({"cadence": {"unit": "weekly"}, "lastDayOfMonth": false});
    assert_eq!(ok(&update(&merchant, &path, weekly).await?)["cadence"], cadence("weekly", 1));
    Ok(())
}

#[tokio::test]
async fn end_dates_that_leave_no_date_complete() -> Result<()> {
    let merchant = merchant().await?;
    let made = starting_today(&merchant, "weekly", 1).await?;
    wait_for_invoices(&merchant, &made, 1).await?;
    let ended = update(&merchant, &made, json!({"endDate": day(&merchant, 6).await?})).await?;
    assert_eq!(ok(&ended)["status"], "completed");
    assert!(ended.body.get("nextInvoiceDate").is_none(), "{}", ended.body);
    assert_eq!(merchant.books.events(&made).await?, [("recurring_invoice.completed".to_owned(), ended.body)]);
    conflict(&update(&merchant, &made, json!({"endDate": "2091-01-01"})).await?);
    conflict(&update(&merchant, &made, json!({})).await?);
    invalid(&update(&merchant, &made, json!({"endDate": "2001-01-01"})).await?, "endDate");

    let other = starting_today(&merchant, "weekly", 1).await?;
    wait_for_invoices(&merchant, &other, 1).await?;
    let still_active = update(&merchant, &other, json!({"endDate": day(&merchant, 7).await?})).await?;
    assert_eq!(
        (&ok(&still_active)["status"], &still_active.body["nextInvoiceDate"]),
        (&json!("active"), &json!(day(&merchant, 7).await?))
    );
    // A paused recurring invoice completes when it is resumed.
    ok(&ask(&merchant, &other, "pause").await?);
    let paused = update(&merchant, &other, json!({"endDate": day(&merchant, 6).await?})).await?;
    assert_eq!(ok(&paused)["status"], "paused");
    assert_eq!(ok(&ask(&merchant, &other, "resume").await?)["status"], "completed");
    assert_eq!(event_types(&merchant, &other).await?, ["recurring_invoice.paused", "recurring_invoice.completed"]);
    Ok(())
}
