//! Months of billing in one advance: in order and at the due times.

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Client;

use crate::support::{Merchant, created, id, merchant, ok};

/// The objects that fall due during the advance.
struct Billing {
    retried: String,
    subscription: String,
    recurring: String,
    link: String,
}

async fn create(api: &Client, path: &str, body: Value) -> Result<String> {
    id(created(&api.post(path, body).await?))
}

/// Creates one object of each kind that can fall due.
async fn create_billing(merchant: &Merchant) -> Result<Billing> {
    let (good, bad) = (merchant.customer().await?, merchant.customer().await?);
    created(&merchant.save_card(&good, "tok_ok").await?);
    created(&merchant.save_card(&bad, "tok_insufficient").await?);
    let api = &merchant.api;
    let retried = create(api, "/v1/invoices", json!({"customerId": bad, "currency": "USD", "amount": 700})).await?;
    let collect_at = merchant.later(&merchant.now().await?, "1 day").await?;
    ok(&api.post(&format!("/v1/invoices/{retried}/schedule"), json!({"collectAt": collect_at})).await?);
    let plan = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
    let plan = create(api, "/v1/plans", plan).await?;
    let subscription = create(api, "/v1/subscriptions", json!({"customerId": good, "planId": plan})).await?;
    let recurring = create(
        api,
        "/v1/recurring_invoices",
        json!({
            "customerId": good, "cadence": {"unit": "monthly", "dayOfMonth": 31},
            "template": {"currency": "USD", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 500}]},
        }),
    )
    .await?;
    let link = create(api, "/v1/payment_links", json!({"amount": 100, "currency": "USD"})).await?;
    Ok(Billing { retried, subscription, recurring, link })
}

/// The invoices whose `producer` field is this id, oldest first.
async fn invoices(merchant: &Merchant, producer: &str, id: &str) -> Result<Vec<Value>> {
    let page = merchant.api.get("/v1/invoices?limit=100").await?;
    let rows = ok(&page)["data"].as_array().expect("a list").iter().filter(|row| row[producer] == id).cloned();
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|row| row["issuedAt"].as_str().map(str::to_owned));
    Ok(rows)
}

/// Asserts the state of the account after 100 days of billing.
async fn assert_billed(merchant: &Merchant, billing: &Billing, from: &str) -> Result<()> {
    let attempts = merchant.api.get(&format!("/v1/invoices/{}/attempts", billing.retried)).await?;
    let attempts = ok(&attempts)["data"].as_array().expect("a list").clone();
    let first = attempts[0]["attemptedAt"].as_str().expect("a timestamp").to_owned();
    for ((attempt, number), days) in attempts.iter().zip(1..).zip([0, 1, 3, 5, 7]) {
        let due = merchant.later(&first, &format!("{days} days")).await?;
        assert_eq!((&attempt["number"], &attempt["attemptedAt"]), (&json!(number), &json!(due)));
    }
    assert_eq!(attempts.len(), 5);
    let retried = merchant.api.get(&format!("/v1/invoices/{}", billing.retried)).await?;
    assert_eq!((&ok(&retried)["status"], &retried.body["collectionExhausted"]), (&json!("open"), &json!(true)));

    let cycles = invoices(merchant, "subscriptionId", &billing.subscription).await?;
    assert_eq!(cycles.len(), 4, "today and three months: {cycles:?}");
    for cycle in &cycles {
        assert_eq!(cycle["status"], "paid");
        let payment = merchant.payment(cycle["paymentId"].as_str().expect("a payment id")).await?;
        assert_eq!(payment["settled"], true);
        // The first was billed when the subscription was created, before the advance.
        if cycle != &cycles[0] {
            let day = &cycle["billingPeriod"].as_str().expect("a period")[..10];
            let due = json!(format!("{day}T00:00:00.000Z"));
            assert_eq!(
                [&cycle["issuedAt"], &cycle["paidAt"], &payment["createdAt"]],
                [&due; 3],
                "dated at its due time"
            );
        }
    }
    let rents = invoices(merchant, "recurringInvoiceId", &billing.recurring).await?;
    assert!((3..=4).contains(&rents.len()), "the last days of three months and a part: {rents:?}");
    let link = merchant.api.get(&format!("/v1/payment_links/{}", billing.link)).await?;
    assert_eq!(ok(&link)["status"], "expired");
    let events = merchant.books.events(&billing.link).await?;
    assert_eq!(events.len(), 1);
    let subscription = merchant.api.get(&format!("/v1/subscriptions/{}", billing.subscription)).await?;
    assert_eq!(ok(&subscription)["status"], "active");
    assert!(subscription.body["nextBillingAt"].as_str() > Some(from));
    // Four paid cycles and five declined attempts.
    assert_eq!(merchant.books.charges().await?, 9);
    let unfinished = merchant.books.unfinished().await?;
    assert_eq!(unfinished, 0);
    Ok(())
}

#[tokio::test]
async fn a_hundred_days_run_in_order_at_their_due_times() -> Result<()> {
    let merchant = merchant().await?;
    let from = merchant.now().await?;
    let billing = create_billing(&merchant).await?;
    merchant.advance_to(&merchant.later(&from, "100 days").await?).await?;
    assert_billed(&merchant, &billing, &from).await
}
