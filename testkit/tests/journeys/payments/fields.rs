//! Invalid fields are rejected by name and have no effect.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Merchant, created, ids, invalid, merchant, not_found, payment, sale, with, without};

async fn post_text(merchant: &Merchant, text: String) -> Result<testkit::Response> {
    merchant.api.send(Method::POST, "/v1/payments", Some(text.into_bytes())).await
}

#[tokio::test]
async fn amounts_must_be_integers_in_minor_units() -> Result<()> {
    let merchant = merchant().await?;
    let wrong = [
        "10.0",
        "10.5",
        "1e3",
        "\"10\"",
        "true",
        "0",
        "-0",
        "-1",
        "9007199254740992",
        "-9007199254740991",
        "1e400",
        &"9".repeat(400),
        "99999999999999999999",
        "null",
        "[10]",
        "{}",
    ];
    for amount in wrong {
        // Raw text, because a JSON library would rewrite 1e3.
        let body = format!(r#"{{"amount": {amount}, "currency": "USD", "paymentToken": "tok_ok"}}"#);
        let response = post_text(&merchant, body).await?;
        assert_eq!(response.status, 422, "{amount}: {}", response.body);
        invalid(&response, "amount");
    }
    invalid(&merchant.api.post("/v1/payments", without(sale(1), "amount")).await?, "amount");
    assert!(ids(&merchant.api.get("/v1/payments").await?).is_empty(), "rejected payments are not stored");
    let largest = merchant.api.post("/v1/payments", sale(9_007_199_254_740_991)).await?;
    assert_eq!(created(&largest)["amount"], 9_007_199_254_740_991_i64);
    assert_eq!(created(&merchant.api.post("/v1/payments", sale(1)).await?)["amount"], 1);
    Ok(())
}

#[tokio::test]
async fn invalid_fields_are_rejected() -> Result<()> {
    let merchant = merchant().await?;
    let wrong = [
        ("currency", vec![json!("US"), json!("USDX"), json!("XXX"), json!("ZZZ"), json!(840), json!(""), Value::Null]),
        ("capture", vec![json!("true"), json!(1), json!(0), json!([])]),
        ("returnUrl", vec![json!("nonsense"), json!("/back"), json!("ftp://shop.example"), json!(1), json!("")]),
        ("paymentToken", vec![json!(1), json!({}), json!("nonsense"), json!(""), json!("mtok_0000"), Value::Null]),
    ];
    for (field, values) in wrong {
        for value in values {
            let response = merchant.api.post("/v1/payments", with(sale(100), field, value.clone())).await?;
            assert_eq!(response.status, 422, "{field} {value}: {}", response.body);
            invalid(&response, field);
        }
    }
    invalid(&merchant.api.post("/v1/payments", without(sale(100), "currency")).await?, "currency");
    assert!(ids(&merchant.api.get("/v1/payments").await?).is_empty(), "rejected payments are not stored");
    assert_eq!(merchant.books.charges().await?, 0);
    Ok(())
}

#[tokio::test]
async fn urls_are_parsed_as_browsers_do_and_stored_as_given() -> Result<()> {
    let merchant = merchant().await?;
    let international = "https://m\u{fc}ller.example/danke?von=\"a\"&f\u{fc}r={b}|<c>#\u{fc}";
    let longest = format!("https://m\u{fc}ller.example/{}", "\u{fc}".repeat(2048 - 23));
    for url in [international, &longest] {
        created(&merchant.api.post("/v1/payments", with(sale(100), "returnUrl", url)).await?);
        let url = url.split('#').next().expect("a URL");
        let endpoint = merchant.api.post("/v1/webhook_endpoints", json!({"url": url})).await?;
        assert_eq!(created(&endpoint)["url"], url);
    }
    let too_long = format!("{longest}x");
    for url in [&too_long, "https:shop.example", "https:\\\\shop.example", "https://shop.example/a b", "https://a:b:c"]
    {
        for (path, body, field) in
            [("/v1/payments", sale(100), "returnUrl"), ("/v1/webhook_endpoints", json!({}), "url")]
        {
            let response = merchant.api.post(path, with(body, field, url)).await?;
            invalid(&response, field);
            if url == too_long {
                let message = response.body["error"]["message"].as_str().unwrap_or_default();
                assert!(message.contains("2048 characters"), "{message}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn currencies_that_are_no_longer_or_not_used_for_payments_are_rejected() -> Result<()> {
    let merchant = merchant().await?;
    let funds = ["BOV", "CHE", "CHW", "CLF", "COU", "MXV", "USN", "UYI", "UYW"];
    let withdrawn = ["ANG", "BGN", "CUC", "DEM", "HRK", "SLL", "ZWL"];
    let other = ["XAD", "XAU", "XDR", "XTS", "XXX"];
    for code in [&funds[..], &withdrawn, &other].concat() {
        invalid(&merchant.api.post("/v1/payments", with(sale(100), "currency", code)).await?, "currency");
    }
    for code in ["SLE", "VED", "VES", "XCG", "XOF", "ZWG"] {
        assert_eq!(
            created(&merchant.api.post("/v1/payments", with(sale(100), "currency", code)).await?)["currency"],
            code
        );
    }
    Ok(())
}

#[tokio::test]
async fn instants_beyond_the_last_one_are_rejected_with_its_name() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let invoice = json!({"customerId": customer, "currency": "USD", "amount": 100});
    let link = json!({"currency": "USD", "amount": 100});
    for (path, body, field) in [("/v1/invoices", &invoice, "dueAt"), ("/v1/payment_links", &link, "expiresAt")] {
        let last = "9999-12-30T22:00:00.000Z";
        let response = merchant.api.post(path, with(body.clone(), field, last)).await?;
        assert_eq!(created(&response)[field], last);
        let response = merchant.api.post(path, with(body.clone(), field, "9999-12-31T23:59:59Z")).await?;
        invalid(&response, field);
        let message = response.body["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("9999-12-30T22:00:00Z"), "{message}");
    }
    Ok(())
}

#[tokio::test]
async fn null_equals_an_absent_field() -> Result<()> {
    let merchant = merchant().await?;
    let mut body = with(sale(100), "capture", Value::Null);
    for (field, value) in [("returnUrl", Value::Null), ("paymentMethodId", Value::Null), ("currency", json!("eur"))] {
        body = with(body, field, value);
    }
    let response = merchant.api.post("/v1/payments", body).await?;
    assert_eq!((&created(&response)["capture"], &response.body["currency"]), (&json!(true), &json!("EUR")));
    let with_return_url =
        merchant.api.post("/v1/payments", with(sale(100), "returnUrl", "https://shop.example/back?a=1")).await?;
    created(&with_return_url);
    Ok(())
}

#[tokio::test]
async fn exactly_one_payment_source_is_required() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let card = merchant.save_card(&customer, "tok_ok").await?;
    let both = with(sale(100), "paymentMethodId", created(&card)["id"].clone());
    assert_eq!(merchant.api.post("/v1/payments", both).await?.status, 422);
    let none = merchant.api.post("/v1/payments", without(sale(100), "paymentToken")).await?;
    assert_eq!(none.status, 422, "{}", none.body);
    for unknown in ["pm_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"] {
        let body = with(without(payment(100, ""), "paymentToken"), "paymentMethodId", unknown);
        not_found(&merchant.api.post("/v1/payments", body).await?);
    }
    assert_eq!(merchant.books.charges().await?, 0);
    Ok(())
}
