//! The fields of a customer: what is stored and what is rejected.

use anyhow::Result;
use serde_json::{Value, json};

use super::{CUSTOMERS, ada, field};
use crate::support::{created, error_text, id, invalid, merchant, not_found, ok, refused, with, without};

#[tokio::test]
async fn sent_fields_are_stored_and_others_are_absent() -> Result<()> {
    let merchant = merchant().await?;
    let response = merchant.api.post(CUSTOMERS, ada()).await?;
    let original = created(&response);
    let plain = without(without(original.clone(), "id"), "createdAt");
    let expected = json!({"object": "customer", "livemode": false, "version": 1, "email": "ada@example.com", "name": "ada", "customFields": []});
    assert_eq!(plain, expected);
    assert!(id(original)?.starts_with("cus_"));

    let rows = json!([field("Size", "text", "L"), field("Age-1_b c", "number", "-3.14")]);
    let full =
        json!({"email": "b@example.com", "name": "Bea", "phone": "+1 555", "externalId": "b-1", "customFields": rows});
    let response = merchant.api.post(CUSTOMERS, full.clone()).await?;
    for (name, value) in full.as_object().expect("an object") {
        assert_eq!(&created(&response)[name], value);
    }
    let read = merchant.api.get(&format!("{CUSTOMERS}/{}", id(&response.body)?)).await?;
    assert_eq!(ok(&read), &response.body);
    not_found(&merchant.api.get(&format!("{CUSTOMERS}/b-1")).await?);
    Ok(())
}

#[tokio::test]
async fn fields_are_strict() -> Result<()> {
    let merchant = merchant().await?;
    invalid(&merchant.api.post(CUSTOMERS, json!({})).await?, "email");
    let wrong = [
        ("email", vec![json!(null), json!(""), json!("ada"), json!("@b"), json!("a@"), json!("a b@c"), json!(1)]),
        ("email", vec![json!("a@b.de,c@d.de"), json!("<a@b.de>"), json!("A <a@b.de>"), json!("a@b.de (A)")]),
        ("email", vec![json!("a@b..de"), json!("a@.de"), json!("a@b.de."), json!(format!("{}@b.de", "x".repeat(250)))]),
        ("name", vec![json!(1), json!(""), json!("a\nb"), json!("x".repeat(256))]),
        ("phone", vec![json!(5), json!(""), json!({})]),
        ("externalId", vec![json!(1), json!(""), json!("x".repeat(256))]),
        ("customFields", vec![json!({}), json!("a"), json!(1)]),
    ];
    let customer = format!("{CUSTOMERS}/{}", merchant.customer().await?);
    for (name, values) in wrong {
        for value in values {
            invalid(&merchant.api.post(CUSTOMERS, with(ada(), name, value.clone())).await?, name);
            if value != Value::Null {
                invalid(&merchant.api.post(&customer, json!({name: value})).await?, name);
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn international_addresses_are_accepted() -> Result<()> {
    let merchant = merchant().await?;
    let longest = format!("{}@b.de", "x".repeat(249));
    for email in ["zo\u{eb}@m\u{fc}ller.example", "\u{9001}@\u{4f8b}.jp", "o'brien+x@b.de", "root@localhost", &longest]
    {
        let response = merchant.api.post(CUSTOMERS, json!({"email": email})).await?;
        assert_eq!(created(&response)["email"], email);
    }
    Ok(())
}

#[tokio::test]
async fn the_name_defaults_to_the_local_part_at_creation() -> Result<()> {
    let merchant = merchant().await?;
    for (email, name) in [("grace.hopper+x@example.com", "grace.hopper+x"), ("\"a@b\"@example.com", "\"a@b\"")] {
        let response = merchant.api.post(CUSTOMERS, json!({"email": email, "name": null})).await?;
        assert_eq!(created(&response)["name"], name);
        let path = format!("{CUSTOMERS}/{}", id(&response.body)?);
        let moved = merchant.api.post(&path, json!({"email": "new@example.com"})).await?;
        assert_eq!((&ok(&moved)["name"], &moved.body["email"]), (&json!(name), &json!("new@example.com")));
    }
    Ok(())
}

#[tokio::test]
async fn an_update_changes_only_what_is_sent() -> Result<()> {
    let merchant = merchant().await?;
    let original = merchant.api.post(CUSTOMERS, with(with(ada(), "phone", "1"), "externalId", "x")).await?;
    let path = format!("{CUSTOMERS}/{}", id(created(&original))?);
    let named = merchant.api.post(&path, json!({"name": "Ada L."})).await?;
    assert_eq!(ok(&named), &with(with(original.body.clone(), "name", "Ada L."), "version", 2));
    for nothing in [json!({}), json!({"name": null, "phone": null, "email": null})] {
        assert_eq!(ok(&merchant.api.post(&path, nothing).await?), &named.body);
    }
    assert_eq!(ok(&merchant.api.get(&path).await?), &named.body);
    Ok(())
}

#[tokio::test]
async fn another_accounts_customer_does_not_exist() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let customer = merchant.customer().await?;
    let foreign = other_merchant.api.get(&format!("{CUSTOMERS}/{customer}")).await?;
    let unknown = other_merchant.api.get(&format!("{CUSTOMERS}/cus_01ARZ3NDEKTSV4RRFFQ69G5FAV")).await?;
    not_found(&foreign);
    assert_eq!(error_text(&foreign, &customer), error_text(&unknown, "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV"));
    not_found(&other_merchant.api.post(&format!("{CUSTOMERS}/{customer}"), json!({"name": "mine"})).await?);
    // The body is validated before the path's object is looked up.
    invalid(&other_merchant.api.post(&format!("{CUSTOMERS}/{customer}"), json!({"name": 1})).await?, "name");
    refused(&other_merchant.api.get(&format!("/v1/payment_methods?customerId={customer}")).await?, 404, "not_found");
    Ok(())
}
