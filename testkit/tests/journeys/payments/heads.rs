//! Heads that two readers could understand differently, and what every answer and every error says of itself.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Answer, Client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Browser, Shop, cluster, invalid, merchant, not_found, ok, refused, sale, with};

/// Sends a head as it is, and answers status and error.
async fn raw(api: &Client, head: &str) -> Result<(u16, Value)> {
    let address = api.base().strip_prefix("http://").context("an address")?;
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    let mut said = String::new();
    stream.read_to_string(&mut said).await?;
    let status = said.split(' ').nth(1).context("a status")?.parse()?;
    let body = said.split("\r\n\r\n").nth(1).context("a body")?;
    Ok((status, serde_json::from_str::<Value>(body).with_context(|| said.clone())?["error"].clone()))
}

#[tokio::test]
async fn what_must_be_sent_once_is_refused_if_it_is_sent_twice() -> Result<()> {
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
        let (answered, error) = raw(&merchant.api, &post(&headers)).await?;
        assert_eq!((answered, error["code"].as_str(), error["param"].as_str()), (status, Some(code), param), "{error}");
        assert!(error["requestId"].is_string() && error["docUrl"].is_string(), "{error}");
    }
    assert_eq!(merchant.books.operations().await?, 0, "nothing was done");
    Ok(())
}

#[tokio::test]
async fn no_answer_is_kept_on_its_way() -> Result<()> {
    let merchant = merchant().await?;
    let nobody = Client::new(merchant.api.base())?;
    let answers: Vec<Answer> = vec![
        merchant.pay(100).await?,
        merchant.api.get("/v1/payments").await?,
        merchant.api.get("/v1/payments/pay_1").await?,
        merchant.api.get("/v1/nonsense").await?,
        merchant.api.delete("/v1/payments").await?,
        nobody.get("/v1/payments").await?,
        merchant.api.send(Method::OPTIONS, "/v1/tokens", None).await?,
    ];
    for answer in answers {
        let headers = (answer.header("cache-control"), answer.header("x-content-type-options"));
        assert_eq!(headers, (Some("no-store"), Some("nosniff")), "{}", answer.body);
    }
    Ok(())
}

#[tokio::test]
async fn every_code_is_explained_where_its_errors_point() -> Result<()> {
    let merchant = merchant().await?;
    let page = Client::new(merchant.api.base())?.get("/docs").await?;
    let html = String::from_utf8(page.bytes)?;
    let document = merchant.api.get("/openapi.json").await?.body;
    let codes = document["components"]["schemas"]["ErrorDetail"]["properties"]["code"]["enum"].clone();
    let codes: BTreeSet<&str> = codes.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(codes.len() >= 10, "{codes:?}");
    for code in &codes {
        assert!(html.contains(&format!("id=\"error-{code}\"")), "{code}");
    }
    let missing = merchant.api.get("/v1/payments/pay_1").await?;
    let url = refused(&missing, 404, "not_found")["docUrl"].as_str().context("an address")?.to_owned();
    assert!(url.starts_with(merchant.api.base()), "{url}");
    Ok(())
}

#[tokio::test]
async fn a_404_names_what_is_not_there() -> Result<()> {
    let (mine, theirs) = (merchant().await?, merchant().await?);
    let foreign = theirs.customer().await?;
    let message = |answer: &Answer| {
        not_found(answer);
        answer.body["error"]["message"].as_str().unwrap_or_default().to_owned()
    };
    for id in [foreign.as_str(), "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "u-1"] {
        let got = mine.api.get(&format!("/v1/customers/{id}")).await?;
        assert_eq!(message(&got), format!("no such customer: {id}"));
        let named = mine.api.post("/v1/invoices", json!({"customerId": id, "currency": "USD", "amount": 1})).await?;
        assert_eq!(message(&named), format!("no such customer: {id}"));
    }
    let long = "x".repeat(5_000);
    assert!(message(&mine.api.get(&format!("/v1/customers/{long}")).await?).len() < 200);
    let number = mine.api.get("/v1/payments/4242-4242-4242-4242").await?;
    assert!(!message(&number).contains("4242"), "{}", number.body);
    let line = mine.api.get("/v1/payments/a%0Ab").await?;
    assert!(!message(&line).contains('\n'), "{}", line.body);
    Ok(())
}

#[tokio::test]
async fn errors_say_what_to_do() -> Result<()> {
    let (merchant, cluster) = (merchant().await?, cluster().await?);
    let said = |answer: &Answer, param: &str| {
        invalid(answer, param);
        answer.body["error"]["message"].as_str().unwrap_or_default().to_owned()
    };
    let visa =
        said(&merchant.api.post("/v1/payments", with(sale(1), "paymentToken", "tok_visa")).await?, "paymentToken");
    assert!(visa.contains("tok_ok, tok_partial") && visa.contains("tok_insufficient"), "{visa}");
    let browser = Browser::of(cluster, &merchant.account)?;
    let exchanged = said(&browser.exchange(&browser.session().await?, "tok_visa").await?, "upstreamToken");
    assert!(exchanged.contains("tok_ok"), "{exchanged}");
    let number = merchant.api.post("/v1/payments", with(sale(1), "paymentToken", "4242 4242 4242 4242")).await?;
    let told = said(&number, "paymentToken");
    assert!(told.contains("never go to this API") && told.contains("card field") && !told.contains("4242"), "{told}");
    let shop = Shop::new(cluster, &[]).await?;
    let mock_token = shop.merchant.api.post("/v1/payments", sale(1)).await?;
    assert!(said(&mock_token, "paymentToken").contains("mock provider alone"), "{}", mock_token.body);
    let page = Client::new(merchant.api.base())?.bearer(&merchant.account.publishable_key)?;
    let wrong = page.header("origin", "https://other.example")?.post("/v1/checkout_sessions", json!({})).await?;
    let told = refused(&wrong, 401, "authentication_failed")["message"].as_str().unwrap_or_default();
    assert!(told.contains("https://other.example") && told.contains("ctl accounts set"), "{told}");
    ok(&merchant.api.get("/v1/payments").await?);
    Ok(())
}
