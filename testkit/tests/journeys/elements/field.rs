//! The card field: only one origin may frame it, until its session ends.

use anyhow::{Context, Result};
use testkit::{Client, Cluster, Response};

use crate::support::{Browser, Merchant, ORIGIN, cluster, created, merchant};

/// The path of the card field of a new session.
async fn field_path(browser: &Browser) -> Result<String> {
    let response = browser.api.send(reqwest::Method::POST, "/v1/checkout_sessions", None).await?;
    let url = created(&response)["mountUrl"].as_str().context("no mountUrl")?.to_owned();
    let at = url.find("/elements/field/cs_").with_context(|| format!("{url} is not a card field"))?;
    Ok(url[at..].to_owned())
}

fn policy(response: &Response) -> Vec<&str> {
    response.header("content-security-policy").unwrap_or_default().split("; ").collect()
}

async fn client() -> Result<Client> {
    Client::new(&cluster().await?.api_url(0))
}

#[tokio::test]
async fn a_field_can_be_framed_only_by_its_origin() -> Result<()> {
    let merchant = merchant().await?;
    let browser = Browser::for_account(cluster().await?, &merchant.account)?;
    let response = client().await?.get(&field_path(&browser).await?).await?;
    assert_eq!(response.status, 200);
    let policy = policy(&response);
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
        assert_eq!(response.header(name), Some(value), "{name}");
    }
    assert!(response.header("x-frame-options").is_none() && response.header("set-cookie").is_none());
    let html = String::from_utf8(response.bytes)?;
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
async fn a_field_has_the_language_and_the_theme_of_its_url() -> Result<()> {
    let merchant = merchant().await?;
    let browser = Browser::for_account(cluster().await?, &merchant.account)?;
    let (client, field) = (client().await?, field_path(&browser).await?);
    for (query, language, theme) in [
        ("", "en", "light"),
        ("?lang=en&theme=dark", "en", "dark"),
        ("?lang=de&theme=auto", "de", "auto"),
        ("?lang=es&theme=light", "es", "light"),
        ("?lang=fr", "fr", "light"),
        ("?lang=ja&theme=auto", "ja", "auto"),
        ("?lang=xx&theme=%22evil", "en", "light"),
    ] {
        let html = String::from_utf8(client.get(&format!("{field}{query}")).await?.bytes)?;
        for part in [format!("<html lang=\"{language}\">"), format!("<main data-theme=\"{theme}\">")] {
            assert!(html.contains(&part), "{query}: no {part} in {html}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_field_expires_with_its_session() -> Result<()> {
    let merchant = merchant().await?;
    let browser = Browser::for_account(cluster().await?, &merchant.account)?;
    let client = client().await?;
    let field = field_path(&browser).await?;
    assert_eq!(client.get(&field).await?.status, 200);
    let session = field.rsplit('/').next().unwrap_or_default();
    created(&browser.exchange(session, "tok_ok").await?);
    let expired = field_path(&browser).await?;
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
        let response = client.get(path).await?;
        assert_eq!(response.status, status, "{path}");
        let policy = policy(&response);
        assert_eq!(policy.last(), Some(&"frame-ancestors 'none'"), "{path}");
        assert!(!policy.iter().any(|part| part.starts_with("script-src")));
        assert!(!String::from_utf8(response.bytes)?.contains("<input"), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn rate_limited_clients_get_a_retry_after() -> Result<()> {
    let cluster = Cluster::builder().api(1).env("PAGE_RATE_LIMIT", "1").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let field = field_path(&Browser::for_account(&cluster, &merchant.account)?).await?;
    let client = Client::new(&cluster.api_url(0))?;
    let mut refused = 0;
    for _ in 0..10 {
        let response = client.get(&field).await?;
        if response.status == 429 {
            refused += 1;
            assert!(response.header("retry-after").is_some());
        }
    }
    assert!(refused > 0);
    // Scripts are not rate limited, so that a page never loads incompletely.
    assert_eq!(client.get("/elements/v1.js").await?.status, 200);
    Ok(())
}
