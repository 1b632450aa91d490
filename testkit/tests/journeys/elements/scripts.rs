//! The scripts: whole, short, and for whom they are meant.

use std::path::Path;

use anyhow::Result;
use testkit::{Client, examples::run};
use tokio::process::Command;

use crate::support::cluster;

#[tokio::test]
async fn each_script_is_served_to_whom_it_is_meant_for() -> Result<()> {
    let browser = Client::new(&cluster().await?.api_url(0))?;
    for (path, readers) in [
        ("/elements/v1.js", "cross-origin"),
        ("/elements/pay.js", "same-origin"),
        ("/elements/field.js", "same-origin"),
    ] {
        let answer = browser.get(path).await?;
        assert_eq!(answer.status, 200);
        for (name, value) in [
            ("content-type", "text/javascript; charset=utf-8"),
            ("cross-origin-resource-policy", readers),
            ("cache-control", "public, max-age=300"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name} of {path}");
        }
        let tag = answer.header("etag").unwrap_or_default().to_owned();
        for known in [tag.clone(), format!("\"other\", W/{tag}")] {
            let again = browser.header("if-none-match", &known)?.get(path).await?;
            assert_eq!((again.status, again.bytes.len()), (304, 0), "{known}");
        }
        assert_eq!(browser.header("if-none-match", "\"other\"")?.get(path).await?.status, 200);
        let versioned = browser.get(&format!("{path}?v={}", tag.trim_matches('"'))).await?;
        assert_eq!(versioned.bytes, answer.bytes);
        // Nobody else's server, and nothing that turns text into a program.
        let text = String::from_utf8(answer.bytes)?;
        for never in ["http://", "https://", "eval(", "innerHTML", "document.write", "localStorage", "cookie"] {
            assert!(!text.contains(never), "{never} in {path}");
        }
    }
    assert_eq!(browser.get("/elements/v2.js").await?.status, 404);
    assert_eq!(browser.send(reqwest::Method::POST, "/elements/v1.js", None).await?.status, 405);
    Ok(())
}

/// A machine without Node is told so by the tests of the examples.
#[tokio::test]
async fn each_script_is_a_program() -> Result<()> {
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
