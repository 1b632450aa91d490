//! The mock provider's ledger compared with our rows. Both are read from the database, because the API cannot vouch for
//! itself.

use anyhow::{Context, Result};
use serde_json::Value;
use sqlx::{PgPool, postgres::PgPoolOptions};
use testkit::Account;
use ulid::Ulid;
use uuid::Uuid;

/// The UUID of an API id.
pub(crate) fn uuid(id: &str) -> Result<Uuid> {
    let (_, ulid) = id.rsplit_once('_').with_context(|| format!("{id} is not an id"))?;
    let ulid = Ulid::from_string(ulid).ok().with_context(|| format!("{id} is not an id"))?;
    Ok(Uuid::from_u128(ulid.0))
}

/// Formats an id as the API does.
pub(crate) fn api_id(prefix: &str, id: Uuid) -> String {
    format!("{prefix}{}", Ulid(id.as_u128()))
}

/// The books of one merchant.
#[derive(Clone)]
pub(crate) struct Books {
    pub(crate) db: PgPool,
    pub(crate) account: Uuid,
}

impl Books {
    pub(crate) fn open(database_url: &str, account: &Account) -> Result<Self> {
        let db = PgPoolOptions::new().max_connections(2).connect_lazy(database_url)?;
        Ok(Self { db, account: uuid(&account.id)? })
    }

    pub(crate) async fn count(&self, query: &'static str) -> Result<i64> {
        Ok(sqlx::query_scalar(query).bind(self.account).fetch_one(&self.db).await?)
    }

    /// Charges that reached the mock, including declined ones.
    pub(crate) async fn charges(&self) -> Result<i64> {
        self.count(
            "SELECT count(*) FROM mock.transactions t JOIN provider_accounts p ON p.id = t.account
             WHERE p.account_id = $1 AND t.kind IN ('sale', 'authorize')",
        )
        .await
    }

    /// Payments without a known outcome.
    pub(crate) async fn unfinished(&self) -> Result<i64> {
        self.count("SELECT count(*) FROM payments WHERE account_id = $1 AND status = 'processing'").await
    }

    /// Operations, whatever their state.
    pub(crate) async fn operations(&self) -> Result<i64> {
        self.count("SELECT count(*) FROM operations WHERE account_id = $1").await
    }

    /// Operations whose request to the mock is in flight.
    pub(crate) async fn in_flight(&self) -> Result<i64> {
        self.count("SELECT count(*) FROM operations WHERE account_id = $1 AND state = 'sending'").await
    }

    /// Payments with this requested amount. A test that gives each request its own amount finds them by it.
    pub(crate) async fn payments_with_amount(&self, amount: i64) -> Result<i64> {
        let query = "SELECT count(*) FROM payments WHERE account_id = $1 AND amount_requested = $2";
        Ok(sqlx::query_scalar(query).bind(self.account).bind(amount).fetch_one(&self.db).await?)
    }

    /// The mock's transactions of a payment, such as `authorize 10, capture 4`, with their final state, such as
    /// `sale 10 settled`.
    pub(crate) async fn ledger(&self, payment: &str) -> Result<String> {
        let lines: Vec<String> = sqlx::query_scalar(
            "SELECT concat_ws(' ', t.kind, t.amount, CASE WHEN t.settled_at IS NOT NULL THEN 'settled' END,
                        CASE WHEN t.expired_at IS NOT NULL THEN 'expired' END,
                        CASE WHEN t.voided_at IS NOT NULL THEN 'voided' END)
             FROM payments p JOIN mock.transactions t ON t.account = p.provider_account_id
                AND p.provider_ref IN (t.id, t.parent)
             WHERE p.account_id = $1 AND p.id = $2 ORDER BY t.parent NULLS FIRST, t.created_at",
        )
        .bind(self.account)
        .bind(uuid(payment)?)
        .fetch_all(&self.db)
        .await?;
        Ok(lines.join(", "))
    }

    /// The events about an object, oldest first, each with the object in its payload.
    pub(crate) async fn events(&self, object: &str) -> Result<Vec<(String, Value)>> {
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT type, payload FROM events WHERE account_id = $1
             AND payload::json -> 'data' -> 'object' ->> 'id' = $2 ORDER BY created_at, id",
        )
        .bind(self.account)
        .bind(object)
        .fetch_all(&self.db)
        .await?;
        let object_of =
            |payload: &str| serde_json::from_str::<Value>(payload).map(|event| event["data"]["object"].clone());
        rows.into_iter().map(|(kind, payload)| Ok((kind, object_of(&payload)?))).collect()
    }

    /// Asserts that nothing is unfinished, and that approved charges at the mock and payments correspond one to one.
    pub(crate) async fn audit(&self) -> Result<()> {
        let failed = self.count("SELECT count(*) FROM payments WHERE account_id = $1 AND status = 'failed'").await?;
        assert_eq!(failed, 0, "failed payments");
        self.audit_with_failed_payments().await
    }

    /// As [`Self::audit`], except that payments may have failed, and have no charge then.
    pub(crate) async fn audit_with_failed_payments(&self) -> Result<()> {
        let without_one_charge = self
            .count(
                "SELECT count(*) FROM payments p WHERE p.account_id = $1 AND (p.status <> 'failed')::int <> (
                     SELECT count(*) FROM mock.transactions t JOIN operations o
                         ON o.reference = t.reference AND o.provider_account_id = t.account
                     WHERE o.payment_id = p.id AND t.approved AND t.kind IN ('sale', 'authorize'))",
            )
            .await?;
        assert_eq!(without_one_charge, 0, "payments without exactly one approved charge");
        let without_payment = self
            .count(
                "SELECT count(*) FROM mock.transactions t JOIN provider_accounts a ON a.id = t.account
                 WHERE a.account_id = $1 AND t.approved AND t.kind IN ('sale', 'authorize') AND NOT EXISTS (
                     SELECT FROM payments p WHERE p.provider_account_id = t.account AND p.provider_ref = t.id
                         AND p.amount = t.amount AND p.status NOT IN ('processing', 'declined', 'failed'))",
            )
            .await?;
        assert_eq!(without_payment, 0, "approved charges without a payment");
        assert_eq!(self.unfinished().await?, 0, "payments that are still processing");
        let anomalies = self.count("SELECT count(*) FROM charge_anomalies WHERE account_id = $1").await?;
        assert_eq!(anomalies, 0, "second charges");
        Ok(())
    }
}
