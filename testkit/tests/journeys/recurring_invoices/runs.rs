//! The invoices that recurring invoices produce.

use anyhow::Result;
use serde_json::json;

use super::{
    backdate_by, cadence, current, day, invoices, make, merchant, period, periods, recurring, row, starting_today,
    template, update, wait_for_invoices,
};
use crate::support::{id, ok, with, without};

#[tokio::test]
async fn todays_invoice_is_issued_immediately() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let template = json!({
        "currency": "EUR", "paymentTerms": "net_15", "description": "Flat 3",
        "items": [row("Rent", 2, 450), row("Tea", 3, 0)], "amountTax": 82, "amountDiscount": 7,
    });
    let made =
        id(&make(&merchant, with(recurring(&customer, cadence("weekly", 1)), "template", template.clone())).await?)?;
    let after = wait_for_invoices(&merchant, &made, 1).await?;
    assert_eq!((&after["status"], &after["nextInvoiceDate"]), (&json!("active"), &json!(day(&merchant, 7).await?)));
    let [invoice] = &invoices(&merchant, &made).await?[..] else { panic!("one invoice") };
    let without_generated = ["id", "createdAt", "issuedAt", "dueAt", "url"].into_iter().fold(invoice.clone(), without);
    let expected = json!({
        "object": "invoice", "livemode": false, "version": 2, "customerId": customer, "status": "open", "number": "INV-000001",
        "amount": 975, "amountPaid": 0, "recurringInvoiceId": made, "billingPeriod": period(&merchant, 0, 7).await?,
    });
    let expected = template.as_object().into_iter().flatten().fold(expected, |all, (k, v)| with(all, k, v.clone()));
    assert_eq!(without_generated, expected);
    assert_eq!(invoice["issuedAt"], invoice["createdAt"]);
    let events = merchant.books.events(&id(invoice)?).await?;
    assert_eq!(events, [("invoice.issued".to_owned(), invoice.clone())]);
    Ok(())
}

#[tokio::test]
async fn drafts_wait_for_review() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let body = with(recurring(&customer, cadence("yearly", 1)), "mode", "draft_for_review");
    let made = id(&make(&merchant, body).await?)?;
    let after = wait_for_invoices(&merchant, &made, 1).await?;
    assert_eq!((&after["mode"], &after["status"]), (&json!("draft_for_review"), &json!("active")));
    let [draft] = &invoices(&merchant, &made).await?[..] else { panic!("one invoice") };
    assert_eq!((&draft["status"], &draft["amount"]), (&json!("draft"), &json!(500)));
    for absent in ["number", "issuedAt", "dueAt"] {
        assert!(draft.get(absent).is_none(), "{absent}");
    }
    assert!(merchant.books.events(&id(draft)?).await?.is_empty(), "drafts write no event");
    let path = format!("/v1/invoices/{}/issue", id(draft)?);
    let issued = merchant.api.send(reqwest::Method::POST, &path, None).await?;
    assert_eq!((&ok(&issued)["status"], &issued.body["billingPeriod"]), (&json!("open"), &draft["billingPeriod"]));
    assert_eq!(current(&merchant, &made).await?, after, "issuing an invoice does not change the recurring invoice");
    Ok(())
}

#[tokio::test]
async fn template_changes_apply_from_the_next_cycle() -> Result<()> {
    let merchant = merchant().await?;
    let made = starting_today(&merchant, "weekly", 1).await?;
    let after = wait_for_invoices(&merchant, &made, 1).await?;
    let other = json!({"template": template(700), "mode": "draft_for_review", "name": "Rent"});
    let changed = update(&merchant, &made, other).await?;
    assert_eq!(ok(&changed)["template"], template(700));
    assert_eq!(changed.body["nextInvoiceDate"], after["nextInvoiceDate"], "the next date is unchanged");
    backdate_by(&merchant, &made, 8).await?;
    wait_for_invoices(&merchant, &made, 2).await?;
    assert_eq!(periods(&merchant, &made).await?, [period(&merchant, -8, 7).await?, period(&merchant, -1, 7).await?]);
    let invoices = invoices(&merchant, &made).await?;
    let amounts_and_statuses: Vec<_> =
        invoices.iter().map(|invoice| (invoice["amount"].clone(), invoice["status"].clone())).collect();
    assert_eq!(amounts_and_statuses, [(json!(500), json!("open")), (json!(700), json!("draft"))]);
    Ok(())
}
