//! The order of the checks: the response names the first error.

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Client;

use super::limited;
use crate::support::{Browser, cluster, created, invalid, merchant, not_found, payment, refused};

#[tokio::test]
async fn checks_run_in_a_fixed_order() -> Result<()> {
    let cluster = cluster().await?;
    let merchant = merchant().await?;
    let no_key = Client::new(merchant.api.base())?;
    let publishable = Browser::for_account(cluster, &merchant.account)?.api;
    let limited = limited(&merchant, "secret", &["payments.retrieve", "payment_methods.create"]).await?;
    merchant.mock(cluster, &["--without", "payments.list"]).await?;

    // Each request also fails every later check.
    let path = "/v1/payments?limit=0&startingAfter=nonsense";
    refused(&no_key.get(path).await?, 401, "authentication_failed");
    refused(&publishable.get(path).await?, 403, "permission_denied");
    let unsupported = limited.get(path).await?;
    assert_eq!(refused(&unsupported, 501, "capability_not_supported")["capability"], "payments.list");
    merchant.mock(cluster, &[]).await?;
    let missing = limited.get(path).await?;
    assert_eq!(refused(&missing, 403, "capability_not_enabled")["capability"], "payments.list");
    refused(&merchant.api.get(path).await?, 422, "invalid_request");

    // Syntax, then the objects named, then the rules that need them, then their state.
    let token = Browser::for_account(cluster, &merchant.account)?.token("tok_ok").await?;
    created(&merchant.api.post("/v1/payments", payment(100, &token)).await?);
    let card = |customer: &str, token: Value| json!({"customerId": customer, "paymentToken": token});
    let unknown = "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    invalid(&limited.post("/v1/payment_methods", card(unknown, json!(1))).await?, "paymentToken");
    not_found(&limited.post("/v1/payment_methods", card(unknown, json!("mtok_unknown"))).await?);
    not_found(&limited.post("/v1/payment_methods", card(unknown, json!(token))).await?);
    let customer = merchant.customer().await?;
    invalid(&limited.post("/v1/payment_methods", card(&customer, json!("mtok_unknown"))).await?, "paymentToken");
    refused(&limited.post("/v1/payment_methods", card(&customer, json!(token))).await?, 409, "conflict");
    Ok(())
}
