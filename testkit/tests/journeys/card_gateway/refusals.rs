//! What the gateway refuses because of one card must not hold up other payments of the account.

use anyhow::Result;
use serde_json::json;

use super::pages::link;
use super::payments::collected_from;
use super::{APPROVES, shop};
use crate::support::{Shop, id, ok};

/// More than open the circuit breaker.
const REFUSALS: usize = 7;

/// As cards that were saved before their postal code was required.
async fn remove_postal_codes(shop: &Shop) -> Result<()> {
    let queries = [
        "UPDATE gateway.cards SET holder = holder - 'zip_code'
         WHERE account_id = (SELECT id FROM gateway.accounts WHERE username = $1)",
        "UPDATE gateway.field_tokens SET holder = holder - 'zip_code'
         WHERE account_id = (SELECT id FROM gateway.accounts WHERE username = $1)",
    ];
    for query in queries {
        sqlx::query(query).bind(&shop.gateway_account.username).execute(&shop.merchant.books.db).await?;
    }
    Ok(())
}

#[tokio::test]
async fn cards_that_the_gateway_refuses_hold_up_no_other_payment() -> Result<()> {
    let shop = shop().await?;
    let (_, card) = shop.saved_card(APPROVES).await?;
    remove_postal_codes(&shop).await?;
    for _ in 0..REFUSALS {
        let body = json!({"amount": 500, "currency": "USD", "paymentMethodId": card});
        let failed = shop.pay_with(body).await?.body;
        assert_eq!((&failed["status"], &failed["failureCode"]), (&json!("failed"), &json!("provider_refused")));
    }
    let paid = shop.pay(APPROVES, 700).await?;
    assert_eq!(paid.body["status"], "pending_settlement", "{paid:?}");
    assert_eq!(shop.records().await?, "sale 700 approved");
    Ok(())
}

#[tokio::test]
async fn a_card_that_the_gateway_refuses_ends_the_attempt_of_its_collection() -> Result<()> {
    let shop = shop().await?;
    let (customer, _) = shop.saved_card(APPROVES).await?;
    remove_postal_codes(&shop).await?;
    let (invoice, attempt) = collected_from(&shop, &customer).await?;
    assert_eq!(
        (&attempt["status"], &attempt["declineCode"], &attempt["declineType"]),
        (&json!("failed"), &json!("processing_error"), &json!("hard"))
    );
    assert_eq!((&invoice["status"], &invoice["nextAttemptAt"]), (&json!("scheduled"), &json!(null)));
    let void = format!("/v1/invoices/{}/void", id(&invoice)?);
    assert_eq!(ok(&shop.merchant.api.post(&void, json!({})).await?)["status"], "voided");
    Ok(())
}

#[tokio::test]
async fn refused_cards_count_as_unsuccessful_attempts_on_a_page() -> Result<()> {
    let shop = shop().await?;
    let (_, payer) = link(&shop).await?;
    for nth in 1..=10 {
        let token = shop.upstream_token(APPROVES).await?;
        remove_postal_codes(&shop).await?;
        let page = payer.pay(&token).await?;
        assert_eq!(page.has_pay_button(), nth < 10, "after {nth}: {}", page.html);
    }
    payer.open().await?.assert_shows(200, &["Too many cards were declined here"]);
    Ok(())
}
