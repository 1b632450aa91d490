//! The limit of recurring invoices and subscriptions in a test account, because an advance runs all their cycles.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Response;

use crate::recurring_invoices::{cadence, recurring};
use crate::signing::{Signed, live};
use crate::subscriptions::{plan, subscription_body};
use crate::support::{Merchant, cluster, concurrently, conflict, copies, created, id, merchant, ok, refused, with};

const RECURRING: &str = "/v1/recurring_invoices";
const SUBSCRIPTIONS: &str = "/v1/subscriptions";
/// The limit documented in docs/api.md, Limits.
const MAX: i32 = 1_000;

/// Request bodies of both kinds, which start in 2090.
struct Bodies {
    recurring: Value,
    subscription: Value,
}

impl Bodies {
    async fn of(merchant: &Merchant) -> Result<Self> {
        let customer = merchant.customer().await?;
        let plan = plan(merchant, "month").await?;
        Ok(Self {
            recurring: with(recurring(&customer, cadence("daily", 1)), "startDate", "2090-01-15"),
            subscription: with(subscription_body(&customer, &plan), "startAt", "2090-01-15"),
        })
    }
}

/// Copies the only recurring invoice of an account `times` times.
async fn copy(merchant: &Merchant, times: i32) -> Result<()> {
    let rows = "(SELECT * FROM recurring_invoices WHERE account_id = $1) t, generate_series(1, $2) n";
    let copy = copies("recurring_invoices", rows, "'id', new_ulid(now() - n * interval '1 second')");
    let copied = sqlx::query(copy).bind(merchant.books.account).bind(times).execute(&merchant.books.db).await?;
    assert_eq!(copied.rows_affected(), u64::try_from(times)?);
    Ok(())
}

async fn post(merchant: &Merchant, path: &str) -> Result<Response> {
    merchant.api.send(Method::POST, path, None).await
}

fn assert_limit_reached(response: &Response) {
    let message = refused(response, 409, "conflict")["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("1000") && message.contains("cancel one"), "{message}");
}

#[tokio::test]
async fn test_accounts_have_a_limit_of_recurring_billing() -> Result<()> {
    let merchant = merchant().await?;
    let bodies = Bodies::of(&merchant).await?;
    let recurring = async || merchant.api.post(RECURRING, bodies.recurring.clone()).await;
    let subscription = async || merchant.api.post(SUBSCRIPTIONS, bodies.subscription.clone()).await;
    let first = id(created(&recurring().await?))?;
    copy(&merchant, MAX - 3).await?;
    let subscribed = id(created(&subscription().await?))?;
    created(&recurring().await?);
    assert_limit_reached(&recurring().await?);
    assert_limit_reached(&subscription().await?);

    // A paused recurring invoice does not count, and cannot be resumed at the limit.
    ok(&post(&merchant, &format!("{RECURRING}/{first}/resume")).await?);
    ok(&post(&merchant, &format!("{RECURRING}/{first}/pause")).await?);
    created(&subscription().await?);
    assert_limit_reached(&post(&merchant, &format!("{RECURRING}/{first}/resume")).await?);
    assert_eq!(ok(&merchant.api.get(&format!("{RECURRING}/{first}")).await?)["status"], "paused");
    ok(&post(&merchant, &format!("{SUBSCRIPTIONS}/{subscribed}/cancel")).await?);
    ok(&post(&merchant, &format!("{RECURRING}/{first}/resume")).await?);
    assert_limit_reached(&recurring().await?);

    let other = Merchant::new(cluster().await?).await?;
    created(&other.api.post(RECURRING, Bodies::of(&other).await?.recurring).await?);
    Ok(())
}

#[tokio::test]
async fn concurrent_creations_do_not_exceed_the_limit() -> Result<()> {
    let merchant = merchant().await?;
    let bodies = Bodies::of(&merchant).await?;
    created(&merchant.api.post(RECURRING, bodies.recurring.clone()).await?);
    copy(&merchant, MAX - 6).await?;
    let responses = concurrently(16, async |n| match n % 2 {
        0 => merchant.api.post(RECURRING, bodies.recurring.clone()).await,
        _ => merchant.api.post(SUBSCRIPTIONS, bodies.subscription.clone()).await,
    })
    .await?;
    assert_eq!(responses.iter().filter(|response| response.status == 201).count(), 5);
    responses.iter().filter(|response| response.status != 201).for_each(conflict);
    Ok(())
}

/// A live account has no test clock, so it needs no limit.
#[tokio::test]
async fn live_accounts_have_no_such_limit() -> Result<()> {
    let live = live(cluster().await?).await?;
    let make = async |path: &str, body: &Value| -> Result<String> {
        let signed = Signed::new(&live, Method::POST, path, Some(&body.to_string()))?;
        id(created(&signed.sign().send(&live.api).await?))
    };
    let customer = make("/v1/customers", &json!({"email": "ada@example.com"})).await?;
    let body = with(recurring(&customer, cadence("daily", 1)), "startDate", "2090-01-15");
    make(RECURRING, &body).await?;
    copy(&live, MAX).await?;
    make(RECURRING, &body).await?;
    Ok(())
}
