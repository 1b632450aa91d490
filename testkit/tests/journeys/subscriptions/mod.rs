//! Subscriptions: fields, billing of cycles, collection, and cancellation.

mod billing;
mod cancellation;
mod collection;
mod fields;
mod lists;
mod states;
mod unsent;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::Response;

use crate::support::{Merchant, created, eventually, id, ok, uuid};

const SUBSCRIPTIONS: &str = "/v1/subscriptions";
const UNKNOWN: &str = "sub_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// A subscription body with only the required fields.
pub(crate) fn subscription_body(customer: &str, plan: &str) -> Value {
    json!({"customerId": customer, "planId": plan})
}

/// The id of a plan of this interval.
pub(crate) async fn plan(merchant: &Merchant, interval: &str) -> Result<String> {
    let body = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": interval});
    id(&merchant.api.post("/v1/plans", body).await?.body)
}

/// The id of a new customer with a card that approves.
async fn customer_with_card(merchant: &Merchant) -> Result<String> {
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    Ok(customer)
}

/// Creates a subscription and returns the response body.
async fn subscribe(merchant: &Merchant, body: Value) -> Result<Value> {
    Ok(created(&merchant.api.post(SUBSCRIPTIONS, body).await?).clone())
}

async fn cancel(merchant: &Merchant, subscription: &str) -> Result<Response> {
    merchant.api.send(reqwest::Method::POST, &format!("{SUBSCRIPTIONS}/{subscription}/cancel"), None).await
}

async fn current(merchant: &Merchant, subscription: &str) -> Result<Value> {
    Ok(ok(&merchant.api.get(&format!("{SUBSCRIPTIONS}/{subscription}")).await?).clone())
}

/// The id of a subscription whose first date was `days` ago and that has not been billed yet.
async fn create_overdue(merchant: &Merchant, body: Value, days: i32) -> Result<String> {
    // It starts in the future, so that nothing is billed before the backdating.
    let made = subscribe(merchant, crate::support::with(body, "startAt", "2199-01-01")).await?;
    set_first_date(merchant, &id(&made)?, &format!("current_date - {days}")).await?;
    id(&made)
}

/// Moves the first date of an unbilled subscription to a day, given as an SQL expression.
pub(crate) async fn set_first_date(merchant: &Merchant, subscription: &str, day: &str) -> Result<()> {
    let statement = format!(
        "UPDATE subscriptions SET anchor = {day}, next_billing_date = {day},
                next_billing_at = ({day})::timestamp AT TIME ZONE timezone
         WHERE id = $1 AND status = 'scheduled'"
    );
    let moved =
        sqlx::query(sqlx::AssertSqlSafe(statement)).bind(uuid(subscription)?).execute(&merchant.books.db).await?;
    assert_eq!(moved.rows_affected(), 1, "the subscription was already billed");
    Ok(())
}

/// Waits until no cycle is due, and returns the subscription.
async fn wait_until_billed(merchant: &Merchant, subscription: &str) -> Result<Value> {
    eventually("all cycles to be billed", async || {
        let query = "SELECT next_billing_at > now() FROM subscriptions WHERE id = $1";
        let is_done: bool = sqlx::query_scalar(query).bind(uuid(subscription)?).fetch_one(&merchant.books.db).await?;
        if is_done { Ok(Some(current(merchant, subscription).await?)) } else { Ok(None) }
    })
    .await
}

/// The invoices of a subscription as the API returns them, ordered by number.
async fn invoices(merchant: &Merchant, subscription: &str) -> Result<Vec<Value>> {
    let (mut invoices_found, mut after) = (Vec::new(), String::new());
    loop {
        let page = merchant.api.get(&format!("/v1/invoices?limit=100{after}")).await?;
        let rows = ok(&page)["data"].as_array().context("a list")?;
        invoices_found.extend(rows.iter().filter(|row| row["subscriptionId"] == subscription).cloned());
        match page.body["nextCursor"].as_str() {
            Some(cursor) => after = format!("&startingAfter={cursor}"),
            None => break,
        }
    }
    invoices_found.sort_by_key(|invoice| invoice["number"].as_str().unwrap_or_default().to_owned());
    Ok(invoices_found)
}

/// The billing periods of the invoices.
fn periods(invoices: &[Value]) -> Vec<&str> {
    invoices.iter().map(|invoice| invoice["billingPeriod"].as_str().unwrap_or_default()).collect()
}

/// The periods of the cycles from the subscription's anchor to now, computed by Postgres from `step`.
async fn cycles_until_now(merchant: &Merchant, subscription: &str, step: &str) -> Result<Vec<String>> {
    let query = "SELECT to_char(anchor + n * $2::text::interval, 'YYYY-MM-DD') || '/' ||
                        to_char(anchor + (n + 1) * $2::text::interval - interval '1 day', 'YYYY-MM-DD')
                 FROM subscriptions, generate_series(0, 10000) n
                 WHERE id = $1 AND (anchor + n * $2::text::interval) AT TIME ZONE timezone <= now() ORDER BY n";
    let all = sqlx::query_scalar(query).bind(uuid(subscription)?).bind(step).fetch_all(&merchant.books.db).await?;
    Ok(all)
}

/// The types of the events about a subscription, oldest first.
async fn event_types(merchant: &Merchant, subscription: &str) -> Result<Vec<String>> {
    Ok(merchant.books.events(subscription).await?.into_iter().map(|(kind, _)| kind).collect())
}
