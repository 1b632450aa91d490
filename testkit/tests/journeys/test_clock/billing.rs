//! Months of billing in one advance: everything in its order and at its own instant, and safe to be killed half-way.

use anyhow::Result;
use serde_json::{Value, json};
use testkit::{Client, Cluster};

use crate::support::{Merchant, created, id, merchant, ok};

/// What an advance over months has to do.
struct Billing {
    retried: String,
    subscription: String,
    recurring: String,
    link: String,
}

async fn make(api: &Client, path: &str, body: Value) -> Result<String> {
    id(created(&api.post(path, body).await?))
}

/// All that can fall due, of one merchant.
async fn begin(merchant: &Merchant) -> Result<Billing> {
    let (good, bad) = (merchant.customer().await?, merchant.customer().await?);
    created(&merchant.save_card(&good, "tok_ok").await?);
    created(&merchant.save_card(&bad, "tok_insufficient").await?);
    let api = &merchant.api;
    let retried = make(api, "/v1/invoices", json!({"customerId": bad, "currency": "USD", "amount": 700})).await?;
    let collect_at = merchant.later(&merchant.now().await?, "1 day").await?;
    ok(&api.post(&format!("/v1/invoices/{retried}/schedule"), json!({"collectAt": collect_at})).await?);
    let plan = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
    let plan = make(api, "/v1/plans", plan).await?;
    let subscription = make(api, "/v1/subscriptions", json!({"customerId": good, "planId": plan})).await?;
    let recurring = make(
        api,
        "/v1/recurring_invoices",
        json!({
            "customerId": good, "cadence": {"unit": "monthly", "dayOfMonth": 31},
            "template": {"currency": "USD", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 500}]},
        }),
    )
    .await?;
    let link = make(api, "/v1/payment_links", json!({"amount": 100, "currency": "USD"})).await?;
    Ok(Billing { retried, subscription, recurring, link })
}

/// The account's invoices of this producer, oldest first.
async fn invoices(merchant: &Merchant, producer: &str, id: &str) -> Result<Vec<Value>> {
    let page = merchant.api.get("/v1/invoices?limit=100").await?;
    let rows = ok(&page)["data"].as_array().expect("a list").iter().filter(|row| row[producer] == id).cloned();
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|row| row["issuedAt"].as_str().map(str::to_owned));
    Ok(rows)
}

/// Whether the account is where 100 days of billing lead.
async fn all_is_done(merchant: &Merchant, billing: &Billing, from: &str) -> Result<()> {
    let attempts = merchant.api.get(&format!("/v1/invoices/{}/attempts", billing.retried)).await?;
    let attempts = ok(&attempts)["data"].as_array().expect("a list").clone();
    let first = attempts[0]["attemptedAt"].as_str().expect("an instant").to_owned();
    for ((attempt, number), days) in attempts.iter().zip(1..).zip([0, 1, 3, 5, 7]) {
        let due = merchant.later(&first, &format!("{days} days")).await?;
        assert_eq!((&attempt["number"], &attempt["attemptedAt"]), (&json!(number), &json!(due)));
    }
    assert_eq!(attempts.len(), 5);
    let retried = merchant.api.get(&format!("/v1/invoices/{}", billing.retried)).await?;
    assert_eq!((&ok(&retried)["status"], &retried.body["collectionExhausted"]), (&json!("open"), &json!(true)));

    let cycles = invoices(merchant, "subscriptionId", &billing.subscription).await?;
    assert_eq!(cycles.len(), 4, "today, and three months: {cycles:?}");
    for cycle in &cycles {
        assert_eq!(cycle["status"], "paid");
        let payment = merchant.payment(cycle["paymentId"].as_str().expect("what paid it")).await?;
        assert_eq!(payment["settled"], true);
        // The first was billed when it was asked for, before the clock stood still.
        if cycle != &cycles[0] {
            let day = &cycle["billingPeriod"].as_str().expect("a period")[..10];
            let due = json!(format!("{day}T00:00:00.000Z"));
            assert_eq!([&cycle["issuedAt"], &cycle["paidAt"], &payment["createdAt"]], [&due; 3], "its own due instant");
        }
    }
    let rents = invoices(merchant, "recurringInvoiceId", &billing.recurring).await?;
    assert!((3..=4).contains(&rents.len()), "the last days of three months and a part: {rents:?}");
    let link = merchant.api.get(&format!("/v1/payment_links/{}", billing.link)).await?;
    assert_eq!(ok(&link)["status"], "expired");
    let told = merchant.books.events(&billing.link).await?;
    assert_eq!(told.len(), 1);
    let subscription = merchant.api.get(&format!("/v1/subscriptions/{}", billing.subscription)).await?;
    assert_eq!(ok(&subscription)["status"], "active");
    assert!(subscription.body["nextBillingAt"].as_str() > Some(from));
    // Four cycles; the five attempts were declined.
    assert_eq!(merchant.books.charges().await?, 9);
    let unfinished = merchant.books.unfinished().await?;
    assert_eq!(unfinished, 0);
    Ok(())
}

#[tokio::test]
async fn a_hundred_days_run_in_their_order_and_at_their_instants() -> Result<()> {
    let merchant = merchant().await?;
    let from = merchant.now().await?;
    let billing = begin(&merchant).await?;
    merchant.advance_to(&merchant.later(&from, "100 days").await?).await?;
    all_is_done(&merchant, &billing, &from).await
}

#[tokio::test]
async fn a_hundred_days_survive_kills_and_impatience() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(2).scheduler(2).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let from = merchant.now().await?;
    let billing = begin(&merchant).await?;
    let to = merchant.later(&from, "100 days").await?;
    let kills = async {
        for kill in 0..6 {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            let process = if kill % 3 == 2 { cluster.scheduler(kill % 2) } else { cluster.worker(kill % 2) };
            process.kill9()?;
            process.restart().await?;
        }
        anyhow::Ok(())
    };
    let (first, second, killed) = tokio::join!(merchant.ask_to_advance(&to), merchant.ask_to_advance(&to), kills);
    killed?;
    // Whoever joined saw the same end, or came when it had been reached.
    for answer in [first?, second?] {
        assert!(matches!(answer.status, 200 | 422), "{} {}", answer.status, answer.body);
    }
    assert!(merchant.ticks().await? >= to);
    all_is_done(&merchant, &billing, &from).await
}
