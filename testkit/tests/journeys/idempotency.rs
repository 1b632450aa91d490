//! One Idempotency-Key gives one charge and one response.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use testkit::Response;

use crate::support::{
    Browser, Merchant, cluster, concurrently, conflict, created, eventually, id, invalid, merchant, payment, refused,
    sale, with,
};

const REPLAYED: &str = "idempotent-replayed";

fn is_replay(response: &Response) -> bool {
    response.header(REPLAYED) == Some("true")
}

#[tokio::test]
async fn concurrent_requests_with_one_key_make_one_charge_and_equal_responses() -> Result<()> {
    let merchant = merchant().await?;
    // Slow enough that most requests arrive while the first is still in flight.
    merchant.mock(cluster().await?, &["--latency-ms", "600"]).await?;
    let responses = concurrently(30, async |_| merchant.pay_with_key("one", sale(1234)).await).await?;
    assert_eq!(created(&responses[0])["status"], "pending_settlement");
    for response in &responses {
        assert_eq!((response.status, &response.bytes), (201, &responses[0].bytes), "byte for byte");
    }
    assert_eq!(
        responses.iter().filter(|response| !is_replay(response)).count(),
        1,
        "exactly one response is not a replay"
    );
    assert_eq!(merchant.books.charges().await?, 1);
    assert_eq!(merchant.books.operations().await?, 1);
    merchant.books.audit().await
}

#[tokio::test]
async fn replays_wait_for_the_first_request_and_return_its_response() -> Result<()> {
    let merchant = merchant().await?;
    merchant.mock(cluster().await?, &["--latency-ms", "1500"]).await?;
    let second = async {
        eventually("the first intent", async || Ok((merchant.books.operations().await? == 1).then_some(()))).await?;
        merchant.pay_with_key("k", sale(100)).await
    };
    let (first, second) = tokio::try_join!(merchant.pay_with_key("k", sale(100)), second)?;
    assert_eq!(created(&first)["status"], "pending_settlement");
    assert!(!is_replay(&first) && is_replay(&second));
    assert_eq!(first.bytes, second.bytes);
    let later = merchant.pay_with_key("k", sale(100)).await?;
    assert!(is_replay(&later));
    assert_eq!((later.status, later.bytes), (first.status, first.bytes));
    assert_eq!(merchant.books.charges().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_key_is_bound_to_the_parsed_body_not_its_spelling() -> Result<()> {
    let merchant = merchant().await?;
    let first = merchant.pay_with_key("k", sale(100)).await?;
    let others = [sale(101), with(sale(100), "capture", false), payment(100, "tok_partial")];
    for other in others {
        invalid(&merchant.pay_with_key("k", other).await?, "Idempotency-Key");
    }
    let api = merchant.api.header("idempotency-key", "k")?;
    for same in [
        r#"{"paymentToken":"tok_ok","currency":"USD","amount":100}"#,
        "{\n\t\"currency\" : \"USD\",\r\n \"amount\":100, \"paymentToken\": \"tok\\u005fok\"}  ",
    ] {
        let response = api.send(Method::POST, "/v1/payments", Some(same.as_bytes().to_vec())).await?;
        assert!(is_replay(&response));
        assert_eq!(response.bytes, first.bytes);
    }
    assert_eq!(merchant.books.charges().await?, 1);
    Ok(())
}

#[tokio::test]
async fn keys_are_checked_before_objects_named_in_the_body() -> Result<()> {
    let merchant = merchant().await?;
    merchant.pay_with_key("k", sale(100)).await?;
    for unknown in ["pm_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"] {
        let other = json!({"amount": 100, "currency": "USD", "paymentMethodId": unknown});
        invalid(&merchant.pay_with_key("k", other).await?, "Idempotency-Key");
    }
    invalid(&merchant.pay_with_key("k", payment(100, "mtok_unknown")).await?, "Idempotency-Key");
    Ok(())
}

#[tokio::test]
async fn rejected_requests_leave_the_key_unused_and_declines_use_it() -> Result<()> {
    let merchant = merchant().await?;
    invalid(&merchant.pay_with_key("k", sale(0)).await?, "amount");
    invalid(&merchant.pay_with_key("k", payment(100, "mtok_unknown")).await?, "paymentToken");
    let unknown_card = json!({"amount": 100, "currency": "USD", "paymentMethodId": "pm_01ARZ3NDEKTSV4RRFFQ69G5FAV"});
    assert_eq!(merchant.pay_with_key("k", unknown_card).await?.status, 404);
    let declined = merchant.pay_with_key("k", payment(100, "tok_insufficient")).await?;
    assert_eq!(created(&declined)["status"], "declined");
    assert!(!is_replay(&declined));
    let again = merchant.pay_with_key("k", payment(100, "tok_insufficient")).await?;
    assert!(is_replay(&again));
    assert_eq!(again.bytes, declined.bytes);
    assert_eq!(merchant.books.charges().await?, 1);
    Ok(())
}

#[tokio::test]
async fn replays_work_after_the_payment_token_is_used() -> Result<()> {
    let merchant = merchant().await?;
    let token = Browser::for_account(cluster().await?, &merchant.account)?.token("tok_ok").await?;
    let first = merchant.pay_with_key("k", payment(100, &token)).await?;
    created(&first);
    let again = merchant.pay_with_key("k", payment(100, &token)).await?;
    assert!(is_replay(&again));
    assert_eq!(again.bytes, first.bytes);
    conflict(&merchant.pay_with_key("another", payment(100, &token)).await?);
    assert_eq!(merchant.books.charges().await?, 1);
    Ok(())
}

#[tokio::test]
async fn keys_are_scoped_to_an_account() -> Result<()> {
    let (one, other) = (merchant().await?, merchant().await?);
    let first = one.pay_with_key("shared", sale(100)).await?;
    let second = other.pay_with_key("shared", sale(100)).await?;
    assert_ne!(id(created(&first))?, id(created(&second))?);
    assert!(!is_replay(&second));
    Ok(())
}

#[tokio::test]
async fn keys_have_at_most_255_visible_ascii_characters() -> Result<()> {
    let merchant: Merchant = merchant().await?;
    for bad in [&*"x".repeat(256), "a b", "", "caf\u{e9}", "\u{2603}", "a\tb"] {
        invalid(&merchant.pay_with_key(bad, sale(100)).await?, "Idempotency-Key");
    }
    for good in [&*"~".repeat(255), "!", "6f1c2a50-7f0b-4c0a-9b0e-000000000000"] {
        created(&merchant.pay_with_key(good, sale(100)).await?);
    }
    let unauthenticated = testkit::Client::new(merchant.api.base())?.header("idempotency-key", "a b")?;
    refused(&unauthenticated.post("/v1/payments", sale(1)).await?, 401, "authentication_failed");
    Ok(())
}
