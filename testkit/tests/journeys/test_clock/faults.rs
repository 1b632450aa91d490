//! Whoever advances a clock is taken away in the middle, or cannot do what is due.

use anyhow::{Context, Result};
use sqlx::Connection;
use sqlx::PgConnection;
use testkit::{Cluster, Kind};

use super::{CAPTURED, SETTLED, ends_after};
use crate::faults::own_cluster;
use crate::support::{Merchant, eventually, ok, uuid};

/// Payments that settle one after the other, and a clock that is stopped at one of them for as long as the connection holds
/// its row.
pub(super) struct Halfway {
    pub(super) payments: Vec<String>,
    holder: PgConnection,
}

const BEFORE: usize = 4;

impl Halfway {
    pub(super) async fn prepare(cluster: &Cluster, merchant: &Merchant) -> Result<Self> {
        let mut payments = Vec::new();
        for _ in 0..2 * BEFORE {
            payments.push(merchant.sold(1000).await?);
        }
        let mut holder = PgConnection::connect(cluster.database_url()).await?;
        sqlx::query("BEGIN").execute(&mut holder).await?;
        let lock = sqlx::query("SELECT FROM payments WHERE id = $1 FOR UPDATE");
        lock.bind(uuid(&payments[BEFORE])?).execute(&mut holder).await?;
        Ok(Self { payments, holder })
    }

    pub(super) async fn reached(&self, merchant: &Merchant) -> Result<()> {
        eventually("half of it", async || {
            let mut settled = 0;
            for payment in &self.payments {
                settled += usize::from(merchant.payment(payment).await?["settled"] == true);
            }
            assert!(settled <= BEFORE);
            Ok((settled == BEFORE).then_some(()))
        })
        .await
    }

    pub(super) async fn goes_on(&mut self) -> Result<()> {
        sqlx::query("ROLLBACK").execute(&mut self.holder).await?;
        Ok(())
    }

    async fn ends(self, merchant: &Merchant, to: &str) -> Result<()> {
        assert!(merchant.ticks().await?.as_str() >= to);
        for payment in &self.payments {
            ends_after(merchant, payment, CAPTURED, "1 minute", SETTLED).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn an_advance_goes_on_where_a_killed_worker_has_left_it() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    let mut halfway = Halfway::prepare(&cluster, &merchant).await?;
    let to = merchant.later(&merchant.now().await?, "1 day").await?;
    let (asked, killed) = tokio::join!(merchant.ask_to_advance(&to), async {
        halfway.reached(&merchant).await?;
        cluster.worker(0).kill9()?;
        let stands = merchant.clock().await?;
        assert_eq!(stands["pending"], true);
        assert!(stands["now"].as_str() < Some(&to), "{stands}");
        cluster.worker(0).restart().await?;
        halfway.goes_on().await
    });
    killed?;
    ok(&asked?);
    halfway.ends(&merchant, &to).await
}

#[tokio::test]
async fn a_worker_that_sleeps_through_its_lease_moves_no_clock_back() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    let mut halfway = Halfway::prepare(&cluster, &merchant).await?;
    let to = merchant.later(&merchant.now().await?, "1 day").await?;
    let (asked, slept) = tokio::join!(merchant.ask_to_advance(&to), async {
        halfway.reached(&merchant).await?;
        cluster.worker(0).pause()?;
        cluster.add(Kind::Worker).await?;
        halfway.goes_on().await
    });
    slept?;
    ok(&asked?);
    halfway.ends(&merchant, &to).await?;
    let before = merchant.now().await?;
    cluster.worker(0).resume()?;
    assert_eq!(cluster.worker(0).terminate().await?.code(), Some(0));
    assert!(merchant.now().await? >= before);
    let again = merchant.later(&before, "1 day").await?;
    merchant.advance_to(&again).await
}

#[tokio::test]
async fn an_advance_outlives_the_loss_of_redis_and_of_its_request() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    let sold = merchant.sold(1000).await?;
    let to = merchant.later(&merchant.now().await?, "1 day").await?;
    // Nobody is there to do it, and whoever has asked is gone.
    cluster.worker(0).kill9()?;
    let (_, stopped) = tokio::join!(merchant.ask_to_advance(&to), async {
        eventually("an advance", async || Ok(merchant.clock().await?.get("pending").map(drop))).await?;
        cluster.api(0).kill9()
    });
    stopped?;
    cluster.redis.flush_all().await?;
    cluster.worker(0).restart().await?;
    cluster.api(0).restart().await?;
    assert!(merchant.ticks().await? >= to);
    ends_after(&merchant, &sold, CAPTURED, "1 minute", SETTLED).await
}

/// A mistake of ours in one row must not stop an account's time.
#[tokio::test]
async fn what_cannot_be_done_is_told_and_left_behind() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    let (broken, sold) = (merchant.sold(1000).await?, merchant.sold(1000).await?);
    for statement in [
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$"
            .to_owned(),
        format!(
            "CREATE TRIGGER broken BEFORE UPDATE ON payments FOR EACH ROW WHEN (OLD.id = '{}') EXECUTE FUNCTION broken()",
            uuid(&broken)?
        ),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&merchant.books.db).await?;
    }
    merchant.advance("1 hour").await?;
    assert_eq!(merchant.payment(&sold).await?["settled"], true);
    assert_eq!(merchant.payment(&broken).await?["settled"], false);
    let log = cluster.worker(0).log();
    assert!(log.contains("stays due; the clock goes on"), "{log}");
    sqlx::query("DROP TRIGGER broken ON payments").execute(&merchant.books.db).await?;
    merchant.becomes(&broken, "settled").await.context("once it can be done")?;
    Ok(())
}
