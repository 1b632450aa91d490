//! What is kept of a link, and what is refused.

use anyhow::Result;
use serde_json::{Value, json};

use super::{LINKS, link, shown, wanted};
use crate::support::{cluster, created, id, invalid, merchant, walk, with, without};

#[tokio::test]
async fn what_is_sent_is_kept() -> Result<()> {
    let merchant = merchant().await?;
    let answer = merchant.api.post(LINKS, wanted(500)).await?;
    let made = created(&answer);
    assert!(id(made)?.starts_with("plink_"));
    let of_page = format!("{}/pay/l/", cluster().await?.api_url(0));
    let token = made["url"].as_str().and_then(|url| url.strip_prefix(&of_page)).expect("an address of ours");
    assert!(token.len() >= 32 && token.bytes().all(|b| b.is_ascii_hexdigit()), "{token} has 128 random bits and more");
    let plain = ["id", "createdAt", "url", "expiresAt"].into_iter().fold(made.clone(), without);
    let expected = json!({
        "object": "payment_link", "livemode": false, "status": "open", "amount": 500, "currency": "USD",
    });
    assert_eq!(plain, expected);
    assert_eq!(&shown(&merchant, &id(made)?).await?, made);

    let later = "2031-05-06T07:08:09.123+02:00";
    let full = json!({"amount": 1, "currency": "jpy", "description": "é ticket", "expiresAt": later});
    let answer = merchant.api.post(LINKS, full).await?;
    let made = created(&answer);
    assert_eq!((&made["currency"], &made["description"]), (&json!("JPY"), &json!("é ticket")));
    assert_eq!(made["expiresAt"], "2031-05-06T05:08:09.123Z");
    assert_eq!(&shown(&merchant, &id(made)?).await?, made);
    Ok(())
}

#[tokio::test]
async fn a_link_expires_in_thirty_days_unless_it_says_otherwise() -> Result<()> {
    let merchant = merchant().await?;
    for body in [wanted(500), with(wanted(500), "expiresAt", Value::Null)] {
        let answer = merchant.api.post(LINKS, body).await?;
        let right: bool = sqlx::query_scalar("SELECT $1::timestamptz + interval '720 hours' = $2::timestamptz")
            .bind(created(&answer)["createdAt"].as_str())
            .bind(answer.body["expiresAt"].as_str())
            .fetch_one(&merchant.books.db)
            .await?;
        assert!(right, "{}", answer.body);
    }
    for past in ["2001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"] {
        invalid(&merchant.api.post(LINKS, with(wanted(500), "expiresAt", past)).await?, "expiresAt");
    }
    Ok(())
}

#[tokio::test]
async fn what_lies_ahead_is_said_by_the_clock_of_the_account() -> Result<()> {
    let merchant = merchant().await?;
    let in_a_month = merchant.later(&merchant.now().await?, "30 days").await?;
    merchant.advance("366 days").await?;
    invalid(&merchant.api.post(LINKS, with(wanted(500), "expiresAt", in_a_month.as_str())).await?, "expiresAt");
    let made = link(&merchant).await?;
    assert!(made["createdAt"].as_str() > Some(&in_a_month), "it was made by that clock: {made}");
    assert_eq!(made["status"], "open");
    Ok(())
}

#[tokio::test]
async fn fields_are_strict() -> Result<()> {
    let merchant = merchant().await?;
    for name in ["amount", "currency"] {
        invalid(&merchant.api.post(LINKS, without(wanted(100), name)).await?, name);
        invalid(&merchant.api.post(LINKS, with(wanted(100), name, Value::Null)).await?, name);
    }
    let no_amount = [json!(0), json!(-1), json!(1.5), json!(10.0), json!("10"), json!(9_007_199_254_740_992_i64)];
    let no_instant =
        [json!(""), json!("2031-11-21"), json!("2031-11-21T09:30:00"), json!("2031-02-30T00:00:00Z"), json!(1)];
    for (name, values) in [
        ("amount", no_amount.to_vec()),
        ("currency", vec![json!("XXX"), json!("US"), json!(840)]),
        ("description", vec![json!(1), json!(""), json!("a\nb"), json!("x".repeat(256))]),
        ("expiresAt", no_instant.to_vec()),
    ] {
        for value in values {
            invalid(&merchant.api.post(LINKS, with(wanted(100), name, value)).await?, name);
        }
    }
    assert!(walk(&merchant.api, &format!("{LINKS}?"), 100).await?.is_empty(), "what is refused is not kept");
    Ok(())
}
