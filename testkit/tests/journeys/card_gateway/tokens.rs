//! Tokens of the card field, exchanged or sent directly: each pays once, and only for its account.

use anyhow::Result;
use serde_json::json;

use super::{APPROVES, DECLINED, shop};
use crate::support::{concurrently, conflict, created, invalid};

#[tokio::test]
async fn a_token_pays_once_exchanged_or_sent_directly() -> Result<()> {
    let shop = shop().await?;
    let body = |token: &str| json!({"amount": 500, "currency": "USD", "paymentToken": token});

    let exchanged = shop.upstream_token(APPROVES).await?;
    let token = shop.browser.token(&exchanged).await?;
    assert_eq!(created(&shop.pay_with(body(&token)).await?)["status"], "pending_settlement");
    conflict(&shop.pay_with(body(&token)).await?);
    conflict(&shop.pay_with(body(&exchanged)).await?);
    let again = shop.browser.exchange(&shop.browser.session().await?, &exchanged).await?;
    conflict(&again);

    let direct = shop.upstream_token(APPROVES).await?;
    let responses = concurrently(30, |_| shop.pay_with(body(&direct))).await?;
    let paid = responses.iter().filter(|response| response.status == 201).count();
    let refused = responses.iter().filter(|response| response.status == 409).count();
    assert_eq!((paid, refused), (1, 29));
    conflict(&shop.browser.exchange(&shop.browser.session().await?, &direct).await?);
    assert_eq!(shop.merchant.stored_upstream_tokens().await?, 0, "spent tokens are erased");
    assert_eq!(shop.records().await?, "sale 500 approved, sale 500 approved");
    Ok(())
}

#[tokio::test]
async fn a_decline_consumes_the_token_and_a_rejection_does_not() -> Result<()> {
    let shop = shop().await?;
    let declined = shop.token(DECLINED).await?;
    let body = json!({"amount": 500, "currency": "USD", "paymentToken": declined});
    let response = shop.pay_with(body.clone()).await?;
    assert_eq!(
        (&created(&response)["status"], &response.body["declineCode"]),
        (&json!("declined"), &json!("declined"))
    );
    conflict(&shop.pay_with(body).await?);

    let token = shop.token(APPROVES).await?;
    let yen = json!({"amount": 500, "currency": "JPY", "paymentToken": token});
    invalid(&shop.pay_with(yen).await?, "currency");
    let paid = shop.pay_with(json!({"amount": 500, "currency": "EUR", "paymentToken": token})).await?;
    assert_eq!(created(&paid)["status"], "pending_settlement");
    assert_eq!(shop.records().await?, "sale 500 declined, sale 500 approved");
    Ok(())
}

#[tokio::test]
async fn only_tokens_issued_for_the_account_are_accepted() -> Result<()> {
    let (shop, other) = (shop().await?, shop().await?);
    let (own, foreign) = (shop.upstream_token(APPROVES).await?, other.upstream_token(APPROVES).await?);
    let tampered = own.replacen("fld_", "fld_A", 1);
    let (unsigned, _) = own.rsplit_once('.').expect("signed");
    for token in [&foreign, &tampered, unsigned, "tok_ok", "fld_", "fld_.", "nonsense"] {
        let body = json!({"amount": 500, "currency": "USD", "paymentToken": token});
        invalid(&shop.pay_with(body).await?, "paymentToken");
        let exchanged = shop.browser.exchange(&shop.browser.session().await?, token).await?;
        invalid(&exchanged, "upstreamToken");
    }
    assert_eq!(shop.records().await?, "");
    let body = json!({"amount": 500, "currency": "USD", "paymentToken": own});
    assert_eq!(created(&shop.pay_with(body).await?)["status"], "pending_settlement");
    Ok(())
}

#[tokio::test]
async fn an_account_is_limited_to_its_currencies() -> Result<()> {
    let cluster = crate::support::cluster().await?;
    let shop = crate::support::Shop::new(cluster, &["--currency", "USD"]).await?;
    let link = |currency: &str| json!({"amount": 500, "currency": currency, "description": "Tea"});
    invalid(&shop.merchant.api.post("/v1/payment_links", link("JPY")).await?, "currency");
    created(&shop.merchant.api.post("/v1/payment_links", link("EUR")).await?);
    cluster.connect(&shop.merchant.account, &shop.gateway_account, &["--currency", "USD"]).await?;
    let token = shop.token(APPROVES).await?;
    invalid(&shop.pay_with(json!({"amount": 500, "currency": "EUR", "paymentToken": token})).await?, "currency");
    assert_eq!(
        created(&shop.pay_with(json!({"amount": 500, "currency": "USD", "paymentToken": token})).await?)["status"],
        "pending_settlement"
    );
    Ok(())
}
