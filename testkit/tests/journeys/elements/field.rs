//! The card field: one origin may frame it, for as long as its session lives.

use anyhow::{Context, Result};
use testkit::{Answer, Client, Cluster};

use crate::support::{Browser, Merchant, ORIGIN, cluster, created, merchant};

/// The address of the field of a new session, without the name of the api.
async fn mounted(browser: &Browser) -> Result<String> {
    let answer = browser.api.send(reqwest::Method::POST, "/v1/checkout_sessions", None).await?;
    let url = created(&answer)["mountUrl"].as_str().context("no mountUrl")?.to_owned();
    let at = url.find("/elements/field/cs_").with_context(|| format!("{url} is no field"))?;
    Ok(url[at..].to_owned())
}

fn policy(answer: &Answer) -> Vec<&str> {
    answer.header("content-security-policy").unwrap_or_default().split("; ").collect()
}

async fn anyone() -> Result<Client> {
    Client::new(&cluster().await?.api_url(0))
}

#[tokio::test]
async fn a_field_is_framed_by_its_own_origin_alone() -> Result<()> {
    let merchant = merchant().await?;
    let browser = Browser::of(cluster().await?, &merchant.account)?;
    let answer = anyone().await?.get(&mounted(&browser).await?).await?;
    assert_eq!(answer.status, 200);
    let policy = policy(&answer);
    assert_eq!(policy[0], "default-src 'none'");
    assert!(policy[1].starts_with("style-src 'sha256-"), "{policy:?}");
    let frame = format!("frame-ancestors {ORIGIN}");
    assert_eq!(policy[2..], ["script-src 'self'", "form-action 'none'", "base-uri 'none'", &frame]);
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    assert!(answer.header("x-frame-options").is_none() && answer.header("set-cookie").is_none());
    let html = String::from_utf8(answer.bytes)?;
    for part in [
        "<script src=\"../field.js?v=",
        "integrity=\"sha384-",
        &format!("data-origin=\"{ORIGIN}\""),
        "data-provider=\"mock\"",
    ] {
        assert!(html.contains(part), "no {part} in {html}");
    }
    for id in ["card-number", "card-expiry", "card-cvc", "card-name", "card-country", "card-postal-code", "card-error"]
    {
        assert!(html.contains(&format!("id=\"{id}\"")), "{id}");
    }
    assert!(
        !html.contains(" name=") || html.matches(" name=").count() == html.matches("<meta name=").count(),
        "{html}"
    );
    Ok(())
}

#[tokio::test]
async fn a_field_lives_as_long_as_its_session() -> Result<()> {
    let merchant = merchant().await?;
    let browser = Browser::of(cluster().await?, &merchant.account)?;
    let anyone = anyone().await?;
    let field = mounted(&browser).await?;
    assert_eq!(anyone.get(&field).await?.status, 200);
    let session = field.rsplit('/').next().unwrap_or_default();
    created(&browser.exchange(session, "tok_ok").await?);
    let expired = mounted(&browser).await?;
    sqlx::query("UPDATE checkout_sessions SET expires_at = now() - interval '1 second' WHERE exchanged_at IS NULL AND account_id = $1")
        .bind(merchant.books.account)
        .execute(&merchant.books.db)
        .await?;
    for (path, status) in [
        (field.as_str(), 409),
        (expired.as_str(), 409),
        ("/elements/field/cs_0000000000000000000000000000000000000000", 404),
        ("/elements/field/%ff", 404),
        ("/elements/field/%00", 404),
    ] {
        let answer = anyone.get(path).await?;
        assert_eq!(answer.status, status, "{path}");
        let policy = policy(&answer);
        assert_eq!(policy.last(), Some(&"frame-ancestors 'none'"), "{path}");
        assert!(!policy.iter().any(|part| part.starts_with("script-src")));
        assert!(!String::from_utf8(answer.bytes)?.contains("<input"), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn an_address_that_comes_too_often_is_told_when_to_come_again() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).env("PAGE_RATE_LIMIT", "1").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let field = mounted(&Browser::of(&cluster, &merchant.account)?).await?;
    let anyone = Client::new(&cluster.api_url(0))?;
    let mut refused = 0;
    for _ in 0..10 {
        let answer = anyone.get(&field).await?;
        if answer.status == 429 {
            refused += 1;
            assert!(answer.header("retry-after").is_some());
        }
    }
    assert!(refused > 0);
    // The scripts are files, and a page that loads them is not to be stopped halfway.
    assert_eq!(anyone.get("/elements/v1.js").await?.status, 200);
    Ok(())
}
