//! The scripts: headers, caching, content, integrity hashes and syntax.

use std::path::Path;

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use sha2::{Digest, Sha384};
use testkit::{Client, integration_examples::run};
use tokio::process::Command;

use crate::support::{Payer, cluster, created, merchant};

#[tokio::test]
async fn each_script_is_served_to_its_intended_origins() -> Result<()> {
    let browser = Client::new(&cluster().await?.api_url(0))?;
    for (path, readers) in [
        ("/elements/v1.js", "cross-origin"),
        ("/elements/pay.js", "same-origin"),
        ("/elements/field.js", "same-origin"),
    ] {
        let response = browser.get(path).await?;
        assert_eq!(response.status, 200);
        for (name, value) in [
            ("content-type", "text/javascript; charset=utf-8"),
            ("cross-origin-resource-policy", readers),
            ("cache-control", "public, max-age=300"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(response.header(name), Some(value), "{name} of {path}");
        }
        let tag = response.header("etag").unwrap_or_default().to_owned();
        for cached in [tag.clone(), format!("\"other\", W/{tag}")] {
            let again = browser.header("if-none-match", &cached)?.get(path).await?;
            assert_eq!((again.status, again.bytes.len()), (304, 0), "{cached}");
        }
        assert_eq!(browser.header("if-none-match", "\"other\"")?.get(path).await?.status, 200);
        let versioned = browser.get(&format!("{path}?v={}", tag.trim_matches('"'))).await?;
        assert_eq!(versioned.bytes, response.bytes);
        // The scripts contact no other server and evaluate no text as code.
        let text = String::from_utf8(response.bytes)?;
        for never in ["http://", "https://", "eval(", "innerHTML", "document.write", "localStorage", "cookie"] {
            assert!(!text.contains(never), "{never} in {path}");
        }
    }
    assert_eq!(browser.get("/elements/v2.js").await?.status, 404);
    assert_eq!(browser.send(reqwest::Method::POST, "/elements/v1.js", None).await?.status, 405);
    Ok(())
}

/// The value of an attribute in the snippet of docs/elements.md that loads the script.
fn documented<'a>(page: &'a str, name: &str) -> Result<&'a str> {
    let snippet = page.split("```").find(|block| block.contains("integrity=\"")).context("no snippet with a hash")?;
    let value = snippet.split_once(&format!(" {name}=\"")).with_context(|| format!("no {name} in {snippet}"))?.1;
    value.split('"').next().context("no end")
}

#[tokio::test]
async fn the_documented_hash_matches_the_served_script() -> Result<()> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/elements.md"))?;
    let path = documented(&page, "src")?.strip_prefix("https://api.example").context("the address of an example")?;
    let browser = Client::new(&cluster().await?.api_url(0))?;
    let response = browser.get(path).await?;
    assert_eq!(response.status, 200, "{path} of docs/elements.md is not served");
    let hash = format!("sha384-{}", STANDARD.encode(Sha384::digest(&response.bytes)));
    assert_eq!(documented(&page, "integrity")?, hash, "docs/elements.md has another hash");
    assert_eq!(documented(&page, "crossorigin")?, "anonymous");
    // Browsers check the integrity of a cross-origin script only with CORS. The content at this URL never changes.
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    assert_eq!(response.header("cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(browser.get("/elements/v1.js").await?.bytes, response.bytes, "docs/elements.md has an older version");
    assert_eq!(browser.get("/elements/v1.0000000000000000.js").await?.status, 404);
    Ok(())
}

/// Payment pages and card fields load their script with an integrity hash. A request with another version is not
/// cached.
#[tokio::test]
async fn a_page_has_the_hash_of_its_script() -> Result<()> {
    let merchant = merchant().await?;
    let link = merchant.api.post("/v1/payment_links", json!({"amount": 500, "currency": "USD"})).await?;
    let html = Payer::for_object(created(&link), &cluster().await?.api_url(0))?.open().await?.html;
    let browser = Client::new(&cluster().await?.api_url(0))?;
    let tag = html.split("<script ").nth(1).context("no script")?;
    let value = |name: &str| tag.split_once(&format!("{name}=\"")).and_then(|(_, rest)| rest.split('"').next());
    let path = value("src").and_then(|src| src.strip_prefix("../..")).context("an address")?;
    let script = browser.get(path).await?;
    let hash = format!("sha384-{}", STANDARD.encode(Sha384::digest(&script.bytes)));
    assert_eq!(value("integrity"), Some(hash.as_str()));
    let other = browser.get("/elements/pay.js?v=0000000000000000").await?;
    assert_eq!((other.status, other.header("cache-control")), (200, Some("no-store")));
    Ok(())
}

/// Skipped without Node; the tests of the examples report that it is missing.
#[tokio::test]
async fn each_script_has_valid_syntax() -> Result<()> {
    if Command::new("node").arg("--version").output().await.is_err() {
        return Ok(());
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/src/elements");
    for file in ["card.js", "pay.js", "field.js", "v1.js"] {
        let mut check = Command::new("node");
        check.arg("--check").arg(folder.join(file));
        run(check).await?;
    }
    Ok(())
}
