//! The details of an invoice, and the printed receipt.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{BUTTON, assert_receipt, open, pay};
use crate::support::{Provider, Shop, address, card};

#[tokio::test]
async fn the_lines_of_a_long_invoice_are_collapsed_and_open_without_scripts() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let items: Vec<_> =
        (1..=40).map(|n| json!({"description": format!("Tin number {n}"), "quantity": 1, "unitAmount": 100})).collect();
    let invoice = shop.invoice(json!({"items": items})).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &invoice).await?;
        let page = tab.top();
        page.shows("main", "All 40 lines").await?;
        page.shows("main", "Ada Lovelace").await?;
        ensure!(!page.text("main").await?.contains("Tin number 40"), "the lines are not collapsed");
        ensure!(page.text(BUTTON).await? == "Pay $40.00");
        tab.screenshot("collapsed").await?;
        let mut scriptless = browser.tab().await?;
        scriptless.disable_scripts().await?;
        scriptless.open(address(&invoice)?).await?;
        scriptless.top().click(".lines > summary").await?;
        scriptless.top().shows("main", "Tin number 40").await
    })
    .await
}

#[tokio::test]
async fn an_invoice_is_shown_as_overdue_after_its_due_date() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let invoice = shop.invoice(json!({"amount": 500, "paymentTerms": "net_7"})).await?;
    let due = shop.current(&invoice).await?["dueAt"].as_str().context("a time")?.to_owned();
    let next_year = format!("{}-01-02T00:00:00Z", due[..4].parse::<u32>()? + 1);
    shop.visit(async |browser| {
        for (now, overdue) in [(&due, false), (&next_year, true)] {
            shop.create("/v1/test_clock/advance", json!({"to": now})).await?;
            let tab = open(browser, &invoice).await?;
            let is_overdue = tab.top().count(".overdue").await? == 1;
            ensure!(is_overdue == overdue, "due {due}, now {now}: overdue {is_overdue}");
            tab.screenshot(if overdue { "overdue" } else { "due" }).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_card_is_used_for_renewals_if_the_payer_chooses_so() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let customer = shop.create("/v1/customers", json!({"email": "ada@example.com"})).await?["id"].clone();
    let plan = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
    let plan = shop.create("/v1/plans", plan).await?["id"].clone();
    let subscription = shop.create("/v1/subscriptions", json!({"customerId": customer, "planId": plan})).await?;
    let latest = subscription["latestInvoiceId"].as_str().context("an invoice")?;
    let invoice = shop.get(&format!("/v1/invoices/{latest}")).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &invoice).await?;
        let page = tab.top();
        page.shows("main", "Use this card for renewals and other open invoices").await?;
        ensure!(page.evaluate_on("input[name=renewals]", "e => e.checked").await? == false, "it is preselected");
        page.click("input[name=renewals]").await?;
        tab.screenshot("renewals").await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        assert_receipt(&tab, "$29.00").await
    })
    .await?;
    let customer = customer.as_str().context("an id")?;
    let cards = shop.get(&format!("/v1/payment_methods?customerId={customer}")).await?;
    assert_eq!(cards["data"][0]["isDefault"], true, "{cards}");
    Ok(())
}

#[tokio::test]
async fn the_printed_page_is_the_receipt_with_the_support_contact() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    shop.set(&["--support-contact", "help@shop.example"]).await?;
    let invoice = shop.invoice(json!({"amount": 500, "description": "November"})).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &invoice).await?;
        let page = tab.top();
        pay(browser, &tab, card("4242424242424242")).await?;
        assert_receipt(&tab, "$5.00").await?;
        tab.emulate_media("print", &[]).await?;
        for text in ["Ada's Tea", "November", "Ada Lovelace", "help@shop.example", "$5.00", "4242"] {
            page.shows("main", text).await?;
        }
        let printed = page.text("main").await?;
        ensure!(
            !printed.contains("Thank you") && !printed.contains("Test mode") && printed.matches("$5.00").count() == 1,
            "not only the receipt: {printed}"
        );
        let margins = "[...document.styleSheets].flatMap(sheet => [...sheet.cssRules]) \
                       .filter(rule => rule instanceof CSSPageRule).map(rule => rule.style.margin)";
        ensure!(page.value(margins).await? == json!(["2cm"]), "{}", page.value(margins).await?);
        tab.screenshot("printed").await
    })
    .await
}
