//! How customers see the merchant, and what is mailed to them.

use anyhow::Result;

use super::Visitor;
use crate::support::{Payer, cluster, created, merchant};

const SETTINGS: &str = "/test/settings";

#[tokio::test]
async fn an_owner_chooses_what_is_mailed_to_customers() -> Result<()> {
    let merchant = merchant().await?;
    let mut owner = Visitor::signed_in(&merchant, "owner").await?;
    let chosen =
        [("mails", "invoices"), ("mails", "receipts"), ("language", "German"), ("testRecipients", "ada@a.example")];
    let page = owner.act(SETTINGS, "/test/settings/mail", &chosen).await?;
    assert!(page.html.contains("invoices, receipts") && page.html.contains("ada@a.example"), "{}", page.html);
    let saved =
        "SELECT invoices AND receipts AND NOT collections AND language = 'de' AND test_recipients = '{ada@a.example}'
                 FROM mail_settings WHERE account_id = $1";
    let saved = async || {
        let saved = sqlx::query_scalar::<_, bool>(saved).bind(merchant.books.account);
        saved.fetch_one(&merchant.books.db).await
    };
    assert!(saved().await?);
    let many = "b@a.example\n".repeat(21);
    for (recipients, expected) in
        [("not an address", "not an address is not an e-mail address"), (&many, "at most 20 addresses")]
    {
        let form = [("language", "French"), ("testRecipients", recipients)];
        let page = owner.act(SETTINGS, "/test/settings/mail", &form).await?;
        assert!(page.html.contains(expected), "{}", page.html);
        assert!(saved().await?, "a refusal changes nothing");
    }
    let viewer = Visitor::signed_in(&merchant, "viewer").await?;
    let page = viewer.open(SETTINGS).await?;
    assert!(page.html.contains("E-mails to customers") && !page.html.contains("Save e-mails"), "{}", page.html);
    Ok(())
}

#[tokio::test]
async fn the_page_of_a_customer_says_that_receipts_were_stopped() -> Result<()> {
    let merchant = merchant().await?;
    let viewer = Visitor::signed_in(&merchant, "viewer").await?;
    let customer = merchant.customer().await?;
    let page = format!("/test/customers/{customer}");
    let stopped = "has stopped receipts by e-mail";
    assert!(!viewer.open(&page).await?.html.contains(stopped));
    let invoice = serde_json::json!({"customerId": customer, "amount": 700, "currency": "USD"});
    let invoice = created(&merchant.api.post("/v1/invoices", invoice).await?).clone();
    let payer = Payer::for_object(&invoice, &cluster().await?.api_url(0))?;
    let at = async |name: &str| payer.at(&format!("{}/{name}", payer.path())).send("").await;
    assert_eq!(at("unsubscribe").await?.status, 200);
    assert!(viewer.open(&page).await?.html.contains(stopped));
    assert_eq!(at("subscribe").await?.status, 200);
    assert!(!viewer.open(&page).await?.html.contains(stopped));
    Ok(())
}

#[tokio::test]
async fn customers_see_the_address_the_tax_number_and_the_color() -> Result<()> {
    let merchant = merchant().await?;
    let mut owner = Visitor::signed_in(&merchant, "owner").await?;
    let look = |color| {
        [
            ("name", "Ada's"),
            ("timezone", "Europe/Berlin"),
            ("address", "Ring 1\r\n1010 Wien"),
            ("taxNumber", "ATU12345678"),
            ("color", color),
            ("supportContact", "help@ada.example"),
        ]
    };
    let page = owner.act(SETTINGS, "/test/settings/save", &look("#FFD400")).await?;
    assert!(page.html.contains("ATU12345678") && page.html.contains("#ffd400"), "{}", page.html);
    let link = serde_json::json!({"amount": 500, "currency": "EUR", "description": "Tea"});
    let link = created(&merchant.api.post("/v1/payment_links", link).await?).clone();
    let payer = Payer::for_object(&link, &cluster().await?.api_url(0))?;
    payer
        .open()
        .await?
        .assert_shows(200, &["Ring 1", "1010 Wien", "ATU12345678", "--on-accent: #000000", "help@ada.example"]);
    for (color, expected) in [("yellow", "must be a colour"), ("#ffd40", "must be a colour")] {
        let page = owner.act(SETTINGS, "/test/settings/save", &look(color)).await?;
        assert!(page.html.contains(expected), "{}", page.html);
    }
    let many = "line\n".repeat(7);
    let form = [("name", "Ada's"), ("timezone", "Europe/Berlin"), ("address", many.as_str())];
    let page = owner.act(SETTINGS, "/test/settings/save", &form).await?;
    assert!(page.html.contains("at most 6 lines"), "{}", page.html);
    payer.open().await?.assert_shows(200, &["Ring 1"]);
    Ok(())
}
