//! What is kept of a customer, and what is refused.

use anyhow::Result;
use serde_json::{Value, json};

use super::{CUSTOMERS, ada, field};
use crate::support::{created, id, invalid, merchant, not_found, ok, refused, said_of, with, without};

#[tokio::test]
async fn what_is_sent_is_kept_and_the_rest_is_absent() -> Result<()> {
    let merchant = merchant().await?;
    let answer = merchant.api.post(CUSTOMERS, ada()).await?;
    let made = created(&answer);
    let plain = without(without(made.clone(), "id"), "createdAt");
    let expected =
        json!({"object": "customer", "livemode": false, "email": "ada@example.com", "name": "ada", "customFields": []});
    assert_eq!(plain, expected);
    assert!(id(made)?.starts_with("cus_"));

    let rows = json!([field("Size", "text", "L"), field("Age-1_b c", "number", "-3.14")]);
    let full =
        json!({"email": "b@example.com", "name": "Bea", "phone": "+1 555", "externalId": "b-1", "customFields": rows});
    let answer = merchant.api.post(CUSTOMERS, full.clone()).await?;
    for (name, value) in full.as_object().expect("an object") {
        assert_eq!(&created(&answer)[name], value);
    }
    let read = merchant.api.get(&format!("{CUSTOMERS}/{}", id(&answer.body)?)).await?;
    assert_eq!(ok(&read), &answer.body);
    not_found(&merchant.api.get(&format!("{CUSTOMERS}/b-1")).await?);
    Ok(())
}

#[tokio::test]
async fn fields_are_strict() -> Result<()> {
    let merchant = merchant().await?;
    invalid(&merchant.api.post(CUSTOMERS, json!({})).await?, "email");
    let wrong = [
        ("email", vec![json!(null), json!(""), json!("ada"), json!("@b"), json!("a@"), json!("a b@c"), json!(1)]),
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
async fn the_name_defaults_once_to_the_local_part() -> Result<()> {
    let merchant = merchant().await?;
    for (email, name) in [("grace.hopper+x@example.com", "grace.hopper+x"), ("\"a@b\"@example.com", "\"a@b\"")] {
        let answer = merchant.api.post(CUSTOMERS, json!({"email": email, "name": null})).await?;
        assert_eq!(created(&answer)["name"], name);
        let path = format!("{CUSTOMERS}/{}", id(&answer.body)?);
        let moved = merchant.api.post(&path, json!({"email": "new@example.com"})).await?;
        assert_eq!((&ok(&moved)["name"], &moved.body["email"]), (&json!(name), &json!("new@example.com")));
    }
    Ok(())
}

#[tokio::test]
async fn an_update_changes_only_what_is_sent() -> Result<()> {
    let merchant = merchant().await?;
    let made = merchant.api.post(CUSTOMERS, with(with(ada(), "phone", "1"), "externalId", "x")).await?;
    let path = format!("{CUSTOMERS}/{}", id(created(&made))?);
    let named = merchant.api.post(&path, json!({"name": "Ada L."})).await?;
    assert_eq!(ok(&named), &with(made.body.clone(), "name", "Ada L."));
    for nothing in [json!({}), json!({"name": null, "phone": null, "email": null})] {
        assert_eq!(ok(&merchant.api.post(&path, nothing).await?), &named.body);
    }
    assert_eq!(ok(&merchant.api.get(&path).await?), &named.body);
    Ok(())
}

#[tokio::test]
async fn another_accounts_customer_is_as_unknown_as_any() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let customer = merchant.customer().await?;
    let foreign = stranger.api.get(&format!("{CUSTOMERS}/{customer}")).await?;
    let unknown = stranger.api.get(&format!("{CUSTOMERS}/cus_01ARZ3NDEKTSV4RRFFQ69G5FAV")).await?;
    not_found(&foreign);
    assert_eq!(said_of(&foreign, &customer), said_of(&unknown, "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV"));
    not_found(&stranger.api.post(&format!("{CUSTOMERS}/{customer}"), json!({"name": "mine"})).await?);
    // What the body says wrong comes before what the path names.
    invalid(&stranger.api.post(&format!("{CUSTOMERS}/{customer}"), json!({"name": 1})).await?, "name");
    refused(&stranger.api.get(&format!("/v1/payment_methods?customerId={customer}")).await?, 404, "not_found");
    Ok(())
}
