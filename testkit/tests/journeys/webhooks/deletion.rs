//! Deleting an endpoint: it is gone, and no attempt begins once that was answered.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use testkit::Answer;
use tokio::time::{Duration, Instant};

use super::{ENDPOINTS, Event, endpoint, merchant, pending};
use crate::support::{Merchant, eventually, ids, not_found, ok, together, uuid};

/// How long after its claim an attempt may begin: `START_WINDOW` of the program.
const START_WINDOW: Duration = Duration::from_secs(2);

async fn delete(merchant: &Merchant, endpoint: &str) -> Result<Answer> {
    merchant.api.delete(&format!("{ENDPOINTS}/{endpoint}")).await
}

/// A worker has taken a delivery and holds it for an hour.
async fn claim(merchant: &Merchant, delivery: &str, db: impl sqlx::PgExecutor<'_>) -> Result<()> {
    sqlx::query(
        "UPDATE webhook_pending SET due_at = clock_timestamp(), lease_until = clock_timestamp() + interval '1 hour'
         WHERE account_id = $1 AND id = $2",
    )
    .bind(merchant.books.account)
    .bind(uuid(delivery)?)
    .execute(db)
    .await?;
    Ok(())
}

#[tokio::test]
async fn what_is_deleted_is_gone() -> Result<()> {
    let merchant = merchant().await?;
    let (gone, kept) = (endpoint(&merchant).await?, endpoint(&merchant).await?);
    let answer = delete(&merchant, &gone).await?;
    assert_eq!(ok(&answer), &json!({"id": gone, "object": "webhook_endpoint", "deleted": true}));
    let path = format!("{ENDPOINTS}/{gone}");
    not_found(&merchant.api.get(&path).await?);
    not_found(&merchant.api.post(&path, json!({"status": "enabled"})).await?);
    not_found(&merchant.api.send(Method::POST, &format!("{path}/rotate_secret"), None).await?);
    not_found(&delete(&merchant, &gone).await?);
    assert_eq!(ids(&merchant.api.get(ENDPOINTS).await?), [kept]);
    Ok(())
}

#[tokio::test]
async fn of_many_deletions_one_succeeds() -> Result<()> {
    let merchant = merchant().await?;
    let endpoint = endpoint(&merchant).await?;
    let answers = together(8, async |_| delete(&merchant, &endpoint).await).await?;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!(won.len(), 1);
    lost.into_iter().for_each(not_found);
    Ok(())
}

#[tokio::test]
async fn an_attempt_that_was_claimed_is_given_time_to_begin() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::of(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let claimed = pending(&merchant, &endpoint, &event).await?;
    claim(&merchant, &claimed, &merchant.books.db).await?;
    let asked = Instant::now();
    ok(&delete(&merchant, &endpoint).await?);
    // Not how fast it is: what was claimed a moment ago might have begun until then.
    assert!(asked.elapsed() >= START_WINDOW, "answered while an attempt could still begin");
    Ok(())
}

#[tokio::test]
async fn a_claim_that_is_being_made_is_waited_for() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::of(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let delivery = pending(&merchant, &endpoint, &event).await?;

    // A worker in the middle of its claim holds the endpoint's key.
    let mut worker = merchant.books.db.begin().await?;
    let key = "SELECT id FROM webhook_endpoints WHERE id = $1 FOR KEY SHARE";
    sqlx::query(key).bind(uuid(&endpoint)?).execute(&mut *worker).await?;
    let deletion = async {
        let answer = delete(&merchant, &endpoint).await?;
        Ok::<_, anyhow::Error>((answer, Instant::now()))
    };
    let claiming = async {
        eventually("the deletion to wait for the claim", async || {
            let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
                           AND wait_event_type = 'Lock' AND query LIKE '%webhook_endpoints%FOR UPDATE%')";
            let waits: bool = sqlx::query_scalar(waiting).fetch_one(&merchant.books.db).await?;
            Ok(waits.then_some(()))
        })
        .await?;
        claim(&merchant, &delivery, &mut *worker).await?;
        let claimed = Instant::now();
        worker.commit().await?;
        Ok(claimed)
    };
    let ((answer, answered), claimed) = tokio::try_join!(deletion, claiming)?;
    ok(&answer);
    assert!(answered - claimed >= START_WINDOW, "answered while the attempt could still begin");
    Ok(())
}
