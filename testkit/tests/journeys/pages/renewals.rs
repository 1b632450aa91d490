//! The page of a subscription's invoice offers to use the card for renewals: it becomes the customer's default card with
//! the approval of the payment.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{current, invoice, ledgers, link, wait_for_status};
use crate::subscriptions::{plan, subscription_body};
use crate::support::{
    Browser, Merchant, Payer, api_id, cluster, conflict, created, eventually, id, merchant, ok, redirect_payment_id,
    uuid, with,
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

/// The ids of a payment whose card is being saved, of the operation that saves it, and of the charge that follows.
async fn saving(merchant: &Merchant) -> Result<(String, String, Uuid)> {
    let query = "SELECT m.saved_for_payment_id, o.id, m.awaits_operation_id
                 FROM payment_methods m JOIN operations o ON o.payment_method_id = m.id
                 WHERE m.account_id = $1 AND m.awaits_operation_id IS NOT NULL AND o.finished_at IS NULL";
    let (payment, operation, charge) = eventually("a card that is being saved", async || {
        let found = sqlx::query_as::<_, (Uuid, Uuid, Uuid)>(query).bind(merchant.books.account);
        Ok(found.fetch_optional(&merchant.books.db).await?)
    })
    .await?;
    Ok((api_id("pay_", payment), api_id("op_", operation), charge))
}

/// The id of the operation that charges a payment, if there is one.
async fn charge_of(merchant: &Merchant, payment: &str) -> Result<Option<Uuid>> {
    let query = "SELECT id FROM operations WHERE account_id = $1 AND payment_id = $2 AND kind = 'sale'";
    let found = sqlx::query_scalar(query).bind(merchant.books.account).bind(uuid(payment)?);
    Ok(found.fetch_optional(&merchant.books.db).await?)
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
    let held = merchant.hold_responses(cluster().await?).await?;
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
        let second = made.payer.send(form).await?;
        held.release().await?;
        anyhow::Ok(second)
    };
    let (first, second) = tokio::try_join!(made.payer.send(form), again)?;
    assert!(redirect_payment_id(&first).is_some());
    assert_eq!(redirect_payment_id(&second), None);
    wait_for_status(&merchant, &made.invoice, "paid").await?;
    assert_eq!(ledgers(&merchant, &made.invoice).await?, ["sale 2900"]);
    assert_eq!(statuses(&merchant, &made.customer).await?, ["active", "active"]);
    Ok(())
}

#[tokio::test]
async fn an_advance_waits_for_the_charge_of_a_card_that_is_being_saved() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let made = declined(&merchant, false).await?;
    // The first advance creates the clock.
    merchant.advance("30 seconds").await?;
    let held = merchant.hold_responses(cluster).await?;
    let advance = async {
        let (payment, _, charge) = saving(&merchant).await?;
        assert_eq!(charge_of(&merchant, &payment).await?, None);
        let release = async {
            let is_pending = async || Ok((merchant.clock().await?["pending"] == true).then_some(()));
            eventually("a pending advance", is_pending).await?;
            held.release().await
        };
        tokio::try_join!(merchant.advance("1 minute"), release)?;
        assert_eq!(current(&merchant, &made.invoice).await?["status"], "paid");
        // Had the card been saved again after a restore, the charge would have had the same reference.
        assert_eq!(charge_of(&merchant, &payment).await?, Some(charge));
        anyhow::Ok(())
    };
    tokio::try_join!(made.payer.send("token=tok_ok&renewals=1"), advance)?;
    Ok(())
}

#[tokio::test]
async fn an_operator_can_end_a_payment_whose_card_is_being_saved() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let made = declined(&merchant, false).await?;
    merchant.mock(cluster, &["--lose-responses", "100"]).await?;
    let review = async {
        let (payment, operation, charge) = saving(&merchant).await?;
        let verdict = cluster.ctl(&["payments", "why", &payment]).await?["verdict"].to_string();
        assert!(verdict.contains("The card is being saved; the charge follows."), "{verdict}");
        assert!(verdict.contains(&operation), "{verdict}");
        let withhold = ["operations", "withhold", &operation, "--reason", "after a restore"];
        // Not while a worker has it.
        eventually("the operation to wait for an operator", async || {
            Ok((cluster.ctl_output(&withhold).await?.code == 0).then_some(()))
        })
        .await?;
        let backdate = "UPDATE operations SET last_sent_at = last_sent_at - interval '1 minute' WHERE id = $1";
        sqlx::query(backdate).bind(uuid(&operation)?).execute(&merchant.books.db).await?;
        let resolve = ["operations", "resolve", &operation, "--outcome", "failed", "--reason", "a test"];
        // In the interval that a restore has lost, the card was saved and charged.
        let reference = api_id("op_", charge);
        let charged = "INSERT INTO mock.transactions
                (id, account, kind, reference, approved, amount, currency, nature, occurred_at, created_at, unique_reference)
            SELECT $2, id, 'sale', $2, true, 2900, 'USD', 'tok_ok', now(), now() - interval '1 day', $2
            FROM provider_accounts WHERE account_id = $1";
        sqlx::query(charged).bind(merchant.books.account).bind(&reference).execute(&merchant.books.db).await?;
        let refused = cluster.ctl_output(&resolve).await?.stderr;
        assert!(refused.contains("has charged its payment") && refused.contains(&reference), "{refused}");
        let uncharged = sqlx::query("DELETE FROM mock.transactions WHERE id = $1").bind(&reference);
        uncharged.execute(&merchant.books.db).await?;
        let refused = cluster.ctl_output(&resolve).await?.stderr;
        assert!(refused.contains("has executed it"), "the card is saved: {refused}");
        let done = cluster.ctl(&[&resolve[..], &["--unverified"]].concat()).await?;
        assert_eq!((&done["changed"], &done["payment"]), (&json!(true), &json!(payment)), "{done}");
        let audit = cluster.ctl(&["audit", "list", "--account", &merchant.account.id]).await?;
        let records = audit["audit"].as_array().context("a list")?;
        let resolved = records.iter().find(|row| row["action"] == "operations.resolve").context("a record")?;
        assert_eq!(resolved["detail"]["payment"], json!(payment), "{resolved}");
        merchant.wait_for_status(&payment, "failed").await
    };
    tokio::try_join!(made.payer.send("token=tok_ok&renewals=1"), review)?;
    assert!(ledgers(&merchant, &made.invoice).await?.is_empty());
    assert_eq!(statuses(&merchant, &made.customer).await?, ["active", "failed"]);
    Ok(())
}

#[tokio::test]
async fn a_subscription_cancelled_meanwhile_does_not_keep_the_card() -> Result<()> {
    let merchant = merchant().await?;
    let made = declined(&merchant, false).await?;
    let before = cards(&merchant, &made.customer).await?;
    let held = merchant.hold_responses(cluster().await?).await?;
    let cancel = async {
        saving(&merchant).await?;
        let cancelled = merchant.api.send(Method::POST, &format!("{}/cancel", made.path), None).await?;
        held.release().await?;
        anyhow::Ok(cancelled)
    };
    let (_, cancelled) = tokio::try_join!(made.payer.send("token=tok_ok&renewals=1"), cancel)?;
    assert_eq!(ok(&cancelled)["status"], "cancelled");
    wait_for_status(&merchant, &made.invoice, "paid").await?;
    assert_eq!(ledgers(&merchant, &made.invoice).await?, ["sale 2900"]);
    assert_eq!(cards(&merchant, &made.customer).await?, before);
    assert_eq!(statuses(&merchant, &made.customer).await?, ["active", "failed"]);
    Ok(())
}

#[tokio::test]
async fn the_late_charge_of_an_ended_payment_does_not_keep_the_card() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let made = declined(&merchant, false).await?;
    let before = cards(&merchant, &made.customer).await?;
    merchant.mock(cluster, &["--latency-ms", "1"]).await?;
    let saved = merchant.hold_responses(cluster).await?;
    let end = async {
        let (payment, _, charge) = saving(&merchant).await?;
        let charged = merchant.hold_charge(cluster, &api_id("op_", charge)).await?;
        saved.release().await?;
        let sending = "SELECT count(*) FROM operations WHERE account_id = $1 AND kind = 'sale' AND state = 'sending'";
        eventually("the request of the charge", async || Ok((merchant.books.count(sending).await? == 1).then_some(())))
            .await?;
        // A worker of the former version ends the payment and knows nothing of the card.
        for statement in [
            "UPDATE operations SET state = 'failed', finished_at = now(), next_push_at = NULL, lease_until = NULL
             WHERE payment_id = $1 AND kind = 'sale'",
            "UPDATE payments SET status = 'failed', failure_code = 'provider_refused' WHERE id = $1",
        ] {
            sqlx::query(statement).bind(uuid(&payment)?).execute(&merchant.books.db).await?;
        }
        assert_eq!(statuses(&merchant, &made.customer).await?, ["active", "failed"]);
        charged.release().await?;
        let anomalies = "SELECT count(*) FROM charge_anomalies WHERE account_id = $1";
        eventually("the charge to be found unwanted", async || {
            Ok((merchant.books.count(anomalies).await? == 1).then_some(()))
        })
        .await
    };
    tokio::try_join!(made.payer.send("token=tok_ok&renewals=1"), end)?;
    assert_eq!(cards(&merchant, &made.customer).await?, before);
    assert_eq!(statuses(&merchant, &made.customer).await?, ["active", "failed"]);
    assert_ne!(current(&merchant, &made.invoice).await?["status"], "paid");
    Ok(())
}

#[tokio::test]
async fn a_default_card_that_is_chosen_meanwhile_stays() -> Result<()> {
    let merchant = merchant().await?;
    let made = declined(&merchant, false).await?;
    let other = id(created(&merchant.save_card(&made.customer, "tok_ok").await?))?;
    let held = merchant.hold_responses(cluster().await?).await?;
    let choose = async {
        saving(&merchant).await?;
        let path = format!("/v1/payment_methods/{other}/default");
        ok(&merchant.api.post(&path, json!({})).await?);
        held.release().await
    };
    tokio::try_join!(made.payer.send("token=tok_ok&renewals=1"), choose)?;
    wait_for_status(&merchant, &made.invoice, "paid").await?;
    assert_eq!(statuses(&merchant, &made.customer).await?, ["active", "active", "active"]);
    let saved = cards(&merchant, &made.customer).await?;
    assert_eq!((&saved[0]["id"], &saved[0]["isDefault"]), (&json!(other), &json!(true)), "{saved:?}");
    Ok(())
}

/// The account moves to another provider while the payer enters the card.
#[tokio::test]
async fn a_card_is_saved_only_if_the_provider_of_its_token_saves_cards() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let made = declined(&merchant, false).await?;
    let token = Browser::for_account(cluster, &merchant.account)?.token("tok_ok").await?;
    merchant.mock(cluster, &["--without", "payment_methods.create"]).await?;
    cluster.ctl(&["accounts", "set", &merchant.account.id, "--provider", "card_gateway"]).await?;
    let response = made.payer.send(&format!("token={token}&renewals=1")).await?;
    assert!(redirect_payment_id(&response).is_some());
    wait_for_status(&merchant, &made.invoice, "paid").await?;
    assert_eq!(ledgers(&merchant, &made.invoice).await?, ["sale 2900"]);
    assert_eq!(statuses(&merchant, &made.customer).await?, ["active"], "no card was saved");
    Ok(())
}
