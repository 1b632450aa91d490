//! The API dies right after it has written the intent.

use anyhow::Result;

use super::{all_are_ready, own_cluster};
use crate::support::{Merchant, created, eventually, id, sale};

#[tokio::test]
async fn a_payment_whose_api_died_is_finished_by_the_sweep() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    cluster.worker(0).pause()?;
    let dying = async {
        eventually("the intent", async || Ok((merchant.books.operations().await? == 1).then_some(()))).await?;
        cluster.api(0).kill9()
    };
    let (answer, died) = tokio::join!(merchant.pay_once("k", sale(1500)), dying);
    died?;
    assert!(answer.is_err(), "nobody was there to answer");
    // Even if the push came through: only the row is left to tell of the payment.
    cluster.redis.flush_all().await?;
    cluster.worker(0).resume()?;
    cluster.api(0).restart().await?;

    let payment = merchant.only_payment().await?;
    assert_eq!(payment["status"], "pending_settlement");
    let retry = merchant.pay_once("k", sale(1500)).await?;
    assert_eq!((created(&retry), retry.header("idempotent-replayed")), (&payment, Some("true")));
    assert_eq!(id(&retry.body)?, id(&payment)?);
    assert_eq!(merchant.books.charges().await?, 1);
    merchant.books.audit().await?;
    all_are_ready(&mut cluster).await
}
