//! The provider charges and its answer is lost, or it will not serve at all.

use anyhow::Result;

use super::{for_a_person, own_cluster, scheduler_url};
use crate::support::{Merchant, cluster, created, eventually, id, merchant, ok, payment, refused, sale, with};

#[tokio::test]
async fn a_lost_answer_is_found_again() -> Result<()> {
    let cluster = cluster().await?;
    for class in ["A", "B"] {
        let merchant = merchant().await?;
        merchant.mock(cluster, &["--class", class, "--lose-answer", "3"]).await?;
        let approved = async { merchant.pay_once("k", sale(1500)).await };
        let held = async { merchant.api.post("/v1/payments", with(sale(700), "capture", false)).await };
        let half = async { merchant.api.post("/v1/payments", payment(900, "tok_partial")).await };
        let (approved, held, half) = tokio::try_join!(approved, held, half)?;
        for (answer, status) in
            [(&approved, "pending_settlement"), (&held, "authorized"), (&half, "partially_authorized")]
        {
            assert_eq!(merchant.finished(&id(created(answer))?).await?["status"], status, "class {class}");
        }
        assert_eq!(merchant.books.charges().await?, 3, "class {class}");
        merchant.books.audit().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_lost_decline_is_found_again() -> Result<()> {
    let merchant = merchant().await?;
    merchant.mock(cluster().await?, &["--class", "B", "--lose-answer", "1"]).await?;
    let answer = merchant.api.post("/v1/payments", payment(900, "tok_insufficient")).await?;
    assert_eq!(merchant.finished(&id(created(&answer))?).await?["status"], "declined");
    assert_eq!(merchant.books.charges().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_to_saving_a_card_is_found_again() -> Result<()> {
    let cluster = cluster().await?;
    // Saving moves no money, so the mock takes the same request twice whatever its class.
    for class in ["A", "B", "C"] {
        let merchant = merchant().await?;
        let customer = merchant.customer().await?;
        merchant.mock(cluster, &["--class", class, "--lose-answer", "1"]).await?;
        let saved = merchant.save_card(&customer, "tok_ok").await?;
        assert_eq!(created(&saved)["status"], "active", "class {class}");
    }
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_that_nobody_can_find_is_for_a_person() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.mock(&cluster, &["--class", "C", "--lose-answer", "1"]).await?;
    let answer = merchant.pay_once("k", sale(1500)).await?;
    assert_eq!(created(&answer)["status"], "processing", "nothing unknown is called failed");
    let scheduler = scheduler_url(&cluster);
    eventually("the alarm", async || Ok((for_a_person(&scheduler).await? == 1.0).then_some(()))).await?;

    cluster.worker(0).restart().await?;
    cluster.redis.flush_all().await?;
    assert_eq!(created(&merchant.pay(200).await?)["status"], "pending_settlement", "others are charged as ever");
    let payment = merchant.api.get(&format!("/v1/payments/{}", id(&answer.body)?)).await?;
    assert_eq!(ok(&payment)["status"], "processing");
    assert_eq!(merchant.books.charges().await?, 2, "one for each, and none again");
    Ok(())
}

#[tokio::test]
async fn what_a_provider_refuses_has_failed() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let customer = merchant.customer().await?;
    merchant.mock(cluster, &["--refuse"]).await?;
    let answer = merchant.pay_once("k", sale(1500)).await?;
    let failed = created(&answer);
    assert_eq!((&failed["status"], &failed["amountCaptured"]), (&"failed".into(), &0.into()));
    assert_eq!(failed["failureCode"], "provider_unavailable");
    refused(&merchant.save_card(&customer, "tok_ok").await?, 409, "conflict");
    assert_eq!(merchant.books.charges().await?, 0);
    merchant.mock(cluster, &[]).await?;
    assert_eq!(merchant.pay_once("k", sale(1500)).await?.bytes, answer.bytes, "a replay says what was said");
    assert_eq!(created(&merchant.pay_once("another", sale(1500)).await?)["status"], "pending_settlement");
    Ok(())
}
