//! The test clock of an account. Times are strings as the API prints them, so they compare in chronological order.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::Response;

use super::{Merchant, eventually, ok, uuid};

/// The current time in seconds, as signatures of merchants and of Stripe contain it.
#[expect(clippy::disallowed_methods, reason = "a signature contains the time of the clock of its creator")]
pub(crate) fn unix_time() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?)
}

const CLOCK: &str = "/v1/test_clock";

impl Merchant {
    /// The account's test clock.
    pub(crate) async fn clock(&self) -> Result<Value> {
        let response = self.api.get(CLOCK).await?;
        assert_eq!(ok(&response)["object"], "test_clock");
        Ok(response.body)
    }

    /// The current time of the account.
    pub(crate) async fn now(&self) -> Result<String> {
        Ok(self.clock().await?["now"].as_str().context("a time")?.to_owned())
    }

    /// The time `by` after `than`.
    pub(crate) async fn later(&self, than: &str, by: &str) -> Result<String> {
        let later = sqlx::query_scalar(
            r#"SELECT to_char(($1::timestamptz + $2::interval) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"#,
        );
        Ok(later.bind(than).bind(by).fetch_one(&self.books.db).await?)
    }

    /// Requests an advance of the clock.
    pub(crate) async fn request_advance(&self, to: &str) -> Result<Response> {
        self.api.post(&format!("{CLOCK}/advance"), json!({"to": to})).await
    }

    /// Advances the clock and asserts that everything due by then has run.
    pub(crate) async fn advance_to(&self, to: &str) -> Result<()> {
        ok(&self.request_advance(to).await?);
        // The response of a long advance comes before its end.
        let now = self.wait_for_clock().await?;
        assert!(now.as_str() >= to, "{now} instead of {to}");
        Ok(())
    }

    /// Advances the clock by an interval and returns the new time.
    pub(crate) async fn advance(&self, by: &str) -> Result<String> {
        let to = self.later(&self.now().await?, by).await?;
        self.advance_to(&to).await?;
        Ok(to)
    }

    /// Waits until no advance is pending and returns the time.
    pub(crate) async fn wait_for_clock(&self) -> Result<String> {
        eventually("the end of an advance", async || {
            let clock = self.clock().await?;
            Ok(clock.get("pending").is_none().then(|| clock["now"].as_str().unwrap_or_default().to_owned()))
        })
        .await
    }

    /// The types and timestamps of the events about an object, in the order of writing.
    pub(crate) async fn event_history(&self, object: &str) -> Result<Vec<(String, String)>> {
        let rows = sqlx::query_as(
            "SELECT type, payload::json ->> 'timestamp' FROM events
             WHERE account_id = $1 AND payload::json -> 'data' -> 'object' ->> 'id' = $2 ORDER BY created_at, id",
        );
        Ok(rows.bind(self.books.account).bind(object).fetch_all(&self.books.db).await?)
    }

    /// Waits until the mock has booked the merchant's only charge, and settles it there.
    pub(crate) async fn settle_when_booked(&self) -> Result<()> {
        let settle = "UPDATE mock.transactions t SET occurred_at = occurred_at - interval '1 hour', settled_at = now()
                      FROM provider_accounts p
                      WHERE p.id = t.account AND p.account_id = $1 AND t.kind = 'sale' AND t.settled_at IS NULL";
        eventually("the charge", async || {
            let settled = sqlx::query(settle).bind(self.books.account).execute(&self.books.db).await?;
            Ok((settled.rows_affected() == 1).then_some(()))
        })
        .await
    }

    /// Moves the charge back by `booked` at the provider, and its next inquiry to `at` on the account's clock.
    pub(crate) async fn schedule_inquiry(&self, payment: &str, booked: &str, at: &str) -> Result<()> {
        let earlier = sqlx::query(
            "UPDATE mock.transactions t SET occurred_at = occurred_at - $2::interval FROM payments p
             WHERE t.id = p.provider_ref AND p.id = $1",
        );
        earlier.bind(uuid(payment)?).bind(booked).execute(&self.books.db).await?;
        let due = sqlx::query("UPDATE payments SET inquiry_at = $2::timestamptz WHERE id = $1");
        due.bind(uuid(payment)?).bind(at).execute(&self.books.db).await?;
        Ok(())
    }
}
