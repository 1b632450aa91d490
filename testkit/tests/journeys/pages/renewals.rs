//! The page of a subscription's invoice offers to use the card for renewals: it becomes the customer's default card with
//! the approval of the payment.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};

use super::{current, invoice, ledgers, link, wait_for_status};
use crate::subscriptions::{plan, subscription_body};
use crate::support::{
    Merchant, Payer, cluster, conflict, created, eventually, id, merchant, ok, redirect_payment_id, uuid, with,
};

const OFFER: &str = "name=\"renewals\"";
const SUBSCRIPTIONS: &str = "/v1/subscriptions";

/// A subscription whose first collection was declined.
struct Declined {
    customer: String,
    /// The id of the declined card.
    card: String,
    /// The path of the subscription.
    path: String,
    invoice: Value,
    payer: Payer,
}

/// Subscribes a new customer with a card that is declined, and names that card if `is_named`.
async fn declined(merchant: &Merchant, is_named: bool) -> Result<Declined> {
    let customer = merchant.customer().await?;
    let card = id(created(&merchant.save_card(&customer, "tok_insufficient").await?))?;
    let body = subscription_body(&customer, &plan(merchant, "month").await?);
    let body = if is_named { with(body, "paymentMethodId", card.clone()) } else { body };
    let response = merchant.api.post(SUBSCRIPTIONS, body).await?;
    let made = created(&response);
    assert_eq!(made["status"], "past_due");
    let latest = made["latestInvoiceId"].as_str().context("an invoice")?;
    let invoice = ok(&merchant.api.get(&format!("/v1/invoices/{latest}")).await?).clone();
    let payer = Payer::for_object(&invoice, &cluster().await?.api_url(0))?;
    Ok(Declined { customer, card, path: format!("{SUBSCRIPTIONS}/{}", id(made)?), invoice, payer })
}

/// The active cards of a customer, the default card first.
async fn cards(merchant: &Merchant, customer: &str) -> Result<Vec<Value>> {
    let page = merchant.api.get(&format!("/v1/payment_methods?customerId={customer}")).await?;
    Ok(ok(&page)["data"].as_array().context("a list")?.clone())
}

/// The statuses of all cards that a customer has, in the order in which they were saved.
async fn statuses(merchant: &Merchant, customer: &str) -> Result<Vec<String>> {
    let query = "SELECT status::text FROM payment_methods WHERE customer_id = $1 ORDER BY id";
    Ok(sqlx::query_scalar(query).bind(uuid(customer)?).fetch_all(&merchant.books.db).await?)
}

#[tokio::test]
async fn only_a_subscription_that_continues_has_renewals() -> Result<()> {
    let merchant = merchant().await?;
    let Declined { path, payer, invoice: declined_invoice, customer, .. } = declined(&merchant, false).await?;
    // It is not selected beforehand.
    let box_of_offer = format!("id=\"renewals\" {OFFER} value=\"1\" autocomplete=\"off\">");
    payer.open().await?.assert_shows(200, &[&box_of_offer, "Use this card for renewals and other open invoices"]);
    for (made, payer) in [link(&merchant, 500).await?, invoice(&merchant, 500).await?] {
        assert!(!payer.open().await?.html.contains(OFFER));
        payer.pay("tok_ok&renewals=1").await?.assert_shows(200, &["Paid on"]);
        assert_eq!(ledgers(&merchant, &made).await?, ["sale 500"]);
    }
    ok(&merchant.api.send(Method::POST, &format!("{path}/cancel"), None).await?);
    let page = payer.open().await?;
    assert!(page.has_pay_button() && !page.html.contains(OFFER));
    payer.pay("tok_ok&renewals=1").await?.assert_shows(200, &["Paid on"]);
    assert_eq!(current(&merchant, &declined_invoice).await?["status"], "paid");
    assert_eq!(statuses(&merchant, &customer).await?, ["active"], "no card was saved");
    let query = "SELECT count(*) FROM payment_methods WHERE account_id = $1";
    assert_eq!(merchant.books.count(query).await?, 1);
    Ok(())
}

#[tokio::test]
async fn the_card_that_paid_is_charged_for_the_next_cycle() -> Result<()> {
    let merchant = merchant().await?;
    let made = declined(&merchant, false).await?;
    let response = made.payer.send("token=tok_ok&renewals=1").await?;
    let payment = redirect_payment_id(&response).context("a payment")?;
    made.payer.follow(&response).await?.assert_shows(200, &["Paid on", "Visa ending in 4242"]);
    let paid = current(&merchant, &made.invoice).await?;
    assert_eq!((&paid["status"], &paid["paymentId"]), (&json!("paid"), &json!(payment)));
    assert_eq!(ledgers(&merchant, &made.invoice).await?, ["sale 2900"]);
    let payment = merchant.payment(&payment).await?;
    assert_eq!((&payment["card"]["last4"], payment.get("paymentMethodId")), (&json!("4242"), None));

    let saved = cards(&merchant, &made.customer).await?;
    assert_eq!((saved.len(), &saved[0]["isDefault"], &saved[0]["last4"]), (2, &json!(true), &json!("4242")));
    assert_eq!((&saved[1]["isDefault"], &saved[1]["id"]), (&json!(false), &json!(made.card)));
    let card = id(&saved[0])?;
    assert_eq!(merchant.books.events(&card).await?, [("payment_method.created".to_owned(), saved[0].clone())]);
    let subscription = merchant.api.get(&made.path).await?;
    assert_eq!((&ok(&subscription)["status"], subscription.body.get("paymentMethodId")), (&json!("active"), None));

    merchant.advance("32 days").await?;
    let latest = ok(&merchant.api.get(&made.path).await?)["latestInvoiceId"].clone();
    assert_ne!(latest, made.invoice["id"], "the next cycle is billed");
    let renewal = wait_for_status(&merchant, &json!({"object": "invoice", "id": latest}), "paid").await?;
    let payment = merchant.payment(renewal["paymentId"].as_str().context("a payment")?).await?;
    assert_eq!(payment["paymentMethodId"], card);
    Ok(())
}

#[tokio::test]
async fn a_subscription_that_names_a_card_names_the_one_that_paid() -> Result<()> {
    let merchant = merchant().await?;
    let made = declined(&merchant, true).await?;
    let before = ok(&merchant.api.get(&made.path).await?).clone();
    assert_eq!(before["paymentMethodId"], made.card);
    made.payer.pay("tok_ok&renewals=1").await?.assert_shows(200, &["Paid on"]);
    let after = ok(&merchant.api.get(&made.path).await?).clone();
    let saved = cards(&merchant, &made.customer).await?;
    assert_eq!((&after["paymentMethodId"], &saved[0]["isDefault"]), (&saved[0]["id"], &json!(true)));
    assert_eq!(saved[0]["last4"], "4242");
    assert!(after["version"].as_i64() > before["version"].as_i64(), "{before} {after}");
    Ok(())
}

#[tokio::test]
async fn invoices_that_wait_for_a_card_are_charged_to_the_one_that_paid() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let body = subscription_body(&customer, &plan(&merchant, "month").await?);
    let mut invoices = Vec::new();
    for _ in 0..2 {
        let response = merchant.api.post(SUBSCRIPTIONS, body.clone()).await?;
        let latest = created(&response)["latestInvoiceId"].as_str().context("an invoice")?.to_owned();
        let waiting = eventually("an invoice that waits for a card", async || {
            let invoice = ok(&merchant.api.get(&format!("/v1/invoices/{latest}")).await?).clone();
            Ok(invoice.get("nextAttemptAt").is_none().then_some(invoice))
        });
        invoices.push(waiting.await?);
    }
    let payer = Payer::for_object(&invoices[0], &cluster().await?.api_url(0))?;
    payer.pay("tok_ok&renewals=1").await?.assert_shows(200, &["Paid on"]);
    for invoice in &invoices {
        wait_for_status(&merchant, invoice, "paid").await?;
        assert_eq!(ledgers(&merchant, invoice).await?, ["sale 2900"]);
    }
    assert_eq!(cards(&merchant, &customer).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_card_that_does_not_pay_in_full_is_not_saved() -> Result<()> {
    let merchant = merchant().await?;
    let made = declined(&merchant, false).await?;
    let before = cards(&merchant, &made.customer).await?;
    for (token, text) in [
        ("tok_lost", "declined by its bank"),
        ("tok_authentication", "try again without that"),
        ("tok_partial", "only part"),
    ] {
        let response = made.payer.send(&format!("token={token}&renewals=1")).await?;
        let payment = redirect_payment_id(&response).context("a payment")?;
        made.payer.follow(&response).await?.assert_shows(200, &[text]);
        if token == "tok_partial" {
            merchant.wait_for_status(&payment, "cancelled").await?;
        }
        assert_eq!(cards(&merchant, &made.customer).await?, before);
    }
    assert_eq!(statuses(&merchant, &made.customer).await?, ["active", "failed", "failed", "failed"]);
    assert_eq!(current(&merchant, &made.invoice).await?["status"], "scheduled");
    let query = "SELECT count(*) FROM events WHERE account_id = $1 AND type = 'payment_method.created'";
    assert_eq!(merchant.books.count(query).await?, 1);
    made.payer.pay("tok_ok&renewals=1").await?.assert_shows(200, &["Paid on"]);
    assert_eq!(cards(&merchant, &made.customer).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn nothing_is_charged_if_the_card_cannot_be_saved() -> Result<()> {
    let merchant = merchant().await?;
    let made = declined(&merchant, false).await?;
    merchant.mock(cluster().await?, &["--refuse"]).await?;
    let page = made.payer.pay("tok_ok&renewals=1").await?;
    page.assert_shows(200, &["could not be made", "Nothing was charged"]);
    assert!(page.has_pay_button());
    assert!(ledgers(&merchant, &made.invoice).await?.is_empty());
    assert_eq!(statuses(&merchant, &made.customer).await?, ["active", "failed"]);
    Ok(())
}

#[tokio::test]
async fn pressing_twice_saves_one_card_and_charges_it_once() -> Result<()> {
    let merchant = merchant().await?;
    let made = declined(&merchant, false).await?;
    merchant.mock(cluster().await?, &["--latency-ms", "1000"]).await?;
    let form = "token=tok_ok&renewals=1";
    let again = async {
        eventually("the payment", async || {
            let begun = "SELECT count(*) FROM payments WHERE account_id = $1 AND payment_method_id IS NULL";
            Ok((merchant.books.count(begun).await? == 1).then_some(()))
        })
        .await?;
        // Neither the invoice nor the customer changes while the card is being saved.
        let void = format!("/v1/invoices/{}/void", id(&made.invoice)?);
        conflict(&merchant.api.send(Method::POST, &void, None).await?);
        made.payer.open().await?.assert_shows(200, &["being processed"]);
        made.payer.send(form).await
    };
    let (first, second) = tokio::try_join!(made.payer.send(form), again)?;
    assert!(redirect_payment_id(&first).is_some());
    assert_eq!(redirect_payment_id(&second), None);
    wait_for_status(&merchant, &made.invoice, "paid").await?;
    assert_eq!(ledgers(&merchant, &made.invoice).await?, ["sale 2900"]);
    assert_eq!(statuses(&merchant, &made.customer).await?, ["active", "active"]);
    Ok(())
}
