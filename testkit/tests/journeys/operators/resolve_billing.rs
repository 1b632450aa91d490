//! Manual resolutions pay invoices and links, like outcomes that a worker received.

use anyhow::Result;
use serde_json::json;

use super::{backdate_last_request, lose_responses, manual_review, manual_reviews, provider_ref, text};
use crate::support::{Payer, cluster, created, eventually, id, merchant, ok};

const LONG_AGO: &str = "2020-01-01T00:00:00Z";

#[tokio::test]
async fn manual_resolutions_pay_invoices_or_schedule_a_retry() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    lose_responses(&merchant, cluster, "2").await?;
    let mut invoices = Vec::new();
    for amount in [5000, 6000] {
        let body = json!({"customerId": customer, "currency": "USD", "amount": amount});
        let invoice = id(created(&merchant.api.post("/v1/invoices", body).await?))?;
        let path = format!("/v1/invoices/{invoice}/schedule");
        ok(&merchant.api.post(&path, json!({"collectAt": LONG_AGO})).await?);
        invoices.push(invoice);
    }
    for row in manual_reviews(cluster, &merchant, 2).await? {
        let operation = text(&row, "id");
        let charge = provider_ref(&merchant, &operation).await?;
        backdate_last_request(&merchant, &operation).await?;
        let outcome = match row["amount"].as_i64() {
            Some(5000) => ["charged", "--provider-ref", &charge],
            _ => ["declined", "--code", "insufficient_funds"],
        };
        cluster
            .ctl(&[&["operations", "resolve", &operation, "--unverified", "--outcome"], &outcome[..]].concat())
            .await?;
    }
    let shown =
        async |invoice: &str| anyhow::Ok(ok(&merchant.api.get(&format!("/v1/invoices/{invoice}")).await?).clone());
    let paid = shown(&invoices[0]).await?;
    assert_eq!((&paid["status"], &paid["amountPaid"]), (&"paid".into(), &5000.into()), "{paid}");
    let events = merchant.books.events(&invoices[0]).await?;
    assert_eq!(events.iter().filter(|(kind, _)| kind == "invoice.paid").count(), 1);
    let declined = shown(&invoices[1]).await?;
    assert_eq!(declined["status"], "scheduled", "{declined}");
    assert!(declined["nextAttemptAt"].is_string(), "a soft decline is retried: {declined}");
    let attempts = merchant.api.get(&format!("/v1/invoices/{}/attempts", invoices[1])).await?;
    assert_eq!(ok(&attempts)["data"][0]["declineCode"], "insufficient_funds");
    let has_event = async || {
        let events = merchant.books.events(&invoices[1]).await?;
        Ok(events.iter().any(|(kind, _)| kind == "invoice.payment_failed").then_some(()))
    };
    eventually("invoice.payment_failed", has_event).await
}

#[tokio::test]
async fn manual_resolutions_pay_links() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let made = merchant.api.post("/v1/payment_links", json!({"amount": 800, "currency": "USD"})).await?;
    let payer = Payer::for_object(created(&made), &cluster.api_url(0))?;
    lose_responses(&merchant, cluster, "1").await?;
    let review = async {
        let operation = manual_review(cluster, &merchant).await?;
        let charge = provider_ref(&merchant, &operation).await?;
        let resolve =
            ["operations", "resolve", &operation, "--unverified", "--outcome", "charged", "--provider-ref", &charge];
        cluster.ctl(&resolve).await.map(drop)
    };
    let (page, done) = tokio::join!(payer.pay("tok_ok"), review);
    done?;
    page?.assert_shows(200, &["Paid on"]);
    let link = merchant.api.get(&format!("/v1/payment_links/{}", id(&made.body)?)).await?;
    assert_eq!(ok(&link)["status"], "paid");
    assert_eq!(merchant.books.events(&id(&made.body)?).await?.len(), 1, "payment_link.paid, once");
    merchant.books.audit().await
}
