//! An account moves to another provider and back: its existing payments and cards stay at their provider.

use anyhow::Result;
use serde_json::json;

use super::APPROVES;
use crate::support::{Shop, accepted, cluster, created, id, invalid, ok, sale};

#[tokio::test]
async fn payments_and_cards_stay_at_their_original_provider() -> Result<()> {
    let cluster = cluster().await?;
    let shop = Shop::new(cluster, &[]).await?;
    let merchant = &shop.merchant;
    let move_to = async |provider: &str| {
        cluster.ctl(&["accounts", "set", &merchant.account.id, "--provider", provider]).await?;
        // Processes may cache the account for a second.
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
        anyhow::Ok(())
    };
    let sold = id(created(&shop.pay(APPROVES, 500).await?))?;
    let hold = json!({"amount": 300, "currency": "USD", "capture": false, "paymentToken": shop.token(APPROVES).await?});
    let held = id(created(&shop.pay_with(hold).await?))?;
    let (_, card) = shop.saved_card(APPROVES).await?;
    let unspent = shop.token(APPROVES).await?;

    move_to("mock").await?;
    let at_mock = id(created(&merchant.pay(900).await?))?;
    assert_eq!(merchant.books.charges().await?, 1);
    accepted(&merchant.refund(&sold, None).await?);
    merchant.wait_for_status(&sold, "refunded").await?;
    assert_eq!(ok(&merchant.capture(&held, None).await?)["status"], "pending_settlement");
    for body in [
        json!({"amount": 100, "currency": "USD", "paymentMethodId": card}),
        json!({"amount": 200, "currency": "USD", "paymentToken": unspent}),
    ] {
        assert_eq!(created(&shop.pay_with(body).await?)["status"], "pending_settlement");
    }
    let yen = json!({"amount": 100, "currency": "JPY", "paymentMethodId": card});
    invalid(&shop.pay_with(yen).await?, "currency");
    assert_eq!(
        shop.records().await?,
        "sale 500 approved, authorize 300 approved, refund 500 approved, capture 300 approved, sale 100 approved, sale 200 approved"
    );

    move_to("card_gateway").await?;
    invalid(&merchant.api.post("/v1/payments", sale(100)).await?, "paymentToken");
    accepted(&merchant.refund(&at_mock, None).await?);
    merchant.wait_for_status(&at_mock, "refunded").await?;
    assert_eq!(merchant.books.ledger(&at_mock).await?, "sale 900, refund 900");
    Ok(())
}
