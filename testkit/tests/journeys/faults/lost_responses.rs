//! The provider charges and its response is lost, or it refuses to process requests.

use anyhow::Result;

use crate::support::{cluster, created, id, merchant, payment, refused, sale, with};

#[tokio::test]
async fn a_lost_response_is_recovered() -> Result<()> {
    let cluster = cluster().await?;
    for class in ["A", "B"] {
        let merchant = merchant().await?;
        merchant.mock(cluster, &["--class", class, "--lose-responses", "3"]).await?;
        let approved = async { merchant.pay_with_key("k", sale(1500)).await };
        let held = async { merchant.api.post("/v1/payments", with(sale(700), "capture", false)).await };
        let half = async { merchant.api.post("/v1/payments", payment(900, "tok_partial")).await };
        let (approved, held, half) = tokio::try_join!(approved, held, half)?;
        for (response, status) in
            [(&approved, "pending_settlement"), (&held, "authorized"), (&half, "partially_authorized")]
        {
            assert_eq!(merchant.wait_until_finished(&id(created(response))?).await?["status"], status, "class {class}");
        }
        assert_eq!(merchant.books.charges().await?, 3, "class {class}");
        merchant.books.audit().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_lost_decline_is_recovered() -> Result<()> {
    let merchant = merchant().await?;
    merchant.mock(cluster().await?, &["--class", "B", "--lose-responses", "1"]).await?;
    let response = merchant.api.post("/v1/payments", payment(900, "tok_insufficient")).await?;
    assert_eq!(merchant.wait_until_finished(&id(created(&response))?).await?["status"], "declined");
    assert_eq!(merchant.books.charges().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_lost_response_to_saving_a_card_is_recovered() -> Result<()> {
    let cluster = cluster().await?;
    // Saving moves no money, so the mock accepts a repeated request in every class.
    for class in ["A", "B", "C"] {
        let merchant = merchant().await?;
        let customer = merchant.customer().await?;
        merchant.mock(cluster, &["--class", class, "--lose-responses", "1"]).await?;
        let saved = merchant.save_card(&customer, "tok_ok").await?;
        assert_eq!(created(&saved)["status"], "active", "class {class}");
    }
    Ok(())
}

#[tokio::test]
async fn payments_refused_by_the_provider_fail() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let customer = merchant.customer().await?;
    merchant.mock(cluster, &["--refuse"]).await?;
    let response = merchant.pay_with_key("k", sale(1500)).await?;
    let failed = created(&response);
    assert_eq!((&failed["status"], &failed["amountCaptured"]), (&"failed".into(), &0.into()));
    assert_eq!(failed["failureCode"], "provider_unavailable");
    refused(&merchant.save_card(&customer, "tok_ok").await?, 409, "conflict");
    assert_eq!(merchant.books.charges().await?, 0);
    merchant.mock(cluster, &[]).await?;
    assert_eq!(
        merchant.pay_with_key("k", sale(1500)).await?.bytes,
        response.bytes,
        "a replay returns the original response"
    );
    assert_eq!(created(&merchant.pay_with_key("another", sale(1500)).await?)["status"], "pending_settlement");
    Ok(())
}
