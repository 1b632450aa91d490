//! What an invoice shows beside its sum, and the receipt on paper.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{BUTTON, is_paid, open, pay};
use crate::support::{Provider, Shop, address, card};

#[tokio::test]
async fn the_lines_of_a_long_invoice_are_folded_away_and_found_without_a_script() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let items: Vec<_> =
        (1..=40).map(|n| json!({"description": format!("Tin number {n}"), "quantity": 1, "unitAmount": 100})).collect();
    let invoice = shop.invoice(json!({"items": items})).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &invoice).await?;
        let page = tab.top();
        page.shows("main", "All 40 lines").await?;
        page.shows("main", "Ada Lovelace").await?;
        ensure!(!page.text("main").await?.contains("Tin number 40"), "the lines are not folded away");
        ensure!(page.text(BUTTON).await? == "Pay $40.00");
        tab.picture("folded").await?;
        let mut plain = browser.tab().await?;
        plain.stop_scripts().await?;
        plain.open(address(&invoice)?).await?;
        plain.top().click(".lines > summary").await?;
        plain.top().shows("main", "Tin number 40").await
    })
    .await
}

#[tokio::test]
async fn an_invoice_says_that_it_is_overdue_from_the_day_after() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let invoice = shop.invoice(json!({"amount": 500, "paymentTerms": "net_7"})).await?;
    let due = shop.again(&invoice).await?["dueAt"].as_str().context("a time")?.to_owned();
    let next_year = format!("{}-01-02T00:00:00Z", due[..4].parse::<u32>()? + 1);
    shop.visit(async |browser| {
        for (now, overdue) in [(&due, false), (&next_year, true)] {
            shop.make("/v1/test_clock/advance", json!({"to": now})).await?;
            let tab = open(browser, &invoice).await?;
            let marked = tab.top().count(".overdue").await? == 1;
            ensure!(marked == overdue, "due {due}, now {now}: overdue {marked}");
            tab.picture(if overdue { "overdue" } else { "due" }).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_receipt_on_paper_is_the_receipt_and_says_whom_to_ask() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    shop.set(&["--support-contact", "help@shop.example"]).await?;
    let invoice = shop.invoice(json!({"amount": 500, "description": "November"})).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &invoice).await?;
        let page = tab.top();
        pay(browser, &tab, card("4242424242424242")).await?;
        is_paid(&tab, "$5.00").await?;
        tab.prefer("print", &[]).await?;
        for shown in ["Ada's Tea", "November", "Ada Lovelace", "help@shop.example", "$5.00", "4242"] {
            page.shows("main", shown).await?;
        }
        let paper = page.text("main").await?;
        ensure!(!paper.contains("Thank you") && paper.matches("$5.00").count() == 1, "more than the receipt: {paper}");
        tab.picture("paper").await
    })
    .await
}
