//! An account's time, as its merchant reads and moves it. Instants are texts as the API prints them, which are in the order of
//! time.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::Answer;

use super::{Merchant, eventually, ok, uuid};

const CLOCK: &str = "/v1/test_clock";

impl Merchant {
    /// The account's test clock.
    pub(crate) async fn clock(&self) -> Result<Value> {
        let answer = self.api.get(CLOCK).await?;
        assert_eq!(ok(&answer)["object"], "test_clock");
        Ok(answer.body)
    }

    /// The account's time.
    pub(crate) async fn now(&self) -> Result<String> {
        Ok(self.clock().await?["now"].as_str().context("a time")?.to_owned())
    }

    /// An instant and so much more.
    pub(crate) async fn later(&self, than: &str, by: &str) -> Result<String> {
        let later = sqlx::query_scalar(
            r#"SELECT to_char(($1::timestamptz + $2::interval) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"#,
        );
        Ok(later.bind(than).bind(by).fetch_one(&self.books.db).await?)
    }

    /// Asks for the clock to be advanced.
    pub(crate) async fn ask_to_advance(&self, to: &str) -> Result<Answer> {
        self.api.post(&format!("{CLOCK}/advance"), json!({"to": to})).await
    }

    /// Advances the clock to an instant; all that fell due up to then has run.
    pub(crate) async fn advance_to(&self, to: &str) -> Result<()> {
        let answer = self.ask_to_advance(to).await?;
        assert!(ok(&answer).get("pending").is_none(), "{}", answer.body);
        assert!(answer.body["now"].as_str().is_some_and(|now| now >= to), "{} instead of {to}", answer.body);
        Ok(())
    }

    /// Advances the clock by so much, and answers where to.
    pub(crate) async fn advance(&self, by: &str) -> Result<String> {
        let to = self.later(&self.now().await?, by).await?;
        self.advance_to(&to).await?;
        Ok(to)
    }

    /// Once the clock is not being advanced any more.
    pub(crate) async fn ticks(&self) -> Result<String> {
        eventually("the end of an advance", async || {
            let clock = self.clock().await?;
            Ok(clock.get("pending").is_none().then(|| clock["now"].as_str().unwrap_or_default().to_owned()))
        })
        .await
    }

    /// What the events about an object are called and when they happened, in the order in which they were written.
    pub(crate) async fn history(&self, object: &str) -> Result<Vec<(String, String)>> {
        let rows = sqlx::query_as(
            "SELECT type, payload::json ->> 'timestamp' FROM events
             WHERE account_id = $1 AND payload::json -> 'data' -> 'object' ->> 'id' = $2 ORDER BY created_at, id",
        );
        Ok(rows.bind(self.books.account).bind(object).fetch_all(&self.books.db).await?)
    }

    /// The provider booked this charge earlier, and it is asked for at this instant of the account's time.
    pub(crate) async fn charge_is_asked_for(&self, payment: &str, booked: &str, at: &str) -> Result<()> {
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
