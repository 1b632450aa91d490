//! One Idempotency-Key, one charge, one answer.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use testkit::Answer;

use crate::support::{
    Browser, Merchant, cluster, conflict, created, eventually, id, invalid, merchant, payment, refused, sale, together,
    with,
};

const REPLAYED: &str = "idempotent-replayed";

fn is_replay(answer: &Answer) -> bool {
    answer.header(REPLAYED) == Some("true")
}

#[tokio::test]
async fn thirty_at_once_make_one_charge_and_thirty_equal_answers() -> Result<()> {
    let merchant = merchant().await?;
    // Slow enough that most of them come while the first is still on its way.
    merchant.mock(cluster().await?, &["--latency-ms", "600"]).await?;
    let answers = together(30, async |_| merchant.pay_once("one", sale(1234)).await).await?;
    assert_eq!(created(&answers[0])["status"], "pending_settlement");
    for answer in &answers {
        assert_eq!((answer.status, &answer.bytes), (201, &answers[0].bytes), "byte for byte");
    }
    assert_eq!(answers.iter().filter(|answer| !is_replay(answer)).count(), 1, "one was the first");
    assert_eq!(merchant.books.charges().await?, 1);
    assert_eq!(merchant.books.operations().await?, 1);
    merchant.books.audit().await
}

#[tokio::test]
async fn a_replay_waits_for_the_first_and_says_the_same() -> Result<()> {
    let merchant = merchant().await?;
    merchant.mock(cluster().await?, &["--latency-ms", "1500"]).await?;
    let second = async {
        eventually("the first intent", async || Ok((merchant.books.operations().await? == 1).then_some(()))).await?;
        merchant.pay_once("k", sale(100)).await
    };
    let (first, second) = tokio::try_join!(merchant.pay_once("k", sale(100)), second)?;
    assert_eq!(created(&first)["status"], "pending_settlement");
    assert!(!is_replay(&first) && is_replay(&second));
    assert_eq!(first.bytes, second.bytes);
    let later = merchant.pay_once("k", sale(100)).await?;
    assert!(is_replay(&later));
    assert_eq!((later.status, later.bytes), (first.status, first.bytes));
    assert_eq!(merchant.books.charges().await?, 1);
    Ok(())
}

#[tokio::test]
async fn another_body_is_refused_and_spelling_is_not_another_body() -> Result<()> {
    let merchant = merchant().await?;
    let first = merchant.pay_once("k", sale(100)).await?;
    let others = [sale(101), with(sale(100), "capture", false), payment(100, "tok_partial")];
    for other in others {
        invalid(&merchant.pay_once("k", other).await?, "Idempotency-Key");
    }
    let api = merchant.api.header("idempotency-key", "k")?;
    for same in [
        r#"{"paymentToken":"tok_ok","currency":"USD","amount":100}"#,
        "{\n\t\"currency\" : \"USD\",\r\n \"amount\":100, \"paymentToken\": \"tok\\u005fok\"}  ",
    ] {
        let answer = api.send(Method::POST, "/v1/payments", Some(same.as_bytes().to_vec())).await?;
        assert!(is_replay(&answer));
        assert_eq!(answer.bytes, first.bytes);
    }
    assert_eq!(merchant.books.charges().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_key_is_looked_up_before_what_the_body_names() -> Result<()> {
    let merchant = merchant().await?;
    merchant.pay_once("k", sale(100)).await?;
    for unknown in ["pm_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"] {
        let other = json!({"amount": 100, "currency": "USD", "paymentMethodId": unknown});
        invalid(&merchant.pay_once("k", other).await?, "Idempotency-Key");
    }
    invalid(&merchant.pay_once("k", payment(100, "mtok_unknown")).await?, "Idempotency-Key");
    Ok(())
}

#[tokio::test]
async fn a_refusal_does_not_use_the_key_up_and_a_decline_does() -> Result<()> {
    let merchant = merchant().await?;
    invalid(&merchant.pay_once("k", sale(0)).await?, "amount");
    invalid(&merchant.pay_once("k", payment(100, "mtok_unknown")).await?, "paymentToken");
    let unknown_card = json!({"amount": 100, "currency": "USD", "paymentMethodId": "pm_01ARZ3NDEKTSV4RRFFQ69G5FAV"});
    assert_eq!(merchant.pay_once("k", unknown_card).await?.status, 404);
    let declined = merchant.pay_once("k", payment(100, "tok_insufficient")).await?;
    assert_eq!(created(&declined)["status"], "declined");
    assert!(!is_replay(&declined));
    let again = merchant.pay_once("k", payment(100, "tok_insufficient")).await?;
    assert!(is_replay(&again));
    assert_eq!(again.bytes, declined.bytes);
    assert_eq!(merchant.books.charges().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_replay_works_though_its_token_is_spent() -> Result<()> {
    let merchant = merchant().await?;
    let token = Browser::of(cluster().await?, &merchant.account)?.token("tok_ok").await?;
    let first = merchant.pay_once("k", payment(100, &token)).await?;
    created(&first);
    let again = merchant.pay_once("k", payment(100, &token)).await?;
    assert!(is_replay(&again));
    assert_eq!(again.bytes, first.bytes);
    conflict(&merchant.pay_once("another", payment(100, &token)).await?);
    assert_eq!(merchant.books.charges().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_key_belongs_to_one_account() -> Result<()> {
    let (one, other) = (merchant().await?, merchant().await?);
    let mine = one.pay_once("shared", sale(100)).await?;
    let theirs = other.pay_once("shared", sale(100)).await?;
    assert_ne!(id(created(&mine))?, id(created(&theirs))?);
    assert!(!is_replay(&theirs));
    Ok(())
}

#[tokio::test]
async fn a_key_is_up_to_255_visible_ascii_characters() -> Result<()> {
    let merchant: Merchant = merchant().await?;
    for bad in [&*"x".repeat(256), "a b", "", "caf\u{e9}", "\u{2603}", "a\tb"] {
        invalid(&merchant.pay_once(bad, sale(100)).await?, "Idempotency-Key");
    }
    for good in [&*"~".repeat(255), "!", "6f1c2a50-7f0b-4c0a-9b0e-000000000000"] {
        created(&merchant.pay_once(good, sale(100)).await?);
    }
    let nobody = testkit::Client::new(merchant.api.base())?.header("idempotency-key", "a b")?;
    refused(&nobody.post("/v1/payments", sale(1)).await?, 401, "authentication_failed");
    Ok(())
}
