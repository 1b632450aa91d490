//! A worker that is paused during an advance, and due work that fails.

use anyhow::{Context, Result};
use sqlx::Connection;
use sqlx::PgConnection;
use testkit::{Cluster, ProcessKind};

use super::{CAPTURED, SETTLED, assert_ended_after};
use crate::faults::own_cluster;
use crate::support::{Merchant, eventually, ok, uuid};

/// Payments that settle one after another during an advance, which blocks at one of them while the connection locks its
/// row.
pub(super) struct BlockedAdvance {
    pub(super) payments: Vec<String>,
    lock_connection: PgConnection,
}

const BEFORE: usize = 4;

impl BlockedAdvance {
    pub(super) async fn prepare(cluster: &Cluster, merchant: &Merchant) -> Result<Self> {
        let mut payments = Vec::new();
        for _ in 0..2 * BEFORE {
            payments.push(merchant.charge(1000).await?);
        }
        let mut lock_connection = PgConnection::connect(cluster.database_url()).await?;
        sqlx::query("BEGIN").execute(&mut lock_connection).await?;
        let lock = sqlx::query("SELECT FROM payments WHERE id = $1 FOR UPDATE");
        lock.bind(uuid(&payments[BEFORE])?).execute(&mut lock_connection).await?;
        Ok(Self { payments, lock_connection })
    }

    pub(super) async fn wait_until_blocked(&self, merchant: &Merchant) -> Result<()> {
        eventually("the settlements before the lock", async || {
            let mut settled = 0;
            for payment in &self.payments {
                settled += usize::from(merchant.payment(payment).await?["settled"] == true);
            }
            assert!(settled <= BEFORE);
            Ok((settled == BEFORE).then_some(()))
        })
        .await
    }

    pub(super) async fn unblock(&mut self) -> Result<()> {
        sqlx::query("ROLLBACK").execute(&mut self.lock_connection).await?;
        Ok(())
    }

    async fn assert_completed(self, merchant: &Merchant, to: &str) -> Result<()> {
        assert!(merchant.wait_for_clock().await?.as_str() >= to);
        for payment in &self.payments {
            assert_ended_after(merchant, payment, CAPTURED, "1 minute", SETTLED).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn workers_paused_beyond_their_lease_do_not_move_clocks_back() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    let mut blocked = BlockedAdvance::prepare(&cluster, &merchant).await?;
    let to = merchant.later(&merchant.now().await?, "1 day").await?;
    let (response, paused) = tokio::join!(merchant.request_advance(&to), async {
        blocked.wait_until_blocked(&merchant).await?;
        cluster.worker(0).pause()?;
        let clock = merchant.clock().await?;
        assert_eq!(clock["pending"], true);
        assert!(clock["now"].as_str() < Some(&to), "{clock}");
        cluster.redis.flush_all().await?;
        cluster.add(ProcessKind::Worker).await?;
        blocked.unblock().await
    });
    paused?;
    ok(&response?);
    blocked.assert_completed(&merchant, &to).await?;
    let before = merchant.now().await?;
    cluster.worker(0).resume()?;
    assert_eq!(cluster.worker(0).terminate().await?.code(), Some(0));
    assert!(merchant.now().await? >= before);
    let next = merchant.later(&before, "1 day").await?;
    merchant.advance_to(&next).await
}

/// A row whose due work fails must not stop the account's clock.
#[tokio::test]
async fn failing_due_work_is_logged_and_skipped() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    let (failing, captured) = (merchant.charge(1000).await?, merchant.charge(1000).await?);
    for statement in [
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$"
            .to_owned(),
        format!(
            "CREATE TRIGGER broken BEFORE UPDATE ON payments FOR EACH ROW WHEN (OLD.id = '{}') EXECUTE FUNCTION broken()",
            uuid(&failing)?
        ),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&merchant.books.db).await?;
    }
    merchant.advance("1 hour").await?;
    assert_eq!(merchant.payment(&captured).await?["settled"], true);
    assert_eq!(merchant.payment(&failing).await?["settled"], false);
    let log = cluster.worker(0).log();
    assert!(log.contains("stays due; the advance continues"), "{log}");
    sqlx::query("DROP TRIGGER broken ON payments").execute(&merchant.books.db).await?;
    merchant.wait_for_status(&failing, "settled").await.context("after the trigger is dropped")?;
    Ok(())
}
