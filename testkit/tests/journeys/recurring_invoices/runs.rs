//! What an invoice that was produced looks like, and what it is made of.

use anyhow::Result;
use serde_json::json;

use super::{
    cadence, day, days_pass, has_produced, invoices, make, merchant, period, periods, recurring, row, shown,
    starting_today, template, update,
};
use crate::support::{id, ok, with, without};

#[tokio::test]
async fn todays_invoice_is_issued_at_once() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let template = json!({
        "currency": "EUR", "paymentTerms": "net_15", "description": "Flat 3",
        "items": [row("Rent", 2, 450), row("Tea", 3, 0)], "amountTax": 82, "amountDiscount": 7,
    });
    let made =
        id(&make(&merchant, with(recurring(&customer, cadence("weekly", 1)), "template", template.clone())).await?)?;
    let after = has_produced(&merchant, &made, 1).await?;
    assert_eq!((&after["status"], &after["nextInvoiceDate"]), (&json!("active"), &json!(day(&merchant, 7).await?)));
    let [invoice] = &invoices(&merchant, &made).await?[..] else { panic!("one invoice") };
    let plain = ["id", "createdAt", "issuedAt", "dueAt", "url"].into_iter().fold(invoice.clone(), without);
    let expected = json!({
        "object": "invoice", "livemode": false, "customerId": customer, "status": "open", "number": "INV-000001",
        "amount": 975, "amountPaid": 0, "recurringInvoiceId": made, "billingPeriod": period(&merchant, 0, 7).await?,
    });
    let expected = template.as_object().into_iter().flatten().fold(expected, |all, (k, v)| with(all, k, v.clone()));
    assert_eq!(plain, expected);
    assert_eq!(invoice["issuedAt"], invoice["createdAt"]);
    let events = merchant.books.events(&id(invoice)?).await?;
    assert_eq!(events, [("invoice.issued".to_owned(), invoice.clone())]);
    Ok(())
}

#[tokio::test]
async fn a_draft_waits_for_review() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let body = with(recurring(&customer, cadence("yearly", 1)), "mode", "draft_for_review");
    let made = id(&make(&merchant, body).await?)?;
    let after = has_produced(&merchant, &made, 1).await?;
    assert_eq!((&after["mode"], &after["status"]), (&json!("draft_for_review"), &json!("active")));
    let [draft] = &invoices(&merchant, &made).await?[..] else { panic!("one invoice") };
    assert_eq!((&draft["status"], &draft["amount"]), (&json!("draft"), &json!(500)));
    for absent in ["number", "issuedAt", "dueAt"] {
        assert!(draft.get(absent).is_none(), "{absent}");
    }
    assert!(merchant.books.events(&id(draft)?).await?.is_empty(), "nobody owes anything yet");
    let path = format!("/v1/invoices/{}/issue", id(draft)?);
    let issued = merchant.api.send(reqwest::Method::POST, &path, None).await?;
    assert_eq!((&ok(&issued)["status"], &issued.body["billingPeriod"]), (&json!("open"), &draft["billingPeriod"]));
    assert_eq!(shown(&merchant, &made).await?, after, "what becomes of an invoice is its own affair");
    Ok(())
}

#[tokio::test]
async fn a_template_is_taken_by_the_next_cycle_on() -> Result<()> {
    let merchant = merchant().await?;
    let made = starting_today(&merchant, "weekly", 1).await?;
    let after = has_produced(&merchant, &made, 1).await?;
    let other = json!({"template": template(700), "mode": "draft_for_review", "name": "Rent"});
    let changed = update(&merchant, &made, other).await?;
    assert_eq!(ok(&changed)["template"], template(700));
    assert_eq!(changed.body["nextInvoiceDate"], after["nextInvoiceDate"], "it moves no date");
    days_pass(&merchant, &made, 8).await?;
    has_produced(&merchant, &made, 2).await?;
    assert_eq!(periods(&merchant, &made).await?, [period(&merchant, -8, 7).await?, period(&merchant, -1, 7).await?]);
    let invoices = invoices(&merchant, &made).await?;
    let seen: Vec<_> = invoices.iter().map(|invoice| (invoice["amount"].clone(), invoice["status"].clone())).collect();
    assert_eq!(seen, [(json!(500), json!("open")), (json!(700), json!("draft"))]);
    Ok(())
}
