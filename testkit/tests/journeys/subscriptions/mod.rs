//! Subscriptions: what is kept and refused, how cycles are billed, and how they end.

mod cancelling;
mod collecting;
mod fields;
mod lists;
mod running;
mod states;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::Answer;

use crate::support::{Merchant, created, eventually, id, ok, uuid};

const SUBSCRIPTIONS: &str = "/v1/subscriptions";
const UNKNOWN: &str = "sub_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// The least that makes a subscription.
pub(crate) fn wanted(customer: &str, plan: &str) -> Value {
    json!({"customerId": customer, "planId": plan})
}

/// The id of a plan of this interval.
pub(crate) async fn plan(merchant: &Merchant, interval: &str) -> Result<String> {
    let body = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": interval});
    id(&merchant.api.post("/v1/plans", body).await?.body)
}

/// The id of a customer who has a card that approves.
async fn payer(merchant: &Merchant) -> Result<String> {
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    Ok(customer)
}

/// A subscription as it was answered.
async fn subscribed(merchant: &Merchant, body: Value) -> Result<Value> {
    Ok(created(&merchant.api.post(SUBSCRIPTIONS, body).await?).clone())
}

async fn cancel(merchant: &Merchant, subscription: &str) -> Result<Answer> {
    merchant.api.send(reqwest::Method::POST, &format!("{SUBSCRIPTIONS}/{subscription}/cancel"), None).await
}

/// The subscription as it stands.
async fn shown(merchant: &Merchant, subscription: &str) -> Result<Value> {
    Ok(ok(&merchant.api.get(&format!("{SUBSCRIPTIONS}/{subscription}")).await?).clone())
}

/// The id of one whose dates are counted from so many days ago, none of which has been billed: it was made for a day to come,
/// and time has passed since.
async fn missed(merchant: &Merchant, body: Value, days: i32) -> Result<String> {
    let made = subscribed(merchant, crate::support::with(body, "startAt", "2199-01-01")).await?;
    begins(merchant, &id(&made)?, &format!("current_date - {days}")).await?;
    id(&made)
}

/// Moves the first date of one that was not billed yet to a day, written in SQL.
pub(crate) async fn begins(merchant: &Merchant, subscription: &str, day: &str) -> Result<()> {
    let statement = format!(
        "UPDATE subscriptions SET anchor = {day}, next_billing_date = {day},
                next_billing_at = ({day})::timestamp AT TIME ZONE timezone
         WHERE id = $1 AND status = 'scheduled'"
    );
    let moved =
        sqlx::query(sqlx::AssertSqlSafe(statement)).bind(uuid(subscription)?).execute(&merchant.books.db).await?;
    assert_eq!(moved.rows_affected(), 1, "it was not billed yet");
    Ok(())
}

/// The subscription once nothing of it is due.
async fn caught_up(merchant: &Merchant, subscription: &str) -> Result<Value> {
    eventually("all cycles to be billed", async || {
        let query = "SELECT next_billing_at > now() FROM subscriptions WHERE id = $1";
        let is_done: bool = sqlx::query_scalar(query).bind(uuid(subscription)?).fetch_one(&merchant.books.db).await?;
        if is_done { Ok(Some(shown(merchant, subscription).await?)) } else { Ok(None) }
    })
    .await
}

/// The invoices of a subscription as the API shows them, in the order of their numbers.
async fn invoices(merchant: &Merchant, subscription: &str) -> Result<Vec<Value>> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = merchant.api.get(&format!("/v1/invoices?limit=100{after}")).await?;
        let rows = ok(&page)["data"].as_array().context("a list")?;
        found.extend(rows.iter().filter(|row| row["subscriptionId"] == subscription).cloned());
        match page.body["nextCursor"].as_str() {
            Some(cursor) => after = format!("&startingAfter={cursor}"),
            None => break,
        }
    }
    found.sort_by_key(|invoice| invoice["number"].as_str().unwrap_or_default().to_owned());
    Ok(found)
}

/// The periods of these invoices.
fn periods(invoices: &[Value]) -> Vec<&str> {
    invoices.iter().map(|invoice| invoice["billingPeriod"].as_str().unwrap_or_default()).collect()
}

/// The periods of the cycles from the subscription's anchor to now, reckoned by Postgres from `step`.
async fn cycles_until_now(merchant: &Merchant, subscription: &str, step: &str) -> Result<Vec<String>> {
    let query = "SELECT to_char(anchor + n * $2::text::interval, 'YYYY-MM-DD') || '/' ||
                        to_char(anchor + (n + 1) * $2::text::interval - interval '1 day', 'YYYY-MM-DD')
                 FROM subscriptions, generate_series(0, 10000) n
                 WHERE id = $1 AND (anchor + n * $2::text::interval) AT TIME ZONE timezone <= now() ORDER BY n";
    let all = sqlx::query_scalar(query).bind(uuid(subscription)?).bind(step).fetch_all(&merchant.books.db).await?;
    Ok(all)
}

/// The kinds of events about a subscription, in their order.
async fn told(merchant: &Merchant, subscription: &str) -> Result<Vec<String>> {
    Ok(merchant.books.events(subscription).await?.into_iter().map(|(kind, _)| kind).collect())
}
