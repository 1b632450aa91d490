//! Stored link fields and their validation.

use anyhow::Result;
use serde_json::{Value, json};

use super::{LINKS, current, link, minimal};
use crate::support::{cluster, created, id, invalid, list_all, merchant, with, without};

#[tokio::test]
async fn links_store_the_sent_fields() -> Result<()> {
    let merchant = merchant().await?;
    let response = merchant.api.post(LINKS, minimal(500)).await?;
    let made = created(&response);
    assert!(id(made)?.starts_with("plink_"));
    let page_prefix = format!("{}/pay/l/", cluster().await?.api_url(0));
    let token = made["url"].as_str().and_then(|url| url.strip_prefix(&page_prefix)).expect("a page URL of this API");
    assert!(token.len() >= 32 && token.bytes().all(|b| b.is_ascii_hexdigit()), "{token} has at least 128 random bits");
    let without_generated = ["id", "createdAt", "url", "expiresAt"].into_iter().fold(made.clone(), without);
    let expected = json!({
        "object": "payment_link", "livemode": false, "version": 1, "status": "open", "amount": 500, "currency": "USD",
    });
    assert_eq!(without_generated, expected);
    assert_eq!(&current(&merchant, &id(made)?).await?, made);

    let later = "2031-05-06T07:08:09.123+02:00";
    let full = json!({"amount": 1, "currency": "jpy", "description": "é ticket", "expiresAt": later});
    let response = merchant.api.post(LINKS, full).await?;
    let made = created(&response);
    assert_eq!((&made["currency"], &made["description"]), (&json!("JPY"), &json!("é ticket")));
    assert_eq!(made["expiresAt"], "2031-05-06T05:08:09.123Z");
    assert_eq!(&current(&merchant, &id(made)?).await?, made);
    Ok(())
}

#[tokio::test]
async fn links_expire_in_thirty_days_by_default() -> Result<()> {
    let merchant = merchant().await?;
    for body in [minimal(500), with(minimal(500), "expiresAt", Value::Null)] {
        let response = merchant.api.post(LINKS, body).await?;
        let is_correct: bool = sqlx::query_scalar("SELECT $1::timestamptz + interval '720 hours' = $2::timestamptz")
            .bind(created(&response)["createdAt"].as_str())
            .bind(response.body["expiresAt"].as_str())
            .fetch_one(&merchant.books.db)
            .await?;
        assert!(is_correct, "{}", response.body);
    }
    for past in ["2001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"] {
        invalid(&merchant.api.post(LINKS, with(minimal(500), "expiresAt", past)).await?, "expiresAt");
    }
    Ok(())
}

#[tokio::test]
async fn expires_at_is_checked_against_the_account_clock() -> Result<()> {
    let merchant = merchant().await?;
    let in_a_month = merchant.later(&merchant.now().await?, "30 days").await?;
    merchant.advance("366 days").await?;
    invalid(&merchant.api.post(LINKS, with(minimal(500), "expiresAt", in_a_month.as_str())).await?, "expiresAt");
    let made = link(&merchant).await?;
    assert!(made["createdAt"].as_str() > Some(&in_a_month), "createdAt uses the account clock: {made}");
    assert_eq!(made["status"], "open");
    Ok(())
}

#[tokio::test]
async fn invalid_fields_are_rejected() -> Result<()> {
    let merchant = merchant().await?;
    for name in ["amount", "currency"] {
        invalid(&merchant.api.post(LINKS, without(minimal(100), name)).await?, name);
        invalid(&merchant.api.post(LINKS, with(minimal(100), name, Value::Null)).await?, name);
    }
    let not_an_amount = [json!(0), json!(-1), json!(1.5), json!(10.0), json!("10"), json!(9_007_199_254_740_992_i64)];
    let not_a_timestamp =
        [json!(""), json!("2031-11-21"), json!("2031-11-21T09:30:00"), json!("2031-02-30T00:00:00Z"), json!(1)];
    for (name, values) in [
        ("amount", not_an_amount.to_vec()),
        ("currency", vec![json!("XXX"), json!("US"), json!(840)]),
        ("description", vec![json!(1), json!(""), json!("a\nb"), json!("x".repeat(256))]),
        ("expiresAt", not_a_timestamp.to_vec()),
    ] {
        for value in values {
            invalid(&merchant.api.post(LINKS, with(minimal(100), name, value)).await?, name);
        }
    }
    assert!(list_all(&merchant.api, &format!("{LINKS}?"), 100).await?.is_empty(), "rejected links are not stored");
    Ok(())
}
