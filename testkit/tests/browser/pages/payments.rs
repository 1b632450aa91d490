//! Paying a link and an invoice.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{BUTTON, assert_receipt, open, pay};
use crate::support::{Provider, Shop, at_each_provider, card};

at_each_provider! { a_link }

async fn a_link(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let link = shop.link(1250).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        page.shows("main", "Ada's Tea").await?;
        page.shows("main", "Two tins of tea").await?;
        ensure!(page.text(BUTTON).await? == "Pay $12.50", "{}", page.text(BUTTON).await?);
        tab.screenshot("open").await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        assert_receipt(&tab, "$12.50").await?;
        page.shows("#receipt", "4242").await?;
        ensure!(shop.card_recipients(browser, "4242424242424242") == shop.allowed_card_recipients().await?);
        let posted = browser.requests().into_iter().filter(|request| request.path().starts_with("/pay/l/"));
        let posted: Vec<_> = posted.filter(|request| request.method == "POST").map(|request| request.text()).collect();
        ensure!(posted.len() == 1 && posted[0].starts_with("token="), "{posted:?}");
        tab.screenshot("paid").await
    })
    .await?;
    let payment = shop.assert_paid(&link, 1250).await?;
    assert_eq!((&payment["card"]["last4"], &payment["card"]["brand"]), (&json!("4242"), &json!("visa")));
    if provider == Provider::Gateway {
        let card = &payment["card"];
        assert_eq!((&card["expMonth"], &card["expYear"]), (&json!(12), &json!(2039)));
    }
    Ok(())
}

#[tokio::test]
async fn an_invoice_with_lines_and_tax() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let invoice = shop
        .invoice(json!({
            "description": "November",
            "items": [
                {"description": "A tin of very good tea from the other side of the world", "quantity": 3, "unitAmount": 1999},
                {"description": "Wrapping", "quantity": 1, "unitAmount": 250},
            ],
            "amountTax": 625, "amountDiscount": 100,
        }))
        .await?;
    shop.visit(async |browser| {
        let tab = open(browser, &invoice).await?;
        let page = tab.top();
        for text in
            ["November", "very good tea", "3 × $19.99", "$59.97", "Wrapping", "$2.50", "Tax", "$6.25", "Discount"]
        {
            page.shows("main", text).await?;
        }
        ensure!(page.text(BUTTON).await? == "Pay $67.72", "{}", page.text(BUTTON).await?);
        tab.screenshot("open").await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        assert_receipt(&tab, "$67.72").await?;
        tab.screenshot("paid").await
    })
    .await?;
    let payment = shop.assert_paid(&invoice, 6772).await?;
    assert_eq!(payment["invoiceId"], invoice["id"]);
    assert!(payment.get("amountTax").is_none(), "a plain charge has no parts: {payment}");
    Ok(())
}

/// A paid page shows the receipt after a reload and when it is opened again. The Back button does not show the card again,
/// because another person may use the computer next.
#[tokio::test]
async fn a_paid_page_stays_paid() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(800).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        assert_receipt(&tab, "$8.00").await?;
        tab.reload().await?;
        assert_receipt(&tab, "$8.00").await?;
        let other = open(browser, &link).await?;
        other.top().shows("[role=status]", "Paid on").await?;
        ensure!(other.top().count("form").await? == 0, "a paid page has a form");
        tab.back().await?;
        let page = tab.top();
        page.wait("!location.search").await?;
        page.shows("[role=status]", "Paid on").await?;
        ensure!(page.count("input").await? == 0, "the page shows the card inputs again");
        Ok(())
    })
    .await?;
    shop.assert_paid(&link, 800).await.map(drop)
}
