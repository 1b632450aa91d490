//! What a person enters pays invoices and links, as a worker's outcome does.

use anyhow::Result;
use serde_json::json;

use super::{answers_are_lost, at_provider, nothing_may_arrive, text, the_waiting, waiting};
use crate::support::{Payer, cluster, created, eventually, id, merchant, ok};

const LONG_AGO: &str = "2020-01-01T00:00:00Z";

#[tokio::test]
async fn an_invoice_is_paid_by_what_a_person_enters_and_tried_again_after_a_decline() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    answers_are_lost(&merchant, cluster, "2").await?;
    let mut invoices = Vec::new();
    for amount in [5000, 6000] {
        let body = json!({"customerId": customer, "currency": "USD", "amount": amount});
        let invoice = id(created(&merchant.api.post("/v1/invoices", body).await?))?;
        let path = format!("/v1/invoices/{invoice}/schedule");
        ok(&merchant.api.post(&path, json!({"collectAt": LONG_AGO})).await?);
        invoices.push(invoice);
    }
    for row in waiting(cluster, &merchant, 2).await? {
        let operation = text(&row, "id");
        let charge = at_provider(&merchant, &operation).await?;
        nothing_may_arrive(&merchant, &operation).await?;
        let said = match row["amount"].as_i64() {
            Some(5000) => ["charged", "--provider-ref", &charge],
            _ => ["declined", "--code", "insufficient_funds"],
        };
        cluster.ctl(&[&["operations", "resolve", &operation, "--unverified", "--outcome"], &said[..]].concat()).await?;
    }
    let shown =
        async |invoice: &str| anyhow::Ok(ok(&merchant.api.get(&format!("/v1/invoices/{invoice}")).await?).clone());
    let paid = shown(&invoices[0]).await?;
    assert_eq!((&paid["status"], &paid["amountPaid"]), (&"paid".into(), &5000.into()), "{paid}");
    let events = merchant.books.events(&invoices[0]).await?;
    assert_eq!(events.iter().filter(|(kind, _)| kind == "invoice.paid").count(), 1);
    let again = shown(&invoices[1]).await?;
    assert_eq!(again["status"], "scheduled", "{again}");
    assert!(again["nextAttemptAt"].is_string(), "a soft decline is tried again: {again}");
    let attempts = merchant.api.get(&format!("/v1/invoices/{}/attempts", invoices[1])).await?;
    assert_eq!(ok(&attempts)["data"][0]["declineCode"], "insufficient_funds");
    let told = async || {
        let events = merchant.books.events(&invoices[1]).await?;
        Ok(events.iter().any(|(kind, _)| kind == "invoice.payment_failed").then_some(()))
    };
    eventually("the failure is told of", told).await
}

#[tokio::test]
async fn a_link_is_paid_by_what_a_person_enters() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let made = merchant.api.post("/v1/payment_links", json!({"amount": 800, "currency": "USD"})).await?;
    let payer = Payer::of(created(&made), &cluster.api_url(0))?;
    answers_are_lost(&merchant, cluster, "1").await?;
    let person = async {
        let operation = the_waiting(cluster, &merchant).await?;
        let charge = at_provider(&merchant, &operation).await?;
        let said =
            ["operations", "resolve", &operation, "--unverified", "--outcome", "charged", "--provider-ref", &charge];
        cluster.ctl(&said).await.map(drop)
    };
    let (page, done) = tokio::join!(payer.pay("tok_ok"), person);
    done?;
    page?.shows(200, &["Paid on"]);
    let link = merchant.api.get(&format!("/v1/payment_links/{}", id(&made.body)?)).await?;
    assert_eq!(ok(&link)["status"], "paid");
    assert_eq!(merchant.books.events(&id(&made.body)?).await?.len(), 1, "payment_link.paid, once");
    merchant.books.audit().await
}
