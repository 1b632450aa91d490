//! Recurring invoices: what is kept and refused, on which dates they produce an invoice, and where they stand.
//!
//! Here time passes by rows that are moved back by hand. Each merchant lives where it is about noon, so that no test runs over
//! a midnight of theirs.

mod crowds;
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
use testkit::{Answer, Cluster};

use crate::support::{Merchant, cluster, created, eventually, id, ok, uuid, with};

const RECURRING: &str = "/v1/recurring_invoices";
const UNKNOWN: &str = "rinv_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// A merchant of the shared cluster, who lives where it is about noon.
async fn merchant() -> Result<Merchant> {
    merchant_of(cluster().await?).await
}

async fn merchant_of(cluster: &Cluster) -> Result<Merchant> {
    let merchant = Merchant::new(cluster).await?;
    // The zones of this form have their signs the other way round.
    let zone = "SELECT 'Etc/GMT' || to_char(extract(hour FROM now() AT TIME ZONE 'UTC') - 12, 'FMSG90')";
    let zone: String = sqlx::query_scalar(zone).fetch_one(&merchant.books.db).await?;
    cluster.ctl(&["accounts", "set", &merchant.account.id, "--timezone", &zone]).await?;
    Ok(merchant)
}

/// A day so many days from today, where the merchant lives.
pub(crate) async fn day(merchant: &Merchant, days: i32) -> Result<String> {
    let query = "SELECT to_char((now() AT TIME ZONE timezone)::date + $2, 'YYYY-MM-DD') FROM accounts WHERE id = $1";
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).bind(days).fetch_one(&merchant.books.db).await?)
}

/// A period of so many days that begins so many days from today.
async fn period(merchant: &Merchant, from: i32, days: i32) -> Result<String> {
    Ok(format!("{}/{}", day(merchant, from).await?, day(merchant, from + days - 1).await?))
}

pub(crate) fn cadence(unit: &str, interval: i32) -> Value {
    json!({"unit": unit, "interval": interval})
}

fn row(description: &str, quantity: i64, unit_amount: i64) -> Value {
    json!({"description": description, "quantity": quantity, "unitAmount": unit_amount})
}

fn template(unit_amount: i64) -> Value {
    json!({"currency": "USD", "paymentTerms": "net_7", "items": [row("Rent", 1, unit_amount)]})
}

/// The least that makes a recurring invoice.
pub(crate) fn recurring(customer: &str, cadence: Value) -> Value {
    json!({"customerId": customer, "cadence": cadence, "template": template(500)})
}

/// One that is far from producing anything, with these fields more.
fn dormant(customer: &str, cadence: Value) -> Value {
    with(recurring(customer, cadence), "startDate", "2090-01-15")
}

async fn make(merchant: &Merchant, body: Value) -> Result<Value> {
    Ok(created(&merchant.api.post(RECURRING, body).await?).clone())
}

/// Asks for something to be done to it, without a body.
async fn ask(merchant: &Merchant, recurring: &str, what: &str) -> Result<Answer> {
    merchant.api.send(reqwest::Method::POST, &format!("{RECURRING}/{recurring}/{what}"), None).await
}

async fn update(merchant: &Merchant, recurring: &str, body: Value) -> Result<Answer> {
    merchant.api.post(&format!("{RECURRING}/{recurring}"), body).await
}

/// As it stands.
async fn shown(merchant: &Merchant, recurring: &str) -> Result<Value> {
    Ok(ok(&merchant.api.get(&format!("{RECURRING}/{recurring}")).await?).clone())
}

/// Writes columns by hand.
async fn set(merchant: &Merchant, recurring: &str, columns: &str) -> Result<(), sqlx::Error> {
    let statement = format!("UPDATE recurring_invoices SET {columns} WHERE id = $1");
    let id = uuid(recurring).expect("an id");
    sqlx::query(AssertSqlSafe(statement)).bind(id).execute(&merchant.books.db).await.map(drop)
}

/// As if it had started on this day, and nobody had run it since.
pub(crate) async fn since(merchant: &Merchant, recurring: &str, start: &str) -> Result<()> {
    let columns = format!(
        "start_date = '{start}', anchor = '{start}', next_date = '{start}', next_run_at = '{start}'::timestamp AT TIME ZONE \
         (SELECT timezone FROM accounts WHERE id = account_id)"
    );
    Ok(set(merchant, recurring, &columns).await?)
}

/// Days pass for a recurring invoice and for what it has produced.
async fn days_pass(merchant: &Merchant, recurring: &str, days: i32) -> Result<()> {
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

/// It, once so many of its invoices were produced.
async fn has_produced(merchant: &Merchant, recurring: &str, count: i64) -> Result<Value> {
    eventually(&format!("{count} invoices"), async || {
        let shown = shown(merchant, recurring).await?;
        Ok((shown["occurrenceCount"] == count).then_some(shown))
    })
    .await
}

/// Its invoices as the API lists them, in the order of their periods.
async fn invoices(merchant: &Merchant, recurring: &str) -> Result<Vec<Value>> {
    let page = merchant.api.get("/v1/invoices?limit=100").await?;
    assert_eq!(ok(&page)["hasMore"], false, "a test makes less than a page");
    let rows = page.body["data"].as_array().context("a list")?;
    let mut rows: Vec<_> = rows.iter().filter(|row| row["recurringInvoiceId"] == recurring).cloned().collect();
    rows.sort_by_key(|row| row["billingPeriod"].to_string());
    Ok(rows)
}

/// The periods that were billed.
async fn periods(merchant: &Merchant, recurring: &str) -> Result<Vec<String>> {
    let rows = invoices(merchant, recurring).await?;
    rows.iter().map(|row| row["billingPeriod"].as_str().map(str::to_owned).context("a period")).collect()
}

/// The kinds of the events about it, in their order.
async fn told(merchant: &Merchant, recurring: &str) -> Result<Vec<String>> {
    Ok(merchant.books.events(recurring).await?.into_iter().map(|(kind, _)| kind).collect())
}

/// The id of a new one of a new customer that starts today, every so many units.
async fn starting_today(merchant: &Merchant, unit: &str, interval: i32) -> Result<String> {
    let customer = merchant.customer().await?;
    id(&make(merchant, recurring(&customer, cadence(unit, interval))).await?)
}

/// The id of a new one of a new customer that is far from producing anything.
async fn sleeper(merchant: &Merchant) -> Result<String> {
    id(&make(merchant, dormant(&merchant.customer().await?, cadence("monthly", 1))).await?)
}
