//! The one error shape holds for what the framework has to say too.

use std::collections::HashSet;

use anyhow::Result;
use reqwest::Method;
use testkit::Answer;

use crate::support::{Merchant, created, invalid, merchant, not_found, ok, refused, sale, with};

async fn post_bytes(merchant: &Merchant, content_type: &str, body: &[u8]) -> Result<Answer> {
    let api = merchant.api.header("content-type", content_type)?;
    api.send(Method::POST, "/v1/payments", Some(body.to_vec())).await
}

#[tokio::test]
async fn a_body_is_a_json_object() -> Result<()> {
    let merchant = merchant().await?;
    for body in ["{", "{\"amount\": 1,}", "[]", "[{}]", "\"text\"", "1", "null", "true", "{} {}", "\u{feff}{}"] {
        refused(&post_bytes(&merchant, "application/json", body.as_bytes()).await?, 422, "invalid_request");
    }
    refused(&post_bytes(&merchant, "application/json", b"{\"amount\": \"\xff\"}").await?, 422, "invalid_request");
    let deep = "[".repeat(20_000);
    refused(&post_bytes(&merchant, "application/json", deep.as_bytes()).await?, 422, "invalid_request");
    Ok(())
}

#[tokio::test]
async fn a_body_says_that_it_is_json() -> Result<()> {
    let merchant = merchant().await?;
    let body = sale(100).to_string();
    for wrong in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "", "json"] {
        refused(&post_bytes(&merchant, wrong, body.as_bytes()).await?, 422, "invalid_request");
    }
    for right in ["application/json", "application/json; charset=utf-8", "Application/JSON"] {
        created(&post_bytes(&merchant, right, body.as_bytes()).await?);
    }
    Ok(())
}

#[tokio::test]
async fn a_body_has_at_most_64_kib() -> Result<()> {
    let merchant = merchant().await?;
    // Space after the object is part of the body.
    let bare = sale(100).to_string();
    let sized = |size: usize| format!("{bare}{}", " ".repeat(size - bare.len()));
    created(&post_bytes(&merchant, "application/json", sized(64 * 1024).as_bytes()).await?);
    let over = post_bytes(&merchant, "application/json", sized(64 * 1024 + 1).as_bytes()).await?;
    refused(&over, 413, "invalid_request");
    Ok(())
}

#[tokio::test]
async fn what_is_not_there_is_said_in_the_same_shape() -> Result<()> {
    let merchant = merchant().await?;
    let nobody = testkit::Client::new(merchant.api.base())?;
    for path in ["/", "/v1", "/v1/payments/", "/v1/nonsense", "/v2/payments", "/v1/payments/a/b/c", "/metrics", "//"] {
        not_found(&merchant.api.get(path).await?);
        not_found(&nobody.get(path).await?);
    }
    // Bytes that are no text cannot be an id, and an id that is none names nothing.
    for id in ["%00", "%FF", "%ff%fe", "%E2%82", "a%20b", "%2e%2e"] {
        not_found(&merchant.api.get(&format!("/v1/payments/{id}")).await?);
        not_found(&merchant.api.get(&format!("/v1/customers/{id}")).await?);
        let path = format!("/v1/payment_methods/{id}/default");
        not_found(&merchant.api.send(Method::POST, &path, None).await?);
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_ones() -> Result<()> {
    let merchant = merchant().await?;
    let wrong = [
        (Method::DELETE, "/v1/payments", vec!["GET", "POST"]),
        (Method::PATCH, "/v1/customers/cus_1", vec!["GET", "POST"]),
        (Method::PUT, "/v1/payments/pay_1", vec!["GET"]),
        (Method::POST, "/v1/capabilities", vec!["GET"]),
        (Method::GET, "/v1/payment_methods/pm_1/default", vec!["POST"]),
        (Method::GET, "/v1/tokens", vec!["POST"]),
        (Method::GET, "/v1/checkout_sessions", vec!["POST"]),
    ];
    for (method, path, right) in wrong {
        let answer = merchant.api.send(method.clone(), path, None).await?;
        refused(&answer, 405, "invalid_request");
        let allow: HashSet<_> = answer.header("allow").unwrap_or_default().split(',').map(str::trim).collect();
        // A route that answers GET answers HEAD.
        let allow: HashSet<_> = allow.into_iter().filter(|method| *method != "HEAD").collect();
        assert_eq!(allow, right.into_iter().collect(), "{method} {path}");
    }
    Ok(())
}

#[tokio::test]
async fn every_answer_names_its_request() -> Result<()> {
    let merchant = merchant().await?;
    let nobody = testkit::Client::new(merchant.api.base())?;
    let answers = [
        merchant.pay(100).await?,
        merchant.api.get("/v1/payments").await?,
        merchant.api.get("/v1/payments/pay_1").await?,
        merchant.api.get("/nonsense").await?,
        merchant.api.delete("/v1/payments").await?,
        nobody.get("/v1/payments").await?,
        nobody.post("/v1/checkout_sessions", sale(1)).await?,
        post_bytes(&merchant, "text/plain", b"{}").await?,
        merchant.api.send(Method::OPTIONS, "/v1/tokens", None).await?,
    ];
    let ids: HashSet<_> = answers.iter().filter_map(|answer| answer.header("request-id")).collect();
    assert_eq!(ids.len(), answers.len(), "an id each");
    assert!(ids.iter().all(|id| id.starts_with("req_")));
    Ok(())
}

#[tokio::test]
async fn the_character_u_0000_is_refused_by_name() -> Result<()> {
    let merchant = merchant().await?;
    let nul = "a\u{0}b";
    invalid(&merchant.api.post("/v1/payments", with(sale(1), "paymentToken", nul)).await?, "paymentToken");
    let customer = serde_json::json!({"email": "a@example.com", "name": nul});
    invalid(&merchant.api.post("/v1/customers", customer).await?, "name");
    let rows = serde_json::json!([{"name": "a", "type": "text", "value": nul}]);
    let customer = serde_json::json!({"email": "a@example.com", "customFields": rows});
    let answer = merchant.api.post("/v1/customers", customer).await?;
    let param = refused(&answer, 422, "invalid_request")["param"].as_str().unwrap_or_default();
    assert!(param.starts_with("customFields[0]"), "{param}");
    invalid(&merchant.api.get("/v1/customers?externalId=a%00b").await?, "externalId");
    invalid(&merchant.api.get("/v1/payments?startingAfter=%00").await?, "startingAfter");
    ok(&merchant.api.get("/v1/payments").await?);
    Ok(())
}
