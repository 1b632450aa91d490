//! Stored invoice fields and their validation.

use anyhow::Result;
use serde_json::{Value, json};

use super::{INVOICES, get_invoice, invoice, minimal, row, with_items};
use crate::support::{cluster, created, id, invalid, list_all, merchant, not_found, with, without};

#[tokio::test]
async fn invoices_store_the_sent_fields_and_are_issued_immediately() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let response = merchant.api.post(INVOICES, minimal(&customer, 500)).await?;
    let made = created(&response);
    assert!(id(made)?.starts_with("inv_"));
    assert_eq!((&made["issuedAt"], &made["dueAt"]), (&made["createdAt"], &made["createdAt"]), "due on receipt");
    let page_prefix = format!("{}/pay/i/", cluster().await?.api_url(0));
    let token = made["url"].as_str().and_then(|url| url.strip_prefix(&page_prefix)).expect("a page URL of this API");
    assert!(token.len() >= 32 && token.bytes().all(|b| b.is_ascii_hexdigit()), "{token} has at least 128 random bits");
    let without_generated = ["id", "createdAt", "issuedAt", "dueAt", "url"].into_iter().fold(made.clone(), without);
    let expected = json!({
        "object": "invoice", "livemode": false, "version": 2, "customerId": customer, "status": "open", "number": "INV-000001",
        "currency": "USD", "amount": 500, "amountPaid": 0, "items": [], "paymentTerms": "due_on_receipt",
    });
    assert_eq!(without_generated, expected);
    assert_eq!(&get_invoice(&merchant, &id(made)?).await?, made);

    let full = json!({
        "customerId": customer, "currency": "jpy", "description": "é November", "amount": 107,
        "items": [row("Hours", 1, 100), row("Tea", 3, 0)], "amountTax": 10, "amountDiscount": 3, "paymentTerms": "net_30",
    });
    let response = merchant.api.post(INVOICES, full.clone()).await?;
    for (name, value) in with(full, "currency", "JPY").as_object().expect("an object") {
        assert_eq!(&created(&response)[name], value, "{name}");
    }
    assert_eq!(get_invoice(&merchant, &id(&response.body)?).await?, response.body);
    Ok(())
}

#[tokio::test]
async fn invalid_fields_are_rejected() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    for name in ["customerId", "currency", "amount"] {
        invalid(&merchant.api.post(INVOICES, without(minimal(&customer, 100), name)).await?, name);
        invalid(&merchant.api.post(INVOICES, with(minimal(&customer, 100), name, Value::Null)).await?, name);
    }
    let not_a_part = [json!(-1), json!(1.5), json!(10.0), json!("10"), json!(true), json!(9_007_199_254_740_992_i64)];
    let not_an_amount = [&not_a_part[..], &[json!(0)]].concat();
    let not_a_timestamp = [
        json!(""),
        json!("2026-11-21"),
        json!("2026-11-21T09:30:00"),
        json!("2026-02-30T00:00:00Z"),
        json!("2026-11-21 09:30:00Z"),
        json!(1_800_000_000),
    ];
    let wrong = [
        ("customerId", vec![json!(1), json!({})]),
        ("currency", vec![json!("XXX"), json!("US"), json!(840)]),
        ("description", vec![json!(1), json!(""), json!("a\nb"), json!("x".repeat(256))]),
        ("amount", not_an_amount),
        ("amountTax", not_a_part.to_vec()),
        ("amountDiscount", not_a_part.to_vec()),
        ("dueAt", not_a_timestamp.to_vec()),
        ("paymentTerms", vec![json!("net_45"), json!("Net_7"), json!(""), json!(30)]),
        ("items", vec![json!({}), json!("x"), json!(1), json!(true)]),
    ];
    for (name, values) in wrong {
        for value in values {
            invalid(&merchant.api.post(INVOICES, with(minimal(&customer, 100), name, value)).await?, name);
        }
    }
    let body = format!(r#"{{"customerId":"{customer}","currency":"USD","amount":1e3}}"#);
    let response = merchant.api.send(reqwest::Method::POST, INVOICES, Some(body.into_bytes())).await?;
    invalid(&response, "amount");
    assert!(
        list_all(&merchant.api, &format!("{INVOICES}?"), 100).await?.is_empty(),
        "rejected invoices are not stored"
    );
    assert_eq!(invoice(&merchant, &customer).await?["number"], "INV-000001", "rejected invoices use no number");
    Ok(())
}

#[tokio::test]
async fn null_equals_an_absent_field() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let optional = ["description", "items", "amountTax", "amountDiscount", "dueAt", "paymentTerms"];
    let sent = optional.into_iter().fold(minimal(&customer, 100), |body, name| with(body, name, Value::Null));
    let response = merchant.api.post(INVOICES, sent).await?;
    assert_eq!(created(&response)["items"], json!([]));
    assert_eq!(response.body["paymentTerms"], "due_on_receipt");
    let sent = with(with_items(&customer, &[row("Hours", 2, 50)]), "amount", Value::Null);
    assert_eq!(created(&merchant.api.post(INVOICES, sent).await?)["amount"], 100);
    Ok(())
}

#[tokio::test]
async fn due_at_and_payment_terms_are_exclusive() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    for (sent, stored) in [
        ("2031-05-06T07:08:09Z", "2031-05-06T07:08:09.000Z"),
        ("2031-05-06T07:08:09.123456+02:00", "2031-05-06T05:08:09.123Z"),
        ("2001-01-01T00:00:00Z", "2001-01-01T00:00:00.000Z"),
    ] {
        let response = merchant.api.post(INVOICES, with(minimal(&customer, 100), "dueAt", sent)).await?;
        assert_eq!(created(&response)["dueAt"], stored);
        assert!(response.body.get("paymentTerms").is_none(), "{}", response.body);
        assert_eq!(get_invoice(&merchant, &id(&response.body)?).await?, response.body);
    }
    let both = with(with(minimal(&customer, 100), "dueAt", "2031-05-06T07:08:09Z"), "paymentTerms", "due_on_receipt");
    invalid(&merchant.api.post(INVOICES, both).await?, "paymentTerms");
    Ok(())
}

#[tokio::test]
async fn customers_of_other_accounts_are_not_found() -> Result<()> {
    let (merchant, other) = (merchant().await?, merchant().await?);
    let foreign = other.customer().await?;
    for unknown in [foreign.as_str(), "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", ""] {
        not_found(&merchant.api.post(INVOICES, minimal(unknown, 100)).await?);
        // Syntax errors in the body come before unknown customers.
        invalid(&merchant.api.post(INVOICES, with_items(unknown, &[row("Nothing", 1, 0)])).await?, "items");
        let both = with(with(minimal(unknown, 100), "dueAt", "2031-05-06T07:08:09Z"), "paymentTerms", "net_7");
        invalid(&merchant.api.post(INVOICES, both).await?, "paymentTerms");
    }
    assert!(list_all(&merchant.api, &format!("{INVOICES}?"), 100).await?.is_empty());
    Ok(())
}
