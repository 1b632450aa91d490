//! Ambiguous request headers, response headers, and the content of errors.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Client, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{
    Browser, Merchant, Shop, cluster, created, invalid, merchant, not_found, ok, refused, sale, with,
};

/// Sends a raw request; returns the raw response.
async fn exchange(api: &Client, request: &str) -> Result<String> {
    let address = api.base().strip_prefix("http://").context("an address")?;
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut raw = String::new();
    stream.read_to_string(&mut raw).await?;
    Ok(raw)
}

/// Sends a raw request; returns the status and the error.
async fn send_raw(api: &Client, request: &str) -> Result<(u16, Value)> {
    let raw = exchange(api, request).await?;
    let status = raw.split(' ').nth(1).context("a status")?.parse()?;
    let body = raw.split("\r\n\r\n").nth(1).context("a body")?;
    Ok((status, serde_json::from_str::<Value>(body).with_context(|| raw.clone())?["error"].clone()))
}

#[tokio::test]
async fn duplicate_headers_are_rejected() -> Result<()> {
    let merchant = merchant().await?;
    let authorization = format!("Authorization: Bearer {}\r\n", merchant.account.secret_key);
    let body = sale(100).to_string();
    let post = |headers: &str| {
        format!(
            "POST /v1/payments HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    for (headers, status, code, param) in [
        (format!("Host: a\r\nHost: b\r\n{authorization}"), 400, "invalid_request", Some("Host")),
        (format!("Host: a\r\n{authorization}{authorization}"), 401, "authentication_failed", None),
        (
            format!("Host: a\r\n{authorization}Authorization: Bearer svc_sk_test_other\r\n"),
            401,
            "authentication_failed",
            None,
        ),
        (
            format!("Host: a\r\n{authorization}Idempotency-Key: a\r\nIdempotency-Key: b\r\n"),
            422,
            "invalid_request",
            Some("Idempotency-Key"),
        ),
    ] {
        let (actual, error) = send_raw(&merchant.api, &post(&headers)).await?;
        assert_eq!((actual, error["code"].as_str(), error["param"].as_str()), (status, Some(code), param), "{error}");
        assert!(error["requestId"].is_string() && error["docUrl"].is_string(), "{error}");
    }
    assert_eq!(merchant.books.operations().await?, 0, "no operation was created");
    refused_by_other_routes(&merchant).await
}

/// A second `Content-Type` before that of `post`, on `/v1`, a payment page and the gateway; and a second `Origin`.
async fn refused_by_other_routes(merchant: &Merchant) -> Result<()> {
    let link = merchant.api.post("/v1/payment_links", json!({"amount": 500, "currency": "USD"})).await?;
    let page = created(&link)["url"].as_str().context("a URL")?.to_owned();
    let page = page.find("/pay/").map(|at| page[at..].to_owned()).context("a page")?;
    let (form, text) = ("Content-Type: application/x-www-form-urlencoded\r\n", "Content-Type: text/plain\r\n");
    let (json, key) =
        ("Content-Type: application/json\r\n", format!("Authorization: Bearer {}\r\n", merchant.account.secret_key));
    let publishable = format!("Authorization: Bearer {}\r\n", merchant.account.publishable_key);
    let origin = "Origin: https://shop.example\r\n";
    let gateway = Client::new(&cluster().await?.gateway_url(0))?;
    for (server, path, headers, status, name) in [
        (&merchant.api, "/v1/customers", format!("{key}{json}{text}"), 422, "Content-Type"),
        (&merchant.api, "/v1/customers", format!("{key}{json}{json}"), 422, "Content-Type"),
        (&merchant.api, page.as_str(), format!("{form}{text}"), 422, "Content-Type"),
        (&merchant.api, "/v1/checkout_sessions", format!("{publishable}{json}{origin}{origin}"), 401, "Origin"),
        (&gateway, "/apis/sale.php", format!("{form}{text}"), 415, "Content-Type"),
    ] {
        let request =
            format!("POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}Content-Length: 2\r\n\r\n{{}}");
        let response = exchange(server, &request).await?;
        ensure!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {response}");
        ensure!(path.starts_with("/pay") || response.contains(name), "{path}: {response}");
    }
    Ok(())
}

#[tokio::test]
async fn responses_are_not_cacheable() -> Result<()> {
    let merchant = merchant().await?;
    let unauthenticated = Client::new(merchant.api.base())?;
    let responses: Vec<Response> = vec![
        merchant.pay(100).await?,
        merchant.api.get("/v1/payments").await?,
        merchant.api.get("/v1/payments/pay_1").await?,
        merchant.api.get("/v1/nonsense").await?,
        merchant.api.delete("/v1/payments").await?,
        unauthenticated.get("/v1/payments").await?,
        merchant.api.send(Method::OPTIONS, "/v1/tokens", None).await?,
    ];
    for response in responses {
        let headers = (response.header("cache-control"), response.header("x-content-type-options"));
        assert_eq!(headers, (Some("no-store"), Some("nosniff")), "{}", response.body);
    }
    Ok(())
}

#[tokio::test]
async fn doc_urls_explain_every_error_code() -> Result<()> {
    let merchant = merchant().await?;
    let page = Client::new(merchant.api.base())?.get("/docs").await?;
    let html = String::from_utf8(page.bytes)?;
    let document = merchant.api.get("/openapi.json").await?.body;
    let codes = document["components"]["schemas"]["ErrorDetail"]["properties"]["code"]["x-extensible-enum"].clone();
    let codes: BTreeSet<&str> = codes.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(codes.len() >= 10, "{codes:?}");
    for code in &codes {
        assert!(html.contains(&format!("id=\"error-{code}\"")), "{code}");
    }
    let missing = merchant.api.get("/v1/payments/pay_1").await?;
    let url = refused(&missing, 404, "not_found")["docUrl"].as_str().context("a docUrl")?.to_owned();
    assert!(url.starts_with(merchant.api.base()), "{url}");
    Ok(())
}

#[tokio::test]
async fn not_found_errors_name_the_object() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let foreign = other_merchant.customer().await?;
    let message = |response: &Response| {
        not_found(response);
        response.body["error"]["message"].as_str().unwrap_or_default().to_owned()
    };
    for id in [foreign.as_str(), "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "u-1"] {
        let retrieved = merchant.api.get(&format!("/v1/customers/{id}")).await?;
        assert_eq!(message(&retrieved), format!("no such customer: {id}"));
        let created =
            merchant.api.post("/v1/invoices", json!({"customerId": id, "currency": "USD", "amount": 1})).await?;
        assert_eq!(message(&created), format!("no such customer: {id}"));
    }
    let long = "x".repeat(5_000);
    assert!(message(&merchant.api.get(&format!("/v1/customers/{long}")).await?).len() < 200);
    let number = merchant.api.get("/v1/payments/4242-4242-4242-4242").await?;
    assert!(!message(&number).contains("4242"), "{}", number.body);
    let line = merchant.api.get("/v1/payments/a%0Ab").await?;
    assert!(!message(&line).contains('\n'), "{}", line.body);
    Ok(())
}

#[tokio::test]
async fn errors_state_the_remedy() -> Result<()> {
    let (merchant, cluster) = (merchant().await?, cluster().await?);
    let message = |response: &Response, param: &str| {
        invalid(response, param);
        response.body["error"]["message"].as_str().unwrap_or_default().to_owned()
    };
    let visa =
        message(&merchant.api.post("/v1/payments", with(sale(1), "paymentToken", "tok_visa")).await?, "paymentToken");
    assert!(visa.contains("tok_ok, tok_partial") && visa.contains("tok_insufficient"), "{visa}");
    let browser = Browser::for_account(cluster, &merchant.account)?;
    let exchanged = message(&browser.exchange(&browser.session().await?, "tok_visa").await?, "upstreamToken");
    assert!(exchanged.contains("tok_ok"), "{exchanged}");
    let number = merchant.api.post("/v1/payments", with(sale(1), "paymentToken", "4242 4242 4242 4242")).await?;
    let error = message(&number, "paymentToken");
    assert!(
        error.contains("must not be sent to this API") && error.contains("card field") && !error.contains("4242"),
        "{error}"
    );
    let shop = Shop::new(cluster, &[]).await?;
    let mock_token = shop.merchant.api.post("/v1/payments", sale(1)).await?;
    assert!(message(&mock_token, "paymentToken").contains("with the mock provider"), "{}", mock_token.body);
    let page = Client::new(merchant.api.base())?.bearer(&merchant.account.publishable_key)?;
    let wrong = page.header("origin", "https://other.example")?.post("/v1/checkout_sessions", json!({})).await?;
    let error = refused(&wrong, 401, "authentication_failed")["message"].as_str().unwrap_or_default();
    assert!(error.contains("https://other.example") && error.contains("ctl accounts set"), "{error}");
    ok(&merchant.api.get("/v1/payments").await?);
    Ok(())
}
