//! What is kept of an invoice, and what is refused.

use anyhow::Result;
use serde_json::{Value, json};

use super::{INVOICES, invoice, of_items, owed, row, shown};
use crate::support::{cluster, created, id, invalid, merchant, not_found, walk, with, without};

#[tokio::test]
async fn what_is_sent_is_kept_and_issued_at_once() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let answer = merchant.api.post(INVOICES, owed(&customer, 500)).await?;
    let made = created(&answer);
    assert!(id(made)?.starts_with("inv_"));
    assert_eq!((&made["issuedAt"], &made["dueAt"]), (&made["createdAt"], &made["createdAt"]), "due on receipt");
    let of_page = format!("{}/pay/i/", cluster().await?.api_url(0));
    let token = made["url"].as_str().and_then(|url| url.strip_prefix(&of_page)).expect("an address of ours");
    assert!(token.len() >= 32 && token.bytes().all(|b| b.is_ascii_hexdigit()), "{token} has 128 random bits and more");
    let plain = ["id", "createdAt", "issuedAt", "dueAt", "url"].into_iter().fold(made.clone(), without);
    let expected = json!({
        "object": "invoice", "livemode": false, "customerId": customer, "status": "open", "number": "INV-000001",
        "currency": "USD", "amount": 500, "amountPaid": 0, "items": [], "paymentTerms": "due_on_receipt",
    });
    assert_eq!(plain, expected);
    assert_eq!(&shown(&merchant, &id(made)?).await?, made);

    let full = json!({
        "customerId": customer, "currency": "jpy", "description": "é November", "amount": 107,
        "items": [row("Hours", 1, 100), row("Tea", 3, 0)], "amountTax": 10, "amountDiscount": 3, "paymentTerms": "net_30",
    });
    let answer = merchant.api.post(INVOICES, full.clone()).await?;
    for (name, value) in with(full, "currency", "JPY").as_object().expect("an object") {
        assert_eq!(&created(&answer)[name], value, "{name}");
    }
    assert_eq!(shown(&merchant, &id(&answer.body)?).await?, answer.body);
    Ok(())
}

#[tokio::test]
async fn fields_are_strict() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    for name in ["customerId", "currency", "amount"] {
        invalid(&merchant.api.post(INVOICES, without(owed(&customer, 100), name)).await?, name);
        invalid(&merchant.api.post(INVOICES, with(owed(&customer, 100), name, Value::Null)).await?, name);
    }
    let no_part = [json!(-1), json!(1.5), json!(10.0), json!("10"), json!(true), json!(9_007_199_254_740_992_i64)];
    let no_amount = [&no_part[..], &[json!(0)]].concat();
    let no_instant = [
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
        ("amount", no_amount),
        ("amountTax", no_part.to_vec()),
        ("amountDiscount", no_part.to_vec()),
        ("dueAt", no_instant.to_vec()),
        ("paymentTerms", vec![json!("net_45"), json!("Net_7"), json!(""), json!(30)]),
        ("items", vec![json!({}), json!("x"), json!(1), json!(true)]),
    ];
    for (name, values) in wrong {
        for value in values {
            invalid(&merchant.api.post(INVOICES, with(owed(&customer, 100), name, value)).await?, name);
        }
    }
    let body = format!(r#"{{"customerId":"{customer}","currency":"USD","amount":1e3}}"#);
    let answer = merchant.api.send(reqwest::Method::POST, INVOICES, Some(body.into_bytes())).await?;
    invalid(&answer, "amount");
    assert!(walk(&merchant.api, &format!("{INVOICES}?"), 100).await?.is_empty(), "what is refused is not kept");
    assert_eq!(invoice(&merchant, &customer).await?["number"], "INV-000001", "and has used up no number");
    Ok(())
}

#[tokio::test]
async fn null_is_as_good_as_nothing() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let optional = ["description", "items", "amountTax", "amountDiscount", "dueAt", "paymentTerms"];
    let sent = optional.into_iter().fold(owed(&customer, 100), |body, name| with(body, name, Value::Null));
    let answer = merchant.api.post(INVOICES, sent).await?;
    assert_eq!(created(&answer)["items"], json!([]));
    assert_eq!(answer.body["paymentTerms"], "due_on_receipt");
    let sent = with(of_items(&customer, &[row("Hours", 2, 50)]), "amount", Value::Null);
    assert_eq!(created(&merchant.api.post(INVOICES, sent).await?)["amount"], 100);
    Ok(())
}

#[tokio::test]
async fn a_due_date_is_named_or_reckoned_and_not_both() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    for (sent, kept) in [
        ("2031-05-06T07:08:09Z", "2031-05-06T07:08:09.000Z"),
        ("2031-05-06T07:08:09.123456+02:00", "2031-05-06T05:08:09.123Z"),
        ("2001-01-01T00:00:00Z", "2001-01-01T00:00:00.000Z"),
    ] {
        let answer = merchant.api.post(INVOICES, with(owed(&customer, 100), "dueAt", sent)).await?;
        assert_eq!(created(&answer)["dueAt"], kept);
        assert!(answer.body.get("paymentTerms").is_none(), "{}", answer.body);
        assert_eq!(shown(&merchant, &id(&answer.body)?).await?, answer.body);
    }
    let both = with(with(owed(&customer, 100), "dueAt", "2031-05-06T07:08:09Z"), "paymentTerms", "due_on_receipt");
    invalid(&merchant.api.post(INVOICES, both).await?, "paymentTerms");
    Ok(())
}

#[tokio::test]
async fn another_accounts_customer_is_as_unknown_as_any() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let theirs = stranger.customer().await?;
    for unknown in [theirs.as_str(), "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", ""] {
        not_found(&merchant.api.post(INVOICES, owed(unknown, 100)).await?);
        // What the body says wrong comes before whom it names.
        invalid(&merchant.api.post(INVOICES, of_items(unknown, &[row("Nothing", 1, 0)])).await?, "items");
        let both = with(with(owed(unknown, 100), "dueAt", "2031-05-06T07:08:09Z"), "paymentTerms", "net_7");
        invalid(&merchant.api.post(INVOICES, both).await?, "paymentTerms");
    }
    assert!(walk(&merchant.api, &format!("{INVOICES}?"), 100).await?.is_empty());
    Ok(())
}
