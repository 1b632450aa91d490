//! Holds transactions of the gateway in Postgres, so that a test can act while a request is at a known point.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::support::{World, wait_until};

/// Waits for the advisory lock of the test. A transaction of the gateway may have a short `lock_timeout`.
const WAIT: &str = "CREATE OR REPLACE FUNCTION public.wait_until_released() RETURNS trigger LANGUAGE plpgsql
    SET lock_timeout = 0 AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END'";
const HELD: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// The session that has the advisory lock.
pub(crate) struct Hold(PgConnection);

impl Hold {
    /// From now on, a transaction that inserts into this table waits in its commit. The wait ends after the
    /// `statement_timeout` of the gateway.
    pub(crate) async fn commits(world: &World, table: &str) -> Self {
        let mut session = world.database().await;
        let trigger = format!(
            "CREATE CONSTRAINT TRIGGER held AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION public.wait_until_released()"
        );
        for statement in [WAIT, &trigger, "SELECT pg_advisory_lock(1)"] {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut session).await.expect("the transactions are held");
        }
        Self(session)
    }

    /// Waits until a transaction is held.
    pub(crate) async fn reached(&self, world: &World) {
        wait_until("a held transaction", async || (world.number(HELD).await > 0).then_some(())).await;
    }

    /// Commits what is held.
    pub(crate) async fn release(self) {
        self.0.close().await.expect("released");
    }
}
