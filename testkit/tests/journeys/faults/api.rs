//! The API is killed right after it has written an operation.

use anyhow::Result;

use super::{assert_all_ready, own_cluster};
use crate::support::{Merchant, created, eventually, id, sale};

#[tokio::test]
async fn a_payment_of_a_killed_api_is_finished_by_the_sweep() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    cluster.worker(0).pause()?;
    let kill = async {
        eventually("the operation", async || Ok((merchant.books.operations().await? == 1).then_some(()))).await?;
        cluster.api(0).kill9()
    };
    let (response, killed) = tokio::join!(merchant.pay_with_key("k", sale(1500)), kill);
    killed?;
    assert!(response.is_err(), "a killed api cannot respond");
    // Remove a push that may have reached Redis, so that only the row is left.
    cluster.redis.flush_all().await?;
    cluster.worker(0).resume()?;
    cluster.api(0).restart().await?;

    let payment = merchant.only_payment().await?;
    assert_eq!(payment["status"], "pending_settlement");
    let retry = merchant.pay_with_key("k", sale(1500)).await?;
    assert_eq!((created(&retry), retry.header("idempotent-replayed")), (&payment, Some("true")));
    assert_eq!(id(&retry.body)?, id(&payment)?);
    assert_eq!(merchant.books.charges().await?, 1);
    merchant.books.audit().await?;
    assert_all_ready(&mut cluster).await
}
