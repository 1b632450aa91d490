//! Recurring invoices: fields, dates, runs, failures and states.
//!
//! The tests simulate elapsed time by backdating rows. Each merchant gets a time zone where it is about noon, so that
//! no test crosses midnight.

mod concurrency;
mod dates;
mod failures;
mod fields;
mod lists;
mod runs;
mod states;
mod updates;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use testkit::{Cluster, Response};

use crate::invoices::row;
use crate::support::{Merchant, cluster, created, eventually, id, ok, uuid, with};

const RECURRING: &str = "/v1/recurring_invoices";
const UNKNOWN: &str = "rinv_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// A merchant of the shared cluster, in a time zone where it is about noon.
async fn merchant() -> Result<Merchant> {
    merchant_in(cluster().await?).await
}

async fn merchant_in(cluster: &Cluster) -> Result<Merchant> {
    let merchant = Merchant::new(cluster).await?;
    // Etc/GMT zones have inverted signs.
    let zone = "SELECT 'Etc/GMT' || to_char(extract(hour FROM now() AT TIME ZONE 'UTC') - 12, 'FMSG90')";
    let zone: String = sqlx::query_scalar(zone).fetch_one(&merchant.books.db).await?;
    cluster.ctl(&["accounts", "set", &merchant.account.id, "--timezone", &zone]).await?;
    Ok(merchant)
}

/// The date `days` from today in the merchant's time zone.
pub(crate) async fn day(merchant: &Merchant, days: i32) -> Result<String> {
    let query = "SELECT to_char((now() AT TIME ZONE timezone)::date + $2, 'YYYY-MM-DD') FROM accounts WHERE id = $1";
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).bind(days).fetch_one(&merchant.books.db).await?)
}

/// A billing period of `days` that starts `from` days from today.
async fn period(merchant: &Merchant, from: i32, days: i32) -> Result<String> {
    Ok(format!("{}/{}", day(merchant, from).await?, day(merchant, from + days - 1).await?))
}

pub(crate) fn cadence(unit: &str, interval: i32) -> Value {
    json!({"unit": unit, "interval": interval})
}

fn template(unit_amount: i64) -> Value {
    json!({"currency": "USD", "paymentTerms": "net_7", "items": [row("Rent", 1, unit_amount)]})
}

/// A recurring invoice body with only the required fields.
pub(crate) fn recurring(customer: &str, cadence: Value) -> Value {
    json!({"customerId": customer, "cadence": cadence, "template": template(500)})
}

/// A body that starts in 2090, so that it produces nothing during a test.
fn starting_in_2090(customer: &str, cadence: Value) -> Value {
    with(recurring(customer, cadence), "startDate", "2090-01-15")
}

async fn make(merchant: &Merchant, body: Value) -> Result<Value> {
    Ok(created(&merchant.api.post(RECURRING, body).await?).clone())
}

/// Posts an action (pause, resume, cancel), without a body.
async fn ask(merchant: &Merchant, recurring: &str, action: &str) -> Result<Response> {
    merchant.api.send(reqwest::Method::POST, &format!("{RECURRING}/{recurring}/{action}"), None).await
}

async fn update(merchant: &Merchant, recurring: &str, body: Value) -> Result<Response> {
    merchant.api.post(&format!("{RECURRING}/{recurring}"), body).await
}

async fn current(merchant: &Merchant, recurring: &str) -> Result<Value> {
    Ok(ok(&merchant.api.get(&format!("{RECURRING}/{recurring}")).await?).clone())
}

/// Updates columns directly.
async fn set(merchant: &Merchant, recurring: &str, columns: &str) -> Result<(), sqlx::Error> {
    let statement = format!("UPDATE recurring_invoices SET {columns} WHERE id = $1");
    let id = uuid(recurring).expect("an id");
    sqlx::query(AssertSqlSafe(statement)).bind(id).execute(&merchant.books.db).await.map(drop)
}

/// Backdates the start to this day, as if no scheduler had run since.
pub(crate) async fn backdate_start(merchant: &Merchant, recurring: &str, start: &str) -> Result<()> {
    let columns = format!(
        "start_date = '{start}', anchor = '{start}', next_date = '{start}', next_run_at = '{start}'::timestamp AT TIME ZONE \
         (SELECT timezone FROM accounts WHERE id = account_id)"
    );
    Ok(set(merchant, recurring, &columns).await?)
}

/// Backdates a recurring invoice and its invoices by this many days.
async fn backdate_by(merchant: &Merchant, recurring: &str, days: i32) -> Result<()> {
    let mut tx = merchant.books.db.begin().await?;
    sqlx::query(
        "UPDATE invoices SET billing_period = (split_part(billing_period, '/', 1)::date - $2)::text || '/'
             || (split_part(billing_period, '/', 2)::date - $2)::text WHERE recurring_invoice_id = $1",
    )
    .bind(uuid(recurring)?)
    .bind(days)
    .execute(&mut *tx)
    .await?;
    sqlx::query(
        "UPDATE recurring_invoices SET start_date = start_date - $2, end_date = end_date - $2, anchor = anchor - $2,
             next_date = next_date - $2, next_run_at = next_run_at - make_interval(days => $2),
             last_billed_date = last_billed_date - $2 WHERE id = $1",
    )
    .bind(uuid(recurring)?)
    .bind(days)
    .execute(&mut *tx)
    .await?;
    Ok(tx.commit().await?)
}

/// Waits until it has produced this many invoices, and returns it.
async fn wait_for_invoices(merchant: &Merchant, recurring: &str, count: i64) -> Result<Value> {
    eventually(&format!("{count} invoices"), async || {
        let current = current(merchant, recurring).await?;
        Ok((current["occurrenceCount"] == count).then_some(current))
    })
    .await
}

/// Its invoices as the API lists them, ordered by period.
async fn invoices(merchant: &Merchant, recurring: &str) -> Result<Vec<Value>> {
    let page = merchant.api.get("/v1/invoices?limit=100").await?;
    assert_eq!(ok(&page)["hasMore"], false, "a test creates less than a page");
    let rows = page.body["data"].as_array().context("a list")?;
    let mut rows: Vec<_> = rows.iter().filter(|row| row["recurringInvoiceId"] == recurring).cloned().collect();
    rows.sort_by_key(|row| row["billingPeriod"].to_string());
    Ok(rows)
}

/// The billed periods.
async fn periods(merchant: &Merchant, recurring: &str) -> Result<Vec<String>> {
    let rows = invoices(merchant, recurring).await?;
    rows.iter().map(|row| row["billingPeriod"].as_str().map(str::to_owned).context("a period")).collect()
}

/// The types of the events about it, oldest first.
async fn event_types(merchant: &Merchant, recurring: &str) -> Result<Vec<String>> {
    Ok(merchant.books.events(recurring).await?.into_iter().map(|(kind, _)| kind).collect())
}

/// The id of a new recurring invoice of a new customer that starts today.
async fn starting_today(merchant: &Merchant, unit: &str, interval: i32) -> Result<String> {
    let customer = merchant.customer().await?;
    id(&make(merchant, recurring(&customer, cadence(unit, interval))).await?)
}

/// The id of a new recurring invoice of a new customer that starts in 2090.
async fn create_future(merchant: &Merchant) -> Result<String> {
    id(&make(merchant, starting_in_2090(&merchant.customer().await?, cadence("monthly", 1))).await?)
}
