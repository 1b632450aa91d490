//! The merchant's logo: who uploads it, what is stored of the file, and where payers see it.

use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Page, Visitor};
use crate::support::{Merchant, Payer, cluster, created, merchant, uuid};

const SETTINGS: &str = "/test/settings";
const SAVE: &str = "/test/settings/logo";
const REMOVE: &str = "/test/settings/remove-logo";

/// A PNG of 40 × 20 pixels, half of which are transparent, with a comment.
const HALF_TRANSPARENT: &str = "iVBORw0KGgoAAAANSUhEUgAAACgAAAAUCAYAAAD/Rn+7AAAAE3RFWHRDb21tZW50AHNlY3JldCBub3RlsSbYRQAAAC5JREFUeNrtzjENAAAIwDCkIAXpOAMTXKRL9jc6ay6P6wABAQEBAQEBAQEBPwMXEj9Qnk7+UZAAAAAASUVORK5CYII=";
/// Another one, of 30 × 10 pixels.
pub(super) const BLUE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAB4AAAAKCAIAAAAsFXl4AAAAF0lEQVR42mMQcDhAI8QwavSo0aNGk4IA3ak+0LmJ3HYAAAAASUVORK5CYII=";
/// A PNG of 69 bytes that declares 50,000 × 50,000 pixels.
const BOMB: &str = "iVBORw0KGgoAAAANSUhEUgAAw1AAAMNQCAIAAADEzaqdAAAADElEQVR42mNgoD0AAABkAAG4me+ZAAAAAElFTkSuQmCC";

pub(super) fn file(text: &str) -> Result<Vec<u8>> {
    Ok(STANDARD.decode(text)?)
}

async fn upload(owner: &Visitor, file: &[u8]) -> Result<Page> {
    let form = owner.open(SETTINGS).await?;
    let done = owner.send_file(SAVE, form.nonce(SAVE)?, ("logo", file)).await?;
    match done.status {
        303 => owner.open(done.location()).await,
        _ => Ok(done),
    }
}

async fn payer(merchant: &Merchant) -> Result<Payer> {
    let link = serde_json::json!({"amount": 500, "currency": "EUR", "description": "Tea"});
    let link = created(&merchant.api.post("/v1/payment_links", link).await?).clone();
    Payer::for_object(&link, &cluster().await?.api_url(0))
}

/// The path of the logo on a page, if it has one.
fn logo_of(html: &str) -> Option<String> {
    let rest = html.split_once("src=\"../../logos/")?.1;
    Some(format!("/logos/{}", rest.split('"').next()?))
}

/// The number of logos of the account, and whether each has the id in this path.
async fn stored(merchant: &Merchant, path: &str) -> Result<(i64, bool)> {
    let stored = "SELECT count(*), coalesce(bool_and(id = $2), false) FROM logos WHERE account_id = $1";
    let id = uuid(path.strip_suffix(".png").context("a file")?)?;
    let stored = sqlx::query_as(stored).bind(merchant.books.account).bind(id);
    Ok(stored.fetch_one(&merchant.books.db).await?)
}

#[tokio::test]
async fn payers_see_the_logo_until_it_is_removed() -> Result<()> {
    let merchant = merchant().await?;
    let mut owner = Visitor::signed_in(&merchant, "owner").await?;
    let payer = payer(&merchant).await?;
    let before = payer.open().await?;
    assert!(!before.html.contains("<img"), "{}", before.html);
    assert!(!before.response.header("content-security-policy").context("a policy")?.contains("img-src"));

    let page = upload(&owner, &[&file(HALF_TRANSPARENT)?[..], b"<script>alert(1)</script>"].concat()).await?;
    assert!(page.html.contains("Done.") && page.html.contains("src=\"/test/settings/logo.png\""), "{}", page.html);
    let shown = payer.open().await?;
    let path = logo_of(&shown.html).with_context(|| shown.html.clone())?;
    assert!(path.starts_with("/logos/lgo_") && shown.html.contains("width=\"40\" height=\"20\" alt="), "{path}");
    assert!(!shown.html.contains(&merchant.account.id), "whoever pays learns the account's id: {}", shown.html);
    assert!(shown.response.header("content-security-policy").context("a policy")?.contains("; img-src 'self'; "));
    assert_eq!(stored(&merchant, &path).await?, (1, true), "{path}");
    let logo = payer.at(&path).response().await?;
    for (name, value) in [
        ("content-type", "image/png"),
        ("cache-control", "public, max-age=86400"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(logo.header(name), Some(value));
    }
    assert!(logo.status == 200 && logo.bytes.starts_with(b"\x89PNG"), "{}", logo.status);
    let text = String::from_utf8_lossy(&logo.bytes);
    assert!(!text.contains("script") && !text.contains("secret note"), "only what the picture shows is stored");
    assert_eq!(owner.open("/test/settings/logo.png").await?.status, 200);

    let page = upload(&owner, &file(BLUE)?).await?;
    assert!(page.html.contains("width=\"30\" height=\"10\""), "{}", page.html);
    let replaced = logo_of(&payer.open().await?.html).context("a logo")?;
    assert_eq!(payer.at(&replaced).response().await?.status, 200);
    assert_eq!(payer.at(&path).response().await?.status, 404, "the former one is gone");

    let page = owner.act(SETTINGS, REMOVE, &[]).await?;
    assert!(page.html.contains("Done.") && !page.html.contains("<img") && !page.html.contains(REMOVE), "{}", page.html);
    assert_eq!(owner.open("/test/settings/logo.png").await?.status, 404);
    assert!(!payer.open().await?.html.contains("<img"));
    assert_eq!(payer.at(&replaced).response().await?.status, 404);
    let activity = owner.open("/test/activity").await?.html;
    assert!(activity.contains("Settings logo") && activity.contains("Settings remove-logo"), "{activity}");
    Ok(())
}

#[tokio::test]
async fn a_logo_is_found_by_its_own_id_only() -> Result<()> {
    let merchant = merchant().await?;
    merchant.set_logo().await?;
    let payer = payer(&merchant).await?;
    let path = logo_of(&payer.open().await?.html).context("a logo")?;
    assert_eq!(payer.at(&path).response().await?.status, 200);
    let id = path.strip_prefix("/logos/").and_then(|file| file.strip_suffix(".png")).context("an id")?;
    for wrong in [
        path.replace(id, &merchant.account.id),
        path.replace(id, &merchant.account.id.replace("acct_", "lgo_")),
        path.replace(id, "lgo_1"),
        path.replace(id, &id.to_lowercase()),
        path.replace(".png", ""),
        path.replace(".png", ".svg"),
    ] {
        assert_eq!(payer.at(&wrong).response().await?.status, 404, "{wrong}");
    }
    Ok(())
}

#[tokio::test]
async fn other_files_are_refused_and_change_nothing() -> Result<()> {
    let merchant = merchant().await?;
    let owner = Visitor::signed_in(&merchant, "owner").await?;
    upload(&owner, &file(BLUE)?).await?;
    let path = logo_of(&payer(&merchant).await?.open().await?.html).context("a logo")?;
    let damaged = file(HALF_TRANSPARENT)?;
    let (no_picture, too_long) =
        ("Logo: the file is not a PNG or a JPEG, or is damaged", "Logo: the file has more than 256 KiB");
    for (content, expected) in [
        (b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>".to_vec(), no_picture),
        (b"<html>".to_vec(), no_picture),
        (damaged[..60].to_vec(), no_picture),
        (file(BOMB)?, "Logo: the picture is wider or higher than 2,000 pixels"),
        (vec![0; 256 * 1_024 + 1], too_long),
        (vec![0; 1 << 20], too_long),
        (vec![], "Logo: is missing"),
    ] {
        let page = upload(&owner, &content).await?;
        assert!(page.status == 422 && page.html.contains(expected), "{expected}: {} {}", page.status, page.html);
        assert_eq!(stored(&merchant, &path).await?, (1, true), "{expected}");
    }
    // The file is in a text, and not in hexadecimal.
    let form = owner.open(SETTINGS).await?;
    let page = owner.send(SAVE, form.nonce(SAVE)?, &[("logo", "logo.png")]).await?;
    assert!(page.status == 422 && page.html.contains(no_picture), "{}", page.html);
    Ok(())
}

#[tokio::test]
async fn a_logo_that_is_sent_again_is_saved_once() -> Result<()> {
    let merchant = merchant().await?;
    let owner = Visitor::signed_in(&merchant, "owner").await?;
    let (form, blue) = (owner.open(SETTINGS).await?, file(BLUE)?);
    let nonce = form.nonce(SAVE)?;
    let send = || owner.send_file(SAVE, nonce, ("logo", &blue));
    let (first, second) = tokio::try_join!(send(), send())?;
    for page in [first, second, send().await?] {
        assert_eq!((page.status, page.location()), (303, format!("{SETTINGS}?did={nonce}").as_str()), "{}", page.html);
    }
    let other = owner.send_file(SAVE, nonce, ("logo", &file(HALF_TRANSPARENT)?)).await?;
    assert!(other.status == 422 && other.html.contains("was sent before"), "{} {}", other.status, other.html);
    let activity = owner.open("/test/activity").await?.html;
    assert_eq!(activity.matches("<td>Settings logo").count(), 1, "{activity}");
    assert!(owner.open(SETTINGS).await?.html.contains("width=\"30\" height=\"10\""), "the first file");
    Ok(())
}

/// The response to a form of which only the head is sent.
async fn send_head(visitor: &Visitor, path: &str, length: usize) -> Result<String> {
    let mut stream = TcpStream::connect(visitor.url.strip_prefix("http://").context("an address")?).await?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: portal\r\nOrigin: {}\r\nCookie: {}\r\n\
         Content-Type: multipart/form-data; boundary=part\r\nContent-Length: {length}\r\n\r\n",
        visitor.url,
        visitor.cookies()
    );
    stream.write_all(head.as_bytes()).await?;
    let mut response = String::new();
    // Less than a form may take to arrive.
    timeout(Duration::from_secs(8), stream.read_to_string(&mut response)).await??;
    Ok(response)
}

/// Otherwise users who may not upload, and whoever has no session, could keep the portal busy with what they send slowly.
#[tokio::test]
async fn no_form_is_read_of_those_who_may_not_send_it() -> Result<()> {
    let merchant = merchant().await?;
    let viewer = Visitor::signed_in(&merchant, "viewer").await?;
    let owner = Visitor::signed_in(&merchant, "owner").await?;
    let nobody = Visitor::new().await?;
    for (visitor, path, length, status) in [
        (&viewer, SAVE, 200_000, 403),
        (&owner, "/test/no-page/settings/logo", 200_000, 404),
        (&owner, SAVE, 3 << 20, 422),
        (&nobody, SAVE, 200_000, 303),
        (&nobody, "/sign-in", 1 << 20, 422),
    ] {
        let response = send_head(visitor, path, length).await?;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {length}: {response}");
    }
    Ok(())
}

#[tokio::test]
async fn only_owners_change_the_logo() -> Result<()> {
    let merchant = merchant().await?;
    merchant.set_logo().await?;
    for role in ["viewer", "support", "developer"] {
        let visitor = Visitor::signed_in(&merchant, role).await?;
        let page = visitor.open(SETTINGS).await?.html;
        assert!(
            page.contains("/test/settings/logo.png") && !page.contains("Save logo") && !page.contains(REMOVE),
            "{page}"
        );
        let nonce = "0".repeat(32);
        assert_eq!(visitor.send_file(SAVE, &nonce, ("logo", &file(BLUE)?)).await?.status, 403, "{role}");
        assert_eq!(visitor.send(REMOVE, &nonce, &[]).await?.status, 403, "{role}");
    }
    let path = logo_of(&payer(&merchant).await?.open().await?.html).context("a logo")?;
    assert_eq!(stored(&merchant, &path).await?, (1, true));
    Ok(())
}
