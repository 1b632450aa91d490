//! How much of what bills itself a test account may have, since each cycle on the way of its clock is made.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Answer;

use crate::recurring_invoices::{cadence, recurring};
use crate::signing::{Signed, live};
use crate::subscriptions::{plan, wanted};
use crate::support::{Merchant, cluster, conflict, created, id, merchant, ok, refused, together, with};

const RECURRING: &str = "/v1/recurring_invoices";
const SUBSCRIPTIONS: &str = "/v1/subscriptions";
/// As docs/api.md says, Limits.
const MOST: i32 = 1_000;

/// What both kinds are made of; neither produces anything for long.
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
            subscription: with(wanted(&customer, &plan), "startAt", "2090-01-15"),
        })
    }
}

/// Copies the only recurring invoice of an account so many times.
async fn copy(merchant: &Merchant, times: i32) -> Result<()> {
    let copy = sqlx::query(
        "INSERT INTO recurring_invoices
         SELECT (jsonb_populate_record(r, jsonb_build_object('id', new_ulid(now() - n * interval '1 second')))).*
         FROM recurring_invoices r, generate_series(1, $2) n WHERE r.account_id = $1",
    );
    let copied = copy.bind(merchant.books.account).bind(times).execute(&merchant.books.db).await?;
    assert_eq!(copied.rows_affected(), u64::try_from(times)?);
    Ok(())
}

async fn post(merchant: &Merchant, path: &str) -> Result<Answer> {
    merchant.api.send(Method::POST, path, None).await
}

fn is_full(answer: &Answer) {
    let message = refused(answer, 409, "conflict")["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("1000") && message.contains("cancel one"), "{message}");
}

#[tokio::test]
async fn what_bills_itself_in_a_test_account_has_a_bound() -> Result<()> {
    let merchant = merchant().await?;
    let bodies = Bodies::of(&merchant).await?;
    let recurring = async || merchant.api.post(RECURRING, bodies.recurring.clone()).await;
    let subscription = async || merchant.api.post(SUBSCRIPTIONS, bodies.subscription.clone()).await;
    let first = id(created(&recurring().await?))?;
    copy(&merchant, MOST - 3).await?;
    let subscribed = id(created(&subscription().await?))?;
    created(&recurring().await?);
    is_full(&recurring().await?);
    is_full(&subscription().await?);

    // One that is paused takes no room, and finds none when others have taken it.
    ok(&post(&merchant, &format!("{RECURRING}/{first}/resume")).await?);
    ok(&post(&merchant, &format!("{RECURRING}/{first}/pause")).await?);
    created(&subscription().await?);
    is_full(&post(&merchant, &format!("{RECURRING}/{first}/resume")).await?);
    assert_eq!(ok(&merchant.api.get(&format!("{RECURRING}/{first}")).await?)["status"], "paused");
    ok(&post(&merchant, &format!("{SUBSCRIPTIONS}/{subscribed}/cancel")).await?);
    ok(&post(&merchant, &format!("{RECURRING}/{first}/resume")).await?);
    is_full(&recurring().await?);

    let other = Merchant::new(cluster().await?).await?;
    created(&other.api.post(RECURRING, Bodies::of(&other).await?.recurring).await?);
    Ok(())
}

#[tokio::test]
async fn of_many_at_once_no_more_find_room_than_there_is() -> Result<()> {
    let merchant = merchant().await?;
    let bodies = Bodies::of(&merchant).await?;
    created(&merchant.api.post(RECURRING, bodies.recurring.clone()).await?);
    copy(&merchant, MOST - 6).await?;
    let answers = together(16, async |n| match n % 2 {
        0 => merchant.api.post(RECURRING, bodies.recurring.clone()).await,
        _ => merchant.api.post(SUBSCRIPTIONS, bodies.subscription.clone()).await,
    })
    .await?;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 5);
    answers.iter().filter(|answer| answer.status != 201).for_each(conflict);
    Ok(())
}

/// A live account has no clock to move, and as many as it has customers.
#[tokio::test]
async fn a_live_account_has_no_such_bound() -> Result<()> {
    let live = live(cluster().await?).await?;
    let make = async |path: &str, body: &Value| -> Result<String> {
        let signed = Signed::new(&live, Method::POST, path, Some(&body.to_string()))?;
        id(created(&signed.sign().send(&live.api).await?))
    };
    let customer = make("/v1/customers", &json!({"email": "ada@example.com"})).await?;
    let body = with(recurring(&customer, cadence("daily", 1)), "startDate", "2090-01-15");
    make(RECURRING, &body).await?;
    copy(&live, MOST).await?;
    make(RECURRING, &body).await?;
    Ok(())
}
