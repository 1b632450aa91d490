//! Errors of the framework use the same error shape as the API.

use std::collections::HashSet;

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use testkit::Response;

use crate::support::{Merchant, created, invalid, merchant, not_found, ok, refused, sale, with};

async fn post_bytes(merchant: &Merchant, content_type: &str, body: &[u8]) -> Result<Response> {
    let api = merchant.api.header("content-type", content_type)?;
    api.send(Method::POST, "/v1/payments", Some(body.to_vec())).await
}

#[tokio::test]
async fn bodies_must_be_json_objects() -> Result<()> {
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
async fn bodies_need_a_json_content_type() -> Result<()> {
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
async fn bodies_are_limited_to_64_kib() -> Result<()> {
    let merchant = merchant().await?;
    // Trailing whitespace counts towards the limit.
    let bare = sale(100).to_string();
    let sized = |size: usize| format!("{bare}{}", " ".repeat(size - bare.len()));
    created(&post_bytes(&merchant, "application/json", sized(64 * 1024).as_bytes()).await?);
    let over = post_bytes(&merchant, "application/json", sized(64 * 1024 + 1).as_bytes()).await?;
    refused(&over, 413, "invalid_request");
    Ok(())
}

#[tokio::test]
async fn unknown_paths_and_ids_return_the_error_shape() -> Result<()> {
    let merchant = merchant().await?;
    let unauthenticated = testkit::Client::new(merchant.api.base())?;
    for path in ["/v1", "/v1/payments/", "/v1/nonsense", "/v2/payments", "/v1/payments/a/b/c", "/metrics", "//"] {
        not_found(&merchant.api.get(path).await?);
        not_found(&unauthenticated.get(path).await?);
    }
    // Invalid UTF-8 and malformed ids are not found.
    for id in ["%00", "%FF", "%ff%fe", "%E2%82", "a%20b", "%2e%2e"] {
        not_found(&merchant.api.get(&format!("/v1/payments/{id}")).await?);
        not_found(&merchant.api.get(&format!("/v1/customers/{id}")).await?);
        let path = format!("/v1/payment_methods/{id}/default");
        not_found(&merchant.api.send(Method::POST, &path, None).await?);
    }
    Ok(())
}

#[tokio::test]
async fn wrong_methods_get_an_allow_header() -> Result<()> {
    let merchant = merchant().await?;
    let wrong = [
        (Method::DELETE, "/v1/payments", vec!["GET", "POST"]),
        (Method::PATCH, "/v1/customers/cus_1", vec!["DELETE", "GET", "POST"]),
        (Method::PUT, "/v1/payments/pay_1", vec!["GET", "POST"]),
        (Method::POST, "/v1/capabilities", vec!["GET"]),
        (Method::GET, "/v1/payment_methods/pm_1/default", vec!["POST"]),
        (Method::GET, "/v1/tokens", vec!["POST"]),
        (Method::GET, "/v1/checkout_sessions", vec!["POST"]),
    ];
    for (method, path, right) in wrong {
        let response = merchant.api.send(method.clone(), path, None).await?;
        refused(&response, 405, "invalid_request");
        let allow: HashSet<_> = response.header("allow").unwrap_or_default().split(',').map(str::trim).collect();
        // A route with GET also accepts HEAD.
        let allow: HashSet<_> = allow.into_iter().filter(|method| *method != "HEAD").collect();
        assert_eq!(allow, right.into_iter().collect(), "{method} {path}");
    }
    Ok(())
}

#[tokio::test]
async fn paths_and_credentials_of_other_apis_lead_on() -> Result<()> {
    let merchant = merchant().await?;
    for (path, hint) in [
        ("/v1/payment_intents", "use /v1/payments"),
        ("/v1/charges/ch_1", "use /v1/payments"),
        ("/payments", "begin with /v1"),
        ("/v1/nonsense", "/docs"),
    ] {
        let response = merchant.api.post(path, json!({})).await?;
        not_found(&response);
        let message = response.body["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(hint), "{path}: {message}");
    }
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    let base = merchant.api.base().to_owned();
    let basic =
        http.get(format!("{base}/v1/payments")).basic_auth(&merchant.account.secret_key, None::<&str>).send().await?;
    assert_eq!(basic.status(), 401);
    assert!(basic.text().await?.contains("Basic authentication is not supported"));
    let root = http.get(&base).send().await?;
    assert_eq!((root.status().as_u16(), root.headers()["location"].to_str()?), (307, "/docs"));
    Ok(())
}

#[tokio::test]
async fn every_response_has_a_request_id_and_a_version() -> Result<()> {
    let merchant = merchant().await?;
    let unauthenticated = testkit::Client::new(merchant.api.base())?;
    let responses = [
        merchant.pay(100).await?,
        merchant.api.get("/v1/payments").await?,
        merchant.api.get("/v1/payments/pay_1").await?,
        merchant.api.get("/nonsense").await?,
        merchant.api.delete("/v1/payments").await?,
        unauthenticated.get("/v1/payments").await?,
        unauthenticated.post("/v1/checkout_sessions", sale(1)).await?,
        post_bytes(&merchant, "text/plain", b"{}").await?,
        merchant.api.send(Method::OPTIONS, "/v1/tokens", None).await?,
    ];
    let ids: HashSet<_> = responses.iter().filter_map(|response| response.header("request-id")).collect();
    assert_eq!(ids.len(), responses.len(), "each response has its own id");
    assert!(ids.iter().all(|id| id.starts_with("req_")));
    assert!(responses.iter().all(|response| response.header("api-version").is_some()));
    Ok(())
}

#[tokio::test]
async fn nul_characters_are_rejected_with_the_field_name() -> Result<()> {
    let merchant = merchant().await?;
    let nul = "a\u{0}b";
    invalid(&merchant.api.post("/v1/payments", with(sale(1), "paymentToken", nul)).await?, "paymentToken");
    let customer = serde_json::json!({"email": "a@example.com", "name": nul});
    invalid(&merchant.api.post("/v1/customers", customer).await?, "name");
    let rows = serde_json::json!([{"name": "a", "type": "text", "value": nul}]);
    let customer = serde_json::json!({"email": "a@example.com", "customFields": rows});
    let response = merchant.api.post("/v1/customers", customer).await?;
    let param = refused(&response, 422, "invalid_request")["param"].as_str().unwrap_or_default();
    assert!(param.starts_with("customFields[0]"), "{param}");
    invalid(&merchant.api.get("/v1/customers?externalId=a%00b").await?, "externalId");
    invalid(&merchant.api.get("/v1/payments?startingAfter=%00").await?, "startingAfter");
    ok(&merchant.api.get("/v1/payments").await?);
    Ok(())
}
