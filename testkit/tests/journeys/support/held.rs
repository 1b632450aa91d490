//! Requests that the mock holds until a test releases them, so that no test depends on how long anything takes.

use anyhow::Result;
use sqlx::{Connection, PgConnection};
use testkit::Cluster;

use super::Merchant;

/// A transaction of the test that the mock waits for.
pub(crate) struct Held {
    transaction: PgConnection,
    end: &'static str,
}

impl Held {
    async fn begin(cluster: &Cluster, end: &'static str) -> Result<Self> {
        let mut transaction = PgConnection::connect(cluster.database_url()).await?;
        sqlx::query("BEGIN").execute(&mut transaction).await?;
        Ok(Self { transaction, end })
    }

    pub(crate) async fn release(mut self) -> Result<()> {
        sqlx::query(self.end).execute(&mut self.transaction).await?;
        Ok(self.transaction.close().await?)
    }
}

impl Merchant {
    /// Holds the mock's responses to all requests of this account, after it has executed them.
    pub(crate) async fn hold_responses(&self, cluster: &Cluster) -> Result<Held> {
        // Before it responds, the mock counts down the responses that it loses. When it can, there is none to lose.
        self.mock(cluster, &["--lose-responses", "1"]).await?;
        let mut held = Held::begin(cluster, "COMMIT").await?;
        let none = "UPDATE mock.accounts m SET lose_answers = 0 FROM provider_accounts p
                    WHERE p.id = m.id AND p.account_id = $1";
        sqlx::query(none).bind(self.books.account).execute(&mut held.transaction).await?;
        Ok(held)
    }

    /// Holds the charge with this reference, before the mock books it. The account must have a latency: without one, charges
    /// of other accounts may share its statement and wait, too.
    pub(crate) async fn hold_charge(&self, cluster: &Cluster, reference: &str) -> Result<Held> {
        let mut held = Held::begin(cluster, "ROLLBACK").await?;
        // The mock waits to learn whether there is an earlier charge with this reference.
        let earlier = "INSERT INTO mock.transactions
                           (id, account, kind, reference, approved, amount, currency, nature, occurred_at, unique_reference)
                       SELECT $2, id, 'sale', $2, true, 1, 'USD', 'tok_ok', now(), $2 FROM provider_accounts WHERE account_id = $1";
        sqlx::query(earlier).bind(self.books.account).bind(reference).execute(&mut held.transaction).await?;
        Ok(held)
    }
}
